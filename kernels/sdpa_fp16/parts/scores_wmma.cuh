// Q·K^T on tensor cores: a warp's rows of raw scores.
#pragma once

#include <mma.h>

#include "strips.cuh"

namespace sdpa {

// For each of the warp's strips, all keys of the tile side by side, 16 of D at a time.
template <typename T>
__device__ __forceinline__ void wmma_scores(const __half* q, const __half* k, float* scores) {
    using namespace nvcuda;
    constexpr int kKeys = T::kTileN / T::kFragment;
#pragma unroll
    for (int strip = 0; strip < T::kStrips; ++strip) {
        const int row = T::first_row() + strip * T::kFragment;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kKeys];
#pragma unroll
        for (int n = 0; n < kKeys; ++n) wmma::fill_fragment(sums[n], 0.0f);
#pragma unroll
        for (int step = 0; step < T::kDim; step += T::kFragment) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> queries;
            wmma::load_matrix_sync(queries, q + row * T::kQueryLd + step, T::kQueryLd);
#pragma unroll
            for (int n = 0; n < kKeys; ++n) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> keys;  // K^T: K's rows are its columns
                wmma::load_matrix_sync(keys, k + n * T::kFragment * T::kHalfLd + step, T::kHalfLd);
                wmma::mma_sync(sums[n], queries, keys, sums[n]);
            }
        }
#pragma unroll
        for (int n = 0; n < kKeys; ++n) {
            wmma::store_matrix_sync(scores + row * T::kScoreLd + n * T::kFragment, sums[n], T::kScoreLd, wmma::mem_row_major);
        }
    }
}

}  // namespace sdpa
