// Tile sizes, who owns which part of a tile, and how tiles lie in shared memory.
#pragma once

#include "entry.cuh"

namespace sdpa {

constexpr int kBlockM = 32;            // query rows per CTA: with 32, B1 H8 S512 has 128 CTAs for 132 SMs
constexpr int kBlockN = 64;            // keys per tile
constexpr int kThreads = 128;          // per CTA
constexpr int kWarps = kThreads / 32;
constexpr int kFragment = 16;          // edge of a WMMA fragment: m16n16k16
constexpr int kChunkBytes = 16;        // one vector load or one asynchronous copy; 16 FP8 elements

// kWarpsN warps work on the same 16 query rows. In Q·K^T they split the keys, in P·V the columns of O.
constexpr int kWarpsM = kBlockM / kFragment;
constexpr int kWarpsN = kWarps / kWarpsM;
constexpr int kWarpKeys = kBlockN / kWarpsN;
constexpr int kWarpColumns = kHeadDim / kWarpsN;

static_assert(kThreads == 128 || kThreads == 256, "kThreads is 128 or 256: 32 x 64 scores are at most 8 fragments, one per warp");
static_assert(kBlockM % kFragment == 0 && kWarps % kWarpsM == 0, "each strip of 16 query rows has the same number of warps");
static_assert((kBlockN & (kBlockN - 1)) == 0 && kBlockN >= 32, "kBlockN is a power of two from 32 on: the softmax wraps columns with a mask");
static_assert(kWarpKeys >= kFragment && kWarpKeys % kFragment == 0, "kBlockN / kWarpsN is a multiple of 16 keys, the width of a fragment");
static_assert(kWarpColumns >= kFragment && kWarpColumns % kFragment == 0, "kHeadDim / kWarpsN is a multiple of 16 columns, the width of a fragment");
static_assert(kBlockN * kHeadDim % (kThreads * kChunkBytes) == 0, "every thread moves the same number of chunks of K and V");
static_assert(kBlockM * kHeadDim % (kThreads * 8) == 0, "every thread writes the same number of 16-byte chunks of O");

// The warp's part of the CTA's tile, and the thread's place in the scalar products. A warp is 4 x 8 lanes: lane_row r has
// the query rows row + r, + 4, + 8 and + 12, lane_group every eighth key. The lanes of one lane_row read the same rows of
// Q (a broadcast) and 8 neighbouring keys, whose padded rows start in different banks.
struct WarpPlace {
    int row;         // first of 16 query rows, in the tile
    int key;         // first of kWarpKeys keys
    int column;      // first of kWarpColumns columns of O
    int lane_row;    // 0 to 3
    int lane_group;  // 0 to 7
};

__device__ __forceinline__ WarpPlace warp_place() {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    return {warp / kWarpsN * kFragment, warp % kWarpsN * kWarpKeys, warp % kWarpsN * kWarpColumns, lane / 8, lane % 8};
}

// Leading dimensions, in elements, padded so that rows that a warp reads at once start in different banks.
// float: 68 words = 4 mod 32; half: 72 elements = 36 words = 4 mod 32, a multiple of 8 as WMMA requires.
template <typename Element>
constexpr int kTileLd = sizeof(Element) == 2 ? kHeadDim + 8 : kHeadDim + 4;
// Scores: 8 mod 32 words, so that 4 rows of 8 words (a WMMA store, or 4 x 8 lanes of the scalar code) fill the banks.
constexpr int kScoreColumns = kBlockN > kHeadDim ? kBlockN : kHeadDim;  // the buffer also takes O at the end
constexpr int kScoreLd = kScoreColumns + 8;

constexpr int kTileBytes = kBlockN * kHeadDim;  // FP8 bytes of one tile of K, or of V
constexpr int kTileChunks = kTileBytes / kChunkBytes / kThreads;                            // a thread's share of it
constexpr int kQueryChunks = (kBlockM * kHeadDim / kChunkBytes + kThreads - 1) / kThreads;  // of Q, at most

}  // namespace sdpa
