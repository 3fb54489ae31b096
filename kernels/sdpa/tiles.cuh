// Attention in registers (rows.cuh): which warp has which rows and keys, the layout of shared memory, and the swizzle.
#pragma once

#include "config.cuh"

#ifndef USE_SWIZZLE  // 0: no swizzle; ldmatrix, which reads 8 rows, has bank conflicts
#define USE_SWIZZLE 1
#endif
#ifndef STRIPS  // of 16 query rows, per warp
#define STRIPS 0
#endif

namespace sdpa {

static_assert(USE_SWIZZLE == 0 || USE_SWIZZLE == 1, "USE_SWIZZLE is 0 or 1");

constexpr int kMostSharedBytes = 227 * 1024;  // per CTA, on sm_90

// A CTA's warps form a grid: kWarpsM of them take different query rows, kStrips strips of 16 each, and kWarpsN different
// keys, kWarpKeys of each tile. A warp keeps its scores, m, l and O in registers. If kWarpsN > 1, they are combined at the
// end. With two strips per warp it reads half as much of K and V for each product.
//
// kAhead tiles are on their way at once. If warps wait for each other, the default is one less than kStages: the tile in use
// is then refilled after the barrier of the next one, which spares a barrier.
template <typename Element_, int kDim_, int kStrips_, int kWarpsM_, int kWarpsN_, int kWarpKeys_, int kStages_,
          int kAhead_ = kWarpsM_ == 1 || kStages_ == 1 ? kStages_ : kStages_ - 1>
struct Tiling {
    using Element = Element_;
    using Product = std::conditional_t<sizeof(Element) == 1, __half, Element>;  // what tensor cores multiply
    static constexpr int kDim = kDim_, kStrips = kStrips_, kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kWarpKeys = kWarpKeys_, kStages = kStages_, kAhead = kAhead_;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kTileM = kStrips * kWarpsM * 16;
    static constexpr int kTileN = kWarpsN * kWarpKeys;
    static constexpr int kChunk = 16 / sizeof(Element);  // elements of an asynchronous copy: 16 bytes
    static constexpr int kRowChunks = kDim / kChunk;
    // The kWarpsM warps that have the same keys copy them together, and wait for each other. One warp alone needs no barrier.
    static constexpr bool kAlone = kWarpsM == 1;
    static constexpr bool kRefillAtOnce = kAhead == kStages;  // as soon as a tile is read to its end
    // With one stage, K comes in two parts, so that the first product can begin before all of K is there.
    static constexpr int kKeyParts = kStages == 1 ? 2 : 1, kPartKeys = kWarpKeys / kKeyParts;
    static constexpr int kGroups = kKeyParts + 1;  // of asynchronous copies for a tile: K's parts, and V

    static_assert(kDim == 64 || kDim == 128, "D is 64 or 128");
    static_assert(kStrips == 1 || kStrips == 2, "STRIPS is 1 or 2: O of more strips does not fit into a thread's registers");
    static_assert(kStages >= 1 && kStages <= 8, "STAGES is 1 to 8");
    static_assert(kPartKeys > 0 && kPartKeys % 16 == 0, "ldmatrix x4 and the second product take 16 keys at a time");
    static_assert(kWarpsN == 1 || (kWarpsN % 2 == 0 && kDim / 8 % kWarpsN == 0), "each warp combines the same number of blocks of O");
    static_assert(kThreads <= 512, "at most 512 threads: with more, each has less than 128 registers");
    static_assert(kAhead >= 1 && kAhead >= kStages - 1 && kAhead <= kStages, "kAhead is kStages, or one less");

    // In elements: Q if it comes through shared memory, then all stages of K, then of V. At the end the parts of O take
    // their place, then m and l. If Q, K and V take more than 99 KiB, the parts have a place of their own, which
    // spares a barrier. Q of 1-byte elements goes straight to registers: a lane needs 16 bytes of a row.
    static constexpr int kQueryElements = sizeof(Element) == 1 ? 0 : kTileM * kDim, kTileElements = kTileN * kDim;
    static constexpr int kCopyBytes = sizeof(Element) * (kQueryElements + 2 * kStages * kTileElements);
    static constexpr int kPartStart = kCopyBytes > kSmallSharedBytes ? kCopyBytes : 0;
    static constexpr int kStateStart = kPartStart + (kWarpsN > 1 ? 4 * kWarpsN * kTileM * kDim : 0);
    static constexpr int kStateEnd = kStateStart + (kWarpsN > 1 ? 2 * 4 * kWarpsN * kTileM : 0);
    static constexpr int kSharedBytes = kCopyBytes > kStateEnd ? kCopyBytes : kStateEnd;
};

// The tiling for TILE_M query rows, TILE_N keys and NUM_WARPS warps, STRIPS strips each; kAhead may be left out.
template <typename Element, int kDim, int kTileM, int kTileN, int kWarps, int kStages, int... kAhead>
struct ToggledTiling {
    static constexpr int kRows = 16 * (STRIPS > 0 ? STRIPS : 1);  // of a warp
    static constexpr int kWarpsM = kTileM < kRows ? 1 : kTileM / kRows;
    static constexpr int kWarpsN = kWarps < kWarpsM ? 1 : kWarps / kWarpsM;
    static_assert(kTileM == kRows * kWarpsM, "TILE_M is STRIPS strips of 16 rows for each row of warps");
    static_assert(kWarps == kWarpsM * kWarpsN, "NUM_WARPS is a multiple of TILE_M / (16 STRIPS)");
    static_assert(kTileN > 0 && kTileN % (16 * kWarpsN) == 0, "TILE_N gives each of the warps that share a row a multiple of 16 keys");
    using type = Tiling<Element, kDim, STRIPS, kWarpsM, kWarpsN, kTileN / kWarpsN, kStages, kAhead...>;
};

// Where chunk `chunk` of row `row` lies in a tile of rows, in elements. 8 rows that ldmatrix reads at once, the same chunk
// of each, lie in the same banks where a row has 128 bytes or 256, and in half of them where it has 64; so each 128 bytes
// have their chunks in another order.
template <typename T>
__device__ __forceinline__ int chunk_place(int row, int chunk) {
    constexpr int kLineRows = T::kRowChunks < 8 ? 8 / T::kRowChunks : 1;  // rows of 128 bytes: all banks
    constexpr int kOrders = 8 / kLineRows;
    return row * T::kDim + (USE_SWIZZLE == 1 ? chunk ^ (row / kLineRows % kOrders) : chunk) * T::kChunk;
}

}  // namespace sdpa
