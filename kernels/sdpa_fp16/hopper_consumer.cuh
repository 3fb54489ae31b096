// fp16_v10_hopper, the work of a consumer warpgroup: 64 query rows against all keys that they see.
//
// A warp has 16 of the rows. With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g
// and g + 8 and columns 2t and 2t + 1; as A of the second product P wants just these, so it goes from registers to registers.
#pragma once

#include <cmath>
#include <cstdio>

#include "../common/wgmma.cuh"
#include "hopper_tiles.cuh"

namespace sdpa {

template <typename T, bool kCausal>
class Consumer {
    using Shared = typename T::Shared;

public:
    // `group`: which of the CTA's consumers. `first_query`: of the CTA.
    __device__ __forceinline__ Consumer(const Problem& problem, Shared& shared, int group, int first_query)
        : shared_(shared), scale_(problem.scale), negate_(problem.negate), keys_(problem.keys), first_row_(first_query + 64 * group),
          queries_(wgmma::descriptor(shared.q + group * 64 * 128, 0, kAtomBytes, wgmma::k128Bytes)) {}

    // O of the rows in registers, over the tiles 0 to `tiles` - 1, and l of each.
    //
    // While the softmax of a tile is computed, P·V of the tile before runs, and both products of the CTA's other warpgroup. The
    // wait for it stands in the next turn of the loop, since the compiler moves it ahead of the softmax within one.
    __device__ __forceinline__ void run(int tiles) {
        mbarrier::wait(&shared_.q_full, 0);
        issue_scores(0);
        wgmma::wait<0>(s_);
        finish_scores(0);
#pragma unroll 1
        for (int tile = 1; tile < tiles; ++tile) {
            finish_output(tile - 2);
            issue_scores(tile);
            issue_output(tile - 1);
            wgmma::wait<1>(s_);
            finish_scores(tile);
        }
        finish_output(tiles - 2);
        issue_output(tiles - 1);
        wgmma::wait<0>(o_, p_);
    }

    // The rows that exist, to the head's O.
    __device__ __forceinline__ void write(__half* out, int queries) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum_[half] += __shfl_xor_sync(kWarp, sum_[half], 1);
            sum_[half] += __shfl_xor_sync(kWarp, sum_[half], 2);
            const int query = row(half);
            if (query >= queries) continue;
            const float factor = __fdividef(1.0f, sum_[half]);
            unsigned* const pairs = reinterpret_cast<unsigned*>(out + static_cast<std::int64_t>(query) * T::kDim + column());
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                pairs[4 * block] = pack_halves(o_[4 * block + 2 * half] * factor, o_[4 * block + 2 * half + 1] * factor);
            }
        }
    }

private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int column() { return lane() % 4 * 2; }  // of a block

    __device__ __forceinline__ int row(int half) const { return first_row_ + threadIdx.x % kWarpgroup / 32 * 16 + lane() / 4 + 8 * half; }

    // s = Q·K^T, 16 columns of Q and K at a time: 32 bytes of each row of a panel.
    __device__ __forceinline__ void issue_scores(int tile) {
        const Slot<T> slot(tile);
        const std::uint64_t keys = wgmma::descriptor(shared_.k[slot.stage], 0, kAtomBytes, wgmma::k128Bytes);
        mbarrier::wait(&shared_.k_full[slot.stage], slot.parity);
        wgmma::fence(s_);
#pragma unroll
        for (int step = 0; step < T::kDim / 16; ++step) {
            const int panel = step / 4, bytes = step % 4 * 32;
            wgmma::multiply<T::kTileN, false>(s_, wgmma::advance(queries_, panel * T::kQueryPanelBytes + bytes),
                                              wgmma::advance(keys, panel * T::kKeyPanelBytes + bytes), step > 0);
        }
        wgmma::commit();
    }

    // o += P·V, 16 keys at a time: 16 rows of each panel.
    __device__ __forceinline__ void issue_output(int tile) {
        const Slot<T> slot(tile);
        const std::uint64_t values = wgmma::descriptor(shared_.v[slot.stage], T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes);
        mbarrier::wait(&shared_.v_full[slot.stage], slot.parity);
        wgmma::fence(o_, p_);
#pragma unroll
        for (int step = 0; step < T::kTileN / 16; ++step) {
            wgmma::multiply<T::kDim, true>(o_, p_[step], wgmma::advance(values, step * 16 * 128));
        }
        wgmma::commit();
    }

    // This warp has read the tile.
    __device__ __forceinline__ void release(mbarrier::Barrier (&empty)[T::kStages], int tile) {
        if (lane() == 0) mbarrier::arrive(&empty[Slot<T>(tile).stage]);
    }

    // Scores become probabilities, relative to the new maxima, in log2 units; factor_ is what O and l so far shrink by.
    // Every row has seen key 0, so no maximum is -infinity.
    __device__ __forceinline__ void finish_scores(int tile) {
        release(shared_.k_empty, tile);
        if (negate_) {  // softmax_scale is negative, and scale_ its size
#pragma unroll
            for (int i = 0; i < T::kTileN / 2; ++i) s_[i] = -s_[i];
        }
        mask(tile * T::kTileN);
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores();
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float most = -INFINITY;
#pragma unroll
            for (int block = 0; block < T::kTileN / 8; ++block) {
                most = fmaxf(most, fmaxf(s_[4 * block + 2 * half], s_[4 * block + 2 * half + 1]));
            }
            most = fmaxf(most, __shfl_xor_sync(kWarp, most, 1));
            most = fmaxf(most, __shfl_xor_sync(kWarp, most, 2));
            const float old = max_[half];
            max_[half] = fmaxf(old, most * scale_);
            factor_[half] = exp2f(old - max_[half]);
            float sum = 0.0f;
#pragma unroll
            for (int block = 0; block < T::kTileN / 8; ++block) {
#pragma unroll
                for (int i = 4 * block + 2 * half; i < 4 * block + 2 * half + 2; ++i) {
                    s_[i] = exp2f(fmaf(s_[i], scale_, -max_[half]));
                    sum += s_[i];
                }
            }
            sum_[half] = fmaf(sum_[half], factor_[half], sum);
        }
    }

    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(int first_key) {
        if (first_key + T::kTileN <= keys_ && (!kCausal || first_key + T::kTileN <= first_row_ + 1)) return;
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) {
            const int key = first_key + i / 4 * 8 + column() + i % 2;
            if (key >= keys_ || (kCausal && key > row(i / 2 % 2))) s_[i] = -INFINITY;
        }
    }

    // P·V of tile `tile`, if there is one, is done: O shrinks to the newest maxima, and the newest probabilities become A of the
    // next P·V, 16 keys at a time.
    __device__ __forceinline__ void finish_output(int tile) {
        wgmma::wait<0>(o_, p_);
        if (tile >= 0) release(shared_.v_empty, tile);
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] *= factor_[i / 2 % 2];
#pragma unroll
        for (int i = 0; i < T::kTileN / 4; ++i) p_[i / 4][i % 4] = pack_halves(s_[2 * i], s_[2 * i + 1]);
    }

    __device__ inline void print_scores() const {
        if (blockIdx.x != 0 || blockIdx.y != 0 || first_row_ != 0 || threadIdx.x % kWarpgroup >= 8) return;
        for (int i = 0; i < 2; ++i) printf("score[%d][%d] = %.6f\n", row(0), column() + i, static_cast<double>(s_[i]));
    }

    Shared& shared_;
    float scale_;
    bool negate_;
    int keys_, first_row_;
    std::uint64_t queries_;  // the warpgroup's rows of panel 0
    float s_[T::kTileN / 2];
    unsigned p_[T::kTileN / 16][4];
    float o_[T::kDim / 2] = {};
    float max_[2] = {-INFINITY, -INFINITY};  // m of rows g and g + 8
    float sum_[2] = {};                      // this lane's part of l
    float factor_[2];
};

}  // namespace sdpa
