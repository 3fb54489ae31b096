// Q·K^T by FMA: a warp's rows of raw scores.
#pragma once

#include "load.cuh"

namespace sdpa {

// A lane takes the keys lane, lane + 32, … against 4 of the warp's rows at a time; q is the same for all lanes.
template <typename T>
__device__ __forceinline__ void scalar_scores(const float* q, const __half* k, float* scores) {
    constexpr int kRows = 4, kKeys = T::kTileN / 32;
    const int lane = threadIdx.x % 32, first_row = T::first_row();
#pragma unroll 1
    for (int group = first_row; group < first_row + T::kWarpRows; group += kRows) {
        float sums[kRows][kKeys] = {};
#pragma unroll 1
        for (int column = 0; column < T::kDim; column += kChunk) {
            float keys[kKeys][8];
#pragma unroll
            for (int i = 0; i < kKeys; ++i) {
                unpack(*reinterpret_cast<const uint4*>(k + (lane + 32 * i) * T::kHalfLd + column), keys[i]);
            }
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
                const float4* const quads = reinterpret_cast<const float4*>(q + (group + row) * T::kQueryLd + column);
                const float4 low = quads[0], high = quads[1];
                const float query[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                for (int i = 0; i < kKeys; ++i) {
#pragma unroll
                    for (int d = 0; d < 8; ++d) sums[row][i] = fmaf(query[d], keys[i][d], sums[row][i]);
                }
            }
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
#pragma unroll
            for (int i = 0; i < kKeys; ++i) scores[(group + row) * T::kScoreLd + lane + 32 * i] = sums[row][i];
        }
    }
}

}  // namespace sdpa
