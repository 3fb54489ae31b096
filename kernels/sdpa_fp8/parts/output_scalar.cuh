// P·V by FMA on float tiles: O = O * exp(m_old - m_new) + P·V in registers, one tile after the other.
//
// Each warp holds 16 query rows x kWarpColumns columns of O.
#pragma once

#include "tiles.cuh"

namespace sdpa {

class ScalarOutput {
public:
    using Element = float;  // of P and of the tile of V
    static constexpr int kLd = kScoreLd;  // of P, which takes the place of the scores

    // A thread knows its rows, and its sums are 0.
    __device__ __forceinline__ void begin(float*, const WarpPlace&) {}

    __device__ __forceinline__ void accumulate(const float* p, const float* v, const float* rescale, const WarpPlace& place) {
        // A thread holds 4 rows x kColumns columns: for 4 keys, 4 reads of P and 4 or more of V feed 16 * kColumns FMA.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float factor = rescale[place.row + place.lane_row + 4 * i];
#pragma unroll
            for (int c = 0; c < kColumns; ++c) sums_[i][c] *= factor;
        }
        const float* p_row = p + (place.row + place.lane_row) * kLd;
        const float* v_row = v + place.column + kVector * place.lane_group;
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
                for (int part = 0; part < kVectors; ++part) {
                    const float* place_in_row = v_row + (key + step) * kTileLd<float> + 8 * kVector * part;
                    const auto values = *reinterpret_cast<const Vector*>(place_in_row);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
#pragma unroll
                        for (int c = 0; c < kVector; ++c) {
                            sums_[i][kVector * part + c] += weights[i][step] * values.at[c];
                        }
                    }
                }
            }
        }
    }

    // This warp's part of O, unnormalised, to `tile` [kBlockM][kScoreLd].
    __device__ __forceinline__ void store(float* tile, const WarpPlace& place) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
                const int row = place.row + place.lane_row + 4 * i;
                const int column = kVector * (place.lane_group + 8 * (c / kVector)) + c % kVector;
                tile[row * kScoreLd + place.column + column] = sums_[i][c];
            }
        }
    }

private:
    static constexpr int kColumns = kWarpColumns / 8;            // per thread
    static constexpr int kVector = kColumns < 4 ? kColumns : 4;  // neighbouring ones, read at once
    static constexpr int kVectors = kColumns / kVector;
    struct alignas(4 * kVector) Vector {
        float at[kVector];
    };
    float sums_[4][kColumns] = {};
};

}  // namespace sdpa
