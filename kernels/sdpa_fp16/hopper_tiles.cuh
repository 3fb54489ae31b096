// fp16_v10_hopper: who owns which rows and keys, the shared-memory plan, and which tiles for which shape.
#pragma once

#include "../common/launcher.cuh"
#include "../common/mbarrier.cuh"
#include "config.cuh"

namespace sdpa {

constexpr int kWarpgroup = 128;      // threads, the unit of wgmma and of register budgets
constexpr int kHalfRow = 64;         // halves of a row of shared memory: 128 bytes, the width of the swizzle
constexpr int kAtomBytes = 8 * 128;  // 8 rows, after which the swizzle repeats

// A CTA's consumers are kKeyGroups groups of warpgroups. Each group has all kTileM query rows, 64 a warpgroup, and every
// kKeyGroups-th tile of kTileN keys; with two groups their O are put together at the end. A matrix of D columns lies in shared
// memory as D / 64 panels of 64 columns, one after the other.
template <int kDim_, int kTileM_, int kKeyGroups_, int kTileN_, int kStages_>
struct HopperTiling {
    static constexpr int kDim = kDim_, kTileM = kTileM_, kKeyGroups = kKeyGroups_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kPanels = kDim / kHalfRow;
    static constexpr int kRowGroups = kTileM / 64;
    static constexpr int kConsumers = kRowGroups * kKeyGroups;  // warpgroups
    static constexpr int kReaders = 4 * kRowGroups;             // warps that read a tile
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

    static_assert(kTileM % 64 == 0 && kConsumers >= 1 && kConsumers <= 4, "TILE_M is 64 rows for each of 1 to 4 consumer warpgroups");
    static_assert(kKeyGroups == 1 || kKeyGroups == 2, "KEY_GROUPS is 1 or 2");
    static_assert(kTileN % 32 == 0 && kTileN >= 32 && kTileN <= 128, "TILE_N is 32 to 128: scores of more keys don't fit into a thread's registers");
    // A group waits for its next tile while it still has two.
    static_assert(kStages > 2 * kKeyGroups && kStages <= 8, "STAGES is more than 2 for each of the KEY_GROUPS, and at most 8");

    // A thread's registers, which are given out in eights: at the launch as many for all as an SM's 65,536 allow; then consumers
    // share what the producer gives back.
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static constexpr int kProducerRegisters = 24;
    static constexpr int kShare = (kLaunchRegisters * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
    static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;

    static constexpr int kQueryPanelBytes = kTileM * 128, kKeyPanelBytes = kTileN * 128;
    static constexpr int kQueryBytes = kPanels * kQueryPanelBytes, kTileBytes = kPanels * kKeyPanelBytes;
    static_assert(kKeyPanelBytes % kAtomBytes == 0, "panels are whole atoms of the swizzle");

    // O, m and l of the second group, as its threads hold them: value i of thread t at i * kPartThreads + t.
    static constexpr int kPartThreads = kRowGroups * kWarpgroup;
    static constexpr int kPartValues = kKeyGroups == 2 ? kDim / 2 + 4 : 0;

    struct Shared {
        alignas(1024) unsigned char q[kQueryBytes];
        alignas(1024) unsigned char k[kStages][kTileBytes];
        alignas(1024) unsigned char v[kStages][kTileBytes];
        alignas(16) float part[kPartValues * kPartThreads + 4];
        mbarrier::Barrier q_full, part_full;
        mbarrier::Barrier full[kStages], empty[kStages];  // K and V are there; all warps that need them have read them
    };
    // Dynamic shared memory may start between two multiples of 1024.
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kSharedBytes <= 227 * 1024, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// Where in the ring a tile lies, and the parity of its barriers' phase; starts at tile 0.
template <typename T>
struct Slot {
    int stage = 0;
    unsigned parity = 0;

    template <int kTiles = 1>
    __device__ __forceinline__ void advance() {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
            stage = stage + 1 == T::kStages ? 0 : stage + 1;
            parity ^= stage == 0;
        }
    }
};

static_assert(TILE_M > 0 || (TILE_N == 0 && KEY_GROUPS == 0 && STAGES == 0),
              "TILE_N, KEY_GROUPS and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

// What the toggles say. D = 128 has one group, of tiles with the same number of bytes as all groups' together where D = 64.
template <int kDim, int kGroups = KEY_GROUPS == 2 ? 2 : 1>
using ToggledHopperTiling = HopperTiling<kDim, TILE_M, kDim == 64 ? KEY_GROUPS : 1, kDim == 64 ? TILE_N : TILE_N * kGroups / 2,
                                         kDim == 64 ? STAGES : STAGES / kGroups>;

// launch(HopperTiling) for this problem; what it returns.
template <int kDim, typename Launch>
int with_hopper_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        return launch(ToggledHopperTiling<kDim>{});
    } else if constexpr (kDim == 128) {
        return launch(HopperTiling<128, 128, 1, 64, 3>{});
    } else {
        // CTAs for every SM several times over: more rows for each tile of K and V that is read. Fewer: two groups of warps,
        // so that an SM's one CTA has twice as many to hide latency behind.
        const std::int64_t tall = heads * ((problem.queries + 191) / 192);
        if (tall >= 2 * launcher::device_attribute(cudaDevAttrMultiProcessorCount)) return launch(HopperTiling<64, 192, 1, 128, 3>{});
        return launch(HopperTiling<64, 128, 2, 64, 6>{});
    }
}

}  // namespace sdpa
