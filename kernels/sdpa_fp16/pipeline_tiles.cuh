// fp16_v9_pipeline: who owns which rows and keys, the shared-memory plan, and the swizzle.
#pragma once

#include "config.cuh"

#ifndef USE_SWIZZLE  // 0: rows one after the other, and 8-way bank conflicts
#define USE_SWIZZLE 1
#endif
#ifndef STRIPS  // of 16 query rows that a warp owns
#define STRIPS 0
#endif

namespace sdpa {

static_assert(USE_SWIZZLE == 0 || USE_SWIZZLE == 1, "USE_SWIZZLE is 0 or 1");
static_assert(USE_WMMA <= 1, "USE_WMMA is 0 or 1 here: both products are on tensor cores, or none");

constexpr int kSmallSharedBytes = 99 * 1024;  // that sm_86 and sm_89 give a CTA

// A CTA's warps form a grid: kWarpsM of them take different query rows, kStrips strips of 16 each, and kWarpsN different
// keys, kWarpKeys of each tile. A warp keeps its scores, m, l and O in registers; where kWarpsN > 1 they are put together
// at the end. Two strips a warp halve what it reads of K and V for each product.
template <int kDim_, int kStrips_, int kWarpsM_, int kWarpsN_, int kWarpKeys_, int kStages_, int kKeyParts_ = kStages_ == 1 ? 2 : 1>
struct Tiling {
    static constexpr int kDim = kDim_, kStrips = kStrips_, kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kWarpKeys = kWarpKeys_, kStages = kStages_;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kTileM = kStrips * kWarpsM * 16;
    static constexpr int kTileN = kWarpsN * kWarpKeys;
    static constexpr int kRowChunks = kDim / kChunk;
    // The kWarpsM warps that have the same keys copy them together, and wait for each other; a warp alone waits for nobody.
    static constexpr bool kAlone = kWarpsM == 1;
    // Tiles on their way. Where warps wait for each other, the tile in use is refilled after the barrier of the next one,
    // which spares a barrier; but one stage is refilled as soon as it is free.
    static constexpr bool kRefillAtOnce = kAlone || kStages == 1;
    static constexpr int kAhead = kRefillAtOnce ? kStages : kStages - 1;
    // K of a tile comes in parts, so that the first product can begin before all of it is there.
    static constexpr int kKeyParts = kKeyParts_, kPartKeys = kWarpKeys / kKeyParts;
    static constexpr int kGroups = kKeyParts + 1;  // of asynchronous copies for a tile: K's parts, and V

    static_assert(kDim == 64 || kDim == 128, "D is 64 or 128");
    static_assert(kStrips == 1 || kStrips == 2, "STRIPS is 1 or 2: O of more strips does not fit into a thread's registers");
    static_assert(kStages >= 1 && kStages <= 8, "STAGES is 1 to 8");
    static_assert(kPartKeys % 16 == 0, "ldmatrix x4 and the second product take 16 keys at a time");
    static_assert(kWarpsN == 1 || (kWarpsN % 2 == 0 && kDim / 8 % kWarpsN == 0), "each warp puts the same number of blocks of O together");
    static_assert(kThreads <= 512, "more threads would have less than 128 registers each");

    // Halves: Q, then all stages of K, then of V. The parts of O take their place at the end or, where a tile's K and V fill
    // the room anyway, one of their own, which spares a barrier. m and l follow.
    static constexpr int kQueryHalves = kTileM * kDim, kTileHalves = kTileN * kDim;
    static constexpr int kCopyBytes = 2 * (kQueryHalves + 2 * kStages * kTileHalves);
    static constexpr int kPartBytes = kWarpsN > 1 ? 4 * kWarpsN * kTileM * kDim : 0;
    static constexpr int kPartStart = kCopyBytes > kSmallSharedBytes ? kCopyBytes : 0;
    static constexpr int kPartEnd = kPartStart + kPartBytes;
    static constexpr int kStateStart = kCopyBytes > kPartEnd ? kCopyBytes : kPartEnd;
    static constexpr int kSharedBytes = kStateStart + (kWarpsN > 1 ? 2 * 4 * kWarpsN * kTileM : 0);
};

constexpr int kMostPipelineBytes = 227 * 1024;  // of shared memory that sm_90 gives a CTA

// Where chunk `chunk` of row `row` lies in a tile of rows of D halves, in halves. 8 rows that ldmatrix reads at once, the
// same chunk of each, lie 128 or 256 bytes apart, in the same banks; so each row has its chunks in another order.
template <int kDim>
__device__ __forceinline__ int chunk_place(int row, int chunk) {
    return row * kDim + (USE_SWIZZLE == 1 ? chunk ^ (row % 8) : chunk) * kChunk;
}

}  // namespace sdpa
