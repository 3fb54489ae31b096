// A launch: whether the device would refuse it, its blocks one after the other, its record.
#include <sched.h>

#include <atomic>

#include "gates_emulator/launch.h"

namespace gates_emulator {

bool probing = false;
KernelEntry* probed = nullptr;
std::atomic_flag busy = ATOMIC_FLAG_INIT;

// Why the device would refuse this launch, and with which error; an empty text if it would not.
GATES_EMULATOR_COLD std::pair<cudaError_t, std::string> refusal(const KernelEntry& entry, const Config& config) {
    const dim3 grid = config.grid, block_size = config.block;
    const uint64_t threads = static_cast<uint64_t>(block_size.x) * block_size.y * block_size.z;
    if (!grid.x || !grid.y || !grid.z) return {cudaErrorInvalidConfiguration, format("grid %s has no blocks", triple(grid).c_str())};
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
        return {cudaErrorInvalidConfiguration, format("grid %s exceeds the limit [2147483647,65535,65535]", triple(grid).c_str())};
    if (!threads) return {cudaErrorInvalidConfiguration, format("block %s has no threads", triple(block_size).c_str())};
    if (threads > kMaxThreads || block_size.z > 64)
        return {cudaErrorInvalidConfiguration, format("block %s has %llu threads, the limit is 1024 (z: 64)", triple(block_size).c_str(),
                       static_cast<unsigned long long>(threads))};
    if (entry.max_threads && threads > entry.max_threads)
        return {cudaErrorInvalidValue, format("block %s has %llu threads, __launch_bounds__ promised at most %u",
                                               triple(block_size).c_str(), static_cast<unsigned long long>(threads), entry.max_threads)};
    const std::string excess = shared_excess(0, config.shared_bytes, entry.opt_in_bytes);
    if (!excess.empty()) return {cudaErrorInvalidValue, excess};
    return {cudaSuccess, ""};
}

// The life of a thread: the kernel once, then never again.
void thread_main() {
    arrived(fibers[block.current->linear]);
    block.body(block.body_argument);
    Thread& self = *block.current;
    Warp& warp = block.warps[self.warp];
    if (!copies[self.linear].empty()) report_open_copies(self);
    if (extension) extension->end_thread(self);
    self.exited = true;
    --block.live;
    warp.exited |= 1u << self.lane;
    warp.ready &= ~(1u << self.lane);
    if (warp.meetings) release_meetings(warp);
    Thread* next = block.live ? next_thread() : nullptr;
    if (!next && block.live) stuck();
    if (next) {
        run_thread(*next);
        switch_fiber(fibers[self.linear], fibers[next->linear]);
    } else {
        switch_fiber(fibers[self.linear], host);
    }
    __builtin_unreachable();
}

GATES_EMULATOR_COLD void give_stacks(unsigned count) {
    static unsigned have = 0;
    // A sanitized frame keeps red zones around each local variable, so it needs several times the room.
    const size_t bytes = sanitized() ? 512 * 1024 : 128 * 1024;
    const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (count <= have) return;
    char* base = map_stacks(count - have, bytes, guard);
    for (unsigned i = have; i < count; ++i) {
        fibers[i].bottom = base + (i - have) * (bytes + guard) + guard;
        fibers[i].bytes = bytes;
    }
    have = count;
}

GATES_EMULATOR_COLD void prepare_launch(const Config& config) {
    block.count = config.block.x * config.block.y * config.block.z;
    block.warp_count = (block.count + 31) / 32;
    give_stacks(block.count);
    block.random = settings.seed * 0x9E3779B97F4A7C15ULL + 0x2545F4914F6CDD1DULL;
    if (!block.random) block.random = 1;
    for (auto& lanes : block.lane_orders) permute(lanes, 32);
    for (unsigned i = 0; i < block.count; ++i) {
        Thread& thread = block.threads[i];
        thread.linear = i;
        thread.lane = i % 32;
        thread.warp = i / 32;
        thread.index = {i % config.block.x, i / config.block.x % config.block.y, i / (config.block.x * config.block.y)};
        copies[i].clear();
    }
    blockDim = config.block;
    gridDim = config.grid;
    host.bytes = 0;
}

void run_block() {
    poison_arena();
    block.live = block.count;
    block.at_barrier = 0;
    for (unsigned w = 0; w < block.warp_count; ++w) {
        Warp& warp = block.warps[w];
        const unsigned lanes = block.count - w * 32 >= 32 ? kAllLanes : (1u << block.count % 32) - 1;
        warp.lanes = warp.ready = lanes;
        warp.exited = ~lanes;
        warp.meetings = 0;
        warp.asking = 0;
        reorder_lanes(warp);
    }
    permute(block.warp_order, block.warp_count);
    block.warp_position = 0;
    if (extension) extension->begin_block();
    for (unsigned i = 0; i < block.count; ++i) {
        Thread& thread = block.threads[i];
        thread.exited = false;
        thread.waits_for = nullptr;
        thread.committed = 0;
        fibers[i].start(thread_main, i % 61 * 64);
    }
    Thread* first = pick_next();
    run_thread(*first);
    switch_fiber(host, fibers[first->linear]);
    if (extension && !block.aborted) extension->end_block();
    check_red_zones();
}

// Blocks have no order on a device: forward, backward, or from a random start with a stride that reaches all.
uint64_t nth_block(uint64_t i, uint64_t count, uint64_t start, uint64_t stride) {
    if (settings.order == kReversed) return count - 1 - i;
    return settings.order == kShuffled ? (start + i * stride) % count : i;
}

void run_grid(const Config& config) {
    const uint64_t count = static_cast<uint64_t>(config.grid.x) * config.grid.y * config.grid.z;
    const uint64_t start = next_random() % count;
    const uint64_t stride = count % 7919 ? 7919 : 1;  // a prime, so it reaches every block
    block.aborted = false;
    for (uint64_t i = 0; i < count && !block.aborted; ++i) {
        const uint64_t n = nth_block(i, count, start, stride);
        blockIdx = {static_cast<unsigned>(n % config.grid.x), static_cast<unsigned>(n / config.grid.x % config.grid.y),
                    static_cast<unsigned>(n / config.grid.x / config.grid.y)};
        run_block();
    }
}

void launch_grid(const char* expression, const char* file, int line, const Config& config, void (*body)(void*), void* argument) {
    while (busy.test_and_set()) sched_yield();  // one launch at a time; host threads queue
    if (report.read_back) {  // this configuration may follow from what no block has written
        ++report.launches_left_out;
        busy.clear();
        return;
    }
    probing = true;
    probed = nullptr;
    body(argument);
    probing = false;
    LaunchRecord record;
    record.kernel = probed ? probed->name : expression;
    record.function = probed ? probed->function : "";
    record.grid = config.grid;
    record.block = config.block;
    record.dynamic_bytes = config.shared_bytes;
    record.opt_in_bytes = probed ? probed->opt_in_bytes : 0;
    record.max_threads = probed ? probed->max_threads : 0;
    if (report.sticky_error != cudaSuccess) {
        record.error = "not run: an earlier launch failed";
    } else if (!probed) {
        record.error = "not a __global__ function";
        report.last_error = cudaErrorInvalidDeviceFunction;
    } else {
        auto refused = refusal(*probed, config);
        record.error = refused.second;
        report.last_error = refused.first != cudaSuccess ? refused.first : report.last_error;
    }
    if (record.error.empty() && settings.launches_only) {
        // nothing to run
    } else if (record.error.empty()) {
        block.kernel = probed->name;
        block.body = body;
        block.body_argument = argument;
        const size_t findings = report.findings.size();
        prepare_launch(config);
        open_arena(config.shared_bytes, probed->opt_in_bytes);
        run_grid(config);
        record.static_bytes = layout.static_bytes;
        block.live = 0;
        if (block.aborted)
            record.error = report.findings.size() > findings ? report.findings.back().message : "ended by an earlier finding";
    } else if (report.sticky_error == cudaSuccess) {
        keep_finding("invalid_launch", record.kernel, place(file, line), record.error);
    }
    report.launches.push_back(std::move(record));
    busy.clear();
}

}  // namespace gates_emulator
