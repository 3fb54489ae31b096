// Phase Q·K^T: a warp's rows of raw scores, from the tiles of Q and K to the tile of scores.
#pragma once

#include <mma.h>

#include "load.cuh"

namespace sdpa {

// Scalar: a lane takes the keys lane, lane + 32, … against 4 of the warp's rows at a time; q is the same for all lanes.
template <int kDim>
__device__ __forceinline__ void scalar_scores(const float* q, const __half* k, float* scores) {
    using Tile = Tiles<kDim>;
    constexpr int kRows = 4, kKeys = TILE_N / 32;
    const int lane = threadIdx.x % 32, first_row = threadIdx.x / 32 * kWarpRows;
#pragma unroll 1
    for (int group = first_row; group < first_row + kWarpRows; group += kRows) {
        float sums[kRows][kKeys] = {};
#pragma unroll 1
        for (int column = 0; column < kDim; column += kChunk) {
            float keys[kKeys][8];
#pragma unroll
            for (int i = 0; i < kKeys; ++i) {
                unpack(*reinterpret_cast<const uint4*>(k + (lane + 32 * i) * Tile::kHalfLd + column), keys[i]);
            }
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
                const float4* const quads = reinterpret_cast<const float4*>(q + (group + row) * Tile::kQueryLd + column);
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
            for (int i = 0; i < kKeys; ++i) scores[(group + row) * Tile::kScoreLd + lane + 32 * i] = sums[row][i];
        }
    }
}

// WMMA: for each of the warp's strips, all keys of the tile side by side, 16 of D at a time.
template <int kDim>
__device__ __forceinline__ void wmma_scores(const __half* q, const __half* k, float* scores) {
    using namespace nvcuda;
    using Tile = Tiles<kDim>;
    constexpr int kKeys = TILE_N / kFragment;
    const int first_row = threadIdx.x / 32 * kWarpRows;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
        const int row = first_row + strip * kFragment;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kKeys];
#pragma unroll
        for (int n = 0; n < kKeys; ++n) wmma::fill_fragment(sums[n], 0.0f);
#pragma unroll
        for (int step = 0; step < kDim; step += kFragment) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> queries;
            wmma::load_matrix_sync(queries, q + row * Tile::kQueryLd + step, Tile::kQueryLd);
#pragma unroll
            for (int n = 0; n < kKeys; ++n) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> keys;  // K^T: K's rows are its columns
                wmma::load_matrix_sync(keys, k + n * kFragment * Tile::kHalfLd + step, Tile::kHalfLd);
                wmma::mma_sync(sums[n], queries, keys, sums[n]);
            }
        }
#pragma unroll
        for (int n = 0; n < kKeys; ++n) {
            wmma::store_matrix_sync(scores + row * Tile::kScoreLd + n * kFragment, sums[n], Tile::kScoreLd, wmma::mem_row_major);
        }
    }
}

template <int kDim>
__device__ __forceinline__ void compute_scores(const QueryElement* q, const __half* k, float* scores) {
    if constexpr (kUseWmmaQk) {
        wmma_scores<kDim>(q, k, scores);
    } else {
        scalar_scores<kDim>(q, k, scores);
    }
}

}  // namespace sdpa
