// The online softmax: a warp's rows of raw scores become probabilities. After Milakov and Gimelshein
// (arXiv:1805.02867): m and l of a row are those of the keys so far, and what was summed with an older m is rescaled.
#pragma once

#include <cmath>

#include "strips.cuh"

namespace sdpa {

// Two lanes share a row of each of the warp's strips: lane / 2, every other quad of columns. Both know m; l is a lane's part.
template <typename T, bool kCausal>
class Softmax {
public:
    __device__ __forceinline__ Softmax() {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            max_[strip] = -INFINITY;
            sum_[strip] = 0.0f;
        }
    }

    // The keys from `first_key` on, of which `valid_keys` of the tile exist; scores * scale are in log2 units.
    template <typename Element>
    __device__ __forceinline__ void compute(
        const float* scores, Element* p, float* factors, float scale, int first_query, int first_key, int valid_keys) {
        const int part = threadIdx.x % 2;
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            const int row = row_of(strip);
            // Number of this tile's keys that the row sees; may exceed kTileN. If it is 0 or less, the row keeps its m, which is
            // finite since key 0.
            const int seen = kCausal ? min(valid_keys, first_query + row + 1 - first_key) : valid_keys;
            // Read twice: kept from the maximum to the exponentials, a row's scores would take registers that O needs.
            const auto scaled = [&](int column, float (&values)[4]) {
                const float4 raw = *reinterpret_cast<const float4*>(scores + row * T::kScoreLd + column);
                const float four[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
                for (int i = 0; i < 4; ++i) values[i] = column + i < seen ? four[i] * scale : -INFINITY;
            };
            float values[4];
            float tile_max = -INFINITY;
#pragma unroll
            for (int column = 4 * part; column < T::kTileN; column += 8) {
                scaled(column, values);
                tile_max = fmaxf(fmaxf(fmaxf(tile_max, values[0]), values[1]), fmaxf(values[2], values[3]));
            }
            tile_max = fmaxf(tile_max, __shfl_xor_sync(kWarp, tile_max, 1));
            // The first tile shows every row its key 0, so m is finite from then on, and before it exp2(-inf - m) is 0.
            const float new_max = fmaxf(max_[strip], tile_max);
            const float factor = exp2f(max_[strip] - new_max);
            max_[strip] = new_max;
            sum_[strip] *= factor;
#pragma unroll
            for (int column = 4 * part; column < T::kTileN; column += 8) {
                scaled(column, values);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    values[i] = exp2f(values[i] - new_max);
                    sum_[strip] += values[i];
                }
                store_four(values, p + row * T::kProbabilityLd + column);
            }
            if (part == 0) factors[row] = factor;
        }
    }

    // After the last tile: factors[row] = 1 / l.
    __device__ __forceinline__ void finish(float* factors) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            const float sum = sum_[strip] + __shfl_xor_sync(kWarp, sum_[strip], 1);
            if (threadIdx.x % 2 == 0) factors[row_of(strip)] = 1.0f / sum;
        }
    }

private:
    static __device__ __forceinline__ int row_of(int strip) { return T::first_row() + strip * T::kFragment + threadIdx.x % 32 / 2; }
    static __device__ __forceinline__ void store_four(const float (&values)[4], float* place) {
        *reinterpret_cast<float4*>(place) = make_float4(values[0], values[1], values[2], values[3]);
    }
    static __device__ __forceinline__ void store_four(const float (&values)[4], __half* place) {
        *reinterpret_cast<uint2*>(place) = make_uint2(pack_halves(values[0], values[1]), pack_halves(values[2], values[3]));
    }

    float max_[T::kStrips];
    float sum_[T::kStrips];
};

}  // namespace sdpa
