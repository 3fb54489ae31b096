// Toggles, tile sizes and the shared-memory plan of the SDPA kernel.
#pragma once

#include <cstddef>
#include <type_traits>

#include "problem.cuh"

// Toggles, 0 or 1, set with -D. Any mix works; the four stages are the rungs named in sdpa_fp8.cu.
#ifndef USE_WMMA_QK
#define USE_WMMA_QK 0
#endif
#ifndef USE_WMMA_PV
#define USE_WMMA_PV 0
#endif
#ifndef USE_CP_ASYNC
#define USE_CP_ASYNC 0
#endif

namespace sdpa {

static_assert(USE_WMMA_QK == 0 || USE_WMMA_QK == 1, "USE_WMMA_QK is 0 or 1");
static_assert(USE_WMMA_PV == 0 || USE_WMMA_PV == 1, "USE_WMMA_PV is 0 or 1");
static_assert(USE_CP_ASYNC == 0 || USE_CP_ASYNC == 1, "USE_CP_ASYNC is 0 or 1");

constexpr bool kUseWmmaQk = USE_WMMA_QK == 1;
constexpr bool kUseWmmaPv = USE_WMMA_PV == 1;
constexpr bool kUseCpAsync = USE_CP_ASYNC == 1;
constexpr bool kDebugPrint = DEBUG_PRINT == 1;

constexpr int kBlockM = 32;            // query rows of a CTA: 32 give 128 CTAs on B1 H8 S512, for 132 SMs
constexpr int kBlockN = 64;            // keys of a tile
constexpr int kThreads = 128;          // of a CTA
constexpr int kWarps = kThreads / 32;
constexpr int kFragment = 16;          // edge of a WMMA fragment: m16n16k16
constexpr int kChunkBytes = 16;        // one vector load or one asynchronous copy; 16 FP8 elements

// Every warp owns 16 query rows, and shares them with kWarpsN - 1 others: among those, keys are split in Q·K^T,
// columns of O in P·V.
constexpr int kWarpsM = kBlockM / kFragment;
constexpr int kWarpsN = kWarps / kWarpsM;
constexpr int kWarpKeys = kBlockN / kWarpsN;
constexpr int kWarpColumns = kHeadDim / kWarpsN;

static_assert(kThreads == 128 || kThreads == 256, "4 warps, or 8: no more share out 32 x 64 scores in fragments");
static_assert(kBlockM % kFragment == 0 && kWarps % kWarpsM == 0, "the same number of warps on each strip of 16 query rows");
static_assert((kBlockN & (kBlockN - 1)) == 0 && kBlockN >= 32, "softmax wraps columns with a mask, so a power of two");
static_assert(kWarpKeys >= kFragment && kWarpKeys % kFragment == 0, "a warp's share of the keys is whole 16-wide fragments");
static_assert(kWarpColumns >= kFragment && kWarpColumns % kFragment == 0, "a warp's share of O's columns is whole 16-wide fragments");
static_assert(kBlockN * kHeadDim % (kThreads * kChunkBytes) == 0, "every thread moves the same number of chunks of K and V");
static_assert(kBlockM * kHeadDim % (kThreads * 8) == 0, "every thread writes the same number of 16-byte chunks of O");

// Elements as the inner loops want them: half for tensor cores, float for FMA (a conversion once a tile, not once a use).
using QkElement = std::conditional_t<kUseWmmaQk, __half, float>;
using PvElement = std::conditional_t<kUseWmmaPv, __half, float>;

// Leading dimensions, in elements, padded so that the rows a warp touches at once start in different banks.
// float: 68 words = 4 mod 32; half: 72 elements = 36 words = 4 mod 32, a multiple of 8 as WMMA requires.
template <typename Element>
constexpr int kTileLd = sizeof(Element) == 2 ? kHeadDim + 8 : kHeadDim + 4;
// Scores: 8 mod 32 words, so that 4 rows of 8 words (a WMMA store, or 4 x 8 lanes of the scalar code) fill the banks.
constexpr int kScoreColumns = kBlockN > kHeadDim ? kBlockN : kHeadDim;  // the buffer also takes O at the end
constexpr int kScoreLd = kScoreColumns + 8;
constexpr int kProbabilityLd = kBlockN + 8;  // half

constexpr int kTileBytes = kBlockN * kHeadDim;  // FP8 bytes of one tile of K, or of V
constexpr int kTileChunks = kTileBytes / kChunkBytes / kThreads;                            // a thread's share of it
constexpr int kQueryChunks = (kBlockM * kHeadDim / kChunkBytes + kThreads - 1) / kThreads;  // of Q, at most
constexpr int kPipelineDepth = 2;  // staging buffers: tiles of bytes on their way at once
// V as elements is double-buffered where the next tile is converted while P·V reads this one. K need not be: Q·K^T is
// over by then.
constexpr int kValueBuffers = kUseCpAsync ? 2 : 1;

// FP8 tiles on their way from global memory. A thread converts the very chunks that it copied.
struct Staging {
    alignas(16) std::uint8_t k[kPipelineDepth][kTileBytes];
    alignas(16) std::uint8_t v[kPipelineDepth][kTileBytes];
};
// P in half, for the tensor cores; the scalar P·V reads its float probabilities in place of the scores.
struct HalfProbabilities {
    alignas(32) __half p[kBlockM * kProbabilityLd];
};
struct Nothing {};

// The whole dynamic shared memory of a CTA. WMMA needs 32-byte aligned fragments.
struct SharedTiles {
    alignas(128) QkElement q[kBlockM * kTileLd<QkElement>];  // raw FP8 values, unscaled, as are k and v
    alignas(128) QkElement k[kBlockN * kTileLd<QkElement>];
    alignas(128) PvElement v[kValueBuffers][kBlockN * kTileLd<PvElement>];
    // One buffer, four uses in turn: row numbers for the WMMA accumulator, Q·K^T, float P, O.
    alignas(128) float scores[kBlockM * kScoreLd];
    alignas(16) float rescale[kBlockM];    // exp(m_old - m_new) of each query row, this tile
    alignas(16) float normalise[kBlockM];  // v_scale / l of each query row, at the end
    std::conditional_t<kUseWmmaPv, HalfProbabilities, Nothing> probabilities;
    std::conditional_t<kUseCpAsync, Staging, Nothing> staging;
};

constexpr int kSharedBytes = sizeof(SharedTiles);
static_assert(kSharedBytes <= 99 * 1024, "sm_89 gives a CTA at most 99 KiB of shared memory");

}  // namespace sdpa
