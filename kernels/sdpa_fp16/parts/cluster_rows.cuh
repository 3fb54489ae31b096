// Query rows whose keys the CTAs of a cluster share out. Each CTA has a part of O, with its own m and l.
#pragma once

#include "../../cuda/cluster.cuh"
#include "warpgroup_rows.cuh"

namespace sdpa {

template <typename T, bool kCausal>
class ClusterRows : public WarpgroupRows<T, kCausal> {
    using Rows = WarpgroupRows<T, kCausal>;

public:
    // All parts to shared memory, then each CTA puts every `shares`-th row together, from `first_query` on, and writes those that
    // exist to O of head `number`. K and V, whose place the parts take, are read to the end.
    // O = sum of w O_part, w = exp2(m_part - m) / l, l = sum of exp2(m_part - m) l_part.
    __device__ __forceinline__ void combine(typename T::Shared& shared, int group, const Problem& problem, int number, int first_query, int shares) {
        const int first = 64 * group;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first + strip_row(half);
            if (lane() % 4 == 0) shared.state[row] = make_float2(max_[half], sum_[half]);
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                *reinterpret_cast<float2*>(shared.part + part_place(row, block) + column()) =
                    make_float2(o_[4 * block + 2 * half], o_[4 * block + 2 * half + 1]);
            }
        }
        cluster::sync();  // all parts are there
        const Head head = head_of(problem, number);
        const auto out = rows_of<T::kDim>(problem.out, head.batch, head.of_queries, problem.queries, 0);
        constexpr int kBlocks = T::kDim / 8, kThreads = T::kConsumers * kWarpgroup;
        const int rows = min(T::kTileM, problem.queries - first_query), thread = threadIdx.x - kWarpgroup;
        for (int row = cluster::rank() + thread / kBlocks * shares; row < rows; row += kThreads / kBlocks * shares) {
            float most = -INFINITY, sum = 0.0f, sums[8] = {};
            for (int share = 0; share < shares; ++share) most = fmaxf(most, cluster::of_rank(shared.state, share)[row].x);
            for (int share = 0; share < shares; ++share) {
                const float2 state = cluster::of_rank(shared.state, share)[row];
                const float weight = exp2f(state.x - most);
                sum = fmaf(weight, state.y, sum);
                const float4* const place = reinterpret_cast<const float4*>(cluster::of_rank(shared.part, share) + part_place(row, thread % kBlocks));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float4 four = place[i];
                    sums[4 * i] = fmaf(weight, four.x, sums[4 * i]);
                    sums[4 * i + 1] = fmaf(weight, four.y, sums[4 * i + 1]);
                    sums[4 * i + 2] = fmaf(weight, four.z, sums[4 * i + 2]);
                    sums[4 * i + 3] = fmaf(weight, four.w, sums[4 * i + 3]);
                }
            }
            if (thread % kBlocks == 0) keep_lse(problem, number, first_query + row, most, sum);
            const float factor = __fdividef(1.0f, sum);
            const uint4 pairs = {pack_pair<Element>(sums[0] * factor, sums[1] * factor), pack_pair<Element>(sums[2] * factor, sums[3] * factor),
                                 pack_pair<Element>(sums[4] * factor, sums[5] * factor), pack_pair<Element>(sums[6] * factor, sums[7] * factor)};
            reinterpret_cast<uint4*>(out.row(static_cast<std::int64_t>(first_query + row)))[thread % kBlocks] = pairs;
        }
        cluster::sync();  // the others have read this CTA's part
    }

protected:
    using Rows::column, Rows::lane, Rows::max_, Rows::o_, Rows::strip_row, Rows::sum_;
    using Rows::Rows;

private:
    static __device__ __forceinline__ int part_place(int row, int block) { return row * T::kDim + (block ^ row % 8) * 8; }  // no bank conflicts
};

}  // namespace sdpa
