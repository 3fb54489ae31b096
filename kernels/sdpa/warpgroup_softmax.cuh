// The softmax of a consumer warpgroup's 64 query rows, with O and m in registers.
//
// A warp has 16 of the rows. With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g
// and g + 8 and columns 2t and 2t + 1.
#pragma once

#include <cmath>
#include <cstdio>

#include "config.cuh"
#include "warpgroups.cuh"

namespace sdpa {

// T::kOutputColumns: of o_, which is D and more.
template <typename T, bool kCausal>
class WarpgroupSoftmax {
protected:
    // scale: of the scores, times log2(e). If `negate`, it is the absolute value of a negative one.
    __device__ __forceinline__ WarpgroupSoftmax(float scale, bool negate, int keys) : scale_(scale), negate_(negate), keys_(keys) {}

    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int column() { return lane() % 4 * 2; }  // of a block
    static __device__ __forceinline__ int strip_row(int half) { return threadIdx.x % kWarpgroup / 32 * 16 + lane() / 4 + 8 * half; }

    __device__ __forceinline__ int row(int half) const { return first_row_ + strip_row(half); }

    // Tiles before this one need neither a mask nor another sign.
    __device__ __forceinline__ int plain_tiles() const {
        const int all_see = kCausal ? min(keys_, first_row_ + 1) : keys_;  // keys that every row sees
        return negate_ ? 0 : all_see / T::kTileN;
    }

    using Scores = float[T::kTileN / 2];

    // Scores of tile `tile` as the softmax wants them: with the scale's sign, and hidden where the row doesn't see the key. Tiles before
    // `plain_tiles` are not `general`.
    __device__ __forceinline__ void prepare_scores(Scores& s, int tile, bool general) const {
        if (general) {
            if (negate_) {
#pragma unroll
                for (int i = 0; i < T::kTileN / 2; ++i) s[i] = -s[i];
            }
            mask(s, tile * T::kTileN);
        }
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores(s);
        }
    }

    // The largest of this lane's scores of row g (`half` 0) or g + 8.
    static __device__ __forceinline__ float lane_maximum(const Scores& s, int half) {
        float most[2];  // of even and odd blocks: half as long a chain
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
            const float pair = fmaxf(s[4 * block + 2 * half], s[4 * block + 2 * half + 1]);
            most[block % 2] = block < 2 ? pair : fmaxf(most[block % 2], pair);
        }
        return fmaxf(most[0], most[1]);
    }

    // Of the four lanes that have a row.
    static __device__ __forceinline__ float row_maximum(float most) {
        most = fmaxf(most, __shfl_xor_sync(kWarp, most, 1));
        return fmaxf(most, __shfl_xor_sync(kWarp, most, 2));
    }

    // The new maximum of the row, in log2 units, is raise(old, that of the row's lanes). factor_ rescales O and l. Every row sees a key of
    // its first tile, so the maximum is finite.
    template <typename Raise>
    __device__ __forceinline__ void raise_maximum(int half, float most, Raise raise) {
        const float old = max_[half];
        max_[half] = raise(old, row_maximum(most) * scale_);
        factor_[half] = exp2f(old - max_[half]);
    }

    // Turns the row's scores into probabilities; each(j, p) is given those of a block's columns 2t + j.
    template <typename Each>
    __device__ __forceinline__ void exponentiate(Scores& s, int half, Each each) const {
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int i = 4 * block + 2 * half + j;
                s[i] = exp2f(fmaf(s[i], scale_, -max_[half]));
                each(j, s[i]);
            }
        }
    }

    __device__ __forceinline__ void rescale_output() {
#pragma unroll
        for (int i = 0; i < T::kOutputColumns / 2; ++i) o_[i] *= factor_[i / 2 % 2];
    }

    float scale_;
    bool negate_;
    int keys_, first_row_;
    float o_[T::kOutputColumns / 2];
    float max_[2];  // m of rows g and g + 8
    float factor_[2];

private:
    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(Scores& s, int first_key) const {
        if (first_key + T::kTileN <= keys_ && (!kCausal || first_key + T::kTileN <= first_row_ + 1)) return;
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) {
            const int key = first_key + i / 4 * 8 + column() + i % 2;
            if (key >= keys_ || (kCausal && key > row(i / 2 % 2))) s[i] = -INFINITY;
        }
    }

    // The first raw scores of head 0.
    __device__ inline void print_scores(const Scores& s) const {
        if (blockIdx.x != 0 || blockIdx.y != 0 || blockIdx.z != 0 || first_row_ != 0 || threadIdx.x % kWarpgroup >= 8) return;
        for (int i = 0; i < 2; ++i) printf("score[%d][%d] = %.6f\n", row(0), column() + i, static_cast<double>(s[i]));
    }
};

}  // namespace sdpa
