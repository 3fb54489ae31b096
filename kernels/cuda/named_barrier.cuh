// Named barriers of a CTA as functions. PTX ISA, "barrier". A CTA has 16; __syncthreads is number 0.
//
// A barrier opens once `threads` threads, a multiple of 32, have come to it by either function, and is then as new. What threads
// did before it is seen by those that waited.
#pragma once

namespace named_barrier {

// Comes to the barrier and waits. Whole warps.
__device__ __forceinline__ void sync(int barrier, int threads) { asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// Comes to the barrier without a wait. Whole warps.
__device__ __forceinline__ void arrive(int barrier, int threads) { asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

}  // namespace named_barrier
