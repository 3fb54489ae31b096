#include "decode.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "memory.h"
#include "ops.h"
#include "products.h"

namespace gates_cpu {
namespace {

std::unordered_map<std::string, Decode>& opcodes() {
    static auto* table = new std::unordered_map<std::string, Decode>;
    return *table;
}

constexpr std::uint64_t kMostShared = 1 << 24, kMostLocal = 512 << 10;

std::uint64_t aligned(std::uint64_t value, std::uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

OpcodeTable::OpcodeTable(std::initializer_list<std::pair<const char*, Decode>> entries) {
    for (const auto& [name, decode] : entries) opcodes()[name] = decode;
}

Decode find_opcode(const std::string& name) {
    const auto found = opcodes().find(name);
    return found == opcodes().end() ? nullptr : found->second;
}

bool Modifiers::take(const std::string& word) {
    const auto found = std::find(words_.begin(), words_.end(), word);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
}

std::string Modifiers::take_one_of(std::initializer_list<const char*> words) {
    for (const char* word : words) {
        if (take(word)) return word;
    }
    return {};
}

Type Modifiers::take_type() {
    for (auto at = words_.begin(); at != words_.end(); ++at) {
        const Type type = type_named(*at);
        if (type == Type::None) continue;
        words_.erase(at);
        return type;
    }
    return Type::None;
}

bool Modifiers::starts(const std::string& prefix) const { return !words_.empty() && words_.front() == prefix; }

std::string Modifiers::take_any() {
    if (words_.empty()) return {};
    const std::string first = words_.front();
    words_.erase(words_.begin());
    return first;
}

void Decoder::unsupported(const std::string& why) const {
    std::string text = "not supported: " + (instruction_ != nullptr ? instruction_->text() : std::string("this function"));
    if (!why.empty()) text += " (" + why + ")";
    if (instruction_ != nullptr && instruction_->place >= 0 && !frames_.empty()) {
        const Place& place = frames_.back().function->places[static_cast<std::size_t>(instruction_->place)];
        if (const auto file = module_.files.find(place.file); file != module_.files.end()) text += " at " + file->second + ":" + std::to_string(place.line);
    }
    text += module_.newer();
    throw Unsupported(text);
}

const Operand& Decoder::operand(std::size_t index) const {
    if (index >= instruction_->operands.size()) unsupported("operand " + std::to_string(index + 1) + " is missing");
    return instruction_->operands[index];
}

std::uint32_t Decoder::slot(std::uint32_t bytes) {
    const std::uint32_t made = next_slot_;
    next_slot_ += (bytes + 63) / 64 * 64;
    for (std::uint32_t half = 0; half < bytes; half += kHalf128) registers_.emplace_back(made + half, std::min(bytes, kHalf128));
    return made;
}

std::uint32_t Decoder::temporary(bool wide) { return slot(kLanes * (wide ? 8 : 4)); }

std::uint32_t Decoder::carry() {
    if (carry_ == kNowhere) carry_ = slot(4);
    return carry_;
}

// Constants get slots of their own numbers, moved to the front of the file when the program is whole.
constexpr std::uint32_t kConstantBit = 0x80000000u;

std::uint32_t Decoder::constant(std::uint64_t bits, bool wide) {
    if (!wide) bits &= 0xffffffffu;
    const auto [entry, fresh] = constants_.try_emplace({bits, wide}, 0);
    if (fresh) {
        entry->second = kConstantBit | static_cast<std::uint32_t>(constant_bytes_.size());
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            const std::uint8_t* from = reinterpret_cast<const std::uint8_t*>(&bits);
            constant_bytes_.insert(constant_bytes_.end(), from, from + (wide ? 8 : 4));
        }
    }
    return entry->second;
}

Op& Decoder::emit(Handler handler) {
    Op op;
    op.run = handler;
    op.place = instruction_ != nullptr && instruction_->place >= 0 ? instruction_->place + frames_.back().first_place : -1;
    if (instruction_ != nullptr && instruction_->guard >= 0) {
        op.guard = frames_.back().slots[static_cast<std::size_t>(instruction_->guard)];
        op.guard_negated = instruction_->guard_negated;
    }
    program_->ops.push_back(op);
    return program_->ops.back();
}

Extra& Decoder::extra(Op& op) {
    program_->extras.push_back(std::make_unique<Extra>());
    op.extra = program_->extras.back().get();
    return *program_->extras.back();
}

Type Decoder::register_type(int reg) const { return frames_.back().function->registers[static_cast<std::size_t>(reg)]; }

bool Decoder::wide_register(const Operand& operand) const {
    return operand.kind == Operand::Register && bytes_of(register_type(operand.reg)) == 8;
}

std::uint32_t Decoder::raw(const Operand& operand) const {
    if (operand.kind == Operand::Sink) return kNowhere;
    if (operand.kind != Operand::Register) unsupported("a register is expected");
    return frames_.back().slots[static_cast<std::size_t>(operand.reg)];
}

std::pair<Space, std::uint64_t> Decoder::variable(const std::string& name) {
    const auto& known = frames_.back().variables;  // a callee does not see its caller's names
    if (const auto found = known.find(name); found != known.end()) return found->second;
    if (const auto found = module_shared_.find(name); found != module_shared_.end()) return {Space::Shared, found->second};
    if (const auto found = symbols_.find(name); found != symbols_.end()) return {Space::Global, found->second};
    unsupported("nothing is named " + name);
}

// The address of a variable in its own space, or of a function. That of a kernel parameter is its offset.
std::uint64_t Decoder::symbol_value(const std::string& name) {
    const std::uint64_t function = module_.function_address(name);
    return function != 0 ? function : variable(name).second;
}

std::uint32_t Decoder::source(const Operand& operand, Type type) {
    if (type == Type::Pred) unsupported("a predicate as a value");
    const bool wide = bytes_of(type) == 8;
    switch (operand.kind) {
        case Operand::Register: {
            const std::uint32_t from = raw(operand);
            if (register_type(operand.reg) == Type::Pred) unsupported("a predicate as a value");
            if (wide_register(operand) == wide) return from;
            const std::uint32_t made = temporary(wide);
            Op& op = emit(wide ? widen_slot : narrow_slot);
            op.guard = kNowhere;
            op.d = made;
            op.a = from;
            return made;
        }
        case Operand::Integer: {
            std::uint64_t bits = operand.bits;
            if (bytes_of(type) == 2) bits &= 0xffff;
            if (bytes_of(type) == 1) bits &= 0xff;
            return constant(bits, wide);
        }
        case Operand::Float32: {
            if (!wide) return constant(operand.bits, false);
            float value;
            std::memcpy(&value, &operand.bits, 4);
            const double widened = value;
            std::uint64_t bits;
            std::memcpy(&bits, &widened, 8);
            return constant(bits, true);
        }
        case Operand::Float64: {
            if (wide) return constant(operand.bits, true);
            double value;
            std::memcpy(&value, &operand.bits, 8);
            const float narrowed = static_cast<float>(value);
            std::uint32_t bits;
            std::memcpy(&bits, &narrowed, 4);
            return constant(bits, false);
        }
        case Operand::Name: {
            if (operand.name == "WARP_SZ") return constant(kLanes, wide);
            if (operand.name[0] == '%') {
                const std::uint32_t made = temporary(wide);
                special_register(*this, operand.name, wide ? Type::B64 : Type::B32, made);
                return made;
            }
            const std::uint64_t value = symbol_value(operand.name) + operand.bits;
            return value & kByDepth ? place_by_depth(value) : constant(value, wide);
        }
        default: unsupported("an operand of this form");
    }
}

std::uint32_t Decoder::destination(const Operand& operand, Type type) {
    const bool wide = bytes_of(type) == 8;
    if (operand.kind == Operand::Sink) return temporary(wide);
    if (operand.kind != Operand::Register) unsupported("the result is no register");
    if (register_type(operand.reg) == Type::Pred) unsupported("the result is a predicate");
    if (wide_register(operand) == wide) return raw(operand);
    const std::uint32_t made = temporary(wide);
    after_.emplace_back(made, raw(operand) | (is_signed(type) ? 1u : 0u));  // slots are multiples of 64
    return made;
}

std::uint32_t Decoder::second_destination(const Operand& operand) {
    return operand.second >= 0 ? frames_.back().slots[static_cast<std::size_t>(operand.second)] : kNowhere;
}

std::uint32_t Decoder::predicate(const Operand& operand, bool& negated) {
    negated = operand.negated;
    if (operand.kind == Operand::Integer) {
        const std::uint32_t made = constant(operand.bits != 0 ? kAllLanes : 0, false);
        return made;
    }
    if (operand.kind != Operand::Register || register_type(operand.reg) != Type::Pred) unsupported("a predicate is expected");
    return raw(operand);
}

void Decoder::address(const Operand& operand, Op& op, Extra& access) {
    if (operand.kind != Operand::Address || operand.parts.empty()) unsupported("an address is expected");
    const Operand& base = operand.parts.front();
    op.imm = static_cast<std::int64_t>(base.bits);
    if (base.kind == Operand::Register) {
        op.a = raw(base);
        access.wide_address = wide_register(base);
        return;
    }
    access.wide_address = true;
    if (base.kind == Operand::Integer) {
        op.a = constant(base.bits, true);
        op.imm = 0;
        return;
    }
    if (base.kind != Operand::Name) unsupported("an address of this form");
    const auto [space, value] = variable(base.name);
    if (access.space == Space::Param || access.space == Space::Generic) access.space = space;
    op.a = value & kByDepth ? by_depth_.at(base.name) : constant(value, true);
}

void Decoder::branch(Handler handler, const std::string& label) {
    Frame& frame = frames_.back();
    const std::size_t target = frame.function->label(instruction_->scope, label);
    emit(handler);
    frame.jumps.emplace_back(program_->ops.size() - 1, target);
}

void Decoder::leave() {
    if (frames_.size() == 1) {
        emit(end_lanes);
    } else {
        Op& op = emit(frames_.back().recursive ? end_call : jump_always);
        op.a = frames_.back().recursive ? depth_ : kNowhere;
        if (frames_.back().recursive) extra(op).count = static_cast<unsigned>(frames_.back().first_op);
        frames_.back().returns.emplace_back(program_->ops.size() - 1, 0);
    }
}

void Decoder::place_shared(const Function& function) {
    const auto place = [this](const Variable& variable) {
        if (variable.space != Space::Shared || variable.unsized || module_shared_.count(variable.name) != 0) return;
        const std::uint64_t at = aligned(program_->shared_bytes, std::max(variable.alignment, 1u));
        if (at + variable.bytes() > kMostShared) throw Unsupported("not supported: " + variable.name + " of " + std::to_string(variable.bytes()) + " bytes in shared memory");
        module_shared_[variable.name] = kSharedStart + at;
        program_->shared_bytes = static_cast<std::uint32_t>(at + variable.bytes());
    };
    for (const Variable& local : function.locals) place(local);
}

std::uint64_t Decoder::place_local(const Variable& local) {
    const std::uint64_t at = aligned(program_->local_bytes, std::max(local.alignment, 8u));
    if (at + local.bytes() > kMostLocal) throw Unsupported("not supported: more than 512 KiB of local memory per thread");
    program_->local_bytes = static_cast<std::uint32_t>(at + local.bytes());
    return depth_ == kNowhere ? at : at | kByDepth;
}

void Decoder::body(const Function& function, std::map<std::string, std::pair<Space, std::uint64_t>> variables) {
    if (frames_.size() > 24) unsupported("calls deeper than 24");
    Frame frame{&function, {}, std::move(variables), {}, {}, {}, static_cast<int>(program_->places.size()), registers_.size(), program_->ops.size(), {}, recursive(function)};
    for (Place place : function.places) {
        if (place.inlined_at >= 0) place.inlined_at += frame.first_place;
        program_->places.push_back(place);
    }
    for (const Type type : function.registers) frame.slots.push_back(slot(type == Type::Pred ? 4 : kLanes * std::max(bytes_of(type), 4u)));
    std::map<std::string, Variable> largest;  // scopes that follow each other have variables of one name, which share a place
    for (const Variable& local : function.locals) {
        if (local.space == Space::Shared) {
            if (const auto found = module_shared_.find(local.name); found != module_shared_.end()) frame.variables[local.name] = {Space::Shared, found->second};
        } else if (local.space == Space::Local || local.space == Space::Param) {
            Variable& kept = largest.emplace(local.name, local).first->second;
            const unsigned alignment = std::max(kept.alignment, local.alignment);
            if (local.bytes() > kept.bytes()) kept = local;
            kept.alignment = alignment;
        }
    }
    for (const auto& [name, local] : largest) frame.variables[name] = {Space::Local, place_local(local)};
    frames_.push_back(std::move(frame));
    for (std::size_t i = 0; i < function.body.size(); ++i) {
        frames_.back().label_at.push_back(program_->ops.size());
        one(function.body[i]);
    }
    instruction_ = nullptr;
    frames_.back().label_at.push_back(program_->ops.size());
    if (frames_.size() == 1) emit(end_lanes);  // a body may end without ret
    Frame& done = frames_.back();
    for (const auto& [op, target] : done.jumps) program_->ops[op].imm = static_cast<std::int64_t>(done.label_at[target]);
    for (const auto& [op, unused] : done.returns) program_->ops[op].imm = static_cast<std::int64_t>(program_->ops.size());
    for (Extra* const again : done.again) {
        for (std::size_t i = done.first_register; i < registers_.size(); ++i) {
            again->slots.push_back(registers_[i].first);
            again->wide.push_back(registers_[i].second == 4 ? 0 : registers_[i].second == 4 * kLanes ? 1 : 2);
        }
    }
    frames_.pop_back();
}

void Decoder::one(const Instruction& instruction) {
    instruction_ = &instruction;
    const Decode decode = find_opcode(instruction.opcode.front());
    if (decode == nullptr) unsupported();
    Modifiers modifiers(instruction);
    after_.clear();
    by_depth_.clear();
    for (const Operand& operand : instruction.operands) {
        if (depth_ == kNowhere || operand.kind != Operand::Address || operand.parts.empty() || operand.parts.front().kind != Operand::Name) continue;
        const std::string& name = operand.parts.front().name;
        if (const std::uint64_t place = variable(name).second; place & kByDepth) by_depth_[name] = place_by_depth(place);
    }
    const std::size_t first = program_->ops.size();
    decode(*this, modifiers);
    const std::string& opcode = instruction.opcode.front();
    const bool fills = opcode == "ld" || opcode == "ldu" || opcode == "ldmatrix" || opcode == "mma" || opcode == "wmma", copies = opcode == "cp";
    for (std::size_t i = first; (fills || copies) && i < program_->ops.size(); ++i) {
        program_->ops[i].fills = fills;
        program_->ops[i].copies = copies;
    }
    if (!modifiers.empty()) unsupported("modifier ." + modifiers.take_any());
    for (const auto& [from, to] : after_) {
        const bool wide = (to & 1) != 0;
        const std::uint32_t target = to & ~1u;
        bool target_wide = false;
        for (std::size_t reg = 0; reg < frames_.back().slots.size(); ++reg) {
            if (frames_.back().slots[reg] == target) target_wide = bytes_of(frames_.back().function->registers[reg]) == 8;
        }
        Op& op = emit(target_wide ? (wide ? widen_slot_signed : widen_slot) : narrow_slot);
        op.d = target;
        op.a = from;
    }
}

// call.uni (results), name, (arguments): the callee's body stands here, its parameters are the caller's variables.
void Decoder::call() {
    std::size_t at = 0;
    std::vector<const Operand*> results, arguments;
    const auto names = [](const Operand& operand, std::vector<const Operand*>& into) {
        for (const Operand& part : operand.parts) into.push_back(&part);
    };
    if (operand(at).kind == Operand::List) names(operand(at++), results);
    const Operand& target = operand(at++);
    if (at < operands() && operand(at).kind == Operand::List) names(operand(at++), arguments);
    Variables given_results, given;
    for (const Operand* operand : results) given_results.push_back(variable(operand->name));
    for (const Operand* operand : arguments) given.push_back(variable(operand->name));
    if (target.kind == Operand::Register) return call_by_address(source(target, Type::B64), given_results, given);
    const auto found = module_.functions.find(target.name);
    if (found == module_.functions.end()) unsupported("a call to " + target.name + ", which the module does not hold");
    const Function& callee = found->second;
    if (!callee.has_body) {
        if (!call_system(*this, callee.name, given_results, given)) unsupported("a call to " + callee.name + ", which has no body");
        return;
    }
    inlined(callee, given_results, given);
}

void Decoder::inlined(const Function& callee, const Variables& results, const Variables& given) {
    if (instruction_->guard >= 0) unsupported("a call under a guard");
    for (Frame& frame : frames_) {
        if (frame.function == &callee) return call_again(frame, results, given);
    }
    if (recursive(callee)) return first_call(callee, results, given);
    stands_here(callee, results, given);
}

void Decoder::stands_here(const Function& callee, const Variables& results, const Variables& given) {
    std::map<std::string, std::pair<Space, std::uint64_t>> variables;
    for (std::size_t i = 0; i < callee.results.size() && i < results.size(); ++i) variables[callee.results[i].name] = results[i];
    for (std::size_t i = 0; i < callee.parameters.size() && i < given.size(); ++i) variables[callee.parameters[i].name] = given[i];
    place_shared(callee);
    const Instruction* const caller = instruction_;
    body(callee, std::move(variables));
    instruction_ = caller;
    after_.clear();
}

std::set<std::string> Decoder::pointed_at() const {
    std::set<std::string> found;
    const std::function<void(const Operand&)> look = [&](const Operand& operand) {
        if (module_.functions.count(operand.name) != 0) found.insert(operand.name);
        for (const Operand& part : operand.parts) look(part);
    };
    for (const auto& [name, function] : module_.functions) {
        for (const Instruction& one : function.body) {
            if (one.opcode.front() != "call") for (const Operand& operand : one.operands) look(operand);
        }
    }
    for (const Variable& variable : module_.variables) {
        for (const Variable::Initial& value : variable.initial) if (module_.functions.count(value.symbol) != 0) found.insert(value.symbol);
    }
    return found;
}

// Each function that it may be, with as many parameters, stands here under a test of the address.
void Decoder::call_by_address(std::uint32_t slot, const Variables& results, const Variables& given) {
    std::vector<std::size_t> ends;
    for (const std::string& name : pointed_at()) {
        const Function& callee = module_.functions.at(name);
        if (callee.entry || !callee.has_body || callee.parameters.size() != given.size() || callee.results.size() != results.size()) continue;
        const std::uint32_t address = constant(module_.function_address(name), true);
        const std::size_t test = program_->ops.size();
        Op& op = emit(jump_unless_equal);
        op.a = slot;
        op.b = address;
        inlined(callee, results, given);
        ends.push_back(program_->ops.size());
        emit(jump_always);
        program_->ops[test].imm = static_cast<std::int64_t>(program_->ops.size());
    }
    emit(call_of_no_function).a = slot;
    for (const std::size_t end : ends) program_->ops[end].imm = static_cast<std::int64_t>(program_->ops.size());
}

// Whether an operand of the function is, or holds, the variable.
static bool names(const Function& function, const std::string& variable) {
    const std::function<bool(const Operand&)> holds = [&](const Operand& operand) {
        return operand.name == variable || std::any_of(operand.parts.begin(), operand.parts.end(), holds);
    };
    return std::any_of(function.body.begin(), function.body.end(), [&](const Instruction& one) { return std::any_of(one.operands.begin(), one.operands.end(), holds); });
}

std::unique_ptr<Program> Decoder::decode(const std::string& entry, bool shifted) {
    const auto found = module_.functions.find(entry);
    if (found == module_.functions.end() || !found->second.has_body) throw Unsupported("the module holds no kernel " + entry);
    const Function& function = found->second;
    program_ = std::make_unique<Program>();
    program_->name = entry;
    program_->module = &module_;
    // Static shared memory, then the dynamic one where the externs begin.
    unsigned& dynamic_alignment = program_->dynamic_alignment;
    bool dynamic = false;
    for (const Variable& variable : module_.variables) {
        if (variable.space != Space::Shared) continue;
        if (variable.unsized || variable.external) {
            const bool used = std::any_of(module_.functions.begin(), module_.functions.end(), [&](const auto& named) {
                return (named.first == entry || !named.second.entry) && names(named.second, variable.name);
            });
            if (used) dynamic_alignment = std::max(dynamic_alignment, variable.alignment);
            dynamic = dynamic || used;
            continue;
        }
        const std::uint64_t at = aligned(program_->shared_bytes, std::max(variable.alignment, 1u));
        module_shared_[variable.name] = kSharedStart + at;
        program_->shared_bytes = static_cast<std::uint32_t>(at + variable.bytes());
    }
    for (const auto& [name, other] : module_.functions) {
        if (name == entry || !other.entry) place_shared(other);
    }
    program_->dynamic_shared_at = kSharedStart + static_cast<std::uint32_t>(aligned(program_->shared_bytes, dynamic_alignment));
    std::uint32_t& begins = program_->dynamic_shared_at;
    const auto lucky = [&] { return begins % (2 * dynamic_alignment) == 0 || (dynamic_alignment < 1024 && begins % 1024 < 128); };  // 1024: where swizzles repeat
    while (shifted && dynamic && lucky()) begins += dynamic_alignment;
    for (const Variable& variable : module_.variables) {
        if (variable.space == Space::Shared && (variable.unsized || variable.external)) module_shared_[variable.name] = program_->dynamic_shared_at;
    }
    std::map<std::string, std::pair<Space, std::uint64_t>> variables;
    std::uint64_t offset = 0;
    for (const Variable& parameter : function.parameters) {
        offset = aligned(offset, std::max(parameter.alignment, 1u));
        variables[parameter.name] = {Space::Param, offset};
        program_->parameters.emplace_back(static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(parameter.bytes()));
        offset += parameter.bytes();
    }
    program_->parameter_bytes = static_cast<std::uint32_t>(offset);
    const auto directive = [&](const char* name, std::size_t index, std::uint64_t otherwise) {
        const auto given = function.directives.find(name);
        return given == function.directives.end() ? otherwise : index < given->second.size() ? given->second[index] : 1;
    };
    if (function.directives.count(".maxntid") != 0) {
        program_->bounded = true;
        program_->max_threads = static_cast<unsigned>(directive(".maxntid", 0, 1) * directive(".maxntid", 1, 1) * directive(".maxntid", 2, 1));
    }
    program_->launch_registers = static_cast<unsigned>(directive(".maxnreg", 0, 0));
    for (std::size_t i = 0; i < 3; ++i) {
        program_->required[i] = static_cast<unsigned>(directive(".reqntid", i, 0));
        program_->cluster[i] = static_cast<unsigned>(directive(".reqnctapercluster", i, 0));
    }
    body(function, std::move(variables));
    // Constants first, so that a warp starts with one copy of them.
    const std::uint32_t shift = static_cast<std::uint32_t>(constant_bytes_.size());
    const auto moved = [shift](std::uint32_t& at) {
        if (at != kNowhere) at = at & kConstantBit ? at & ~kConstantBit : at + shift;
    };
    for (Op& op : program_->ops) {
        for (std::uint32_t* at : {&op.d, &op.a, &op.b, &op.c, &op.d2, &op.guard}) moved(*at);
    }
    for (const auto& extra : program_->extras) {
        if (extra->kind == kOffsets) continue;
        for (std::uint32_t& at : extra->slots) moved(at);
    }
    program_->constants = std::move(constant_bytes_);
    program_->register_bytes = next_slot_ + shift;
    if (program_->products) watch_products(*program_);
    return std::move(program_);
}

}  // namespace gates_cpu
