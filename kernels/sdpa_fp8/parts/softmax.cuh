// Online softmax: scores of one tile to unnormalised probabilities exp(score - m).
//
// kParts neighbouring threads share one query row for the whole sequence and hold its running maximum m; each holds its
// own part of the running sum l. Scores are kept in units of log2: the factor log2(e) is folded into the scale, so that
// exp is exp2. m starts at -infinity, and no finite stand-in for it is used, so scores may be as low as float reaches.
#pragma once

#include "tiles.cuh"

namespace sdpa {

class Softmax {
public:
    // `scale` turns a raw score into log2 units: q_scale * k_scale * softmax_scale * log2(e).
    __device__ __forceinline__ explicit Softmax(float scale)
        : scale_(scale), row_(threadIdx.x / kParts), part_(threadIdx.x % kParts) {}

    // Reads the raw `scores`; writes P to `probabilities` (half or float, which may be the scores themselves: a thread
    // writes only where it has read) and exp(m_old - m_new) to rescale[row]. `valid_keys` > 0 of the tile exist.
    template <typename Element>
    __device__ __forceinline__ void compute(
        const float* scores, Element* probabilities, int ld, float* rescale, int valid_keys) {
        float values[kQuads][4];
        float tile_max = -INFINITY;
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
            const int column = first_column(quad);
            const float4 raw = *reinterpret_cast<const float4*>(scores + row_ * kScoreLd + column);
            const float four[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                values[quad][i] = column + i < valid_keys ? four[i] * scale_ : -INFINITY;
            }
            const float low = fmaxf(values[quad][0], values[quad][1]), high = fmaxf(values[quad][2], values[quad][3]);
            tile_max = fmaxf(tile_max, fmaxf(low, high));
        }
#pragma unroll
        for (int offset = kParts / 2; offset > 0; offset /= 2) {
            tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, offset));
        }
        // At least one key of a tile exists, so the new maximum is finite, and in the first tile exp2(-inf - m) is 0.
        const float new_max = fmaxf(max_, tile_max);
        const float factor = exp2f(max_ - new_max);
        max_ = new_max;
        sum_ *= factor;
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
#pragma unroll
            for (int i = 0; i < 4; ++i) values[quad][i] = exp2f(values[quad][i] - new_max);
            sum_ += (values[quad][0] + values[quad][1]) + (values[quad][2] + values[quad][3]);
            store_four(values[quad], probabilities + row_ * ld + first_column(quad));
        }
        if (part_ == 0) rescale[row_] = factor;
    }

    // After the last tile: normalise[row] = v_scale / l.
    __device__ __forceinline__ void finish(float v_scale, float* normalise) {
#pragma unroll
        for (int offset = kParts / 2; offset > 0; offset /= 2) {
            sum_ += __shfl_xor_sync(0xffffffffu, sum_, offset);
        }
        if (part_ == 0) normalise[row_] = v_scale / sum_;
    }

    __device__ __forceinline__ int row() const { return row_; }
    __device__ __forceinline__ bool leads_row() const { return part_ == 0; }
    __device__ __forceinline__ float maximum() const { return max_; }
    __device__ __forceinline__ float partial_sum() const { return sum_; }

private:
    static constexpr int kParts = kThreads / kBlockM;
    static constexpr int kQuads = kBlockN / kParts / 4;

    // Each row starts some columns further on than the one before, wrapped: with the padded leading dimensions the 8
    // lanes of a 16-byte read of the scores, and the 16 lanes of an 8-byte write of P, then lie in different banks.
    static constexpr int kRotation = kParts == 4 ? 8 : kParts == 8 ? 24 : 0;
    __device__ __forceinline__ int first_column(int quad) const {
        return (4 * part_ + 4 * kParts * quad + kRotation * row_) % kBlockN;
    }

    static __device__ __forceinline__ void store_four(const float (&values)[4], float* place) {
        *reinterpret_cast<float4*>(place) = make_float4(values[0], values[1], values[2], values[3]);
    }
    static __device__ __forceinline__ void store_four(const float (&values)[4], __half* place) {
        *reinterpret_cast<uint2*>(place) = make_uint2(pack_halves(values[0], values[1]), pack_halves(values[2], values[3]));
    }

    float scale_;
    int row_;   // of the tile
    int part_;  // 0 to kParts - 1
    float max_ = -INFINITY;
    float sum_ = 0.0f;
};

}  // namespace sdpa
