// Functions that call themselves, also by way of others. Such a function's body stands in its caller once. A call of it from within
// keeps the lane's registers and goes back to its first operation; its local variables and parameters lie a step further on for each call.
#include <algorithm>
#include <functional>

#include "device.h"
#include "ops.h"

namespace gates_cpu {
namespace {

constexpr std::uint32_t kDeepest = 32 << 10;  // bytes of local memory for such calls
constexpr unsigned kReturnAddress = 8;        // the least that a call takes of a device's stack

// op.d: op.a's depth plus op.imm.
void place_of_call(Warp& warp, const Op& op) {
    const std::uint32_t* const depth = warp.lanes<std::uint32_t>(op.a);
    each_lane<std::uint64_t>(warp, op.d, [&](unsigned i) { return depth[i] + static_cast<std::uint64_t>(op.imm); });
}

void first_depth(Warp& warp, const Op& op) {
    each_lane<std::uint32_t>(warp, op.d, [](unsigned) { return 0u; });
}

// extra->slots: where a variable lies, where its copy does, its bytes; of these, extra->flags 0 and 1 tell which lie at the depth.
// extra->bytes further on: op.mode 1: the copy; 2: what is copied.
void copy_variables(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    const std::size_t shadow = std::size_t(warp.program->local_bytes) * kLanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        std::uint8_t* const local = warp.local + std::size_t(lane) * warp.program->local_bytes;
        const std::uint32_t depth = warp.lanes<std::uint32_t>(op.a)[lane];
        const std::uint32_t from = (extra.flags[0] ? depth : 0) + (op.mode == 2 ? extra.bytes : 0), to = (extra.flags[1] ? depth : 0) + (op.mode == 1 ? extra.bytes : 0);
        for (std::size_t i = 0; i < extra.slots.size(); i += 3) {
            std::memcpy(local + to + extra.slots[i + 1], local + from + extra.slots[i], extra.slots[i + 2]);
            std::memcpy(local + to + extra.slots[i + 1] + shadow, local + from + extra.slots[i] + shadow, extra.slots[i + 2]);
        }
    }
}

// Whether another call fits, of extra->bytes of local memory.
void deeper(Warp& warp, const Op& op) {
    const Device& device = Device::get();
    if (warp.calls.empty()) warp.calls.resize(kLanes);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        if (warp.calls[lane].size() >= device.stack_bytes / kReturnAddress) {
            return warp.cta->report_here(warp, op, "cpu.local_out_of_bounds", "calls itself more than " + std::to_string(warp.calls[lane].size()) +
                                         " calls deep: the stack of " + std::to_string(device.stack_bytes) + " bytes a thread ends, which cudaDeviceSetLimit can change");
        }
        if (warp.lanes<std::uint32_t>(op.a)[lane] + 2 * op.extra->bytes > kDeepest) {
            return warp.cta->report_here(warp, op, "cpu.unsupported", "not supported: a function that calls itself more than " + std::to_string(warp.calls[lane].size()) + " calls deep");
        }
    }
}

// extra->slots: the registers to keep, extra->wide: 0 a predicate, 1 of 32 bits, 2 of 64. op.imm: the function's first operation.
void begin_call(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        Call call{static_cast<std::uint32_t>(op.imm), warp.pc, {}};
        for (std::size_t i = 0; i < extra.slots.size(); ++i) {
            const std::uint32_t slot = extra.slots[i];
            call.registers.push_back(extra.wide[i] == 0 ? warp.mask_at(slot) >> lane & 1 : extra.wide[i] == 1 ? warp.lanes<std::uint32_t>(slot)[lane] : warp.lanes<std::uint64_t>(slot)[lane]);
        }
        warp.calls[lane].push_back(std::move(call));
        warp.lanes<std::uint32_t>(op.a)[lane] += extra.bytes;
    }
    warp.jump(warp.exec, static_cast<std::uint32_t>(op.imm));
}

}  // namespace

// extra->count: the function's first operation.
void end_call(Warp& warp, const Op& op) {
    std::map<std::uint32_t, std::uint32_t> back;  // operation -> lanes
    const std::uint32_t all = warp.exec;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(all >> lane & 1)) continue;
        if (warp.calls.empty() || warp.calls[lane].empty() || warp.calls[lane].back().function != op.extra->count) {
            back[static_cast<std::uint32_t>(op.imm)] |= 1u << lane;
            continue;
        }
        const Call call = std::move(warp.calls[lane].back());
        warp.calls[lane].pop_back();
        back[call.back] |= 1u << lane;
        const Extra& kept = *warp.program->ops[call.back - 1].extra;
        for (std::size_t i = 0; i < kept.slots.size(); ++i) {
            const std::uint32_t slot = kept.slots[i];
            if (kept.wide[i] == 0) warp.mask_at(slot) = (warp.mask_at(slot) & ~(1u << lane)) | static_cast<std::uint32_t>(call.registers[i]) << lane;
            else if (kept.wide[i] == 1) warp.lanes<std::uint32_t>(slot)[lane] = static_cast<std::uint32_t>(call.registers[i]);
            else warp.lanes<std::uint64_t>(slot)[lane] = call.registers[i];
        }
        warp.lanes<std::uint32_t>(op.a)[lane] -= kept.bytes;
    }
    warp.scatter(back);
}

bool Decoder::recursive(const Function& function) {
    const auto known = recursive_.find(&function);
    if (known != recursive_.end()) return known->second;
    std::set<const Function*> seen;
    const std::function<bool(const Function&)> reaches = [&](const Function& from) {
        for (const Instruction& one : from.body) {
            if (one.opcode.front() != "call") continue;
            const Operand& target = one.operands[one.operands[0].kind == Operand::List ? 1 : 0];
            std::set<std::string> names;
            if (target.kind == Operand::Register) names = pointed_at();
            else names.insert(target.name);
            for (const std::string& name : names) {
                const auto found = module_.functions.find(name);
                if (found == module_.functions.end() || found->second.entry) continue;
                if (&found->second == &function || (seen.insert(&found->second).second && reaches(found->second))) return true;
            }
        }
        return false;
    };
    return recursive_[&function] = reaches(function);
}

std::uint32_t Decoder::place_by_depth(std::uint64_t place) {
    const std::uint32_t made = temporary(true);
    Op& op = emit(place_of_call);
    op.guard = kNowhere;
    op.d = made;
    op.a = depth_;
    op.imm = static_cast<std::int64_t>(place & ~kByDepth);
    return made;
}

// `which` tells their bytes. `deeper`: 1: the copies are of a call from here, 2: what is copied is.
void Decoder::copy_between(const Variables& from, const Variables& to, const std::vector<Variable>& which, int deeper) {
    if (from.empty() || to.empty()) return;
    Op& op = emit(copy_variables);
    op.a = depth_;
    op.mode = static_cast<std::uint8_t>(deeper);
    Extra& extra = this->extra(op);
    extra.kind = kOffsets;
    extra.flags[0] = (from.front().second & kByDepth) != 0;
    extra.flags[1] = (to.front().second & kByDepth) != 0;
    for (std::size_t i = 0; i < std::min({from.size(), to.size(), which.size()}); ++i) {
        for (const std::uint64_t part : {from[i].second, to[i].second, which[i].bytes()}) extra.slots.push_back(static_cast<std::uint32_t>(part));
    }
    if (deeper != 0) deeper_.push_back(&extra);
}

// From elsewhere: its parameters and results become variables of its own.
void Decoder::first_call(const Function& callee, const Variables& results, const Variables& given) {
    const bool outermost = depth_ == kNowhere;
    const std::uint32_t before = program_->local_bytes = (program_->local_bytes + 15) / 16 * 16;
    if (outermost) {
        depth_ = slot(4 * kLanes);
        emit(first_depth).d = depth_;
    }
    Variables own_given, own_results;
    for (const Variable& one : callee.parameters) own_given.emplace_back(Space::Local, place_local(one));
    for (const Variable& one : callee.results) own_results.emplace_back(Space::Local, place_local(one));
    copy_between(given, own_given, callee.parameters, 0);
    stands_here(callee, own_results, own_given);
    copy_between(own_results, results, callee.results, 0);
    if (!outermost) return;
    const std::uint32_t step = (program_->local_bytes - before + 15) / 16 * 16;
    for (Extra* const one : deeper_) one->bytes = step;
    deeper_.clear();
    program_->local_bytes = before + std::max(step, kDeepest);
    depth_ = kNowhere;
}

// From within: `frame` is the function's own.
void Decoder::call_again(Frame& frame, const Variables& results, const Variables& given) {
    const auto own = [&](const std::vector<Variable>& which) {
        Variables places;
        for (const Variable& one : which) places.push_back(frame.variables.at(one.name));
        return places;
    };
    Op& check = emit(deeper);
    check.a = depth_;
    deeper_.push_back(&extra(check));
    copy_between(given, own(frame.function->parameters), frame.function->parameters, 1);
    Op& op = emit(begin_call);
    op.a = depth_;
    op.imm = static_cast<std::int64_t>(frame.first_op);
    Extra& kept = extra(op);
    deeper_.push_back(&kept);
    frame.again.push_back(&kept);
    copy_between(own(frame.function->results), results, frame.function->results, 2);
}

}  // namespace gates_cpu
