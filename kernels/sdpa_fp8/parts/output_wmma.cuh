// P·V on tensor cores: O = O * exp(m_old - m_new) + P·V in accumulator fragments, one tile after the other.
//
// Each warp holds 16 query rows x kWarpColumns columns of O. P and V are tiles of halves.
#pragma once

#include <mma.h>

#include "tiles.cuh"

namespace sdpa {

namespace wmma = nvcuda::wmma;

class WmmaOutput {
public:
    using Element = __half;  // of P and of the tile of V
    static constexpr int kLd = kBlockN + 8;  // of P

    // Once per CTA, before anything else uses `scratch` [kBlockM][kScoreLd]. WMMA does not define which elements of O a
    // thread's accumulator has. So each warp loads a matrix of row numbers with the accumulator's layout, from the part of
    // scratch that later takes its part of O.
    __device__ __forceinline__ void begin(float* scratch, const WarpPlace& place) {
        float* corner = scratch + place.row * kScoreLd + place.column;
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
            const int row = place.lane_row + i / 2 * 4;
            corner[row * kScoreLd + place.lane_group + i % 2 * 8] = static_cast<float>(place.row + row);
        }
        __syncwarp();
        Accumulator numbers;
        wmma::load_matrix_sync(numbers, corner, kScoreLd, wmma::mem_row_major);
#pragma unroll
        for (int i = 0; i < kElements; ++i) rows_[i] = static_cast<int>(numbers.x[i]);
#pragma unroll
        for (int n = 0; n < kFragments; ++n) wmma::fill_fragment(sums_[n], 0.0f);
    }

    __device__ __forceinline__ void accumulate(const __half* p, const __half* v, const float* rescale, const WarpPlace& place) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
            const float factor = rescale[rows_[i]];
#pragma unroll
            for (int n = 0; n < kFragments; ++n) sums_[n].x[i] *= factor;
        }
#pragma unroll
        for (int key = 0; key < kBlockN; key += kFragment) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> weights;
            wmma::load_matrix_sync(weights, p + place.row * kLd + key, kLd);
#pragma unroll
            for (int n = 0; n < kFragments; ++n) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> values;
                const __half* corner = v + key * kTileLd<__half> + place.column + n * kFragment;
                wmma::load_matrix_sync(values, corner, kTileLd<__half>);
                wmma::mma_sync(sums_[n], weights, values, sums_[n]);
            }
        }
    }

    // This warp's part of O, unnormalised, to `tile` [kBlockM][kScoreLd].
    __device__ __forceinline__ void store(float* tile, const WarpPlace& place) {
#pragma unroll
        for (int n = 0; n < kFragments; ++n) {
            float* corner = tile + place.row * kScoreLd + place.column + n * kFragment;
            wmma::store_matrix_sync(corner, sums_[n], kScoreLd, wmma::mem_row_major);
        }
    }

private:
    using Accumulator = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
    static constexpr int kFragments = kWarpColumns / kFragment;
    static constexpr int kElements = kFragment * kFragment / 32;  // of a fragment, per thread
    Accumulator sums_[kFragments];
    int rows_[kElements];  // tile row of each element; the same for all fragments of the warp
};

}  // namespace sdpa
