// Who owns which rows of a CTA's tile.
#pragma once

#include "problem.cuh"

namespace sdpa {

constexpr int kMostSharedBytes = 99 * 1024;  // that sm_89 gives a CTA

// A warp owns whole query rows, in strips of 16: scores, P and O of a row never leave it.
template <int kDim_, int kTileM_, int kTileN_, int kWarps_>
struct WarpStrips {
    static constexpr int kDim = kDim_, kTileM = kTileM_, kTileN = kTileN_;
    static constexpr int kThreads = 32 * kWarps_;
    static constexpr int kFragment = 16;  // edge of a WMMA fragment: m16n16k16
    static constexpr int kWarpRows = kTileM / kWarps_;
    static constexpr int kStrips = kWarpRows / kFragment;

    static_assert(kWarps_ >= 1 && kWarps_ <= 16, "a CTA has 32 to 512 threads: more leave a thread less than 128 registers");
    static_assert(kTileM > 0 && kTileM % kWarps_ == 0 && kWarpRows % kFragment == 0, "a warp owns strips of 16 query rows, the height of a fragment");
    static_assert(kTileN > 0 && kTileN % 32 == 0, "scalar products give each lane the same number of keys; fragments of 16 follow");

    // The first row of this thread's warp.
    static __device__ __forceinline__ int first_row() { return threadIdx.x / 32 * kWarpRows; }
};

}  // namespace sdpa
