// fp16_v9_pipeline, the work of a warp: the two products of its strips of query rows with its keys.
#pragma once

#include "../cuda/warp_matrix.cuh"
#include "../sdpa/rows.cuh"
#include "scalar_product.cuh"

namespace sdpa {

static_assert(USE_WMMA <= 1, "USE_WMMA is 0 or 1 here: both products are on tensor cores, or none");

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
class WarpWork : public WarpRows<T, kCausal> {
    using Rows = WarpRows<T, kCausal>;
    using Rows::lane, Rows::o_, Rows::s_, Rows::warp_key;

public:
    using Rows::warp_row;

    __device__ __forceinline__ explicit WarpWork(float scale) : Rows(scale) {}

    // Q's fragments, from the CTA's tile. A negative scale is a positive one for -Q.
    __device__ __forceinline__ void load_queries(const __half* tile, bool negate) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int step = 0; step < T::kDim / 16; ++step) {
                const int row = warp_row() + 16 * strip + lane() % 16;
                warp_matrix::load_matrices<false>(q_[strip][step], tile + chunk_place<T>(row, 2 * step + lane() / 16));
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
                warp_matrix::load_matrices<false>(b, tile + chunk_place<T>(row, 2 * step + lane() / 8 % 2));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    product(s_[strip][key / 8], q_[strip][step], b[0], b[1]);
                    product(s_[strip][key / 8 + 1], q_[strip][step], b[2], b[3]);
                }
            }
        }
    }

    // O += P·V of the warp's share of a tile of V, 16 keys at a time.
    __device__ __forceinline__ void accumulate(const __half* tile) {
#pragma unroll
        for (int key = 0; key < T::kWarpKeys; key += 16) {
            unsigned p[T::kStrips][4];
            this->probabilities(key, p);
#pragma unroll
            for (int column = 0; column < T::kDim / 8; column += 2) {
                unsigned b[4];  // columns of chunk `column`: b[0], b[1]; of the next chunk: b[2], b[3]
                const int row = warp_key() + key + lane() % 16;
                warp_matrix::load_matrices<true>(b, tile + chunk_place<T>(row, column + lane() / 16));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    product(o_[strip][column], p[strip], b[0], b[1]);
                    product(o_[strip][column + 1], p[strip], b[2], b[3]);
                }
            }
        }
    }

    // One block of O, of which this lane has columns 2t and 2t + 1 of row g, `row`, and of row g + 8.
    static constexpr int kWritten = 1;
    static __device__ __forceinline__ void write(__half* out, int row, int block, int valid_rows, const float (&o)[1][4]) {
        write_pair<T>(out, row, block, valid_rows, o[0][0], o[0][1]);
        write_pair<T>(out, row + 8, block, valid_rows, o[0][2], o[0][3]);
    }

private:
    unsigned q_[T::kStrips][T::kDim / 16][4];
};

// The rows of warps that share them with none.
template <typename T, typename Work>
__device__ __forceinline__ void write_rows(const Work& work, __half* out, int valid_rows) {
    float factors[T::kStrips][2];
    int next = 0;
    work.for_each_row([&](int, float, float l) {
        factors[next / 2][next % 2] = __fdividef(1.0f, l);
        ++next;
    });
    work.for_each_block([&](int strip, int block, const float(&o)[4]) {
        const int row = Work::warp_row() + 16 * strip + threadIdx.x % 32 / 4;
        write_pair<T>(out, row, block, valid_rows, o[0] * factors[strip][0], o[1] * factors[strip][0]);
        write_pair<T>(out, row + 8, block, valid_rows, o[2] * factors[strip][1], o[3] * factors[strip][1]);
    });
}

}  // namespace sdpa
