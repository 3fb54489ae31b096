// fp16_v10_hopper: who owns which rows and keys, the shared-memory plan, and which tiles for which shape.
#pragma once

#include "../cuda/launcher.cuh"
#include "../cuda/mbarrier.cuh"
#include "parts/problem.cuh"

namespace sdpa {

constexpr int kWarpgroup = 128;      // threads, the unit of wgmma and of register budgets
constexpr int kHalfRow = 64;         // halves of a row of shared memory: 128 bytes, the width of the swizzle
constexpr int kAtomBytes = 8 * 128;  // 8 rows, after which the swizzle repeats

// A matrix of D columns lies in shared memory as D / 64 panels of 64 columns, one after the other.
template <int kDim_, int kTileM_, int kTileN_, int kStages_>
struct HopperTiling {
    static constexpr int kDim = kDim_, kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kPanels = kDim / kHalfRow;
    static constexpr int kConsumers = kTileM / 64;  // warpgroups
    static constexpr int kConsumerWarps = 4 * kConsumers;
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

    static_assert(kTileM % 64 == 0 && kConsumers >= 1 && kConsumers <= 3, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups");
    static_assert(kTileN * kDim == 64 * 64 || kTileN * kDim == 96 * 64 || kTileN * kDim == 128 * 64,
                  "TILE_N is 64, 96 or 128: scores of more keys don't fit into a thread's registers");
    static_assert(kStages >= 3 && kStages <= 8, "STAGES is 3 to 8: a consumer waits for its next tile while it still has two");

    // A thread's registers, which are given out in eights: at the launch as many for all as an SM's 65,536 allow; then consumers
    // share what the producer gives back.
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static constexpr int kProducerRegisters = 24;
    static constexpr int kShare = (kLaunchRegisters * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
    static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;

    static constexpr int kQueryPanelBytes = kTileM * 128, kKeyPanelBytes = kTileN * 128;
    static constexpr int kQueryBytes = kPanels * kQueryPanelBytes, kTileBytes = kPanels * kKeyPanelBytes;
    static_assert(kKeyPanelBytes % kAtomBytes == 0, "panels are whole atoms of the swizzle");

    struct Shared {
        alignas(1024) unsigned char q[kQueryBytes];
        alignas(1024) unsigned char k[kStages][kTileBytes];
        alignas(1024) unsigned char v[kStages][kTileBytes];
        mbarrier::Barrier q_full;
        mbarrier::Barrier full[kStages], empty[kStages];  // K and V are there; all consumer warps have read them
    };
    // Dynamic shared memory may start between two multiples of 1024.
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kSharedBytes <= 227 * 1024, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

template <typename T>
using Slot = mbarrier::Slot<T::kStages>;

static_assert(TILE_M > 0 || (TILE_N == 0 && STAGES == 0), "TILE_N and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

// launch(HopperTiling) for this problem; what it returns. D = 128 has tiles of half as many keys: O takes the registers that
// scores leave.
template <int kDim, typename Launch>
int with_hopper_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        return launch(HopperTiling<kDim, TILE_M, TILE_N * 64 / kDim, STAGES>{});
    } else {
        // CTAs for every SM several times over: more rows for each tile of K and V that is read.
        const std::int64_t tall = heads * ((problem.queries + 191) / 192);
        if (tall >= 2 * launcher::device_attribute(cudaDevAttrMultiProcessorCount)) return launch(HopperTiling<kDim, 192, 128 * 64 / kDim, 3>{});
        return launch(HopperTiling<kDim, 128, 128 * 64 / kDim, 3>{});
    }
}

}  // namespace sdpa
