// mbarrier as functions: PTX on a device, the emulator's host version elsewhere.
//
// A barrier goes through phases 0, 1, 2, …; a phase ends when `count` arrivals have come and as many bytes as were
// expected have been copied. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". sm_90.
#pragma once

#include "shared_memory.cuh"

namespace mbarrier {

using Barrier = unsigned long long;  // in shared memory

// One thread; shared_memory::fence_async and a barrier of the CTA come before its first use.
__device__ __forceinline__ void init(Barrier* barrier, unsigned count) {
#ifdef GATES_EMULATOR
    gates_emulator::mbarrier_init(barrier, count);
#else
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_memory::address(barrier)), "r"(count) : "memory");
#endif
}

// One arrival; what this thread did before is seen by those who wait for the phase.
__device__ __forceinline__ void arrive(Barrier* barrier) {
#ifdef GATES_EMULATOR
    gates_emulator::mbarrier_arrive(barrier, 0);
#else
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_memory::address(barrier)) : "memory");
#endif
}

// One arrival, and the phase ends only after `bytes` more have been copied.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, unsigned bytes) {
#ifdef GATES_EMULATOR
    gates_emulator::mbarrier_arrive(barrier, bytes);
#else
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(shared_memory::address(barrier)),
                 "r"(bytes) : "memory");
#endif
}

// Waits until the phase of this parity has ended: the one under way or, at once, the one before it. Before phase 0 lies
// one of parity 1, which has ended.
__device__ __forceinline__ void wait(Barrier* barrier, unsigned parity) {
#ifdef GATES_EMULATOR
    gates_emulator::mbarrier_wait(barrier, parity);
#else
    const unsigned address = shared_memory::address(barrier);
    unsigned done;
    do {
        asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
                     : "=r"(done) : "r"(address), "r"(parity) : "memory");
    } while (done == 0);
#endif
}

}  // namespace mbarrier
