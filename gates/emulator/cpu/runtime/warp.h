// A warp: 32 lanes a register, the groups of lanes that stand at different places, and what they wait for.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <vector>

#include "program.h"

namespace gates_cpu {

struct Cta;
class Products;

// Products: of wgmma. Registers: by setmaxnreg.
enum class Wait : std::uint8_t { None, Lanes, Barrier, Condition, Products, Registers, Cluster };

struct Group {
    std::uint32_t pc, mask;
    Wait wait;
    std::uint32_t which;  // the lanes, or the barrier, that it waits for
};

struct Call {  // of a function that calls itself, by one lane
    std::uint32_t function, back;            // its first operation, the one to go back to
    std::vector<std::uint64_t> registers;    // of the caller
};

struct Warp {
    // What operations read and write.
    std::uint8_t* file = nullptr;          // registers
    std::uint32_t exec = 0;                // lanes that run this operation
    std::uint32_t active = 0;              // lanes of the current group
    std::uint32_t pc = 0;                  // of the next operation
    std::uint32_t alive = 0, began = 0;    // lanes that have not ended; lanes that it has
    bool stop = false;                     // the loop ends after this operation
    bool spinning = false;                 // the quantum ended, or lanes sleep
    Cta* cta = nullptr;
    const Program* program = nullptr;
    unsigned index = 0, rank = 0;          // in the CTA, in the cluster
    std::uint32_t cluster_arrived[2] = {}; // lanes at the barrier of the cluster that have not waited, by the phase's parity
    std::uint8_t* local = nullptr;         // local memory: lane after lane, then its shadow
    std::uint32_t thread[3][kLanes] = {};
    std::uint32_t onward = 0;              // lanes that have not jumped back over their last barrier of the CTA
    std::uint32_t last_barrier[kLanes] = {};  // the place after it
    std::uint32_t unchanged = 0;           // lanes whose store writes what is there: no race
    std::uint64_t executed = 0;            // operations
    Products* products = nullptr;          // null if the program has no wgmma
    std::uint32_t registers = 0;           // a thread, by setmaxnreg or the launch
    std::uint32_t latest_barrier = 0;      // of last_barrier, the last in the program
    std::vector<std::vector<Call>> calls;  // a lane; empty before the first

    template <class T> T* lanes(std::uint32_t slot) { return reinterpret_cast<T*>(file + slot); }
    std::uint32_t& mask_at(std::uint32_t slot) { return *reinterpret_cast<std::uint32_t*>(file + slot); }

    // Control flow.
    void start(unsigned threads);
    void run(std::uint64_t operations);
    void jump(std::uint32_t lanes, std::uint32_t target);
    void scatter(const std::map<std::uint32_t, std::uint32_t>& lanes);  // the executing ones: where to go on -> which do
    void leave(std::uint32_t lanes);                               // they end
    bool together(const Op& op, std::uint32_t members);            // true: all of them are here and run the operation now
    bool all_together(const Op& op);                               // the same for all 32, of which none may have ended
    void wait(Wait kind, std::uint32_t which, std::uint32_t at);   // the executing lanes, which go on at `at`
    void part(std::uint32_t lanes, std::uint32_t at);              // they become a group of their own, at `at`
    std::uint32_t release(Wait kind, std::uint32_t which);         // their lanes
    bool done() const { return alive == 0; }
    bool runnable() const { return active != 0 || has_runnable_; }
    const Group* groups() const { return groups_; }
    unsigned group_count() const { return count_; }

  private:
    Group groups_[kLanes];
    unsigned count_ = 0;
    bool has_runnable_ = false, rotated_ = false;
    std::uint32_t limit_ = kNowhere;       // the next place of another group

    template <bool watching> std::uint64_t execute(std::uint64_t operations);
    void put(std::uint32_t pc, std::uint32_t mask, Wait wait = Wait::None, std::uint32_t which = 0);
    void drop(unsigned index) { groups_[index] = groups_[--count_]; }
    void went_back(std::uint32_t lanes, std::uint32_t target);
    void choose();                         // there is no current group: the lowest runnable one
    void meet();                           // join groups at the same place, go to the lowest
    void settle();                         // limit_ and has_runnable_
    void rotate();
};

}  // namespace gates_cpu
