// P·V on tensor cores: a warp's rows of O, over all tiles, and their way to global memory.
#pragma once

#include <mma.h>

#include "strips.cuh"

namespace sdpa {

// O lives in accumulator fragments. Which element of a fragment a lane holds is not specified, so a fragment that
// was loaded from a matrix of row numbers says to which row each belongs.
template <typename T>
class WmmaOutput {
    using Accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

public:
    // `scratch`: the tile of scores, of which each warp uses its own rows.
    __device__ __forceinline__ void begin(float* scratch) {
        float* const own = scratch + T::first_row() * T::kScoreLd;
        for (int e = threadIdx.x % 32; e < T::kFragment * T::kFragment; e += 32) {
            own[e / T::kFragment * T::kScoreLd + e % T::kFragment] = static_cast<float>(e / T::kFragment);
        }
        __syncwarp();  // the matrix of row numbers is whole
        Accumulator numbers;
        nvcuda::wmma::load_matrix_sync(numbers, own, T::kScoreLd, nvcuda::wmma::mem_row_major);
#pragma unroll
        for (int e = 0; e < Accumulator::num_elements; ++e) row_[e] = static_cast<int>(numbers.x[e]);
        __syncwarp();  // read to the end before scores overwrite it
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int n = 0; n < T::kDim / T::kFragment; ++n) nvcuda::wmma::fill_fragment(sums_[strip][n], 0.0f);
        }
    }

    __device__ __forceinline__ void accumulate(const __half* p, const __half* v, const float* factors) {
        using namespace nvcuda;
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            const int row = T::first_row() + strip * T::kFragment;
#pragma unroll
            for (int e = 0; e < Accumulator::num_elements; ++e) {
                const float factor = factors[row + row_[e]];
#pragma unroll
                for (int n = 0; n < T::kDim / T::kFragment; ++n) sums_[strip][n].x[e] *= factor;
            }
#pragma unroll 1  // unrolled, the fragments that are loaded ahead take more registers than there are
            for (int key = 0; key < T::kTileN; key += T::kFragment) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> weights;
                wmma::load_matrix_sync(weights, p + row * T::kProbabilityLd + key, T::kProbabilityLd);
#pragma unroll
                for (int n = 0; n < T::kDim / T::kFragment; ++n) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> values;
                    wmma::load_matrix_sync(values, v + key * T::kHalfLd + n * T::kFragment, T::kHalfLd);
                    wmma::mma_sync(sums_[strip][n], weights, values, sums_[strip][n]);
                }
            }
        }
    }

    // Through the tile of scores, so that global memory is written 16 bytes at a time.
    __device__ __forceinline__ void write(float* scratch, const float* factors, __half* out, int valid_rows) {
        using namespace nvcuda;
        constexpr int kRowChunks = T::kDim / kChunk;
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            const int row = T::first_row() + strip * T::kFragment;
#pragma unroll
            for (int n = 0; n < T::kDim / T::kFragment; ++n) {
                wmma::store_matrix_sync(scratch + row * T::kScoreLd + n * T::kFragment, sums_[strip][n], T::kScoreLd, wmma::mem_row_major);
            }
        }
        __syncwarp();  // a row's columns come from all lanes
        for (int chunk = threadIdx.x % 32; chunk < T::kWarpRows * kRowChunks; chunk += 32) {
            const int row = T::first_row() + chunk / kRowChunks, column = chunk % kRowChunks * kChunk;
            if (row >= valid_rows) break;
            const float factor = factors[row];
            const float* const x = scratch + row * T::kScoreLd + column;
            *reinterpret_cast<uint4*>(out + row * T::kDim + column) =
                make_uint4(pack_halves(x[0] * factor, x[1] * factor), pack_halves(x[2] * factor, x[3] * factor),
                           pack_halves(x[4] * factor, x[5] * factor), pack_halves(x[6] * factor, x[7] * factor));
        }
    }

private:
    Accumulator sums_[T::kStrips][T::kDim / T::kFragment];
    int row_[Accumulator::num_elements];  // of the strip
};

}  // namespace sdpa
