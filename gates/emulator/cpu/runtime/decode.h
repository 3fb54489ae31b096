// From an entry of a module to a Program. Each opcode has a function that reads its modifiers and operands and emits operations.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "program.h"

namespace gates_cpu {

using Variables = std::vector<std::pair<Space, std::uint64_t>>;        // state space, and place in it
constexpr std::uint64_t kByDepth = 1ull << 63;   // in a place: it is one of each call of a function that calls itself
using Symbols = std::map<std::string, std::uint64_t>;  // where a module's .global and .const variables lie

// The modifiers of an instruction; each is taken once, and what nobody takes is refused.
class Modifiers {
  public:
    explicit Modifiers(const Instruction& instruction) : words_(instruction.opcode.begin() + 1, instruction.opcode.end()) {}
    bool take(const std::string& word);
    std::string take_one_of(std::initializer_list<const char*> words);  // empty if none is there
    Type take_type();                                                   // the first type; Type::None if there is none
    bool starts(const std::string& prefix) const;
    std::string take_any();                                             // the first of what is left
    bool empty() const { return words_.empty(); }

  private:
    std::vector<std::string> words_;
};

class Decoder {
  public:
    Decoder(const Module& module, const Symbols& symbols) : module_(module), symbols_(symbols) {}
    std::unique_ptr<Program> decode(const std::string& entry, bool shifted);

    // For the functions that decode an opcode.
    const Instruction& instruction() const { return *instruction_; }
    const Operand& operand(std::size_t index) const;
    std::size_t operands() const { return instruction_->operands.size(); }
    Op& emit(Handler handler);                                  // with the instruction's guard and place
    std::uint32_t source(const Operand& operand, Type type);    // its slot, of the type's width
    std::uint32_t source(std::size_t index, Type type) { return source(operand(index), type); }
    std::uint32_t destination(const Operand& operand, Type type);
    std::uint32_t destination(std::size_t index, Type type) { return destination(operand(index), type); }
    std::uint32_t second_destination(const Operand& operand);   // of "a|p"
    std::uint32_t predicate(const Operand& operand, bool& negated);
    bool wide_register(const Operand& operand) const;           // 64-bit lanes
    Type register_type(int reg) const;
    std::uint32_t raw(const Operand& operand) const;            // a register's own slot
    std::uint32_t constant(std::uint64_t bits, bool wide);
    std::uint32_t temporary(bool wide);
    std::uint32_t carry();                                       // the slot of the condition code's carry
    Extra& extra(Op& op);
    void address(const Operand& operand, Op& op, Extra& access); // op.a and op.imm; the space if a variable decides it
    std::uint64_t parameter_offset(const std::string& name) { return variable(name).second; }
    Program& program() { return *program_; }
    const Module& module() const { return module_; }
    void branch(Handler handler, const std::string& label);
    void call();
    void inlined(const Function& callee, const Variables& results, const Variables& given);
    void call_by_address(std::uint32_t slot, const Variables& results, const Variables& given);
    void leave();                                                // ret
    std::uint32_t depth() const { return depth_; }               // the slot of how far local memory of a call lies beyond the first call's
    [[noreturn]] void unsupported(const std::string& why = {}) const;

  private:
    struct Frame {                                  // a function that is being inlined
        const Function* function;
        std::vector<std::uint32_t> slots;
        std::map<std::string, std::pair<Space, std::uint64_t>> variables;
        std::vector<std::size_t> label_at;          // index of body -> op
        std::vector<std::pair<std::size_t, std::size_t>> jumps, returns;  // op -> index of body; op
        int first_place;
        std::size_t first_register = 0, first_op = 0;             // of a function that calls itself
        std::vector<Extra*> again;                                // of its calls of itself
        bool recursive = false;
    };
    const Module& module_;
    const Symbols& symbols_;
    std::unique_ptr<Program> program_;
    std::vector<Frame> frames_;
    const Instruction* instruction_ = nullptr;
    std::map<std::pair<std::uint64_t, bool>, std::uint32_t> constants_;
    std::map<std::string, std::uint64_t> module_shared_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> after_;  // temporary -> register: to be written after the instruction
    std::vector<std::uint8_t> constant_bytes_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> registers_;  // all slots, and their bytes
    std::uint32_t next_slot_ = 0, carry_ = kNowhere, depth_ = kNowhere;
    std::vector<Extra*> deeper_;                    // of operations that await how many bytes of local memory a call has
    std::map<std::string, std::uint32_t> by_depth_;  // an operand's variable -> the slot of its address in this call
    std::map<const Function*, bool> recursive_;

    std::uint64_t place_local(const Variable& local);
    bool recursive(const Function& function);
    void stands_here(const Function& callee, const Variables& results, const Variables& given);
    void first_call(const Function& callee, const Variables& results, const Variables& given);
    void call_again(Frame& frame, const Variables& results, const Variables& given);
    void copy_between(const Variables& from, const Variables& to, const std::vector<Variable>& which, int deeper);
    std::uint32_t place_by_depth(std::uint64_t place);
    void body(const Function& function, std::map<std::string, std::pair<Space, std::uint64_t>> parameters);
    void place_shared(const Function& function);
    std::pair<Space, std::uint64_t> variable(const std::string& name);
    std::uint64_t symbol_value(const std::string& name);
    std::set<std::string> pointed_at() const;       // functions whose address is taken
    std::uint32_t slot(std::uint32_t bytes);
    void one(const Instruction& instruction);
};

using Decode = void (*)(Decoder&, Modifiers&);
Decode find_opcode(const std::string& name);                     // null if unknown
struct OpcodeTable {
    OpcodeTable(std::initializer_list<std::pair<const char*, Decode>> entries);
};

}  // namespace gates_cpu
