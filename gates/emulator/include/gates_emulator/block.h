// One block at a time, its threads as fibers: who runs next, barriers, and what happens when none can run.
#pragma once
#pragma GCC system_header

#include "fiber.h"
#include "report.h"

#pragma GCC visibility push(hidden)

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace gates_emulator {

constexpr unsigned kMaxThreads = 1024, kMaxWarps = 32;

struct AsyncCopy {
    char* destination;
    const char* source;
    unsigned bytes, zero_bytes, group;
    bool landed;
    const char* file;
    int line;
};

struct Thread {
    Fiber fiber;
    uint3 index;
    unsigned linear, lane, warp;
    bool exited;
    const char* waits_for;  // an intrinsic's name, or null while it can run
    const char* file;
    int line;
    std::vector<AsyncCopy> copies;  // issued and not landed, oldest first
    unsigned committed;             // groups
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
    const uint8_t* order;           // lanes in the order in which they run
    unsigned next;                  // position in order
    unsigned meetings;              // bit set of meeting[]
    Meeting meeting[32];
    uint64_t value[32], operand[32], result[32];  // of each lane, for the intrinsic's combine()
};

struct Block {
    Thread threads[kMaxThreads];
    Warp warps[kMaxWarps];
    Fiber host;
    unsigned count, warp_count, live;
    uint8_t warp_order[kMaxWarps];
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
    uint64_t random;
    uint8_t lane_orders[64][32];
};

inline Block block;

// What a header adds to the life of a block: state of its own, and work that goes on while all threads wait.
struct Extension {
    void (*begin_block)();
    void (*end_block)();             // of a block whose threads have all returned
    void (*end_thread)(Thread&);
    bool (*progress)();              // true: something that was under way is done, a thread may be ready
    std::string (*what_is_awaited)();
};

inline const Extension* extension = nullptr;  // set by extend() before any launch

inline bool extend(const Extension& added) {
    extension = &added;
    return true;
}

inline uint64_t next_random() {  // xorshift64*
    block.random ^= block.random >> 12;
    block.random ^= block.random << 25;
    block.random ^= block.random >> 27;
    return block.random * 0x2545F4914F6CDD1DULL;
}

inline void permute(uint8_t* items, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        items[i] = static_cast<uint8_t>(settings.order == kReversed ? count - 1 - i : i);
    if (settings.order != kShuffled) return;
    for (unsigned i = count; i > 1; --i) std::swap(items[i - 1], items[(next_random() >> 33) % i]);
}

inline void reorder_lanes(Warp& warp) {
    warp.order = block.lane_orders[settings.order == kShuffled ? next_random() >> 58 : 0];
    warp.next = 0;
}

// End the launch: nothing on this fiber, or any other of this block, runs again.
[[noreturn]] inline void abandon() {
    block.aborted = true;
    switch_fiber(block.current->fiber, block.host);
    __builtin_unreachable();
}

[[noreturn]] GATES_EMULATOR_COLD __attribute__((format(printf, 5, 6))) inline void fatal(
    cudaError_t error, const char* kind, const char* file, int line, const char* pattern, ...) {
    char message[4096];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message, sizeof message, pattern, arguments);
    va_end(arguments);
    add_finding(kind, block.kernel, place(file, line),
                format("%s, block (%u,%u,%u) thread (%u,%u,%u)", message, blockIdx.x, blockIdx.y, blockIdx.z,
                       threadIdx.x, threadIdx.y, threadIdx.z));
    report.sticky_error = error;
    abandon();
}

// "96 wait in __syncthreads at k.cu:12; 32 have returned"
GATES_EMULATOR_COLD inline std::string who_waits() {
    std::vector<std::pair<std::string, unsigned>> groups;
    for (unsigned i = 0; i < block.count; ++i) {
        const Thread& thread = block.threads[i];
        const std::string state = thread.exited ? std::string("have returned")
                                                : format("wait in %s at %s", thread.waits_for, place(thread.file, thread.line).c_str());
        size_t g = 0;
        while (g < groups.size() && groups[g].first != state) ++g;
        if (g == groups.size()) groups.emplace_back(state, 0);
        ++groups[g].second;
    }
    std::string text;
    for (const auto& group : groups)
        text += format("%s%u %s", text.empty() ? "" : "; ", group.second, group.first.c_str());
    return text;
}

// No thread can run, yet some have not returned.
[[noreturn]] GATES_EMULATOR_COLD inline void stuck() {
    const Thread* waiting = nullptr;
    bool all_at_barrier = true;
    for (unsigned i = 0; i < block.count; ++i) {
        const Thread& thread = block.threads[i];
        if (thread.exited) continue;
        if (!waiting) waiting = &thread;
        all_at_barrier &= strncmp(thread.waits_for, "__syncthreads", 13) == 0;
    }
    fatal(cudaErrorLaunchFailure, all_at_barrier ? "barrier_divergence" : "deadlock", waiting->file, waiting->line,
          "the block can't go on: of %u threads %s%s", block.count, who_waits().c_str(),
          extension ? extension->what_is_awaited().c_str() : "");
}

inline Thread* pick_next() {
    for (unsigned tried = 0; tried <= block.warp_count; ++tried) {
        Warp& warp = block.warps[block.warp_order[block.warp_position]];
        if (warp.ready) {
            while (!(warp.ready >> warp.order[warp.next] & 1)) warp.next = (warp.next + 1) & 31;
            return &block.threads[block.warp_order[block.warp_position] * 32 + warp.order[warp.next]];
        }
        block.warp_position = block.warp_position + 1 == block.warp_count ? 0 : block.warp_position + 1;
    }
    return nullptr;
}

// Who runs next. Where nobody can, what is under way finishes first, as late as possible; null if that helps nobody.
inline Thread* next_thread() {
    for (;;) {
        Thread* next = pick_next();
        if (next || !extension || !extension->progress()) return next;
    }
}

inline void run_thread(Thread& next) {
    block.current = &next;
    threadIdx = next.index;
}

// Leave the current thread until it is ready again and its turn has come.
inline void reschedule() {
    Thread& self = *block.current;
    Thread* next = next_thread();
    if (!next) stuck();
    if (next == &self) return;
    run_thread(*next);
    switch_fiber(self.fiber, next->fiber);
}

inline void wait_in(const char* what, const char* file, int line) {
    Thread& self = *block.current;
    self.waits_for = what;
    self.file = file;
    self.line = line;
    block.warps[self.warp].ready &= ~(1u << self.lane);
}

inline void make_ready(unsigned warp, unsigned lanes) {
    block.warps[warp].ready |= lanes;
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        block.threads[warp * 32 + __builtin_ctz(rest)].waits_for = nullptr;
}

inline bool same_place(const char* file_a, int line_a, const char* file_b, int line_b) {
    return line_a == line_b && (file_a == file_b || strcmp(file_a, file_b) == 0);
}

// A barrier of the whole block; returns the sum of `predicate != 0` over its threads.
__attribute__((noinline)) inline int block_barrier(const char* what, int predicate, const char* file, int line) {
    if (block.at_barrier == 0) {
        block.barrier_file = file;
        block.barrier_line = line;
        block.barrier_sum = 0;
    } else if (!same_place(block.barrier_file, block.barrier_line, file, line)) {
        fatal(cudaErrorLaunchFailure, "barrier_divergence", file, line,
              "%s here while other threads of the block wait in theirs at %s:%d", what, block.barrier_file,
              block.barrier_line);
    }
    block.barrier_sum += predicate != 0;
    wait_in(what, file, line);
    if (++block.at_barrier == block.count) {
        block.at_barrier = 0;
        block.barrier_result = block.barrier_sum;
        permute(block.warp_order, block.warp_count);
        block.warp_position = 0;
        for (unsigned w = 0; w < block.warp_count; ++w) {
            reorder_lanes(block.warps[w]);
            make_ready(w, block.warps[w].lanes);
        }
    }
    reschedule();
    return block.barrier_result;
}

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
