// Q·K^T on tensor cores: raw scores of one tile to shared memory, unscaled, [kBlockM][kScoreLd] float.
//
// Each warp computes 16 query rows x kWarpKeys keys. Q and K are tiles of halves.
#pragma once

#include <mma.h>

#include "tiles.cuh"

namespace sdpa {

namespace wmma = nvcuda::wmma;

class WmmaScores {
public:
    using Element = __half;  // of the tiles of Q and K

    // Once per CTA, when q is complete: the warp keeps its 16 rows of Q in registers.
    __device__ __forceinline__ void begin(const __half* q, const WarpPlace& place) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            wmma::load_matrix_sync(queries_[step], q + place.row * kTileLd<__half> + step * kFragment, kTileLd<__half>);
        }
    }

    __device__ __forceinline__ void compute(const __half*, const __half* k, float* scores, const WarpPlace& place) {
        constexpr int kFragments = kWarpKeys / kFragment;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kFragments];
#pragma unroll
        for (int n = 0; n < kFragments; ++n) wmma::fill_fragment(sums[n], 0.0f);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
            for (int n = 0; n < kFragments; ++n) {
                // Key-major rows of K, read as the columns of K^T.
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> keys;
                const int key = place.key + n * kFragment;
                wmma::load_matrix_sync(keys, k + key * kTileLd<__half> + step * kFragment, kTileLd<__half>);
                wmma::mma_sync(sums[n], queries_[step], keys, sums[n]);
            }
        }
#pragma unroll
        for (int n = 0; n < kFragments; ++n) {
            float* corner = scores + place.row * kScoreLd + place.key + n * kFragment;
            wmma::store_matrix_sync(corner, sums[n], kScoreLd, wmma::mem_row_major);
        }
    }

private:
    static constexpr int kSteps = kHeadDim / kFragment;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> queries_[kSteps];
};

}  // namespace sdpa
