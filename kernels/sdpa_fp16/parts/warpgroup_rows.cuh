// The 64 query rows of a consumer warpgroup: their scores, P, O, m and l in registers, and the steps of the work on them. Each stage
// has its own order of the steps.
//
// A warp has 16 of the rows. With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g
// and g + 8 and columns 2t and 2t + 1; as A of the second product P wants just these, so it goes from registers to registers.
#pragma once

#include <cmath>
#include <cstdio>

#include "../../cuda/wgmma.cuh"
#include "heads.cuh"
#include "warpgroup_tiles.cuh"

namespace sdpa {

template <typename T, bool kCausal>
class WarpgroupRows {
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
    __device__ __forceinline__ explicit WarpgroupRows(const Problem& problem)
        : scale_(problem.scale), negate_(problem.negate), keys_(problem.keys) {}

    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int column() { return lane() % 4 * 2; }  // of a block
    static __device__ __forceinline__ int strip_row(int half) { return threadIdx.x % kWarpgroup / 32 * 16 + lane() / 4 + 8 * half; }

    __device__ __forceinline__ int row(int half) const { return first_row_ + strip_row(half); }

    // Tiles before this one need neither a mask nor another sign.
    __device__ __forceinline__ int plain_tiles() const {
        const int all_see = kCausal ? min(keys_, first_row_ + 1) : keys_;  // keys that every row sees
        return negate_ ? 0 : all_see / T::kTileN;
    }

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

    // Scores of tile `tile` as the softmax wants them: with the scale's sign, and hidden where the row doesn't see the key.
    template <bool kGeneral>
    __device__ __forceinline__ void prepare_scores(int tile) {
        if constexpr (kGeneral) {
            if (negate_) {  // softmax_scale is negative; scale_ is its absolute value
#pragma unroll
                for (int i = 0; i < T::kTileN / 2; ++i) s_[i] = -s_[i];
            }
            mask(tile * T::kTileN);
        }
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores();
        }
    }

    // Turns scores of rows g (`half` 0) or g + 8 into probabilities. The new maximum, in log2 units, is raise(old, the tile's).
    // factor_ rescales O and l. Every row sees a key of its first tile, so the maximum is finite.
    template <typename Raise>
    __device__ __forceinline__ void exponentiate(int half, Raise raise) {
        float most[2];  // of even and odd blocks: half as long a chain
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
            const float pair = fmaxf(s_[4 * block + 2 * half], s_[4 * block + 2 * half + 1]);
            most[block % 2] = block < 2 ? pair : fmaxf(most[block % 2], pair);
        }
        most[0] = fmaxf(most[0], most[1]);
        most[0] = fmaxf(most[0], __shfl_xor_sync(kWarp, most[0], 1));
        most[0] = fmaxf(most[0], __shfl_xor_sync(kWarp, most[0], 2));
        const float old = max_[half];
        max_[half] = raise(old, most[0] * scale_);
        factor_[half] = exp2f(old - max_[half]);
        float sum[2] = {};
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int i = 4 * block + 2 * half + j;
                s_[i] = exp2f(fmaf(s_[i], scale_, -max_[half]));
                sum[j] += s_[i];
            }
        }
        sum_[half] = fmaf(sum_[half], factor_[half], sum[0] + sum[1]);
    }

    __device__ __forceinline__ void rescale_output() {
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] *= factor_[i / 2 % 2];
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

    float scale_;
    bool negate_;
    int keys_, first_row_;
    float s_[T::kTileN / 2];
    unsigned p_[T::kTileN / 16][4];
    float o_[T::kDim / 2];
    float max_[2], sum_[2];  // m of rows g and g + 8, and this lane's part of l
    float factor_[2];

private:
    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(int first_key) {
        if (first_key + T::kTileN <= keys_ && (!kCausal || first_key + T::kTileN <= first_row_ + 1)) return;
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) {
            const int key = first_key + i / 4 * 8 + column() + i % 2;
            if (key >= keys_ || (kCausal && key > row(i / 2 % 2))) s_[i] = -INFINITY;
        }
    }

    // The first raw scores of head 0.
    __device__ inline void print_scores() const {
        if (blockIdx.x != 0 || blockIdx.y != 0 || blockIdx.z != 0 || first_row_ != 0 || threadIdx.x % kWarpgroup >= 8) return;
        for (int i = 0; i < 2; ++i) printf("score[%d][%d] = %.6f\n", row(0), column() + i, static_cast<double>(s_[i]));
    }
};

}  // namespace sdpa
