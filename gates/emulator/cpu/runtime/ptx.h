// A PTX module as text says it: functions, variables, instructions with their operands. Nothing here knows how to execute.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace gates_cpu {

// What this device can't do, or can't read, in one sentence.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Type : std::uint8_t {
    None, Pred, B8, U8, S8, B16, U16, S16, F16, BF16, B32, U32, S32, F32, F16x2, BF16x2, TF32, B64, U64, S64, F64, B128
};
enum class Space : std::uint8_t { Generic, Global, Shared, Local, Param, Const };

Type type_named(const std::string& name);  // Type::None if there is no such type
unsigned bytes_of(Type type);              // 0 for predicates
inline bool is_signed(Type type) { return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64; }

struct Place {  // of the source, by -lineinfo; file 0: unknown
    int file = 0, line = 0, column = 0;
    int inlined_at = -1;  // index of another place in the function, -1 if none
};

struct Operand {
    enum Kind : std::uint8_t { Register, Integer, Float32, Float64, Name, Vector, Address, Sink, List } kind = Sink;
    bool negated = false;           // !%p
    int reg = -1, second = -1;      // second: of "a|b"; -2 is the sink
    std::uint64_t bits = 0;         // of a constant; the offset of an address or a name
    std::string name;               // of a variable, a label, a special register
    std::vector<Operand> parts;     // of a vector or list; after the base of an address
};

struct Instruction {
    std::vector<std::string> opcode;  // split at the dots
    std::vector<Operand> operands;
    int guard = -1;                   // register
    bool guard_negated = false;
    int scope = 0;                    // in which labels are looked up
    int place = -1;
    std::string text() const;         // the opcode as written
};

struct Variable {
    std::string name;
    Space space = Space::Global;
    Type type = Type::B8;
    unsigned alignment = 1;
    std::uint64_t count = 1;          // elements
    bool external = false, unsized = false, managed = false;
    struct Initial { std::uint64_t bits; std::string symbol; bool generic; };
    std::vector<Initial> initial;     // one an element, missing ones are zero
    std::uint64_t bytes() const { return count * bytes_of(type); }
};

struct Function {
    std::string name;
    bool entry = false, has_body = false;
    std::vector<Variable> results, parameters, locals;  // locals: of any space, declared in the body
    std::vector<Type> registers;
    std::vector<std::string> register_names;
    std::vector<Instruction> body;
    std::vector<int> scopes;                              // parent of each scope, -1 for the first
    std::map<std::pair<int, std::string>, std::size_t> labels;  // scope and name -> index in body
    std::vector<Place> places;
    std::map<std::string, std::vector<std::uint64_t>> directives;  // .maxntid, .reqntid, .minnctapersm
    std::size_t label(int scope, const std::string& name) const;   // index in body; throws Unsupported
};

constexpr unsigned kNewestIsa = 900;   // of PTX that was read for this device: 100 x major + minor

struct Module {
    std::string target;
    unsigned isa = 0;
    std::string newer() const;         // what to add to "not supported", empty if its ISA is known
    std::map<std::string, Function> functions;
    std::vector<Variable> variables;
    std::map<int, std::string> files;
    std::uint64_t function_address(const std::string& function) const;  // 0: there is none
};

Module parse(const std::string& text);  // throws Unsupported with the line

}  // namespace gates_cpu
