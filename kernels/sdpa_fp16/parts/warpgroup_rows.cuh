// The 64 query rows of a consumer warpgroup: their scores, P, O, m and l in registers, and the steps of the work on them. Each stage
// has its own order of the steps.
//
// As A of the second product P wants just what a lane holds of the scores (sdpa/warpgroup_softmax.cuh), so it goes from registers to
// registers.
#pragma once

#include "../../cuda/wgmma.cuh"
#include "../../sdpa/warpgroup_softmax.cuh"
#include "heads.cuh"
#include "warpgroup_tiles.cuh"

namespace sdpa {

template <typename T, bool kCausal>
class WarpgroupRows : public WarpgroupSoftmax<T, kCausal> {
    using Softmax = WarpgroupSoftmax<T, kCausal>;

public:
    // The rows that exist, to O of head `number`; and their log-sum-exp.
    __device__ __forceinline__ void write(const Problem& problem, const Head& head, int number) const {
        const auto out = rows_of<T::kDim>(problem.out, head.batch, head.of_queries, problem.queries, 0);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int query = row(half);
            if (query >= problem.queries) continue;
            if (lane() % 4 == 0) keep_lse(problem, number, query, max_[half], sum_[half]);
            const float factor = __fdividef(1.0f, sum_[half]);
            unsigned* const pairs = reinterpret_cast<unsigned*>(out.row(static_cast<std::int64_t>(query)) + column());
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                pairs[4 * block] = pack_pair<Element>(o_[4 * block + 2 * half] * factor, o_[4 * block + 2 * half + 1] * factor);
            }
        }
    }

protected:
    using Softmax::column, Softmax::factor_, Softmax::lane, Softmax::max_, Softmax::o_, Softmax::row;

    __device__ __forceinline__ explicit WarpgroupRows(const Problem& problem) : Softmax(problem.scale, problem.negate, problem.keys) {}

    // s = Q·K^T, 16 columns of Q and K at a time: 32 bytes of each row of a panel.
    __device__ __forceinline__ void issue_scores(std::uint64_t queries, const unsigned char* key_tile) {
        const std::uint64_t keys = wgmma::descriptor(key_tile, 0, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(s_, o_, p_);
#pragma unroll
        for (int step = 0; step < T::kDim / 16; ++step) {
            const int panel = step / 4, bytes = step % 4 * 32;
            wgmma::multiply<T::kTileN, false, Element>(s_, wgmma::advance(queries, panel * T::kQueryPanelBytes + bytes),
                                              wgmma::advance(keys, panel * T::kKeyPanelBytes + bytes), step > 0);
        }
        wgmma::commit();
    }

    // o += P·V, 16 keys at a time: 16 rows of each panel.
    __device__ __forceinline__ void issue_output(const unsigned char* value_tile) {
        const std::uint64_t values = wgmma::descriptor(value_tile, T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(o_, p_);
#pragma unroll
        for (int step = 0; step < T::kTileN / 16; ++step) {
            wgmma::multiply<T::kDim, true, Element>(o_, p_[step], wgmma::advance(values, step * 16 * 128));
        }
        wgmma::commit();
    }

    // This warp has read what the barrier guards.
    static __device__ __forceinline__ void release(mbarrier::Barrier* barrier) {
        if (lane() == 0) mbarrier::arrive(barrier);
    }

    template <bool kGeneral>
    __device__ __forceinline__ void prepare_scores(int tile) {
        Softmax::prepare_scores(s_, tile, kGeneral);
    }

    // Turns scores of rows g (`half` 0) or g + 8 into probabilities, and sums up l.
    template <typename Raise>
    __device__ __forceinline__ void exponentiate(int half, Raise raise) {
        this->raise_maximum(half, Softmax::lane_maximum(s_, half), raise);
        float sum[2] = {};
        Softmax::exponentiate(s_, half, [&](int j, float probability) { sum[j] += probability; });
        sum_[half] = fmaf(sum_[half], factor_[half], sum[0] + sum[1]);
    }

    __device__ __forceinline__ void round_probabilities() {
#pragma unroll
        for (int i = 0; i < T::kTileN / 4; ++i) p_[i / 4][i % 4] = pack_pair<Element>(s_[2 * i], s_[2 * i + 1]);
    }

    // The log-sum-exp of the rows, of head `number`, if asked for. l is not summed up yet, and stays so.
    __device__ __forceinline__ void keep_lse_early(const Problem& problem, int number) const {
        if (!lse_is_asked_for(problem)) return;
        float sum[2] = {sum_[0], sum_[1]};
        sum_up(sum);
        if (lane() % 4 != 0) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) keep_lse(problem, number, row(half), max_[half], sum[half]);
    }

    // Sums of a row's four lanes.
    static __device__ __forceinline__ void sum_up(float (&sum)[2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(kWarp, sum[half], 1);
            sum[half] += __shfl_xor_sync(kWarp, sum[half], 2);
        }
    }

    float s_[T::kTileN / 2];
    unsigned p_[T::kTileN / 16][4];
    float sum_[2];  // this lane's part of l of rows g and g + 8
};

}  // namespace sdpa
