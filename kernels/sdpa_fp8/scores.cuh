// Phase 2, Q·K^T: raw scores of one tile to shared memory, unscaled, [kBlockM][kScoreLd] float.
//
// Each warp computes 16 query rows x kWarpKeys keys, in either version.
#pragma once

#include <mma.h>

#include "config.cuh"

namespace sdpa {

// The part of the CTA's tile that this thread's warp owns, and this thread's place in the scalar versions: a warp is
// 4 x 8 lanes (r, c): lane_row r holds query rows row + r, + 4, + 8, + 12, and lane_group c every eighth key. The lanes
// of one r read the same rows of Q (a broadcast) and 8 neighbouring keys, whose padded rows lie in different banks.
struct WarpPlace {
    int row;         // first of 16 query rows, in the tile
    int key;         // first of kWarpKeys keys
    int column;      // first of kWarpColumns columns of O
    int lane_row;    // 0 to 3
    int lane_group;  // 0 to 7
};

__device__ __forceinline__ WarpPlace warp_place() {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    return {warp / kWarpsN * kFragment, warp % kWarpsN * kWarpKeys, warp % kWarpsN * kWarpColumns, lane / 8, lane % 8};
}

template <bool UseWmma>
class ScorePhase {
public:
    using Element = std::conditional_t<UseWmma, __half, float>;

    // Once a CTA, when q is complete. The tensor-core version keeps its 16 rows of Q in registers.
    __device__ __forceinline__ void begin(const Element* q, const WarpPlace& place) {
        if constexpr (UseWmma) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                nvcuda::wmma::load_matrix_sync(
                    queries_[step], q + place.row * kTileLd<__half> + step * kFragment, kTileLd<__half>);
            }
        }
    }

    __device__ __forceinline__ void compute(const Element* q, const Element* k, float* scores, const WarpPlace& place) {
        if constexpr (UseWmma) {
            namespace wmma = nvcuda::wmma;
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
        } else {
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
    }

private:
    static constexpr int kSteps = kHeadDim / kFragment;
    struct NoQueries {};
    using QueryFragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major>;
    struct QueryFragments {
        QueryFragment steps[kSteps];
        __device__ __forceinline__ QueryFragment& operator[](int step) { return steps[step]; }
    };
    std::conditional_t<UseWmma, QueryFragments, NoQueries> queries_;
};

}  // namespace sdpa
