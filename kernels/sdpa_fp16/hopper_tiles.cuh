// fp16_v10_hopper: who owns which rows and keys, and the shared-memory plan.
#pragma once

#include "../common/mbarrier.cuh"
#include "config.cuh"

namespace sdpa {

static_assert(TILE_M == 64 || TILE_M == 128 || TILE_M == 192, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups");
static_assert(TILE_N == 64 || TILE_N == 96 || TILE_N == 128, "TILE_N is 64, 96 or 128: scores of more keys don't fit into a thread's registers");
static_assert(STAGES >= 1 && STAGES <= 8, "STAGES is 1 to 8");

constexpr int kWarpgroup = 128;      // threads, the unit of wgmma and of register budgets
constexpr int kHalfRow = 64;         // halves of a row of shared memory: 128 bytes, the width of the swizzle
constexpr int kAtomBytes = 8 * 128;  // 8 rows, after which the swizzle repeats

// A matrix of D columns lies in shared memory as D / 64 panels of 64 columns, one after the other.
template <int kDim_>
struct HopperTiling {
    static constexpr int kDim = kDim_;
    static constexpr int kPanels = kDim / kHalfRow;
    static constexpr int kTileM = TILE_M;
    static constexpr int kTileN = TILE_N * 64 / kDim;  // as many bytes for each D; O takes the registers that scores leave
    static constexpr int kStages = STAGES;
    static constexpr int kConsumers = kTileM / 64;  // warpgroups
    static constexpr int kConsumerWarps = 4 * kConsumers;
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

    // Of 65,536: what the producer gives back goes to the consumers. Registers are given out in eights.
    static constexpr int kProducerRegisters = 24;
    static constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : 240;
    static_assert(kWarpgroup * (kProducerRegisters + kConsumers * kConsumerRegisters) <= 65536, "an SM has 65,536 registers");

    static constexpr int kQueryPanelBytes = kTileM * 128, kKeyPanelBytes = kTileN * 128;
    static constexpr int kQueryBytes = kPanels * kQueryPanelBytes, kTileBytes = kPanels * kKeyPanelBytes;
    static_assert(kKeyPanelBytes % kAtomBytes == 0, "panels are whole atoms of the swizzle");

    struct Shared {
        alignas(1024) unsigned char q[kQueryBytes];
        alignas(1024) unsigned char k[kStages][kTileBytes];
        alignas(1024) unsigned char v[kStages][kTileBytes];
        mbarrier::Barrier q_full;
        mbarrier::Barrier k_full[kStages], k_empty[kStages];  // empty: all consumer warps have read it
        mbarrier::Barrier v_full[kStages], v_empty[kStages];
    };
    // Dynamic shared memory may start between two multiples of 1024.
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kSharedBytes <= 227 * 1024, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// The stage of a tile, and the parity of its barriers' phase.
template <typename T>
struct Slot {
    int stage;
    unsigned parity;

    __device__ __forceinline__ explicit Slot(int tile) : stage(tile % T::kStages), parity(tile / T::kStages % 2) {}
};

}  // namespace sdpa
