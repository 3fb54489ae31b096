// Combines the parts of O that kWarpsN warps have for the same rows, each over its own keys with its own m and l:
// O = sum of w O_part, w = exp2(m_part - m) / l, m the largest m_part, l = sum of exp2(m_part - m) l_part.
#pragma once

#include "rows.cuh"

namespace sdpa {

struct Forget {
    __device__ __forceinline__ void operator()(int, float, float) const {}
};

// Each warp writes its part in its own layout, a block of 16 x 8 at a time, 16 bytes per lane. Then it reads kBlocks / kWarpsN
// blocks of its rows from all parts. A lane reads the places that it wrote in its own part, so there are no bank conflicts.
template <typename T>
class Combine {
public:
    // `bytes`: the CTA's shared memory, T::kSharedBytes of it. `scale`: what O is multiplied by.
    __device__ __forceinline__ explicit Combine(unsigned char* bytes, float scale = 1.0f)
        : parts_(reinterpret_cast<float4*>(bytes + T::kPartStart)), max_(reinterpret_cast<float*>(bytes + T::kStateStart)),
          sum_(max_ + T::kTileM * T::kWarpsN), scale_(scale) {}

    // All warps together, after their last tile; `out`: the CTA's rows of O, of which `valid_rows` exist. Work::write takes
    // Work::kWritten neighbouring blocks of a strip at a time. keep(row of the tile, m, l) is called by one lane per row.
    template <typename Work, typename Out, typename Keep = Forget>
    __device__ __forceinline__ void run(const Work& work, Out out, int valid_rows, Keep keep = {}) {
        const int lane = threadIdx.x % 32, part = Work::part();
        if constexpr (T::kPartStart == 0) __syncthreads();  // K and V, whose place the parts take, are read to the end
        work.for_each_row([&](int row, float m, float l) {
            if (lane % 4 == 0) {
                max_[row * T::kWarpsN + part] = m;
                sum_[row * T::kWarpsN + part] = l;
            }
        });
        work.for_each_block([&](int strip, int block, const float(&o)[4]) {
            *place<Work>(part, strip, block) = make_float4(o[0], o[1], o[2], o[3]);
        });
        __syncthreads();  // all parts are there
        constexpr int kOwn = T::kDim / 8 / T::kWarpsN;  // blocks
        static_assert(kOwn % Work::kWritten == 0, "a warp has whole groups of the blocks that are written together");
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
            const int row = Work::warp_row() + 16 * strip + lane / 4;
            float upper[T::kWarpsN], lower[T::kWarpsN];  // weights of row g and g + 8
            const bool keeps = part == 0 && lane % 4 == 0;
            weigh(row, upper, keeps, keep);
            weigh(row + 8, lower, keeps, keep);
#pragma unroll
            for (int next = 0; next < kOwn; next += Work::kWritten) {
                const int first = part * kOwn + next;
                float sums[Work::kWritten][4] = {};
#pragma unroll
                for (int i = 0; i < Work::kWritten; ++i) {
#pragma unroll
                    for (int other = 0; other < T::kWarpsN; ++other) {
                        const float4 o = *place<Work>(other, strip, first + i);
                        sums[i][0] = fmaf(upper[other], o.x, sums[i][0]);
                        sums[i][1] = fmaf(upper[other], o.y, sums[i][1]);
                        sums[i][2] = fmaf(lower[other], o.z, sums[i][2]);
                        sums[i][3] = fmaf(lower[other], o.w, sums[i][3]);
                    }
                }
                Work::write(out, row, first, valid_rows, sums);
            }
        }
    }

private:
    template <typename Work>
    __device__ __forceinline__ float4* place(int part, int strip, int block) const {
        const int strips = T::kStrips * T::kWarpsM, of_tile = Work::warp_row() / 16 + strip;
        return parts_ + ((part * strips + of_tile) * (T::kDim / 8) + block) * 32 + threadIdx.x % 32;
    }

    template <typename Keep>
    __device__ __forceinline__ void weigh(int row, float (&weights)[T::kWarpsN], bool keeps, Keep keep) const {
        float sums[T::kWarpsN];
        read(max_ + row * T::kWarpsN, weights);
        read(sum_ + row * T::kWarpsN, sums);
        float most = weights[0], sum = 0.0f;
#pragma unroll
        for (int part = 1; part < T::kWarpsN; ++part) most = fmaxf(most, weights[part]);
        // Some part has seen a key of the row, so `most` is finite; a part that has not weighs 0.
#pragma unroll
        for (int part = 0; part < T::kWarpsN; ++part) {
            weights[part] = exp2f(weights[part] - most);
            sum = fmaf(weights[part], sums[part], sum);
        }
        if (keeps) keep(row, most, sum);
        const float factor = __fdividef(scale_, sum);
#pragma unroll
        for (int part = 0; part < T::kWarpsN; ++part) weights[part] *= factor;
    }

    static __device__ __forceinline__ void read(const float* from, float (&values)[T::kWarpsN]) {
#pragma unroll
        for (int i = 0; i < T::kWarpsN; i += 2) {
            const float2 two = *reinterpret_cast<const float2*>(from + i);
            values[i] = two.x;
            values[i + 1] = two.y;
        }
    }

    float4* parts_;  // [part][strip of the CTA's tile][block][lane]
    float* max_;     // [row of the tile][part], and so is
    float* sum_;
    float scale_;
};

}  // namespace sdpa
