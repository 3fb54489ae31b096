// PTX tokens to a Module: declarations, scopes, instructions with their operands.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "lexer.h"
#include "memory.h"
#include "ptx.h"

namespace gates_cpu {
namespace {

struct Scope {
    struct Range { int first; std::uint64_t count; };
    std::unordered_map<std::string, int> names;
    std::unordered_map<std::string, Range> ranges;  // %r<10>: prefix -> first register
    int id = 0;
};

class Parser {
  public:
    explicit Parser(const std::string& text) : tokens_(tokens(text)) {}

    Module module() {
        while (peek().kind != Token::End) top_level();
        return std::move(module_);
    }

  private:
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    Module module_;
    Function* function_ = nullptr;
    std::vector<Scope> scopes_;
    std::map<std::vector<int>, int> known_places_;
    int place_ = -1, depth_ = 0;
    unsigned target_alignment_ = 1;  // read over

    const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
    const Token& next() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
    bool is(const char* text) const { return peek().text == text && peek().kind != Token::String; }
    bool accept(const char* text) {
        if (!is(text)) return false;
        next();
        return true;
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw Unsupported("PTX line " + std::to_string(peek().line) + ": " + what + module_.newer());
    }
    void expect(const char* text) {
        if (!accept(text)) fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
    }
    std::string word() {
        if (peek().kind != Token::Word) fail("expected a name, found '" + std::string(peek().text) + "'");
        return std::string(next().text);
    }
    std::uint64_t whole() {
        const bool minus = accept("-");
        if (peek().kind != Token::Number) fail("expected a number, found '" + std::string(peek().text) + "'");
        std::string text(next().text);
        if (text.back() == 'U') text.pop_back();
        if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) return std::stoull(text.substr(2), nullptr, 2);
        try {
            const std::uint64_t value = std::stoull(text, nullptr, 0);
            return minus ? 0 - value : value;
        } catch (const std::exception&) {
            fail("'" + text + "' is no number of 64 bits");
        }
    }

    void top_level() {
        const std::string first = word();
        if (first == ".version") {
            const std::string text(next().text);
            unsigned major = 0, minor = 0;
            if (std::sscanf(text.c_str(), "%u.%u", &major, &minor) == 2) module_.isa = 100 * major + 10 * minor;
        } else if (first == ".target") {
            module_.target = word();
            while (accept(",")) word();
        } else if (first == ".address_size") {
            next();
        } else if (first == ".file") {
            const int number = static_cast<int>(whole());
            module_.files[number] = std::string(next().text);
            while (accept(",")) whole();
        } else if (first == ".section") {
            while (!accept("}")) {
                if (peek().kind == Token::End) fail("a section does not end");
                next();
            }
        } else if (first == ".visible" || first == ".extern" || first == ".weak" || first == ".common") {
            linkage(first == ".extern");
        } else {
            --at_;
            linkage(false);
        }
    }

    void linkage(bool external) {
        if (accept(".entry")) return function(true);
        if (accept(".func")) return function(false);
        if (accept(".alias")) fail("not supported: .alias");
        Variable variable = declaration(word());
        variable.external = external;
        module_.variables.push_back(std::move(variable));
        expect(";");
    }

    // After its space: .align 8 .v2 .f32 name[4] = {…}
    Variable declaration(const std::string& space) {
        static const std::map<std::string, Space> spaces = {
            {".global", Space::Global}, {".shared", Space::Shared}, {".local", Space::Local}, {".const", Space::Const}, {".param", Space::Param}};
        const auto found = spaces.find(space.substr(0, space.find("::")));
        if (found == spaces.end()) fail("not supported: " + space);
        Variable variable;
        variable.space = found->second;
        unsigned vector = 1;
        bool of_target = false;  // after .ptr, the alignment is that of what the pointer points to
        for (;;) {
            const std::string part = word();
            of_target |= part == ".ptr";
            if (part == ".align") (of_target ? target_alignment_ : variable.alignment) = static_cast<unsigned>(whole());
            else if (part == ".v2" || part == ".v4") vector = part == ".v2" ? 2 : 4;
            else if (part == ".ptr" || part == ".global" || part == ".shared" || part == ".attribute") {
                if (part == ".attribute") { expect("("); while (!accept(")")) variable.managed |= next().text == ".managed"; }
            } else if (part[0] == '.') {
                variable.type = type_named(part.substr(1));
                if (variable.type == Type::None) fail("not supported: type " + part);
                variable.alignment = std::max(variable.alignment, bytes_of(variable.type) * vector);
            } else {
                variable.name = part;
                break;
            }
        }
        variable.count = vector;
        while (accept("[")) {
            if (accept("]")) { variable.unsized = true; continue; }
            variable.count *= whole();
            expect("]");
        }
        if (accept("=")) initial(variable);
        return variable;
    }

    void initial(Variable& variable) {
        if (accept("{")) {
            while (!accept("}")) {
                if (is("{")) initial(variable);
                else variable.initial.push_back(initial_value());
                accept(",");
            }
        } else {
            variable.initial.push_back(initial_value());
        }
    }

    Variable::Initial initial_value() {
        if (peek().kind == Token::Word) {
            const bool generic = accept("generic");
            if (generic) expect("(");
            Variable::Initial value{0, word(), generic};
            if (accept("+")) value.bits = whole();
            if (generic) expect(")");
            return value;
        }
        if (peek().kind == Token::Number && peek().text.size() > 2 && (peek().text[1] == 'f' || peek().text[1] == 'd')) {
            return {std::stoull(std::string(next().text.substr(2)), nullptr, 16), {}, false};
        }
        return {whole(), {}, false};
    }

    std::vector<Variable> parameter_list() {
        std::vector<Variable> list;
        expect("(");
        while (!accept(")")) {
            const std::string space = word();
            if (space != ".param") fail("not supported: a parameter in " + space);
            list.push_back(declaration(space));
            accept(",");
        }
        return list;
    }

    void function(bool entry) {
        Function made;
        made.entry = entry;
        if (is("(")) made.results = parameter_list();
        made.name = word();
        if (is("(")) made.parameters = parameter_list();
        while (peek().kind == Token::Word) {
            const std::string directive = word();
            std::vector<std::uint64_t>& values = made.directives[directive];
            while (peek().kind == Token::Number) {
                values.push_back(whole());
                accept(",");
            }
        }
        if (accept(";")) {
            module_.functions.emplace(made.name, std::move(made));
            return;
        }
        made.has_body = true;
        function_ = &made;
        known_places_.clear();
        place_ = -1;
        expect("{");
        open_scope();
        while (!scopes_.empty()) statement();
        const std::string name = made.name;
        module_.functions[name] = std::move(made);
    }

    void open_scope() {
        Scope scope;
        scope.id = static_cast<int>(function_->scopes.size());
        function_->scopes.push_back(scopes_.empty() ? -1 : scopes_.back().id);
        scopes_.push_back(std::move(scope));
    }

    void statement() {
        if (peek().kind == Token::End) fail("a function does not end");
        if (accept("{")) return open_scope();
        if (accept("}")) return scopes_.pop_back();
        if (accept(";")) return;
        if (accept(".reg")) return registers(word());
        if (peek().kind == Token::Word && peek().text.substr(0, 5) == ".reg.") return registers(word().substr(4));  // without a space
        if (accept(".loc")) return location();
        if (accept(".pragma") || accept(".callprototype") || accept(".calltargets")) {
            while (!accept(";") && peek().kind != Token::End) next();
            return;
        }
        if (accept(".branchtargets")) fail("not supported: indirect branches");
        if (peek().kind == Token::Word && peek().text[0] == '.') {
            const std::string space = word();
            do function_->locals.push_back(declaration(space)); while (accept(","));
            return expect(";");
        }
        if (peek().kind == Token::Word && peek(1).text == ":") {
            function_->labels[{scopes_.back().id, word()}] = function_->body.size();
            next();
            return;
        }
        instruction();
    }

    void registers(const std::string& kind) {
        if (kind == ".v2" || kind == ".v4") fail("not supported: vector registers");
        const Type type = type_named(kind.substr(1));
        if (type == Type::None) fail("not supported: register type " + kind);
        do {
            const std::string name = word();
            std::uint64_t count = 1;
            const int first = static_cast<int>(function_->registers.size());
            if (accept("<")) {
                count = whole();
                expect(">");
                if (count > 1000000) fail("too many registers");
                scopes_.back().ranges[name] = {first, count};
            } else {
                scopes_.back().names[name] = first;
            }
            function_->registers.insert(function_->registers.end(), count, type);
            for (std::uint64_t i = 0; i < count; ++i) function_->register_names.push_back(count == 1 ? name : name + std::to_string(i));
        } while (accept(","));
        expect(";");
    }

    void location() {
        const auto place = [this] {
            const int file = static_cast<int>(whole()), line = static_cast<int>(whole()), column = static_cast<int>(whole());
            return Place{file, line, column, -1};
        };
        Place found = place();
        while (accept(",")) {
            const std::string what = word();
            if (what == "function_name") {
                word();
                if (accept("+")) whole();
            } else if (what == "inlined_at") {
                const Place outer = place();
                found.inlined_at = known_place(outer);
            }
        }
        function_->places.push_back(found);
        place_ = static_cast<int>(function_->places.size()) - 1;
        known_places_[{found.file, found.line, found.column}] = place_;
    }

    int known_place(const Place& place) {
        const auto [entry, fresh] = known_places_.try_emplace({place.file, place.line, place.column}, 0);
        if (fresh) {
            function_->places.push_back(place);
            entry->second = static_cast<int>(function_->places.size()) - 1;
        }
        return entry->second;
    }

    void instruction() {
        Instruction made;
        made.scope = scopes_.back().id;
        made.place = place_;
        if (accept("@")) {
            made.guard_negated = accept("!");
            made.guard = find_register(word());
            if (made.guard < 0) fail("a guard that is no register");
        }
        const std::string text = word();
        for (std::size_t start = 0; start <= text.size();) {
            const std::size_t end = std::min(text.find('.', start), text.size());
            made.opcode.push_back(text.substr(start, end - start));
            start = end + 1;
        }
        while (!accept(";")) {
            made.operands.push_back(operand());
            if (!accept(",") && !is(";")) fail("expected ',' or ';' after an operand of " + text + ", found '" + std::string(peek().text) + "'");
        }
        function_->body.push_back(std::move(made));
    }

    int find_register(const std::string& name) const {
        const std::size_t digits = name.find_last_not_of("0123456789") + 1;
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            if (const auto found = scope->names.find(name); found != scope->names.end()) return found->second;
            if (digits < name.size() && name.size() - digits < 9) {
                const auto range = scope->ranges.find(name.substr(0, digits));
                if (range != scope->ranges.end()) {
                    const std::uint64_t number = std::stoull(name.substr(digits));
                    if (number < range->second.count) return range->second.first + static_cast<int>(number);
                }
            }
        }
        return -1;
    }

    Operand list(const char* close, Operand::Kind kind) {
        if (++depth_ > 16) fail("operands nested too deep");
        Operand made;
        made.kind = kind;
        while (!accept(close)) {
            made.parts.push_back(operand());
            if (!accept(",") && !is(close)) fail("expected ',' in a list");
        }
        --depth_;
        return made;
    }

    Operand operand() {
        if (accept("{")) return list("}", Operand::Vector);
        if (accept("(")) return list(")", Operand::List);
        if (accept("[")) {
            Operand made = list("]", Operand::Address);
            return made;
        }
        Operand made;
        if (accept("!")) made.negated = true;
        if (is("-") || peek().kind == Token::Number) {
            const std::string_view text = peek().text;
            if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]) != nullptr) {
                made.kind = text[1] == 'f' || text[1] == 'F' ? Operand::Float32 : Operand::Float64;
                made.bits = std::stoull(std::string(next().text.substr(2)), nullptr, 16);
            } else if (text.find('.') != std::string_view::npos) {
                made.kind = Operand::Float64;
                const double value = std::stod(std::string(next().text));
                std::memcpy(&made.bits, &value, sizeof value);
            } else {
                made.kind = Operand::Integer;
                made.bits = whole();
            }
            return made;
        }
        const std::string name = word();
        if (name == "_") {
            if (accept("|")) made.second = find_register(word());
            return made;
        }
        made.reg = find_register(name);
        made.kind = made.reg >= 0 ? Operand::Register : Operand::Name;
        made.name = name;
        if (accept("|")) {
            const std::string other = word();
            made.second = other == "_" ? -2 : find_register(other);
        }
        if (accept("+")) made.bits = whole();
        else if (is("-") && made.kind == Operand::Name) made.bits = whole();
        return made;
    }
};

}  // namespace

Type type_named(const std::string& name) {
    static const std::unordered_map<std::string, Type> types = {
        {"pred", Type::Pred}, {"b8", Type::B8}, {"u8", Type::U8}, {"s8", Type::S8}, {"b16", Type::B16}, {"u16", Type::U16},
        {"s16", Type::S16}, {"f16", Type::F16}, {"bf16", Type::BF16}, {"b32", Type::B32}, {"u32", Type::U32}, {"s32", Type::S32},
        {"f32", Type::F32}, {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2}, {"tf32", Type::TF32}, {"b64", Type::B64},
        {"u64", Type::U64}, {"s64", Type::S64}, {"f64", Type::F64}, {"b128", Type::B128}};
    const auto found = types.find(name);
    return found == types.end() ? Type::None : found->second;
}

unsigned bytes_of(Type type) {
    if (type <= Type::Pred) return 0;
    if (type <= Type::S8) return 1;
    if (type <= Type::BF16) return 2;
    if (type <= Type::TF32) return 4;
    return type == Type::B128 ? 16 : 8;
}

std::uint64_t Module::function_address(const std::string& function) const {
    const auto found = functions.find(function);
    return found == functions.end() ? 0 : kFunctionWindow + 16 * static_cast<std::uint64_t>(std::distance(functions.begin(), found) + 1);
}

std::string Module::newer() const {
    if (isa <= kNewestIsa) return {};
    return " (the PTX is of ISA " + std::to_string(isa / 100) + "." + std::to_string(isa % 100 / 10) + ", this device knows " + std::to_string(kNewestIsa / 100) + "." +
           std::to_string(kNewestIsa % 100 / 10) + ": compile with an older toolkit)";
}

std::string Instruction::text() const {
    std::string joined = opcode.front();
    for (std::size_t i = 1; i < opcode.size(); ++i) joined += "." + opcode[i];
    return joined;
}

std::size_t Function::label(int scope, const std::string& wanted) const {
    for (int at = scope; at >= 0; at = scopes[static_cast<std::size_t>(at)]) {
        if (const auto found = labels.find({at, wanted}); found != labels.end()) return found->second;
    }
    throw Unsupported("a branch to " + wanted + ", which is no label of " + name);
}

Module parse(const std::string& text) { return Parser(text).module(); }

}  // namespace gates_cpu
