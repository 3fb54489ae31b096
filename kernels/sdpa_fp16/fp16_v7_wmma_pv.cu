// fp16_v7_wmma_pv: scaled dot-product attention in half, O = softmax(Q·K^T * softmax_scale)·V, causal or not, D = 64 or 128.
//
// One CTA takes TILE_M query rows of one head through the keys, TILE_N at a time. A warp owns TILE_M / NUM_WARPS rows from
// Q·K^T to O, so only the tiles of K and V are shared between warps. P is rounded to half; the float sums and O are rounded, too.
//
// Since the stage before (fp16_v6_wmma_qk):
// - P·V runs on tensor cores too. P is rounded to half and has a tile of its own.
// - O lives in accumulator fragments. Each tile rescales them by exp(m_old - m_new) of their rows.
// - O leaves through the tile of scores, so that its rows are as wide as O's.
// USE_WMMA_PV=0 is the stage before.

#ifndef USE_WMMA_PV  // 1: P·V on tensor cores
#define USE_WMMA_PV 1
#endif

#ifndef TILE_M  // query rows of a CTA
#define TILE_M 64
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 64
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 4
#endif

#include <type_traits>

#include "parts/entry.cuh"
#include "parts/load.cuh"
#include "parts/output_scalar.cuh"
#include "parts/output_wmma.cuh"
#include "parts/print_scores.cuh"
#include "parts/query_tiles.cuh"
#include "parts/scores_wmma.cuh"
#include "parts/softmax.cuh"

namespace sdpa {

static_assert(USE_WMMA_PV == 0 || USE_WMMA_PV == 1, "USE_WMMA_PV is 0 or 1");

// Shared memory of a CTA. Leading dimensions in elements, padded so that the rows which a warp touches at once start in
// different banks: half rows 4 mod 32 words (and a multiple of 8 elements, as WMMA requires), float rows of scores 8.
template <int kDim>
struct Tiles : WarpStrips<kDim, TILE_M, TILE_N, NUM_WARPS> {
    static constexpr int kHalfLd = kDim + 8;
    static constexpr int kQueryLd = kHalfLd;
    static constexpr int kScoreLd = (USE_WMMA_PV == 1 && kDim > TILE_N ? kDim : TILE_N) + 8;  // takes O at the end
    static constexpr int kProbabilityLd = USE_WMMA_PV == 1 ? TILE_N + 8 : kScoreLd;

    alignas(128) __half q[TILE_M * kQueryLd];
    alignas(128) __half k[TILE_N * kHalfLd];
    alignas(128) __half v[TILE_N * kHalfLd];
    alignas(128) float scores[TILE_M * kScoreLd];
    alignas(16) float factors[TILE_M];  // exp(m_old - m_new) of each row, this tile; 1 / l at the end
    alignas(128) __half probabilities[USE_WMMA_PV == 1 ? TILE_M * kProbabilityLd : 1];

    // P of a tile: halves for tensor cores; FMA takes floats, in place of the scores.
    __device__ __forceinline__ auto* p() {
        if constexpr (USE_WMMA_PV == 1) {
            return probabilities;
        } else {
            return scores;
        }
    }
};
static_assert(sizeof(Tiles<64>) <= kMostSharedBytes, "these tiles need more than the 99 KiB of shared memory that sm_89 gives a CTA");

// Most registers per thread: they hold its share of O and of the scores of 16 rows.
template <int kDim>
constexpr int kRegisters = kDim == 128 || TILE_N > 64 ? 168 : 128;

// grid: B * H * query_tiles CTAs. block: kThreads. dynamic shared memory: sizeof(Tiles<kDim>).
template <int kDim, bool kCausal>
__global__ void __launch_bounds__(Tiles<kDim>::kThreads, 65536 / Tiles<kDim>::kThreads / kRegisters<kDim>) sdpa_fp16_kernel(const Problem problem) {
    using T = Tiles<kDim>;
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    T& tiles = *reinterpret_cast<T*>(shared_bytes);
    const Place<T> place(problem);
    const int keys = kCausal ? min(problem.keys, place.first_query + TILE_M) : problem.keys;  // that some row sees
    const int key_tiles = (keys + TILE_N - 1) / TILE_N;

    const auto load = [&](int tile) {
        const std::int64_t start = static_cast<std::int64_t>(tile) * TILE_N * kDim;
        load_rows<T, TILE_N, T::kHalfLd>(place.k + start, problem.keys - tile * TILE_N, tiles.k);
        load_rows<T, TILE_N, T::kHalfLd>(place.v + start, problem.keys - tile * TILE_N, tiles.v);
    };

    Softmax<T, kCausal> softmax;
    std::conditional_t<USE_WMMA_PV == 1, WmmaOutput<T>, ScalarOutput<T>> output;
    output.begin(tiles.scores);
    load_rows<T, TILE_M, T::kQueryLd>(place.q, place.valid_queries, tiles.q);

    for (int tile = 0; tile < key_tiles; ++tile) {
        load(tile);
        __syncthreads();  // the tile is whole, and Q before the first one
        wmma_scores<T>(tiles.q, tiles.k, tiles.scores);
        __syncwarp();  // a row of scores comes from many lanes
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores<T>(tiles.scores);
            __syncwarp();  // printed before the softmax overwrites them
        }
        softmax.compute(tiles.scores, tiles.p(), tiles.factors, problem.scale, place.first_query, tile * TILE_N, problem.keys - tile * TILE_N);
        __syncwarp();  // P and the factors of a row are read by all lanes
        output.accumulate(tiles.p(), tiles.v, tiles.factors);
        __syncthreads();  // K and V are read to the end before the next tile overwrites them
    }
    softmax.finish(tiles.factors);
    __syncwarp();  // the factors of a row are read by all lanes
    output.write(tiles.scores, tiles.factors, place.out, place.valid_queries);
}

// Launches the kernel for this D, or refuses one whose tiles don't fit.
template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    using T = Tiles<kDim>;
    if constexpr (sizeof(T) > kMostSharedBytes) {
        return refusal.refuse("D: %d, these tiles then take %d bytes of shared memory, of %d", kDim, static_cast<int>(sizeof(T)), kMostSharedBytes);
    } else {
        return launch_tiles<T>(refusal, sdpa_fp16_kernel<kDim, kCausal>, problem, heads, stream);
    }
}

}  // namespace sdpa
