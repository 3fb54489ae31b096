// Scaled dot-product attention on FP8: O = softmax(Q·K^T * softmax_scale)·V, not causal, D = 64.
//
// q, k, v: E4M3 bytes [B, H, S, 64]; q_scale, k_scale, v_scale: float [B, H], value = byte value * scale; out: half.
// One CTA of 128 threads takes kBlockM query rows of one head through all its keys, kBlockN at a time, with the online
// softmax of Milakov and Gimelshein (arXiv:1805.02867) as FlashAttention uses it. E4M3 values are exact in half and
// float, so Q·K^T and P·V run on raw values: q_scale * k_scale * softmax_scale multiplies the float score, v_scale the
// final output. Rounded are: P to half (tensor-core P·V only), the float sums, and O.
//
// The ladder. A toggle replaces one phase and leaves the others as they are:
//   stage0_scalar    nothing. Both products are FMA on float tiles; 16 accumulators a thread, vector reads.
//   stage1_wmma_qk   USE_WMMA_QK: Q·K^T on tensor cores; Q and K are half tiles, Q's fragments stay in registers.
//   stage2_wmma_pv   + USE_WMMA_PV: P·V on tensor cores; V and P are half tiles, O lives in accumulator fragments.
//   stage3_cp_async  + USE_CP_ASYNC: the FP8 bytes of the next tiles travel while this one is computed, and the next one
//                    is converted beside P·V. Until then each tile begins with a wait for global memory.
//
// stage4_mma, another kernel, stands in mma.cu.
//
// Phases: load.cuh, scores.cuh, softmax.cuh, output.cuh. Tiles and shared memory: config.cuh. Launcher: entry.cuh.

#include "config.cuh"
#include "debug.cuh"
#include "entry.cuh"
#include "load.cuh"
#include "output.cuh"
#include "scores.cuh"
#include "softmax.cuh"

namespace sdpa {

// Where P of a tile lies: in the place of the scores, unless tensor cores want it in half.
template <typename Tiles>
__device__ __forceinline__ auto* probabilities_of(Tiles& tiles) {
    if constexpr (kUseWmmaPv) {
        return tiles.probabilities.p;
    } else {
        return tiles.scores;
    }
}

// grid: B * H * query_tiles CTAs, those of one head side by side, so that they read the same K and V at about the same
// time. block: kThreads. dynamic shared memory: kSharedBytes. The launch bound of 4 CTAs keeps a thread at 65,536 / 4 /
// kThreads = 128 registers.
__global__ void __launch_bounds__(kThreads, 4) sdpa_fp8_kernel(
    const std::uint8_t* __restrict__ q, const std::uint8_t* __restrict__ k, const std::uint8_t* __restrict__ v,
    const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
    __half* __restrict__ out, int sequence, int query_tiles, float softmax_scale) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    SharedTiles& tiles = *reinterpret_cast<SharedTiles*>(shared_bytes);
    auto* const probabilities = probabilities_of(tiles);

    const int head = blockIdx.x / query_tiles;
    const int first_query = blockIdx.x % query_tiles * kBlockM;
    const std::int64_t head_start = static_cast<std::int64_t>(head) * sequence * kHeadDim;
    const std::int64_t query_start = head_start + static_cast<std::int64_t>(first_query) * kHeadDim;
    const int key_tiles = (sequence + kBlockN - 1) / kBlockN;
    const auto key_offset = [&](int tile) { return head_start + static_cast<std::int64_t>(tile) * kTileBytes; };
    const auto valid_keys = [&](int tile) { return sequence - tile * kBlockN; };  // of the tile; may exceed kBlockN

    const auto request = [&](int tile) {
        if constexpr (kUseCpAsync) {
            request_tile(tiles.staging, tile % kPipelineDepth, k + key_offset(tile), v + key_offset(tile), valid_keys(tile));
        }
    };
    // Tile `tile` to elements: from its staging buffer, which is then refilled, or directly from global memory.
    const auto fetch_and_convert = [&](int tile) {
        TileBytes bytes;
        if constexpr (kUseCpAsync) {
            await_tile(tiles.staging, tile % kPipelineDepth, bytes);
        } else {
            read_tile(k + key_offset(tile), v + key_offset(tile), valid_keys(tile), bytes);
        }
        store_tile(bytes, tiles.k, tiles.v[tile % kValueBuffers]);
        request(tile + kPipelineDepth);
    };
    for (int tile = 0; tile < kPipelineDepth; ++tile) request(tile);

    // All that the CTA needs from global memory beside K and V is asked for here, before anything waits. The scales are
    // read as volatile, or the compiler would move the loads down to where the values are used, each with its latency.
    const float query_scale = *static_cast<const volatile float*>(q_scale + head);
    const float key_scale = *static_cast<const volatile float*>(k_scale + head);
    const float output_scale = *static_cast<const volatile float*>(v_scale + head);
    QueryBytes query_bytes;
    read_queries(q + query_start, sequence - first_query, query_bytes);

    const WarpPlace place = warp_place();
    ScorePhase<kUseWmmaQk> score_phase;
    SoftmaxPhase softmax_phase(query_scale * key_scale * softmax_scale * kLog2E);
    OutputPhase<kUseWmmaPv> output_phase;
    output_phase.begin(tiles.scores, place);
    store_queries(query_bytes, tiles.q);

    if constexpr (kUseCpAsync) {
        fetch_and_convert(0);
        __syncthreads();  // Q and the first tile are whole
    }
    for (int tile = 0; tile < key_tiles; ++tile) {
        if constexpr (!kUseCpAsync) {
            fetch_and_convert(tile);
            __syncthreads();  // the tile is whole, and Q before the first one
        }
        if (tile == 0) score_phase.begin(tiles.q, place);
        score_phase.compute(tiles.q, tiles.k, tiles.scores, place);
        __syncthreads();  // a row of scores comes from kWarpsN warps

        const bool print = kDebugPrint && blockIdx.x == 0 && tile == 0;
        if (print && threadIdx.x == 0) print_tile("score", tiles.scores, kScoreLd);
        if (print) __syncthreads();  // printed before the softmax overwrites them

        softmax_phase.compute(tiles.scores, probabilities, OutputPhase<kUseWmmaPv>::kLd, tiles.rescale, valid_keys(tile));
        __syncthreads();  // a row of P, and its rescale factor, is read by kWarpsN warps that did not write it

        if (print) print_state(softmax_phase);
        if (print && threadIdx.x == 0) print_tile("p", probabilities, OutputPhase<kUseWmmaPv>::kLd);

        // With asynchronous copies the next tile is converted here, while other warps are at P·V: K over this tile's, which
        // Q·K^T has finished with, V beside it.
        if constexpr (kUseCpAsync) {
            if (tile + 1 < key_tiles) fetch_and_convert(tile + 1);
        }
        output_phase.accumulate(probabilities, tiles.v[tile % kValueBuffers], tiles.rescale, place);
        __syncthreads();  // V and P are read to the end before they are overwritten; with copies, the next tile is whole
    }

    output_phase.store(tiles.scores, place);
    softmax_phase.finish(output_scale, tiles.normalise);
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
    return launcher::launch(refusal, sdpa_fp8_kernel, grid, kThreads, kSharedBytes, stream, problem.q, problem.k, problem.v,
                            problem.q_scale, problem.k_scale, problem.v_scale, problem.out, problem.sequence,
                            static_cast<int>(query_tiles), problem.softmax_scale);
}

}  // namespace sdpa
