// Shared memory as the asynchronous engines see it: 32-bit addresses, and stores made visible to them.
#pragma once

#include <cuda_runtime.h>

namespace shared_memory {

// `pointer` lies in the CTA's shared memory.
__device__ __forceinline__ unsigned address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// What this thread stored to shared memory so far, barriers' first states among it, is seen by copies and wgmma that
// are issued after it (by other threads: after a barrier).
__device__ __forceinline__ void fence_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace shared_memory
