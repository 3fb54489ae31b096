// Phase P·V: a warp's rows of O, over all tiles, and their way to global memory.
#pragma once

#include <mma.h>

#include "load.cuh"

namespace sdpa {

// Scalar: lane l owns the columns [l * kColumns, (l + 1) * kColumns) of all rows of its warp.
template <int kDim, bool kWmma>
class OutputPhase {
public:
    __device__ __forceinline__ void begin(float*) {}

    // O = factor * O + P·V of one tile.
    __device__ __forceinline__ void accumulate(const float* p, const __half* v, const float* factors) {
#pragma unroll
        for (int row = 0; row < kWarpRows; ++row) {
            const float factor = factors[first_row() + row];
#pragma unroll
            for (int i = 0; i < kColumns; ++i) sums_[row][i] *= factor;
        }
#pragma unroll 1
        for (int key = 0; key < TILE_N; key += 2) {
            float values[2][kColumns];
#pragma unroll
            for (int j = 0; j < 2; ++j) read_columns(v + (key + j) * Tiles<kDim>::kHalfLd, values[j]);
#pragma unroll
            for (int row = 0; row < kWarpRows; ++row) {
                const float2 weights = *reinterpret_cast<const float2*>(p + (first_row() + row) * Tiles<kDim>::kProbabilityLd + key);
#pragma unroll
                for (int i = 0; i < kColumns; ++i) {
                    sums_[row][i] = fmaf(weights.y, values[1][i], fmaf(weights.x, values[0][i], sums_[row][i]));
                }
            }
        }
    }

    __device__ __forceinline__ void write(float*, const float* factors, __half* out, int valid_rows) {
#pragma unroll
        for (int row = 0; row < kWarpRows; ++row) {
            const float factor = factors[first_row() + row];
            unsigned* const place = reinterpret_cast<unsigned*>(out + (first_row() + row) * kDim + threadIdx.x % 32 * kColumns);
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) {
                if (first_row() + row < valid_rows) place[i] = pack_halves(sums_[row][2 * i] * factor, sums_[row][2 * i + 1] * factor);
            }
        }
    }

private:
    static constexpr int kColumns = kDim / 32;

    static __device__ __forceinline__ int first_row() { return threadIdx.x / 32 * kWarpRows; }
    static __device__ __forceinline__ void read_columns(const __half* row, float (&values)[kColumns]) {
        const __half2* const pairs = reinterpret_cast<const __half2*>(row + threadIdx.x % 32 * kColumns);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) {
            const float2 two = __half22float2(pairs[i]);
            values[2 * i] = two.x;
            values[2 * i + 1] = two.y;
        }
    }

    float sums_[kWarpRows][kColumns] = {};
};

// WMMA: O lives in accumulator fragments. Which element of a fragment a lane holds is not specified, so a fragment that
// was loaded from a matrix of row numbers says to which row each belongs.
template <int kDim>
class OutputPhase<kDim, true> {
    using Tile = Tiles<kDim>;
    using Accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

public:
    // `scratch`: the tile of scores, of which each warp uses its own rows.
    __device__ __forceinline__ void begin(float* scratch) {
        float* const own = scratch + first_row() * Tile::kScoreLd;
        for (int e = threadIdx.x % 32; e < kFragment * kFragment; e += 32) {
            own[e / kFragment * Tile::kScoreLd + e % kFragment] = static_cast<float>(e / kFragment);
        }
        __syncwarp();  // the matrix of row numbers is whole
        Accumulator numbers;
        nvcuda::wmma::load_matrix_sync(numbers, own, Tile::kScoreLd, nvcuda::wmma::mem_row_major);
#pragma unroll
        for (int e = 0; e < Accumulator::num_elements; ++e) row_[e] = static_cast<int>(numbers.x[e]);
        __syncwarp();  // read to the end before scores overwrite it
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
            for (int n = 0; n < kDim / kFragment; ++n) nvcuda::wmma::fill_fragment(sums_[strip][n], 0.0f);
        }
    }

    __device__ __forceinline__ void accumulate(const __half* p, const __half* v, const float* factors) {
        using namespace nvcuda;
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) {
            const int row = first_row() + strip * kFragment;
#pragma unroll
            for (int e = 0; e < Accumulator::num_elements; ++e) {
                const float factor = factors[row + row_[e]];
#pragma unroll
                for (int n = 0; n < kDim / kFragment; ++n) sums_[strip][n].x[e] *= factor;
            }
#pragma unroll 1  // unrolled, the fragments that are loaded ahead take more registers than there are
            for (int key = 0; key < TILE_N; key += kFragment) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> weights;
                wmma::load_matrix_sync(weights, p + row * Tile::kProbabilityLd + key, Tile::kProbabilityLd);
#pragma unroll
                for (int n = 0; n < kDim / kFragment; ++n) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> values;
                    wmma::load_matrix_sync(values, v + key * Tile::kHalfLd + n * kFragment, Tile::kHalfLd);
                    wmma::mma_sync(sums_[strip][n], weights, values, sums_[strip][n]);
                }
            }
        }
    }

    // Through the tile of scores, so that global memory is written 16 bytes at a time.
    __device__ __forceinline__ void write(float* scratch, const float* factors, __half* out, int valid_rows) {
        using namespace nvcuda;
        constexpr int kRowChunks = kDim / kChunk;
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) {
            const int row = first_row() + strip * kFragment;
#pragma unroll
            for (int n = 0; n < kDim / kFragment; ++n) {
                wmma::store_matrix_sync(scratch + row * Tile::kScoreLd + n * kFragment, sums_[strip][n], Tile::kScoreLd, wmma::mem_row_major);
            }
        }
        __syncwarp();  // a row's columns come from all lanes
        for (int chunk = threadIdx.x % 32; chunk < kWarpRows * kRowChunks; chunk += 32) {
            const int row = first_row() + chunk / kRowChunks, column = chunk % kRowChunks * kChunk;
            if (row >= valid_rows) break;
            const float factor = factors[row];
            const float* const x = scratch + row * Tile::kScoreLd + column;
            *reinterpret_cast<uint4*>(out + row * kDim + column) =
                make_uint4(pack_halves(x[0] * factor, x[1] * factor), pack_halves(x[2] * factor, x[3] * factor),
                           pack_halves(x[4] * factor, x[5] * factor), pack_halves(x[6] * factor, x[7] * factor));
        }
    }

private:
    static __device__ __forceinline__ int first_row() { return threadIdx.x / 32 * kWarpRows; }

    Accumulator sums_[kStrips][kDim / kFragment];
    int row_[Accumulator::num_elements];  // of the strip
};

}  // namespace sdpa
