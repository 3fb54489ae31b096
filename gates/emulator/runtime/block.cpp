// Who runs next, barriers, and what happens when no thread can run.
#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace gates_emulator {

Block block;
Fiber fibers[kMaxThreads], host;  // of the block's threads by Thread::linear, and of who launched
const Extension* extension = nullptr;

bool extend(const Extension& added) {
    extension = &added;
    return true;
}

uint64_t next_random() {  // xorshift64*
    block.random ^= block.random >> 12;
    block.random ^= block.random << 25;
    block.random ^= block.random >> 27;
    return block.random * 0x2545F4914F6CDD1DULL;
}

void permute(uint8_t* items, unsigned count) {
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
[[noreturn]] void abandon() {
    block.aborted = true;
    switch_fiber(fibers[block.current->linear], host);
    __builtin_unreachable();
}

void fatal(cudaError_t error, const char* kind, const char* file, int line, const char* pattern, ...) {
    char message[4096];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message, sizeof message, pattern, arguments);
    va_end(arguments);
    add_finding(kind, file, line, "%s, block (%u,%u,%u) thread (%u,%u,%u)", message, blockIdx.x, blockIdx.y, blockIdx.z,
                threadIdx.x, threadIdx.y, threadIdx.z);
    report.sticky_error = error;
    abandon();
}

// "96 wait in __syncthreads at k.cu:12; 32 have returned"
GATES_EMULATOR_COLD std::string who_waits() {
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
[[noreturn]] GATES_EMULATOR_COLD void stuck() {
    const Thread* waiting = nullptr;
    bool all_at_barrier = true;
    for (unsigned i = 0; i < block.count; ++i) {
        const Thread& thread = block.threads[i];
        if (thread.exited) continue;
        if (!waiting) waiting = &thread;
        all_at_barrier &= strncmp(thread.waits_for, "__syncthreads", 13) == 0;
    }
    char awaited[1024] = "";
    if (extension) extension->what_is_awaited(awaited, sizeof awaited);
    fatal(cudaErrorLaunchFailure, all_at_barrier ? "barrier_divergence" : "deadlock", waiting->file, waiting->line,
          "the block can't go on: of %u threads %s%s", block.count, who_waits().c_str(), awaited);
}

// No lane of the warp can run but for those in __activemask: those at one call run it together.
GATES_EMULATOR_COLD void answer_active(unsigned index) {
    Warp& warp = block.warps[index];
    const Thread* lanes = block.threads + index * 32;
    const Thread& first = lanes[__builtin_ctz(warp.asking)];
    unsigned together = 0;
    for (unsigned rest = warp.asking; rest; rest &= rest - 1) {
        const Thread& other = lanes[__builtin_ctz(rest)];
        if (same_place(first.file, first.line, other.file, other.line)) together |= rest & -rest;
    }
    for (unsigned rest = together; rest; rest &= rest - 1) warp.result[__builtin_ctz(rest)] = together;
    warp.asking &= ~together;
    reorder_lanes(warp);
    make_ready(index, together);
}

inline Thread* pick_next() {
    for (unsigned tried = 0; tried <= block.warp_count; ++tried) {
        Warp& warp = block.warps[block.warp_order[block.warp_position]];
        if (!warp.ready && warp.asking) answer_active(block.warp_order[block.warp_position]);
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

// reschedule(), always in line: after a switch of stacks the processor predicts no return right, so each one less counts.
__attribute__((always_inline)) inline void give_way() {
    Thread& self = *block.current;
    Thread* next = next_thread();
    if (!next) stuck();
    if (next == &self) return;
    run_thread(*next);
    switch_fiber(fibers[self.linear], fibers[next->linear]);
}

void reschedule() { give_way(); }

void wait_in(const char* what, const char* file, int line) {
    Thread& self = *block.current;
    self.waits_for = what;
    self.file = file;
    self.line = line;
    block.warps[self.warp].ready &= ~(1u << self.lane);
}

void make_ready(unsigned warp, unsigned lanes) {
    block.warps[warp].ready |= lanes;
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        block.threads[warp * 32 + __builtin_ctz(rest)].waits_for = nullptr;
}

int block_barrier(const char* what, int predicate, const char* file, int line) {
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
    give_way();
    return block.barrier_result;
}

}  // namespace gates_emulator
