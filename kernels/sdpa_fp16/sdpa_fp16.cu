// Scaled dot-product attention in half: O = softmax(Q·K^T * softmax_scale)·V, causal or not, D = 64 or 128.
//
// One CTA takes TILE_M query rows of one head through the keys, TILE_N at a time. A warp owns TILE_M / NUM_WARPS rows from
// Q·K^T to O, so only the tiles of K and V are shared between warps. Rounded are: P to half (tensor-core P·V only), the
// float sums, and O.
//
// The ladder. Each rung changes one thing:
//   fp16_v5_scalar   nothing. Both products are FMA; a lane takes whole keys in Q·K^T, whole columns in P·V.
//   fp16_v6_wmma_qk  USE_WMMA=1: Q·K^T on tensor cores; Q's tile is half.
//   fp16_v7_wmma_pv  USE_WMMA=2: P·V on tensor cores; P is half, O lives in accumulator fragments, rescaled by exp(m_old - m_new).
//   fp16_v8_tiles    other TILE_M, TILE_N, NUM_WARPS, STAGES: those that a sweep found fastest.
// fp16_v9_pipeline has a source of its own, pipeline.cu.
//
// Phases: load.cuh, scores.cuh, softmax.cuh, output.cuh. Tiles and shared memory: tiles.cuh.

#include <cstdio>

#include "entry.cuh"
#include "output.cuh"
#include "scores.cuh"
#include "softmax.cuh"

namespace sdpa {

// The first scores of head 0, from the thread whose warp computed them.
template <int kDim>
__device__ inline void print_scores(const float* scores) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    for (int row = 0; row < 2; ++row) {
        for (int key = 0; key < 8; ++key) {
            printf("score[%d][%d] = %.6f\n", row, key, static_cast<double>(scores[row * Tiles<kDim>::kScoreLd + key]));
        }
    }
}

constexpr int kPrior = STAGES > 1 ? STAGES - 2 : 0;  // groups that may still be on their way when a tile is used
// Registers of a thread, at most: O and, with WMMA, the scores of 16 rows stay in them.
template <int kDim>
constexpr int kRegisters = kUseWmmaQk && (kDim == 128 || TILE_N > 64) ? 168 : 128;

// grid: B * H * query_tiles CTAs, those of one head side by side, so that they read the same K and V at about the same
// time. block: kThreads. dynamic shared memory: sizeof(Tiles<kDim>).
template <int kDim, bool kCausal>
__global__ void __launch_bounds__(kThreads, 65536 / kThreads / kRegisters<kDim>) sdpa_fp16_kernel(const Problem problem) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    Tiles<kDim>& tiles = *reinterpret_cast<Tiles<kDim>*>(shared_bytes);
    const Place<kDim, TILE_M> place(problem);
    const int keys = kCausal ? min(problem.keys, place.first_query + TILE_M) : problem.keys;  // that some row sees
    const int key_tiles = (keys + TILE_N - 1) / TILE_N;

    const auto load = [&](int tile) {
        const std::int64_t start = static_cast<std::int64_t>(tile) * TILE_N * kDim;
        if (tile < key_tiles) {
            load_keys<kDim>(place.k + start, problem.keys - tile * TILE_N, tiles.k[tile % STAGES]);
            load_keys<kDim>(place.v + start, problem.keys - tile * TILE_N, tiles.v[tile % STAGES]);
        }
        if constexpr (STAGES > 1) __pipeline_commit();  // a group a tile, also where it is empty: waits count groups
    };
    for (int tile = 0; tile < STAGES - 1; ++tile) load(tile);

    SoftmaxPhase<kDim, kCausal> softmax;
    OutputPhase<kDim, kUseWmmaPv> output;
    output.begin(tiles.scores);
    load_queries<kDim>(place.q, place.valid_queries, tiles.q);

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
        compute_scores<kDim>(tiles.q, tiles.k[stage], tiles.scores);
        __syncwarp();  // a row of scores comes from many lanes
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores<kDim>(tiles.scores);
            __syncwarp();  // printed before the softmax overwrites them
        }
        softmax.compute(tiles.scores, tiles.p(), tiles.factors, problem.scale, place.first_query, tile * TILE_N,
                        problem.keys - tile * TILE_N);
        __syncwarp();  // P and the factors of a row are read by all lanes
        output.accumulate(tiles.p(), tiles.v[stage], tiles.factors);
        if constexpr (STAGES == 1) __syncthreads();  // K and V are read to the end before the next tile overwrites them
        else __syncwarp();  // P is, before scores or P of the next tile overwrite it
    }
    softmax.finish(tiles.factors);
    __syncwarp();  // the factors of a row are read by all lanes
    output.write(tiles.scores, tiles.factors, place.out, place.valid_queries);
}

// Launches the kernel for this D, or refuses one whose tiles don't fit.
template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    if constexpr (sizeof(Tiles<kDim>) > kMostSharedBytes) {
        return refusal.refuse("D: %d, these tiles then take %d bytes of shared memory, of %d", kDim,
                              static_cast<int>(sizeof(Tiles<kDim>)), kMostSharedBytes);
    } else {
        return launch_tiles<TILE_M>(refusal, sdpa_fp16_kernel<kDim, kCausal>, problem, heads, kThreads, sizeof(Tiles<kDim>), stream);
    }
}

}  // namespace sdpa
