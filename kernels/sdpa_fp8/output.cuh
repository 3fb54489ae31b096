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
            float* corner = scratch + place.row * kScoreLd + place.column;
#pragma unroll
            for (int i = 0; i < Tensor::kElements; ++i) {
                const int row = place.lane_row + i / 2 * 4;
                corner[row * kScoreLd + place.lane_group + i % 2 * 8] = static_cast<float>(place.row + row);
            }
            __syncwarp();
            typename Tensor::Accumulator numbers;
            wmma::load_matrix_sync(numbers, corner, kScoreLd, wmma::mem_row_major);
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
            // A thread holds 4 rows x kColumns columns: for 4 keys, 4 reads of P and 4 or more of V feed 16 * kColumns FMA.
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float factor = rescale[place.row + place.lane_row + 4 * i];
#pragma unroll
                for (int c = 0; c < Scalar::kColumns; ++c) state_.sums[i][c] *= factor;
            }
            const float* p_row = p + (place.row + place.lane_row) * kLd;
            const float* v_row = v + place.column + Scalar::kVector * place.lane_group;
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
                    for (int part = 0; part < Scalar::kVectors; ++part) {
                        const float* place_in_row = v_row + (key + step) * kTileLd<float> + 8 * Scalar::kVector * part;
                        const auto values = *reinterpret_cast<const typename Scalar::Vector*>(place_in_row);
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
#pragma unroll
                            for (int c = 0; c < Scalar::kVector; ++c) {
                                state_.sums[i][Scalar::kVector * part + c] += weights[i][step] * values.at[c];
                            }
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
                for (int c = 0; c < Scalar::kColumns; ++c) {
                    const int row = place.row + place.lane_row + 4 * i;
                    const int column = Scalar::kVector * (place.lane_group + 8 * (c / Scalar::kVector)) + c % Scalar::kVector;
                    tile[row * kScoreLd + place.column + column] = state_.sums[i][c];
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
        static constexpr int kColumns = kWarpColumns / 8;             // of a thread
        static constexpr int kVector = kColumns < 4 ? kColumns : 4;   // neighbouring ones, read at once
        static constexpr int kVectors = kColumns / kVector;
        struct alignas(4 * kVector) Vector {
            float at[kVector];
        };
        float sums[4][kColumns] = {};
    };
    std::conditional_t<UseWmma, Tensor, Scalar> state_;
};

// The whole tile of O, normalised, to global memory as half: 16 bytes a thread and step, only rows that exist.
__device__ __forceinline__ void write_output(const float* tile, const float* normalise, __half* rows, int valid_rows) {
#pragma unroll
    for (int i = 0; i < kBlockM * kHeadDim / 8 / kThreads; ++i) {
        const int chunk = threadIdx.x + i * kThreads;
        const int row = chunk / 8;
        if (row >= valid_rows) return;
        const float4* source = reinterpret_cast<const float4*>(tile + row * kScoreLd + chunk % 8 * 8);
        const float4 low = source[0], high = source[1];
        const float factor = normalise[row];
        reinterpret_cast<uint4*>(rows)[chunk] = make_uint4(
            pack_halves(low.x * factor, low.y * factor), pack_halves(low.z * factor, low.w * factor),
            pack_halves(high.x * factor, high.y * factor), pack_halves(high.z * factor, high.w * factor));
    }
}

}  // namespace sdpa
