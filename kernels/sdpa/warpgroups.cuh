// One warpgroup of a CTA brings tiles. The others own 64 query rows each.
#pragma once

#include "../cuda/shared_memory.cuh"

namespace sdpa {

static_assert(TILE_M > 0 || (TILE_N == 0 && STAGES == 0), "TILE_N and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

constexpr int kWarpgroup = 128;               // threads, the unit of wgmma and of register budgets
constexpr int kAtomBytes = 8 * 128;           // 8 rows, after which the swizzle of 128 bytes repeats
constexpr int kMostSharedBytes = 227 * 1024;  // most shared memory per CTA of sm_90, bytes

template <int kTileM_, int kProducerRegisters_>
struct Warpgroups {
    static constexpr int kTileM = kTileM_;
    static constexpr int kConsumers = kTileM / 64;
    static constexpr int kConsumerWarps = 4 * kConsumers;
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

    static_assert(kTileM % 64 == 0 && kConsumers >= 1 && kConsumers <= 3, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups");

    // A thread's registers, which are given out in eights: at the launch as many for all as an SM's 65,536 allow; then consumers
    // share what the producer gives back.
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static constexpr int kProducerRegisters = kProducerRegisters_;
    static constexpr int kShare = (kLaunchRegisters * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
    static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;
};

// The CTA's tiles, from the first multiple of 1024 on: dynamic shared memory may start at an unaligned address.
template <typename T>
__device__ __forceinline__ typename T::Shared& aligned(unsigned char* shared_bytes) {
    return *reinterpret_cast<typename T::Shared*>(shared_bytes + (0u - shared_memory::address(shared_bytes)) % kAtomBytes);
}

}  // namespace sdpa
