// stage1_wmma_qk: attention on FP8 with Q·K^T on tensor cores. Formats and method as in stage0_scalar.cu.
//
// Since the stage before (stage0_scalar):
// - Q·K^T, half of the multiply-adds, is WMMA in place of FMA: 16 x 16 x 16 products of halves with float sums.
// - Q and K are tiles of halves in place of floats, which take half of the shared memory. E4M3 values are exact in both.
// - A warp keeps its 16 rows of Q in registers for all tiles.
// USE_WMMA_QK=0 is the stage before.

#ifndef USE_WMMA_QK  // 0: Q·K^T by FMA
#define USE_WMMA_QK 1
#endif

#include <type_traits>

#include "parts/debug.cuh"
#include "parts/entry.cuh"
#include "parts/load.cuh"
#include "parts/output_scalar.cuh"
#include "parts/scores_scalar.cuh"
#include "parts/scores_wmma.cuh"
#include "parts/softmax.cuh"
#include "parts/tiles.cuh"
#include "parts/write_output.cuh"

namespace sdpa {

static_assert(USE_WMMA_QK == 0 || USE_WMMA_QK == 1, "USE_WMMA_QK is 0 or 1");

using Scores = std::conditional_t<USE_WMMA_QK == 1, WmmaScores, ScalarScores>;
using Output = ScalarOutput;

// The whole dynamic shared memory of a CTA. WMMA needs 32-byte aligned fragments.
struct SharedTiles {
    alignas(128) Scores::Element q[kBlockM * kTileLd<Scores::Element>];  // raw FP8 values, unscaled, as are k and v
    alignas(128) Scores::Element k[kBlockN * kTileLd<Scores::Element>];
    alignas(128) Output::Element v[kBlockN * kTileLd<Output::Element>];
    // One buffer, three uses in turn: Q·K^T, P, O.
    alignas(128) float scores[kBlockM * kScoreLd];
    alignas(16) float rescale[kBlockM];    // exp(m_old - m_new) of each query row, this tile
    alignas(16) float normalise[kBlockM];  // v_scale / l of each query row, at the end
};
static_assert(sizeof(SharedTiles) <= kSmallSharedBytes, "sm_89 gives a CTA at most 99 KiB of shared memory");

// grid: B * H * query_tiles CTAs, those of one head side by side, so that they read the same K and V at about the same
// time. block: kThreads. dynamic shared memory: SharedTiles. The launch bound of 4 CTAs keeps a thread at 65,536 / 4 /
// kThreads = 128 registers.
__global__ void __launch_bounds__(kThreads, 4) sdpa_fp8_kernel(
    const std::uint8_t* __restrict__ q, const std::uint8_t* __restrict__ k, const std::uint8_t* __restrict__ v,
    const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
    __half* __restrict__ out, int sequence, int query_tiles, float softmax_scale) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    SharedTiles& tiles = *reinterpret_cast<SharedTiles*>(shared_bytes);
    Output::Element* const probabilities = tiles.scores;

    const int head = blockIdx.x / query_tiles;
    const int first_query = blockIdx.x % query_tiles * kBlockM;
    const std::int64_t head_start = static_cast<std::int64_t>(head) * sequence * kHeadDim;
    const std::int64_t query_start = head_start + static_cast<std::int64_t>(first_query) * kHeadDim;
    const int key_tiles = (sequence + kBlockN - 1) / kBlockN;
    const auto key_offset = [&](int tile) { return head_start + static_cast<std::int64_t>(tile) * kTileBytes; };
    const auto valid_keys = [&](int tile) { return sequence - tile * kBlockN; };  // of the tile; may exceed kBlockN

    // Tile `tile` of K and V to elements, directly from global memory.
    const auto fetch_and_convert = [&](int tile) {
        TileBytes bytes;
        read_tile(k + key_offset(tile), v + key_offset(tile), valid_keys(tile), bytes);
        store_tile(bytes, tiles.k, tiles.v);
    };

    // All that the CTA needs from global memory beside K and V is asked for here, before anything waits. The scales are
    // read as volatile, or the compiler would move the loads down to where the values are used, each with its latency.
    const float query_scale = *static_cast<const volatile float*>(q_scale + head);
    const float key_scale = *static_cast<const volatile float*>(k_scale + head);
    const float output_scale = *static_cast<const volatile float*>(v_scale + head);
    QueryBytes query_bytes;
    read_queries(q + query_start, sequence - first_query, query_bytes);

    const WarpPlace place = warp_place();
    Scores scores;
    Softmax softmax(query_scale * key_scale * softmax_scale * kLog2E);
    Output output;
    store_queries(query_bytes, tiles.q);

    for (int tile = 0; tile < key_tiles; ++tile) {
        fetch_and_convert(tile);
        __syncthreads();  // the tile is whole, and Q before the first one
        if (tile == 0) scores.begin(tiles.q, place);
        scores.compute(tiles.q, tiles.k, tiles.scores, place);
        __syncthreads();  // a row of scores comes from kWarpsN warps

        const bool print = kDebugPrint && blockIdx.x == 0 && tile == 0;
        if (print && threadIdx.x == 0) print_tile("score", tiles.scores, kScoreLd);
        if (print) __syncthreads();  // printed before the softmax overwrites them

        softmax.compute(tiles.scores, probabilities, Output::kLd, tiles.rescale, valid_keys(tile));
        __syncthreads();  // a row of P, and its rescale factor, is read by kWarpsN warps that did not write it

        if (print) print_state(softmax);
        if (print && threadIdx.x == 0) print_tile("p", probabilities, Output::kLd);

        output.accumulate(probabilities, tiles.v, tiles.rescale, place);
        __syncthreads();  // V and P are read to the end before they are overwritten
    }

    output.store(tiles.scores, place);
    softmax.finish(output_scale, tiles.normalise);
    __syncthreads();  // the tile of O and its factors are whole
    write_output(tiles.scores, tiles.normalise, out + query_start, sequence - first_query);
}

int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t B, std::int64_t H, void* stream) {
    const std::int64_t query_tiles = (problem.sequence + kBlockM - 1) / kBlockM;
    if (B > launcher::kMaxGrid / query_tiles || H > launcher::kMaxGrid / query_tiles / B) {
        return refusal.refuse("B, H, S: %lld x %lld heads of %lld query tiles are more CTAs than a grid's %lld",
                              static_cast<long long>(B), static_cast<long long>(H), static_cast<long long>(query_tiles),
                              static_cast<long long>(launcher::kMaxGrid));
    }
    const dim3 grid(static_cast<unsigned>(B * H * query_tiles));
    return launcher::launch(refusal, sdpa_fp8_kernel, grid, kThreads, sizeof(SharedTiles), stream, problem.q, problem.k, problem.v,
                            problem.q_scale, problem.k_scale, problem.v_scale, problem.out, problem.sequence,
                            static_cast<int>(query_tiles), problem.softmax_scale);
}

}  // namespace sdpa
