// Puts the parts of O together that kWarpsN warps have for the same rows, each over its own keys with its own m and l:
// O = sum of w O_part, w = exp2(m_part - m) / l, m the largest m_part, l = sum of exp2(m_part - m) l_part.
#pragma once

#include "pipeline_warp.cuh"

namespace sdpa {

template <typename T>
class Combine {
public:
    // `bytes`: the CTA's shared memory, T::kSharedBytes of it.
    __device__ __forceinline__ explicit Combine(unsigned char* bytes)
        : parts_(reinterpret_cast<float*>(bytes)), max_(reinterpret_cast<float*>(bytes + T::kStateStart)),
          sum_(max_ + kRowParts), weight_(sum_ + kRowParts) {}

    // All warps together, after their last tile; `out`: the CTA's rows of O, of which `valid_rows` exist.
    template <typename Work>
    __device__ __forceinline__ void run(const Work& work, __half* out, int valid_rows) {
        const int lane = threadIdx.x % 32, part = Work::part();
        work.for_each_row([&](int row, float m, float l, auto) {
            if (lane % 4 == 0) {
                max_[row * T::kWarpsN + part] = m;
                sum_[row * T::kWarpsN + part] = l;
            }
        });
        __syncthreads();  // m and l of all parts are there, and K and V, whose place O takes, are read to the end
        work.for_each_row([&](int row, float, float, auto columns) {
            float* const place = parts_ + (part * T::kTileM + row) * T::kOutputLd + lane % 4 * 2;
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) *reinterpret_cast<float2*>(place + 8 * block) = columns(block);
        });
        weigh();
        __syncthreads();  // O and the weights of all parts are there
        write(out, valid_rows);
    }

private:
    static constexpr int kRowParts = T::kTileM * T::kWarpsN;

    // A thread a row and part; the kWarpsN lanes of a row are neighbours.
    __device__ __forceinline__ void weigh() {
#pragma unroll
        for (int first = 0; first < kRowParts; first += T::kThreads) {
            const int index = first + threadIdx.x;
            if (kRowParts < T::kThreads && index >= kRowParts) break;  // whole warps: kRowParts is a multiple of 32
            float most = max_[index];
#pragma unroll
            for (int step = 1; step < T::kWarpsN; step *= 2) most = fmaxf(most, __shfl_xor_sync(kWarp, most, step));
            // Some part has seen a key of the row, so `most` is finite; a part that has not weighs 0.
            const float weight = exp2f(max_[index] - most);
            float sum = weight * sum_[index];
#pragma unroll
            for (int step = 1; step < T::kWarpsN; step *= 2) sum += __shfl_xor_sync(kWarp, sum, step);
            weight_[index] = __fdividef(weight, sum);
        }
    }

    // Four columns of a row at a time, so that the lanes of a row read all banks.
    __device__ __forceinline__ void write(__half* out, int valid_rows) const {
        constexpr int kRowQuads = T::kDim / 4;
#pragma unroll
        for (int first = 0; first < T::kTileM * kRowQuads; first += T::kThreads) {
            const int quad = first + threadIdx.x, row = quad / kRowQuads, column = quad % kRowQuads * 4;
            float sums[4] = {};
#pragma unroll
            for (int part = 0; part < T::kWarpsN; ++part) {
                const float weight = weight_[row * T::kWarpsN + part];
                const float4 four = *reinterpret_cast<const float4*>(parts_ + (part * T::kTileM + row) * T::kOutputLd + column);
                sums[0] = fmaf(weight, four.x, sums[0]);
                sums[1] = fmaf(weight, four.y, sums[1]);
                sums[2] = fmaf(weight, four.z, sums[2]);
                sums[3] = fmaf(weight, four.w, sums[3]);
            }
            if (row < valid_rows) {
                *reinterpret_cast<uint2*>(out + row * T::kDim + column) =
                    make_uint2(pack_halves(sums[0], sums[1]), pack_halves(sums[2], sums[3]));
            }
        }
    }

    float* parts_;   // [part][row of the CTA's tile][kOutputLd]
    float* max_;     // [row][part], and so are
    float* sum_;
    float* weight_;
};

// The rows of warps that share them with none.
template <typename T, typename Work>
__device__ __forceinline__ void write_rows(const Work& work, __half* out, int valid_rows) {
    work.for_each_row([&](int row, float, float l, auto columns) {
        const float factor = __fdividef(1.0f, l);
        unsigned* const place = reinterpret_cast<unsigned*>(out + row * T::kDim + threadIdx.x % 4 * 2);
#pragma unroll
        for (int block = 0; block < T::kDim / 8; ++block) {
            const float2 two = columns(block);
            if (row < valid_rows) place[4 * block] = pack_halves(two.x * factor, two.y * factor);
        }
    });
}

}  // namespace sdpa
