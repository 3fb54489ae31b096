// P·V by FMA: a warp's rows of O, over all tiles, and their way to global memory.
#pragma once

#include "strips.cuh"

namespace sdpa {

// Lane l owns the columns [l * kColumns, (l + 1) * kColumns) of all rows of its warp.
template <typename T>
class ScalarOutput {
public:
    __device__ __forceinline__ void begin(float*) {}

    // O = factor * O + P·V of one tile.
    __device__ __forceinline__ void accumulate(const float* p, const __half* v, const float* factors) {
#pragma unroll
        for (int row = 0; row < T::kWarpRows; ++row) {
            const float factor = factors[T::first_row() + row];
#pragma unroll
            for (int i = 0; i < kColumns; ++i) sums_[row][i] *= factor;
        }
#pragma unroll 1
        for (int key = 0; key < T::kTileN; key += 2) {
            float values[2][kColumns];
#pragma unroll
            for (int j = 0; j < 2; ++j) read_columns(v + (key + j) * T::kHalfLd, values[j]);
#pragma unroll
            for (int row = 0; row < T::kWarpRows; ++row) {
                const float2 weights = *reinterpret_cast<const float2*>(p + (T::first_row() + row) * T::kProbabilityLd + key);
#pragma unroll
                for (int i = 0; i < kColumns; ++i) {
                    sums_[row][i] = fmaf(weights.y, values[1][i], fmaf(weights.x, values[0][i], sums_[row][i]));
                }
            }
        }
    }

    __device__ __forceinline__ void write(float*, const float* factors, __half* out, int valid_rows) {
#pragma unroll
        for (int row = 0; row < T::kWarpRows; ++row) {
            const float factor = factors[T::first_row() + row];
            unsigned* const place = reinterpret_cast<unsigned*>(out + (T::first_row() + row) * T::kDim + threadIdx.x % 32 * kColumns);
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) {
                if (T::first_row() + row < valid_rows) place[i] = pack_halves(sums_[row][2 * i] * factor, sums_[row][2 * i + 1] * factor);
            }
        }
    }

private:
    static constexpr int kColumns = T::kDim / 32;

    static __device__ __forceinline__ void read_columns(const __half* row, float (&values)[kColumns]) {
        const __half2* const pairs = reinterpret_cast<const __half2*>(row + threadIdx.x % 32 * kColumns);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) {
            const float2 two = __half22float2(pairs[i]);
            values[2 * i] = two.x;
            values[2 * i + 1] = two.y;
        }
    }

    float sums_[T::kWarpRows][kColumns] = {};
};

}  // namespace sdpa
