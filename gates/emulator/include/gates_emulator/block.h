// One block at a time, its threads as fibers: who runs next, barriers, and what happens when none can run.
#pragma once
#pragma GCC system_header

#include "report.h"

#pragma GCC visibility push(hidden)

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace gates_emulator {

constexpr unsigned kMaxThreads = 1024, kMaxWarps = 32;

struct Thread {
    uint3 index;
    unsigned linear, lane, warp;
    bool exited;
    const char* waits_for;  // an intrinsic's name, or null while it can run
    const char* file;
    int line;
    unsigned committed;     // groups of asynchronous copies
};

// Lanes of one warp that meet in one intrinsic under one mask.
struct Meeting {
    unsigned mask, arrived;
    const char* what;
    const char* file;
    int line;
    void (*combine)(struct Warp&, unsigned lanes);
};

struct Warp {
    unsigned ready, exited, lanes;  // bit sets
    const u_int8_t* order;           // lanes in the order in which they run
    unsigned next;                  // position in order
    unsigned meetings;              // bit set of meeting[]
    unsigned asking;                // lanes that wait in __activemask
    Meeting meeting[32];
    u_int64_t value[32], operand[32], result[32];  // of each lane, for the intrinsic's combine()
};

struct Block {
    Thread threads[kMaxThreads];
    Warp warps[kMaxWarps];
    unsigned count, warp_count, live;
    u_int8_t warp_order[kMaxWarps];
    unsigned warp_position;
    Thread* current;
    // __syncthreads
    unsigned at_barrier, barrier_count;
    const char* barrier_file;
    int barrier_line;
    int barrier_sum, barrier_result;
    // of the launch
    void (*body)(void*);
    void* body_argument;
    const char* kernel;
    bool aborted;
    u_int64_t random;
    u_int8_t lane_orders[64][32];
};

extern Block block;

// What a header adds to the life of a block: state of its own, and work that goes on while all threads wait.
struct Extension {
    void (*begin_block)();
    void (*end_block)();             // of a block whose threads have all returned
    void (*end_thread)(Thread&);
    bool (*progress)();              // true: something that was under way is done, a thread may be ready
    void (*what_is_awaited)(char* text, size_t bytes);  // appends to text
};

// To be called before any launch.
bool extend(const Extension& added);

u_int64_t next_random();

// End the launch: nothing on this fiber, or any other of this block, runs again.
[[noreturn]] GATES_EMULATOR_COLD __attribute__((format(printf, 5, 6))) void fatal(
    cudaError_t error, const char* kind, const char* file, int line, const char* pattern, ...);

// The current thread waits from its next reschedule() on, until it is made ready.
void wait_in(const char* what, const char* file, int line);
void make_ready(unsigned warp, unsigned lanes);
// Leave the current thread until it is ready again and its turn has come.
void reschedule();

inline bool same_place(const char* file_a, int line_a, const char* file_b, int line_b) {
    return line_a == line_b && (file_a == file_b || strcmp(file_a, file_b) == 0);
}

// A barrier of the whole block; returns the sum of `predicate != 0` over its threads.
int block_barrier(const char* what, int predicate, const char* file, int line);

}  // namespace gates_emulator

inline void __syncthreads(GATES_EMULATOR_SITE) { gates_emulator::block_barrier("__syncthreads", 0, file, line); }
inline int __syncthreads_count(int predicate, GATES_EMULATOR_SITE) {
    return gates_emulator::block_barrier("__syncthreads_count", predicate, file, line);
}
inline int __syncthreads_and(int predicate, GATES_EMULATOR_SITE) {
    return gates_emulator::block_barrier("__syncthreads_and", predicate, file, line) ==
           static_cast<int>(gates_emulator::block.count);
}
inline int __syncthreads_or(int predicate, GATES_EMULATOR_SITE) {
    return gates_emulator::block_barrier("__syncthreads_or", predicate, file, line) != 0;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

#pragma GCC visibility pop
