// fp16_v5_scalar: scaled dot-product attention in half, O = softmax(Q·K^T * softmax_scale)·V, causal or not, D = 64 or 128.
//
// One CTA takes TILE_M query rows of one head through the keys, TILE_N at a time. A warp owns TILE_M / NUM_WARPS rows from
// Q·K^T to O, so only the tiles of K and V are shared between warps. The float sums and O are rounded.
//
// The first stage of the ladder: both products are FMA. A lane takes whole keys in Q·K^T, whole columns in P·V.

#ifndef TILE_M  // query rows of a CTA
#define TILE_M 64
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 64
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 4
#endif

#include "parts/entry.cuh"
#include "parts/load.cuh"
#include "parts/output_scalar.cuh"
#include "parts/print_scores.cuh"
#include "parts/query_tiles.cuh"
#include "parts/scores_scalar.cuh"
#include "parts/softmax.cuh"

namespace sdpa {

// Shared memory of a CTA. Leading dimensions in elements, padded so that the rows which a warp touches at once start in
// different banks: half rows 4 mod 32 words, float rows of Q 4, of scores 8.
template <int kDim>
struct Tiles : WarpStrips<kDim, TILE_M, TILE_N, NUM_WARPS> {
    static constexpr int kHalfLd = kDim + 8;
    static constexpr int kQueryLd = kDim + 4;
    static constexpr int kScoreLd = TILE_N + 8;
    static constexpr int kProbabilityLd = kScoreLd;

    alignas(128) float q[TILE_M * kQueryLd];
    alignas(128) __half k[TILE_N * kHalfLd];
    alignas(128) __half v[TILE_N * kHalfLd];
    alignas(128) float scores[TILE_M * kScoreLd];  // P takes their place
    alignas(16) float factors[TILE_M];             // exp(m_old - m_new) of each row, this tile; 1 / l at the end
};
static_assert(sizeof(Tiles<64>) <= kMostSharedBytes, "these tiles need more than the 99 KiB of shared memory that sm_89 gives a CTA");

template <int kDim>
constexpr int kRegisters = 128;  // of a thread, at most: O stays in them

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
    ScalarOutput<T> output;
    output.begin(tiles.scores);
    load_rows<T, TILE_M, T::kQueryLd>(place.q, place.valid_queries, tiles.q);

    for (int tile = 0; tile < key_tiles; ++tile) {
        load(tile);
        __syncthreads();  // the tile is whole, and Q before the first one
        scalar_scores<T>(tiles.q, tiles.k, tiles.scores);
        __syncwarp();  // a row of scores comes from many lanes
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores<T>(tiles.scores);
            __syncwarp();  // printed before the softmax overwrites them
        }
        softmax.compute(tiles.scores, tiles.scores, tiles.factors, problem.scale, place.first_query, tile * TILE_N, problem.keys - tile * TILE_N);
        __syncwarp();  // P and the factors of a row are read by all lanes
        output.accumulate(tiles.scores, tiles.v, tiles.factors);
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
