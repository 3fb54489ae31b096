// fp16_v8_tiles: scaled dot-product attention in half, O = softmax(Q·K^T * softmax_scale)·V, causal or not, D = 64 or 128.
//
// One CTA takes TILE_M query rows of one head through the keys, TILE_N at a time. A warp owns TILE_M / NUM_WARPS rows from
// Q·K^T to O, so only the tiles of K and V are shared between warps. P is rounded to half; the float sums and O are rounded, too.
//
// Since the stage before (fp16_v7_wmma_pv):
// - TILE_M, TILE_N, NUM_WARPS and STAGES are the fastest of a sweep. A CTA has half as many rows, so twice as many SMs have work.
// - Tiles of K and V have STAGES places. Asynchronous copies fill all but the one in use, while the products run.
// - One barrier per tile is enough: it says that a tile is whole, and that the tile before may be overwritten.
// STAGES=1, TILE_M=64, TILE_N=64 and NUM_WARPS=4 are the stage before.


#ifndef TILE_M  // query rows of a CTA
#define TILE_M 32
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 32
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 2
#endif
#ifndef STAGES  // tiles of K and V in shared memory; with 2 and more, asynchronous copies fill all but the one in use
#define STAGES 2
#endif

#include <cuda_pipeline.h>

#include "parts/entry.cuh"
#include "parts/load.cuh"
#include "parts/output_wmma.cuh"
#include "parts/print_scores.cuh"
#include "parts/query_tiles.cuh"
#include "parts/scores_wmma.cuh"
#include "parts/softmax.cuh"

namespace sdpa {

static_assert(STAGES >= 1 && STAGES <= 8, "STAGES is 1 to 8");

// Shared memory of a CTA. Leading dimensions in elements, padded so that the rows which a warp touches at once start in
// different banks: half rows 4 mod 32 words (and a multiple of 8 elements, as WMMA requires), float rows of scores 8.
template <int kDim>
struct Tiles : WarpStrips<kDim, TILE_M, TILE_N, NUM_WARPS> {
    static constexpr int kHalfLd = kDim + 8;
    static constexpr int kQueryLd = kHalfLd;
    static constexpr int kScoreLd = (kDim > TILE_N ? kDim : TILE_N) + 8;  // takes O at the end
    static constexpr int kProbabilityLd = TILE_N + 8;

    alignas(128) __half q[TILE_M * kQueryLd];
    alignas(128) __half k[STAGES][TILE_N * kHalfLd];
    alignas(128) __half v[STAGES][TILE_N * kHalfLd];
    alignas(128) float scores[TILE_M * kScoreLd];
    alignas(16) float factors[TILE_M];  // exp(m_old - m_new) of each row, this tile; 1 / l at the end
    alignas(128) __half p[TILE_M * kProbabilityLd];
};
static_assert(sizeof(Tiles<64>) <= kMostSharedBytes, "these tiles need more than the 99 KiB of shared memory that sm_89 gives a CTA");

// Most registers per thread: they hold its share of O and of the scores of 16 rows.
template <int kDim>
constexpr int kRegisters = kDim == 128 || TILE_N > 64 ? 168 : 128;

constexpr int kPrior = STAGES > 1 ? STAGES - 2 : 0;  // groups that may still be in flight when a tile is used

// A tile of K or V. With more than one stage the copies are asynchronous and belong to the group that is open.
template <typename T>
__device__ __forceinline__ void load_keys(const __half* rows, int valid_rows, __half* tile) {
    if constexpr (STAGES > 1) {
        for_each_chunk<T, TILE_N>(valid_rows, [&](int row, int column, bool exists) {
            __pipeline_memcpy_async(tile + row * T::kHalfLd + column, rows + (exists ? row : 0) * T::kDim + column, 16, exists ? 0 : 16);
        });
    } else {
        load_rows<T, TILE_N, T::kHalfLd>(rows, valid_rows, tile);
    }
}

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
        if (tile < key_tiles) {
            load_keys<T>(place.k + start, problem.keys - tile * TILE_N, tiles.k[tile % STAGES]);
            load_keys<T>(place.v + start, problem.keys - tile * TILE_N, tiles.v[tile % STAGES]);
        }
        if constexpr (STAGES > 1) __pipeline_commit();  // one group per tile, even if empty: waits count groups
    };
    for (int tile = 0; tile < STAGES - 1; ++tile) load(tile);

    Softmax<T, kCausal> softmax;
    WmmaOutput<T> output;
    output.begin(tiles.scores);
    load_rows<T, TILE_M, T::kQueryLd>(place.q, place.valid_queries, tiles.q);

    for (int tile = 0; tile < key_tiles; ++tile) {
        const int stage = tile % STAGES;
        if constexpr (STAGES == 1) {
            load(tile);
            __syncthreads();  // the tile is whole, and Q before the first one
        } else {
            __pipeline_wait_prior(kPrior);
            __syncthreads();  // the tile is whole; everyone is done with the one before, whose place the next one takes
            load(tile + STAGES - 1);
        }
        wmma_scores<T>(tiles.q, tiles.k[stage], tiles.scores);
        __syncwarp();  // a row of scores comes from many lanes
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores<T>(tiles.scores);
            __syncwarp();  // printed before the softmax overwrites them
        }
        softmax.compute(tiles.scores, tiles.p, tiles.factors, problem.scale, place.first_query, tile * TILE_N, problem.keys - tile * TILE_N);
        __syncwarp();  // P and the factors of a row are read by all lanes
        output.accumulate(tiles.p, tiles.v[stage], tiles.factors);
        if constexpr (STAGES == 1) __syncthreads();  // K and V are read to the end before the next tile overwrites them
        else __syncwarp();  // all lanes have read the factors before `finish` overwrites them
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
