// fp16_v9_pipeline, the work of a warp: its strips of query rows against its keys, all of it in registers.
//
// With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g and g + 8 and columns
// 2t and 2t + 1. As A of the second product P wants just these elements, so it goes from registers to registers.
#pragma once

#include <cmath>

#include "../common/warp_matrix.cuh"
#include "pipeline_tiles.cuh"
#include "scalar_product.cuh"

namespace sdpa {

__device__ __forceinline__ void product(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (USE_WMMA == 0) {
        scalar_multiply_add(c, a, b0, b1);
    } else {
        warp_matrix::multiply_add(c, a, b0, b1);
    }
}

// Two neighbouring columns of block `block` of a row of O, of which `valid_rows` exist.
template <typename T>
__device__ __forceinline__ void write_pair(__half* out, int row, int block, int valid_rows, float low, float high) {
    if (row >= valid_rows) return;
    *reinterpret_cast<unsigned*>(out + row * T::kDim + 8 * block + threadIdx.x % 4 * 2) = pack_halves(low, high);
}

template <typename T, bool kCausal>
class WarpWork {
public:
    __device__ __forceinline__ explicit WarpWork(float scale) : scale_(scale) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) max_[strip][half] = -INFINITY;
        }
    }

    // Q's fragments, from the CTA's tile. A negative scale is a positive one for -Q.
    __device__ __forceinline__ void load_queries(const __half* tile, bool negate) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int step = 0; step < T::kDim / 16; ++step) {
                const int row = warp_row() + 16 * strip + lane() % 16;
                warp_matrix::load_matrices<false>(q_[strip][step], tile + chunk_place<T::kDim>(row, 2 * step + lane() / 16));
#pragma unroll
                for (int i = 0; i < 4; ++i) q_[strip][step][i] ^= negate ? 0x80008000u : 0u;
            }
        }
    }

    // Q·K^T of one part of the warp's share of a tile of K.
    template <int kPart>
    __device__ __forceinline__ void compute_scores(const __half* tile) {
#pragma unroll
        for (int key = kPart * T::kPartKeys; key < (kPart + 1) * T::kPartKeys; key += 16) {
#pragma unroll
            for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
                for (int i = 0; i < 8; ++i) s_[strip][key / 8 + i / 4][i % 4] = 0.0f;
            }
#pragma unroll
            for (int step = 0; step < T::kDim / 16; ++step) {
                unsigned b[4];  // keys 0 to 7: b[0], b[1]; keys 8 to 15: b[2], b[3]
                const int row = warp_key() + key + lane() / 16 * 8 + lane() % 8;
                warp_matrix::load_matrices<false>(b, tile + chunk_place<T::kDim>(row, 2 * step + lane() / 8 % 2));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    product(s_[strip][key / 8], q_[strip][step], b[0], b[1]);
                    product(s_[strip][key / 8 + 1], q_[strip][step], b[2], b[3]);
                }
            }
        }
    }

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

    // P = exp2(scores * scale - m), 16 keys at a time, and O += P·V of the warp's share of a tile of V.
    __device__ __forceinline__ void accumulate(const __half* tile) {
#pragma unroll
        for (int key = 0; key < T::kWarpKeys; key += 16) {
            unsigned p[T::kStrips][4];
#pragma unroll
            for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {  // rows g + 8 (i % 2), keys 8 (i / 2) to 8 (i / 2) + 7
                    const float(&scores)[4] = s_[strip][key / 8 + i / 2];
                    const int half = i % 2;
                    const float low = exp2f(fmaf(scores[2 * half], scale_, -base(strip, half)));
                    const float high = exp2f(fmaf(scores[2 * half + 1], scale_, -base(strip, half)));
                    sum_[strip][half] += low + high;
                    p[strip][i] = pack_halves(low, high);
                }
            }
#pragma unroll
            for (int column = 0; column < T::kDim / 8; column += 2) {
                unsigned b[4];  // columns of chunk `column`: b[0], b[1]; of the next chunk: b[2], b[3]
                const int row = warp_key() + key + lane() % 16;
                warp_matrix::load_matrices<true>(b, tile + chunk_place<T::kDim>(row, column + lane() / 16));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    product(o_[strip][column], p[strip], b[0], b[1]);
                    product(o_[strip][column + 1], p[strip], b[2], b[3]);
                }
            }
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

    // visit(strip, block, o): O's columns 8 block + 2t and + 2t + 1 of row g, and of row g + 8.
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

    __device__ inline void print_scores() const;

private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp_key() { return part() * T::kWarpKeys; }

    // What exponents are taken from: m, or 0 for a row that has seen no key yet, whose every exp2(-inf - 0) is then 0.
    __device__ __forceinline__ float base(int strip, int half) const {
        return max_[strip][half] == -INFINITY ? 0.0f : max_[strip][half];
    }

    float scale_;
    unsigned q_[T::kStrips][T::kDim / 16][4];
    float s_[T::kStrips][T::kWarpKeys / 8][4];
    float o_[T::kStrips][T::kDim / 8][4] = {};
    float max_[T::kStrips][2];       // m of rows g and g + 8
    float sum_[T::kStrips][2] = {};  // this lane's part of l
};

}  // namespace sdpa
