// Host versions of mbarrier and of the fence before asynchronous engines, for the wrapper functions of kernels.
//
// A barrier's 8 bytes of shared memory stay poison: its phase, arrivals and bytes are kept beside them. A wait gives way to
// other threads until the phase has ended, so a kernel that waits for the wrong one is stuck, and told what is missing.
// Transfers of the copy engine land as late as possible: when no thread can run. In shuffled order about half of them,
// chosen by the seed, land when they are issued, and the others in any order. Until then their destination is poison.
#pragma once
#pragma GCC system_header

#include <stdio.h>

#include <vector>

#include "../cuda_runtime.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

// Shared memory's addresses start with the arena, which is aligned to a page.
inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(static_cast<const char*>(pointer) - arena.memory);
}

struct Mbarrier {
    const void* place;
    unsigned count, missing;  // arrivals of a phase, and those still to come
    int64_t bytes;            // expected and not yet there
    unsigned phase;
    bool visible;             // to asynchronous engines
    const Thread* made_by;
};

struct Transfer {
    void (*land)(Transfer&);
    alignas(64) unsigned char map[128];
    char* destination;
    int at[3];
    unsigned bytes;
    const void* barrier;
    const char* file;
    int line;
};

struct PhaseWait {
    const void* barrier;
    unsigned parity;
    const Thread* thread;
};

// Of the block.
struct Asynchronous {
    std::vector<Mbarrier> barriers;
    std::vector<PhaseWait> waits;
    std::vector<Transfer> transfers;  // issued and not landed, oldest first
    const Extension* products = nullptr;  // of wgmma.h, where it is included
};

inline Asynchronous asynchronous;

inline Mbarrier* find_barrier(const void* place) {
    for (Mbarrier& barrier : asynchronous.barriers)
        if (barrier.place == place) return &barrier;
    return nullptr;
}

inline Mbarrier& barrier_at(const void* place, const char* what, const char* file, int line) {
    Mbarrier* barrier = find_barrier(place);
    if (!barrier) fatal(cudaErrorIllegalAddress, "bad_mbarrier", file, line, "%s: no barrier was initialised at this address", what);
    return *barrier;
}

inline bool has_ended(const Mbarrier& barrier, unsigned parity) { return (barrier.phase & 1) != parity; }

// The phase ends if all has come.
inline void settle(Mbarrier& barrier) {
    if (barrier.missing != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.missing = barrier.count;
    std::vector<PhaseWait>& waits = asynchronous.waits;
    for (size_t i = 0; i < waits.size();) {
        if (waits[i].barrier == barrier.place && has_ended(barrier, waits[i].parity)) {
            make_ready(waits[i].thread->warp, 1u << waits[i].thread->lane);
            waits[i] = waits.back();
            waits.pop_back();
        } else {
            ++i;
        }
    }
}

__attribute__((noinline)) inline void mbarrier_init(void* place, unsigned count, GATES_EMULATOR_SITE) {
    if (reinterpret_cast<size_t>(place) % 8)
        fatal(cudaErrorMisalignedAddress, "bad_mbarrier", file, line, "mbarrier.init: the barrier is not aligned to 8 bytes");
    if (!in_arena(place) || !in_one_region(place, 8))
        fatal(cudaErrorInvalidAddressSpace, "bad_mbarrier", file, line, "mbarrier.init at an address that is not in shared memory");
    if (count < 1 || count > (1u << 20) - 1)
        fatal(cudaErrorLaunchFailure, "bad_mbarrier", file, line, "mbarrier.init for %u arrivals: 1 to 1048575 are possible", count);
    if (find_barrier(place)) fatal(cudaErrorLaunchFailure, "bad_mbarrier", file, line, "mbarrier.init of a barrier that is in use");
    asynchronous.barriers.push_back({place, count, count, 0, 0, false, block.current});
}

inline void fence_async_shared() {
    for (Mbarrier& barrier : asynchronous.barriers)
        if (barrier.made_by == block.current) barrier.visible = true;
}

// One arrival that expects `bytes` more.
__attribute__((noinline)) inline void mbarrier_arrive(void* place, unsigned bytes, GATES_EMULATOR_SITE) {
    Mbarrier& barrier = barrier_at(place, "mbarrier.arrive", file, line);
    if (barrier.missing == 0)
        fatal(cudaErrorLaunchFailure, "bad_mbarrier", file, line, "mbarrier.arrive: all %u arrivals of phase %u have come already",
              barrier.count, barrier.phase);
    barrier.bytes += bytes;
    --barrier.missing;
    settle(barrier);
}

__attribute__((noinline)) inline void mbarrier_wait(void* place, unsigned parity, GATES_EMULATOR_SITE) {
    const Mbarrier& barrier = barrier_at(place, "mbarrier.try_wait", file, line);
    if (parity > 1) fatal(cudaErrorLaunchFailure, "bad_mbarrier", file, line, "mbarrier.try_wait: parity %u is neither 0 nor 1", parity);
    if (has_ended(barrier, parity)) return;
    asynchronous.waits.push_back({place, parity, block.current});
    wait_in("mbarrier.try_wait", file, line);
    reschedule();
}

inline void land(size_t index) {
    Transfer transfer = asynchronous.transfers[index];
    asynchronous.transfers.erase(asynchronous.transfers.begin() + static_cast<long>(index));
    transfer.land(transfer);
    Mbarrier& barrier = *find_barrier(transfer.barrier);
    barrier.bytes -= transfer.bytes;
    settle(barrier);
}

// An index below `count`: the first, the last or any, by the order.
inline size_t any_of(size_t count) {
    return settings.order == kForward ? 0 : settings.order == kReversed ? count - 1 : (next_random() >> 33) % count;
}

inline bool land_one() {
    if (asynchronous.transfers.empty()) return false;
    land(any_of(asynchronous.transfers.size()));
    return true;
}

// A copy lands or a product that is waited for is done. Copies first: they overwrite what products have yet to read.
inline bool progress_asynchronous() {
    const auto multiply_one = [] { return asynchronous.products && asynchronous.products->progress(); };
    return any_of(2) == 0 ? land_one() || multiply_one() : multiply_one() || land_one();
}

inline void issue_transfer(const Transfer& transfer) {
    fill_poison(transfer.destination, transfer.bytes);
    asynchronous.transfers.push_back(transfer);
    if (settings.order == kShuffled && next_random() >> 63) land(asynchronous.transfers.size() - 1);
}

inline void begin_asynchronous() {
    asynchronous.barriers.clear();
    asynchronous.waits.clear();
    asynchronous.transfers.clear();
    if (asynchronous.products) asynchronous.products->begin_block();
}

GATES_EMULATOR_COLD inline void end_asynchronous() {
    if (!asynchronous.transfers.empty()) {
        const Transfer& transfer = asynchronous.transfers.front();
        add_finding("copy_never_waited_for", transfer.file, transfer.line, "all threads of a block returned with this copy under way");
    }
    if (asynchronous.products) asynchronous.products->end_block();
}

inline void end_asynchronous_thread(Thread& thread) {
    if (asynchronous.products) asynchronous.products->end_thread(thread);
}

// "; the barrier at shared address 0x400 is in phase 2, 1 of 2 arrivals and 512 bytes are missing"
GATES_EMULATOR_COLD inline void awaited_phases(char* text, size_t bytes) {
    for (const Mbarrier& barrier : asynchronous.barriers) {
        bool awaited = false;
        for (const PhaseWait& wait : asynchronous.waits) awaited |= wait.barrier == barrier.place;
        if (!awaited) continue;
        const size_t used = strlen(text);
        snprintf(text + used, bytes - used, "; the barrier at shared address 0x%x is in phase %u, %u of %u arrivals and %lld bytes are missing",
                 shared_address(barrier.place), barrier.phase, barrier.missing, barrier.count, static_cast<long long>(barrier.bytes));
    }
}

constexpr Extension kAsynchronous = {begin_asynchronous, end_asynchronous, end_asynchronous_thread, progress_asynchronous, awaited_phases};
inline const bool asynchronous_added = extend(kAsynchronous);

}  // namespace gates_emulator
#pragma GCC visibility pop
