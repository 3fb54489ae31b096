// stage3_cp_async: attention on FP8 that copies the next tiles of K and V while it computes one. Formats and method as in stage0_scalar.cu.
//
// Since the stage before (stage2_wmma_pv):
// - Asynchronous copies (cp.async) bring the FP8 bytes of the next two tiles to staging buffers while this tile is computed, so
//   that no tile begins with a wait for global memory.
// - Other warps convert the next tile while some are in P·V: K over this tile's, which Q·K^T has read, V into a second buffer.
//   That spares one barrier per tile.
// - Shared memory grows by 25 KiB: 16 KiB of staging buffers and 9 KiB of V.
// USE_CP_ASYNC=0 is the stage before.

#ifndef USE_CP_ASYNC  // 0: each tile is read when it is needed
#define USE_CP_ASYNC 1
#endif

#include <cstddef>

#include <cuda_pipeline.h>

#include "parts/debug.cuh"
#include "parts/entry.cuh"
#include "parts/load.cuh"
#include "parts/output_wmma.cuh"
#include "parts/scores_wmma.cuh"
#include "parts/softmax.cuh"
#include "parts/tiles.cuh"
#include "parts/write_output.cuh"

namespace sdpa {

static_assert(USE_CP_ASYNC == 0 || USE_CP_ASYNC == 1, "USE_CP_ASYNC is 0 or 1");

using Scores = WmmaScores;
using Output = WmmaOutput;

constexpr int kPipelineDepth = 2;  // staging buffers: tiles of bytes on their way at once
// With copies, V as elements has two buffers: the next tile is converted while P·V reads this one. K needs one, since
// Q·K^T has read it by then.
constexpr int kValueBuffers = USE_CP_ASYNC == 1 ? 2 : 1;

// FP8 tiles on their way from global memory. A thread converts the chunks that it copied itself.
struct Staging {
    alignas(16) std::uint8_t k[kPipelineDepth][kTileBytes];
    alignas(16) std::uint8_t v[kPipelineDepth][kTileBytes];
};

// The whole dynamic shared memory of a CTA. WMMA needs 32-byte aligned fragments.
struct SharedTiles {
    alignas(128) Scores::Element q[kBlockM * kTileLd<Scores::Element>];  // raw FP8 values, unscaled, as are k and v
    alignas(128) Scores::Element k[kBlockN * kTileLd<Scores::Element>];
    alignas(128) Output::Element v[kValueBuffers][kBlockN * kTileLd<Output::Element>];
    // One buffer, used in turn for row numbers of the WMMA accumulator, Q·K^T and O.
    alignas(128) float scores[kBlockM * kScoreLd];
    alignas(16) float rescale[kBlockM];    // exp(m_old - m_new) of each query row, this tile
    alignas(16) float normalise[kBlockM];  // v_scale / l of each query row, at the end
    alignas(32) __half probabilities[kBlockM * Output::kLd];
#if USE_CP_ASYNC
    Staging staging;
#endif
};
static_assert(sizeof(SharedTiles) <= kSmallSharedBytes, "sm_89 gives a CTA at most 99 KiB of shared memory");

#if USE_CP_ASYNC
// Start the copy of one tile's bytes to staging buffer `slot`. A missing row is zero-filled, and its source is the first
// row, since the address of a copy of no bytes must still be valid. valid_rows <= 0 copies nothing.
// The group is committed in any case: with one group per tile the count in await_tile is right at the end, too.
__device__ __forceinline__ void request_tile(
    Staging& staging, int slot, const std::uint8_t* k_rows, const std::uint8_t* v_rows, int valid_rows) {
    if (valid_rows > 0) {
#pragma unroll
        for (int i = 0; i < kTileChunks; ++i) {
            const int chunk = threadIdx.x + i * kThreads;
            const bool exists = chunk / 4 < valid_rows;
            const int source = exists ? chunk * kChunkBytes : 0;
            const std::size_t zero_fill = exists ? 0 : kChunkBytes;
            __pipeline_memcpy_async(&staging.k[slot][chunk * kChunkBytes], k_rows + source, kChunkBytes, zero_fill);
            __pipeline_memcpy_async(&staging.v[slot][chunk * kChunkBytes], v_rows + source, kChunkBytes, zero_fill);
        }
    }
    __pipeline_commit();
}

// Wait for the oldest requested tile, in `slot`, and fetch this thread's chunks of it. No barrier is needed: a thread
// reads only what it copied itself, and for the same reason it may refill the slot once it has used the bytes.
__device__ __forceinline__ void await_tile(const Staging& staging, int slot, TileBytes& bytes) {
    __pipeline_wait_prior(kPipelineDepth - 1);
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        bytes.k[i] = reinterpret_cast<const uint4*>(staging.k[slot])[threadIdx.x + i * kThreads];
        bytes.v[i] = reinterpret_cast<const uint4*>(staging.v[slot])[threadIdx.x + i * kThreads];
    }
}
#endif

// grid: B * H * query_tiles CTAs, those of one head side by side, so that they read the same K and V at about the same
// time. block: kThreads. dynamic shared memory: SharedTiles. The launch bound of 4 CTAs keeps a thread at 65,536 / 4 /
// kThreads = 128 registers.
__global__ void __launch_bounds__(kThreads, 4) sdpa_fp8_kernel(
    const std::uint8_t* __restrict__ q, const std::uint8_t* __restrict__ k, const std::uint8_t* __restrict__ v,
    const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
    __half* __restrict__ out, int sequence, int query_tiles, float softmax_scale) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    SharedTiles& tiles = *reinterpret_cast<SharedTiles*>(shared_bytes);
    Output::Element* const probabilities = tiles.probabilities;

    const int head = blockIdx.x / query_tiles;
    const int first_query = blockIdx.x % query_tiles * kBlockM;
    const std::int64_t head_start = static_cast<std::int64_t>(head) * sequence * kHeadDim;
    const std::int64_t query_start = head_start + static_cast<std::int64_t>(first_query) * kHeadDim;
    const int key_tiles = (sequence + kBlockN - 1) / kBlockN;
    const auto key_offset = [&](int tile) { return head_start + static_cast<std::int64_t>(tile) * kTileBytes; };
    const auto valid_keys = [&](int tile) { return sequence - tile * kBlockN; };  // of the tile; may exceed kBlockN

#if USE_CP_ASYNC
    const auto request = [&](int tile) {
        request_tile(tiles.staging, tile % kPipelineDepth, k + key_offset(tile), v + key_offset(tile), valid_keys(tile));
    };
    // Tile `tile` of K and V to elements, from its staging buffer, which is then refilled.
    const auto fetch_and_convert = [&](int tile) {
        TileBytes bytes;
        await_tile(tiles.staging, tile % kPipelineDepth, bytes);
        store_tile(bytes, tiles.k, tiles.v[tile % kValueBuffers]);
        request(tile + kPipelineDepth);
    };
    for (int tile = 0; tile < kPipelineDepth; ++tile) request(tile);
#else
    // Tile `tile` of K and V to elements, directly from global memory.
    const auto fetch_and_convert = [&](int tile) {
        TileBytes bytes;
        read_tile(k + key_offset(tile), v + key_offset(tile), valid_keys(tile), bytes);
        store_tile(bytes, tiles.k, tiles.v[0]);
    };
#endif

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
    output.begin(tiles.scores, place);
    store_queries(query_bytes, tiles.q);

#if USE_CP_ASYNC
    fetch_and_convert(0);
    __syncthreads();  // Q and the first tile are whole
#endif
    for (int tile = 0; tile < key_tiles; ++tile) {
#if !USE_CP_ASYNC
        fetch_and_convert(tile);
        __syncthreads();  // the tile is whole, and Q before the first one
#endif
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

#if USE_CP_ASYNC
        // The next tile is converted here, while other warps are in P·V.
        if (tile + 1 < key_tiles) fetch_and_convert(tile + 1);
#endif
        output.accumulate(probabilities, tiles.v[tile % kValueBuffers], tiles.rescale, place);
        __syncthreads();  // V and P are read to the end before they are overwritten; with copies, the next tile is whole
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
