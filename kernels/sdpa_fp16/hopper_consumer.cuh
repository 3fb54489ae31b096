// fp16_v10_hopper, the work of a consumer warpgroup: 64 query rows against all keys that they see.
//
// A warp has 16 of the rows. With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of scores and of O, rows g
// and g + 8 and columns 2t and 2t + 1; as A of the second product P wants just these, so it goes from registers to registers.
#pragma once

#include <cmath>
#include <cstdio>

#include "../cuda/wgmma.cuh"
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
    __device__ __forceinline__ void run(int tiles) {
        const int all_see = kCausal ? min(keys_, first_row_ + 1) : keys_;  // keys that every row sees
        const int plain = negate_ ? 0 : all_see / T::kTileN;               // tiles before this one need no mask
        mbarrier::wait(&shared_.q_full, 0);
        mbarrier::wait(&shared_.full[slot_.stage], slot_.parity);
        issue_scores();
        wgmma::wait<0>(s_);
        finish_scores<true>(0, tiles > 1, [] {});
        int tile = 1;
#pragma unroll 1
        for (; tile < min(plain, tiles); ++tile) step<false>(tile, tile + 1 < tiles);
#pragma unroll 1
        for (; tile < tiles; ++tile) step<true>(tile, tile + 1 < tiles);
        issue_output(slot_.stage);
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

    // Scores and probabilities of tile `tile`, which is there, and P·V of the tile before. `more`: a tile follows.
    template <bool kGeneral>
    __device__ __forceinline__ void step(int tile, bool more) {
        const int before = slot_.stage;
        slot_.advance();
        issue_scores();
        issue_output(before);
        wgmma::wait<1>(s_);
        finish_scores<kGeneral>(tile, more, [&] {
            wgmma::wait<0>(o_, p_, s_);
            if (lane() == 0) mbarrier::arrive(&shared_.empty[before]);  // this warp has read it
        });
    }

    // s = Q·K^T, 16 columns of Q and K at a time: 32 bytes of each row of a panel.
    __device__ __forceinline__ void issue_scores() {
        const std::uint64_t keys = wgmma::descriptor(shared_.k[slot_.stage], 0, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(s_, o_, p_);
#pragma unroll
        for (int step = 0; step < T::kDim / 16; ++step) {
            const int panel = step / 4, bytes = step % 4 * 32;
            wgmma::multiply<T::kTileN, false>(s_, wgmma::advance(queries_, panel * T::kQueryPanelBytes + bytes),
                                              wgmma::advance(keys, panel * T::kKeyPanelBytes + bytes), step > 0);
        }
        wgmma::commit();
    }

    // o += P·V, 16 keys at a time: 16 rows of each panel.
    __device__ __forceinline__ void issue_output(int stage) {
        const std::uint64_t values = wgmma::descriptor(shared_.v[stage], T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(o_, p_);
#pragma unroll
        for (int step = 0; step < T::kTileN / 16; ++step) {
            wgmma::multiply<T::kDim, true>(o_, p_[step], wgmma::advance(values, step * 16 * 128));
        }
        wgmma::commit();
    }

    // Scores become probabilities p_, and O shrinks to the new maxima. Upper rows first: their exponentials run while P·V of
    // the tile before does, whose end is waited for in `finish_before`. The wait for the next tile, a loop, keeps the compiler
    // from moving that one ahead of most of them; and so no wait for a tile stands before the products.
    template <bool kGeneral, typename FinishBefore>
    __device__ __forceinline__ void finish_scores(int tile, bool more, FinishBefore finish_before) {
        if constexpr (kGeneral) {
            if (negate_) {  // softmax_scale is negative, and scale_ its size
#pragma unroll
                for (int i = 0; i < T::kTileN / 2; ++i) s_[i] = -s_[i];
            }
            mask(tile * T::kTileN);
        }
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores();
        }
        exponentiate(0);
        wgmma::pin(s_);
        if (more) {
            Slot<T> next = slot_;
            next.advance();
            mbarrier::wait(&shared_.full[next.stage], next.parity);
        }
        finish_before();
        exponentiate(1);
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] *= factor_[i / 2 % 2];
#pragma unroll
        for (int i = 0; i < T::kTileN / 4; ++i) p_[i / 4][i % 4] = pack_halves(s_[2 * i], s_[2 * i + 1]);
    }

    // Scores of rows g (`half` 0) or g + 8 become probabilities relative to their new maximum, in log2 units; factor_ is what
    // O and l so far shrink by. Every row has seen key 0, so no maximum is -infinity.
    __device__ __forceinline__ void exponentiate(int half) {
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
        max_[half] = fmaxf(old, most[0] * scale_);
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

    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(int first_key) {
        if (first_key + T::kTileN <= keys_ && (!kCausal || first_key + T::kTileN <= first_row_ + 1)) return;
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) {
            const int key = first_key + i / 4 * 8 + column() + i % 2;
            if (key >= keys_ || (kCausal && key > row(i / 2 % 2))) s_[i] = -INFINITY;
        }
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
    Slot<T> slot_;           // of the newest tile
    float s_[T::kTileN / 2];
    unsigned p_[T::kTileN / 16][4];
    float o_[T::kDim / 2] = {};
    float max_[2] = {-INFINITY, -INFINITY};  // m of rows g and g + 8
    float sum_[2] = {};                    // this lane's part of l
    float factor_[2];
};

}  // namespace sdpa
