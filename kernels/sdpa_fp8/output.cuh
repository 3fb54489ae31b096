// Phase 4, P·V: O = O * exp(m_old - m_new) + P·V in registers, one tile after the other, and at the end O to memory.
//
// Each warp holds 16 query rows x kWarpColumns columns of O, in either version.
#pragma once

#include <mma.h>

#include "config.cuh"
#include "scores.cuh"

namespace sdpa {

template <bool UseWmma>
class OutputPhase {
public:
    using Element = std::conditional_t<UseWmma, __half, float>;  // of P and V
    static constexpr int kLd = UseWmma ? kProbabilityLd : kScoreLd;  // of P

    // Once a CTA, before anything else uses `scratch` [kBlockM][kScoreLd]. WMMA does not say which element of O a thread's
    // accumulator holds, so the rows are found out: a matrix whose elements are their own row numbers is loaded with the
    // accumulator's layout. A warp uses the corner of scratch where its part of O would lie, and no other warp does.
    __device__ __forceinline__ void begin(float* scratch, const WarpPlace& place) {
        if constexpr (UseWmma) {
            namespace wmma = nvcuda::wmma;
            float* strip = scratch + place.row * kScoreLd + place.column;
            for (int i = threadIdx.x % 32; i < kFragment * kFragment; i += 32) {
                strip[i / kFragment * kScoreLd + i % kFragment] = static_cast<float>(place.row + i / kFragment);
            }
            __syncwarp();
            typename Tensor::Accumulator numbers;
            wmma::load_matrix_sync(numbers, strip, kScoreLd, wmma::mem_row_major);
#pragma unroll
            for (int i = 0; i < Tensor::kElements; ++i) state_.rows[i] = static_cast<int>(numbers.x[i]);
#pragma unroll
            for (int n = 0; n < Tensor::kFragments; ++n) wmma::fill_fragment(state_.sums[n], 0.0f);
        }
    }

    __device__ __forceinline__ void accumulate(
        const Element* p, const Element* v, const float* rescale, const WarpPlace& place) {
        if constexpr (UseWmma) {
            namespace wmma = nvcuda::wmma;
#pragma unroll
            for (int i = 0; i < Tensor::kElements; ++i) {
                const float factor = rescale[state_.rows[i]];
#pragma unroll
                for (int n = 0; n < Tensor::kFragments; ++n) state_.sums[n].x[i] *= factor;
            }
#pragma unroll
            for (int key = 0; key < kBlockN; key += kFragment) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> weights;
                wmma::load_matrix_sync(weights, p + place.row * kLd + key, kLd);
#pragma unroll
                for (int n = 0; n < Tensor::kFragments; ++n) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> values;
                    const __half* corner = v + key * kTileLd<__half> + place.column + n * kFragment;
                    wmma::load_matrix_sync(values, corner, kTileLd<__half>);
                    wmma::mma_sync(state_.sums[n], weights, values, state_.sums[n]);
                }
            }
        } else {
            // A thread holds 4 rows x kQuads * 4 columns: for 4 keys, 4 + 4 * kQuads vector reads feed 64 * kQuads FMA.
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float factor = rescale[place.row + place.lane_row + 4 * i];
#pragma unroll
                for (int c = 0; c < Scalar::kColumns; ++c) state_.sums[i][c] *= factor;
            }
            const float* p_row = p + (place.row + place.lane_row) * kLd;
            const float* v_row = v + place.column + 4 * place.lane_group;
#pragma unroll 4
            for (int key = 0; key < kBlockN; key += 4) {
                float weights[4][4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float4 four = *reinterpret_cast<const float4*>(p_row + 4 * i * kLd + key);
                    weights[i][0] = four.x, weights[i][1] = four.y, weights[i][2] = four.z, weights[i][3] = four.w;
                }
#pragma unroll
                for (int step = 0; step < 4; ++step) {
#pragma unroll
                    for (int quad = 0; quad < Scalar::kQuads; ++quad) {
                        const float4 value =
                            *reinterpret_cast<const float4*>(v_row + (key + step) * kTileLd<float> + 32 * quad);
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            state_.sums[i][4 * quad + 0] += weights[i][step] * value.x;
                            state_.sums[i][4 * quad + 1] += weights[i][step] * value.y;
                            state_.sums[i][4 * quad + 2] += weights[i][step] * value.z;
                            state_.sums[i][4 * quad + 3] += weights[i][step] * value.w;
                        }
                    }
                }
            }
        }
    }

    // This warp's part of O, unnormalised, to `tile` [kBlockM][kScoreLd].
    __device__ __forceinline__ void store(float* tile, const WarpPlace& place) {
        if constexpr (UseWmma) {
            namespace wmma = nvcuda::wmma;
#pragma unroll
            for (int n = 0; n < Tensor::kFragments; ++n) {
                float* corner = tile + place.row * kScoreLd + place.column + n * kFragment;
                wmma::store_matrix_sync(corner, state_.sums[n], kScoreLd, wmma::mem_row_major);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int quad = 0; quad < Scalar::kQuads; ++quad) {
                    const float* four = state_.sums[i] + 4 * quad;
                    const int row = place.row + place.lane_row + 4 * i;
                    const int column = place.column + 4 * place.lane_group + 32 * quad;
                    *reinterpret_cast<float4*>(tile + row * kScoreLd + column) =
                        make_float4(four[0], four[1], four[2], four[3]);
                }
            }
        }
    }

private:
    struct Tensor {
        using Accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
        static constexpr int kFragments = kWarpColumns / kFragment;
        static constexpr int kElements = kFragment * kFragment / 32;  // of a fragment, a thread
        Accumulator sums[kFragments];
        int rows[kElements];  // tile row of each element; the same for all fragments of the warp
    };
    struct Scalar {
        static constexpr int kColumns = kWarpColumns / 8;
        static constexpr int kQuads = kColumns / 4;
        float sums[4][kColumns] = {};
    };
    static_assert(UseWmma || kWarpColumns >= 32, "8 lanes hold 4 columns of O each");
    std::conditional_t<UseWmma, Tensor, Scalar> state_;
};

// The whole tile of O, normalised, to global memory as half: 16 bytes a thread and step, only rows that exist.
__device__ __forceinline__ void write_output(const float* tile, const float* normalise, __half* rows, int valid_rows) {
    struct alignas(16) Eight {
        __half2 pairs[4];
    };
    for (int chunk = threadIdx.x; chunk < kBlockM * kHeadDim / 8; chunk += kThreads) {
        const int row = chunk / 8;
        if (row >= valid_rows) break;
        const float4* source = reinterpret_cast<const float4*>(tile + row * kScoreLd + chunk % 8 * 8);
        const float4 low = source[0], high = source[1];
        const float factor = normalise[row];
        reinterpret_cast<Eight*>(rows)[chunk] = {{
            __floats2half2_rn(low.x * factor, low.y * factor), __floats2half2_rn(low.z * factor, low.w * factor),
            __floats2half2_rn(high.x * factor, high.y * factor), __floats2half2_rn(high.z * factor, high.w * factor)}};
    }
}

}  // namespace sdpa
