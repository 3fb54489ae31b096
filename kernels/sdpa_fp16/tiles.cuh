// Tiles of the rungs fp16_v5 to fp16_v8: who owns which rows, and the shared-memory plan.
#pragma once

#include "config.cuh"

namespace sdpa {

static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 16, "a CTA has 32 to 512 threads: more leave a thread less than 128 registers");
constexpr int kThreads = NUM_WARPS * 32;
constexpr int kFragment = 16;                    // edge of a WMMA fragment: m16n16k16
constexpr int kWarpRows = TILE_M / NUM_WARPS;    // a warp owns whole query rows: scores, P and O of a row never leave it
constexpr int kStrips = kWarpRows / kFragment;

static_assert(TILE_M > 0 && TILE_M % NUM_WARPS == 0 && kWarpRows % kFragment == 0, "a warp owns strips of 16 query rows, the height of a fragment");
static_assert(TILE_N > 0 && TILE_N % 32 == 0, "scalar products give each lane the same number of keys; fragments of 16 follow");
static_assert(STAGES >= 1 && STAGES <= 8, "STAGES is 1 to 8");

constexpr bool kUseWmmaQk = USE_WMMA >= 1;
constexpr bool kUseWmmaPv = USE_WMMA >= 2;

// Q as the products want it: half for tensor cores, float for FMA (a conversion once, not once a use).
using QueryElement = std::conditional_t<kUseWmmaQk, __half, float>;

struct HalfProbabilities {  // for the tensor cores; the scalar P·V reads its float probabilities in place of the scores
    alignas(128) __half p[TILE_M * (TILE_N + 8)];
};
struct Nothing {};

// Leading dimensions in elements, padded so that the rows which a warp touches at once start in different banks: half
// rows 4 mod 32 words (and a multiple of 8 elements, as WMMA requires), float rows of Q 4, of scores 8.
template <int kDim>
struct Tiles {
    static constexpr int kHalfLd = kDim + 8;
    static constexpr int kQueryLd = kDim + 16 / sizeof(QueryElement);
    static constexpr int kScoreLd = (TILE_N > kDim && kUseWmmaPv ? TILE_N : kUseWmmaPv ? kDim : TILE_N) + 8;  // takes O at the end
    static constexpr int kProbabilityLd = kUseWmmaPv ? TILE_N + 8 : kScoreLd;

    alignas(128) QueryElement q[TILE_M * kQueryLd];
    alignas(128) __half k[STAGES][TILE_N * kHalfLd];
    alignas(128) __half v[STAGES][TILE_N * kHalfLd];
    alignas(128) float scores[TILE_M * kScoreLd];
    alignas(16) float factors[TILE_M];  // exp(m_old - m_new) of each row, this tile; 1 / l at the end
    std::conditional_t<kUseWmmaPv, HalfProbabilities, Nothing> probabilities;

    // Where P of a tile lies.
    template <bool kHalf = kUseWmmaPv>
    __device__ __forceinline__ std::conditional_t<kHalf, __half, float>* p() {
        if constexpr (kHalf) {
            return reinterpret_cast<__half*>(&probabilities);
        } else {
            return scores;
        }
    }
};

constexpr int kMostSharedBytes = 99 * 1024;  // that sm_89 gives a CTA
static_assert(sizeof(Tiles<64>) <= kMostSharedBytes, "these tiles need more than the 99 KiB of shared memory that sm_89 gives a CTA");

}  // namespace sdpa
