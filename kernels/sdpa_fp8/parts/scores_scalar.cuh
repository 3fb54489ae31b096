// Q·K^T by FMA on float tiles: raw scores of one tile to shared memory, unscaled, [kBlockM][kScoreLd] float.
//
// Each warp computes 16 query rows x kWarpKeys keys.
#pragma once

#include "tiles.cuh"

namespace sdpa {

class ScalarScores {
public:
    using Element = float;  // of the tiles of Q and K

    // Nothing to keep: each use reads Q's rows anew.
    __device__ __forceinline__ void begin(const float*, const WarpPlace&) {}

    __device__ __forceinline__ void compute(const float* q, const float* k, float* scores, const WarpPlace& place) {
        // A thread holds 4 rows x kKeys keys: 4 + kKeys vector reads feed 16 * kKeys FMA.
        constexpr int kKeys = kWarpKeys / 8;
        const float* q_row = q + (place.row + place.lane_row) * kTileLd<float>;
        const float* k_row = k + (place.key + place.lane_group) * kTileLd<float>;
        float sums[4][kKeys] = {};
#pragma unroll 4
        for (int d = 0; d < kHeadDim; d += 4) {
            float4 query[4], key[kKeys];
#pragma unroll
            for (int i = 0; i < 4; ++i) query[i] = *reinterpret_cast<const float4*>(q_row + 4 * i * kTileLd<float> + d);
#pragma unroll
            for (int j = 0; j < kKeys; ++j) key[j] = *reinterpret_cast<const float4*>(k_row + 8 * j * kTileLd<float> + d);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < kKeys; ++j) {
                    sums[i][j] += query[i].x * key[j].x;
                    sums[i][j] += query[i].y * key[j].y;
                    sums[i][j] += query[i].z * key[j].z;
                    sums[i][j] += query[i].w * key[j].w;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const int row = place.row + place.lane_row + 4 * i;
                scores[row * kScoreLd + place.key + place.lane_group + 8 * j] = sums[i][j];
            }
        }
    }
};

}  // namespace sdpa
