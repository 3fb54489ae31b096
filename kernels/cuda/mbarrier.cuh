// mbarrier as functions.
//
// A barrier goes through phases 0, 1, 2, …; a phase ends when `count` arrivals have come and as many bytes as were
// expected have been copied. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". sm_90.
#pragma once

#include "shared_memory.cuh"

namespace mbarrier {

using Barrier = unsigned long long;  // in shared memory

// One thread; shared_memory::fence_async and a barrier of the CTA come before its first use.
__device__ __forceinline__ void init(Barrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_memory::address(barrier)), "r"(count) : "memory");
}

// One arrival; what this thread did before is seen by those who wait for the phase.
__device__ __forceinline__ void arrive(Barrier* barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_memory::address(barrier)) : "memory");
}

// One arrival of a warp, which has read or written what the barrier guards.
__device__ __forceinline__ void arrive_as_warp(Barrier* barrier) {
    if (threadIdx.x % 32 == 0) arrive(barrier);
}

// One arrival at the same barrier of CTA `rank` of the cluster. It says that reads are over and orders no stores: a release to the
// cluster would wait until all stores of the thread are in global memory.
__device__ __forceinline__ void arrive_at(Barrier* barrier, unsigned rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_memory::address(barrier)), "r"(rank)
                 : "memory");
}

// One arrival, and the phase ends only after `bytes` more have been copied.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, unsigned bytes) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(shared_memory::address(barrier)),
                 "r"(bytes) : "memory");
}

// Waits until the phase of this parity has ended: the one under way or, at once, the one before it. Before phase 0 lies
// one of parity 1, which has ended.
__device__ __forceinline__ void wait(Barrier* barrier, unsigned parity) {
    const unsigned address = shared_memory::address(barrier);
    unsigned done;
    do {
        asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
                     : "=r"(done) : "r"(address), "r"(parity) : "memory");
    } while (done == 0);
}

// Whether `wait` would not wait.
__device__ __forceinline__ bool is_over(Barrier* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
                 : "=r"(done) : "r"(shared_memory::address(barrier)), "r"(parity) : "memory");
    return done != 0;
}

// Where in a ring of stages a tile lies, and the parity of its barriers' phase; starts at tile 0.
template <int kStages>
struct Slot {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        stage = stage + 1 == kStages ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

}  // namespace mbarrier
