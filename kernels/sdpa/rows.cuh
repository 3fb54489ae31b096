// Attention in registers: a warp's strips of query rows. Each family's class adds the two products.
//
// With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g and g + 8 and columns
// 2t and 2t + 1. P as A of the second product has the same layout, so it stays in registers.
#pragma once

#include <cmath>
#include <cstdio>

#include "tiles.cuh"

namespace sdpa {

template <typename T, bool kCausal>
class WarpRows {
public:
    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(int first_query, int first_key, int keys) {
        const int key = first_key + warp_key(), row = first_query + warp_row();
        if (key + T::kWarpKeys <= keys && (!kCausal || key + T::kWarpKeys <= row + 1)) return;
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int block = 0; block < T::kWarpKeys / 8; ++block) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int column = key + 8 * block + lane() % 4 * 2 + i % 2;
                    const int query = row + 16 * strip + lane() / 4 + i / 2 * 8;
                    if (column >= keys || (kCausal && column > query)) s_[strip][block][i] = -INFINITY;
                }
            }
        }
    }

    // The online softmax's new maxima, in log2 units; O and l so far are rescaled to them.
    __device__ __forceinline__ void raise_maxima(bool first_tile) {
        float factor[T::kStrips][2];
        bool grew = false;
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float most = -INFINITY;
#pragma unroll
                for (int block = 0; block < T::kWarpKeys / 8; ++block) {
                    most = fmaxf(most, fmaxf(s_[strip][block][2 * half], s_[strip][block][2 * half + 1]));
                }
                most = fmaxf(most, __shfl_xor_sync(kWarp, most, 1));
                most = fmaxf(most, __shfl_xor_sync(kWarp, most, 2));
                const float old = max_[strip][half];
                max_[strip][half] = fmaxf(old, most * scale_);
                grew |= max_[strip][half] > old;
                factor[strip][half] = exp2f(old - base(strip, half));
            }
        }
        if (first_tile || !__any_sync(kWarp, grew)) return;  // nothing to rescale, or by 1
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int block = 0; block < T::kDim / 8; ++block) o_[strip][block][i] *= factor[strip][i / 2];
            }
            sum_[strip][0] *= factor[strip][0];
            sum_[strip][1] *= factor[strip][1];
        }
    }

    // After the last tile: l of each row, over all lanes that share it.
    __device__ __forceinline__ void finish() {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                sum_[strip][half] += __shfl_xor_sync(kWarp, sum_[strip][half], 1);
                sum_[strip][half] += __shfl_xor_sync(kWarp, sum_[strip][half], 2);
            }
        }
    }

    // visit(row of the CTA's tile, m, l), for the rows g and g + 8 of each strip.
    template <typename Visit>
    __device__ __forceinline__ void for_each_row(Visit visit) const {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                visit(warp_row() + 16 * strip + 8 * half + lane() / 4, max_[strip][half], sum_[strip][half]);
            }
        }
    }

    // visit(strip, block, o): two columns of row g, and of row g + 8; which ones, the family's product decides.
    template <typename Visit>
    __device__ __forceinline__ void for_each_block(Visit visit) const {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) visit(strip, block, o_[strip][block]);
        }
    }

    static __device__ __forceinline__ int part() { return T::kWarpsN == 1 ? 0 : threadIdx.x / 32 / T::kWarpsM; }

    static __device__ __forceinline__ int warp_row() {
        return T::kWarpsM == 1 ? 0 : threadIdx.x / 32 % T::kWarpsM * (16 * T::kStrips);
    }

    // The first raw scores of head 0, from the lanes that hold row 0 and 1.
    __device__ inline void print_scores() const {
        if (blockIdx.x != 0 || blockIdx.y != 0 || blockIdx.z != 0 || threadIdx.x >= 8) return;
        for (int i = 0; i < 2; ++i) {
            printf("score[%d][%d] = %.6f\n", threadIdx.x / 4, threadIdx.x % 4 * 2 + i, static_cast<double>(s_[0][0][i]));
        }
    }

protected:
    // `scale` turns a raw score into log2 units. It is positive: a hidden score is -inf, and 0 * -inf is NaN.
    __device__ __forceinline__ explicit WarpRows(float scale) : scale_(scale) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) max_[strip][half] = -INFINITY;
        }
    }

    // P = exp2(scores * scale - m) of 16 keys from `key` on, as A of the second product, and added to l.
    __device__ __forceinline__ void probabilities(int key, unsigned (&p)[T::kStrips][4]) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // rows g + 8 (i % 2), keys 8 (i / 2) to 8 (i / 2) + 7
                const float(&scores)[4] = s_[strip][key / 8 + i / 2];
                const int half = i % 2;
                const float low = exp2f(fmaf(scores[2 * half], scale_, -base(strip, half)));
                const float high = exp2f(fmaf(scores[2 * half + 1], scale_, -base(strip, half)));
                sum_[strip][half] += low + high;
                p[strip][i] = pack_pair<typename T::Product>(low, high);
            }
        }
    }

    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp_key() { return part() * T::kWarpKeys; }

    float s_[T::kStrips][T::kWarpKeys / 8][4];
    float o_[T::kStrips][T::kDim / 8][4] = {};

private:
    // What is subtracted from exponents: m, or 0 for a row that has seen no key yet. Then each exp2(-inf - 0) is 0.
    __device__ __forceinline__ float base(int strip, int half) const {
        return max_[strip][half] == -INFINITY ? 0.0f : max_[strip][half];
    }

    float scale_;
    float max_[T::kStrips][2];       // m of rows g and g + 8
    float sum_[T::kStrips][2] = {};  // this lane's part of l
};

}  // namespace sdpa
