// A kernel made ready to execute: compact operations over a register file of 32-lane slots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx.h"

namespace gates_cpu {

constexpr unsigned kLanes = 32;
constexpr std::uint32_t kHalf128 = kLanes * 8;  // from the lower half of a register of 128 bits to the upper one
constexpr std::uint32_t kSharedStart = 1024, kReservedStart = 512;  // shared address 0 is nobody's, as on chips that reserve the first KiB
constexpr std::uint32_t kAllLanes = 0xffffffffu;
constexpr std::uint32_t kNowhere = 0xffffffffu;  // no slot: a sink, no guard

struct Warp;
struct Op;
constexpr int kCompares = 5;   // the flag of an Extra: an atomic operation that compares and swaps
constexpr int kOfBlock = 3;    // the flag of a strong access whose scope is the block alone
constexpr int kOfCluster = 4;  // the flag of one to .shared::cluster
constexpr int kOffsets = 99;  // the kind of an Extra whose slots are offsets of local memory
using Handler = void (*)(Warp&, const Op&);

// How a memory operation accesses memory.
enum class Order : std::uint8_t { Weak, Volatile, Relaxed, Acquire, Release, AcqRel };

// Operands beyond three, and what only few operations need.
struct Extra {
    std::vector<std::uint32_t> slots;   // of vectors, lists and fragments
    std::vector<std::uint16_t> places[3];  // of fragments' elements in their matrices
    std::vector<std::uint8_t> wide;     // beside slots: 1 if the slot holds 64-bit lanes
    Space space = Space::Generic;
    Order order = Order::Weak;
    Type type = Type::None;
    unsigned bytes = 0;                 // an element
    unsigned count = 1;                 // elements a lane
    bool wide_address = true;
    std::string name;                   // of what is called
    int m = 0, n = 0, k = 0;
    int kind = 0;                       // told by the operation
    bool flags[6] = {};
    Type types[4] = {};
};

// What an operation does with registers that products of wgmma own for a while: their numbers in Program::product_slots.
struct Watched {
    std::vector<std::uint16_t> reads, writes;
};

// A slot is an offset in the warp's register file: 32 lanes of 4 or of 8 bytes, or the 4-byte mask of a predicate.
struct Op {
    Handler run = nullptr;
    std::uint32_t d = kNowhere, a = kNowhere, b = kNowhere, c = kNowhere;
    std::uint32_t guard = kNowhere;
    std::uint32_t d2 = kNowhere;        // a second result, or a fourth source
    std::int64_t imm = 0;               // an address offset, a branch target
    const Extra* extra = nullptr;
    std::int32_t place = -1;
    std::uint8_t mode = 0;              // told by the operation
    bool guard_negated = false;
    bool fills = false;                 // extra->slots are results
    bool copies = false;                // what it writes comes by an engine of its own, not by this thread's stores
    bool watched = false;               // Program::watched has an entry for it
};

struct Program {
    std::string name;
    const Module* module = nullptr;
    std::vector<Op> ops;
    std::vector<std::unique_ptr<Extra>> extras;
    std::vector<Place> places;                     // of all functions that were inlined
    std::vector<std::uint8_t> constants;           // the start of each register file
    std::uint32_t register_bytes = 0;              // constants among them
    std::uint32_t parameter_bytes = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> parameters;  // offset and size of each
    std::uint32_t shared_bytes = 0;                // static
    std::uint32_t dynamic_shared_at = 0;           // where the launch's bytes begin
    unsigned dynamic_alignment = 16;               // that the kernel declares for them
    std::uint32_t local_bytes = 0;                 // a thread
    unsigned max_threads = 1024, required[3] = {}, cluster[3] = {};  // 0: not said
    bool bounded = false;                          // it has __launch_bounds__
    std::uint32_t shared_from = kSharedStart;      // what lies below is the chip's own; the last of it cooperative groups may use
    bool global_atomics = false;                   // or volatile and ordered accesses: CTAs see one another
    bool awaits_grid = false;                      // griddepcontrol.wait
    unsigned launch_registers = 0;                 // .maxnreg; 0: not said
    // Of wgmma: registers that products own between their issue and the wait, those that moves connect with them, and who touches them.
    bool products = false;
    std::vector<std::uint32_t> product_slots;
    std::vector<Watched> watched;
    std::vector<std::uint32_t> watched_at;         // operation -> its entry in `watched`
};

}  // namespace gates_cpu
