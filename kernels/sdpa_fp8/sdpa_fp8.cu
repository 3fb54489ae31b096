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
// Phases: load.cuh, scores.cuh, softmax.cuh, output.cuh. Tiles and shared memory: config.cuh.

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "config.cuh"
#include "debug.cuh"
#include "load.cuh"
#include "output.cuh"
#include "scores.cuh"
#include "softmax.cuh"

namespace sdpa {

constexpr float kLog2E = 1.44269504088896340736f;

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

}  // namespace sdpa

namespace {

// Writes a message into the caller's buffer and returns 1, the launcher's code for a refused argument or failed call.
int refuse(char* error, std::int64_t error_bytes, const char* format, ...) {
    if (error != nullptr && error_bytes > 0) {
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(error, static_cast<std::size_t>(error_bytes), format, arguments);
        va_end(arguments);
    }
    return 1;
}

struct Pointer {
    const char* name;
    const void* address;
    unsigned alignment;  // bytes
};

struct Extent {
    const char* name;
    std::int64_t size;
};

constexpr std::int64_t kMaxGrid = 2147483647;  // CTAs along x, on every chip
constexpr std::int64_t kMaxSequence = 1 << 30;  // keeps key positions in int

}  // namespace

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp8_forward(
    const void* q, const void* k, const void* v, const void* q_scale, const void* k_scale, const void* v_scale,
    void* out, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, float softmax_scale, void* stream,
    char* error, std::int64_t error_bytes) {
    const Pointer pointers[] = {{"q", q, 16}, {"k", k, 16}, {"v", v, 16}, {"q_scale", q_scale, 4},
                                {"k_scale", k_scale, 4}, {"v_scale", v_scale, 4}, {"out", out, 16}};
    for (const Pointer& pointer : pointers) {
        if (pointer.address == nullptr) return refuse(error, error_bytes, "%s: null pointer", pointer.name);
        if (reinterpret_cast<std::uintptr_t>(pointer.address) % pointer.alignment != 0) {
            return refuse(error, error_bytes, "%s: address %p is not aligned to %u bytes", pointer.name, pointer.address,
                          pointer.alignment);
        }
    }
    for (const Extent& extent : {Extent{"B", B}, Extent{"H", H}, Extent{"S", S}}) {
        if (extent.size < 1) {
            return refuse(error, error_bytes, "%s: %lld, must be at least 1", extent.name, static_cast<long long>(extent.size));
        }
    }
    if (D != sdpa::kHeadDim) {
        return refuse(error, error_bytes, "D: %lld, this kernel is for %d", static_cast<long long>(D), sdpa::kHeadDim);
    }
    if (S > kMaxSequence) {
        return refuse(error, error_bytes, "S: %lld, at most %lld", static_cast<long long>(S), static_cast<long long>(kMaxSequence));
    }
    const std::int64_t query_tiles = (S + sdpa::kBlockM - 1) / sdpa::kBlockM;
    if (B > kMaxGrid / query_tiles || H > kMaxGrid / query_tiles / B) {
        return refuse(error, error_bytes, "B, H, S: %lld x %lld heads of %lld query tiles are more CTAs than a grid's %lld",
                      static_cast<long long>(B), static_cast<long long>(H), static_cast<long long>(query_tiles),
                      static_cast<long long>(kMaxGrid));
    }
    if (!std::isfinite(softmax_scale)) return refuse(error, error_bytes, "softmax_scale: %f, must be finite", softmax_scale);

    // More than 48 KiB of dynamic shared memory is granted only on request.
    cudaError_t status = cudaFuncSetAttribute(
        sdpa::sdpa_fp8_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sdpa::kSharedBytes);
    if (status != cudaSuccess) {
        return refuse(error, error_bytes, "shared memory: the device refused %d bytes a CTA: %s", sdpa::kSharedBytes,
                      cudaGetErrorString(status));
    }
    const dim3 grid(static_cast<unsigned>(B * H * query_tiles));
    const dim3 block(sdpa::kThreads);
    sdpa::sdpa_fp8_kernel<<<grid, block, sdpa::kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const std::uint8_t*>(q), static_cast<const std::uint8_t*>(k), static_cast<const std::uint8_t*>(v),
        static_cast<const float*>(q_scale), static_cast<const float*>(k_scale), static_cast<const float*>(v_scale),
        static_cast<__half*>(out), static_cast<int>(S), static_cast<int>(query_tiles), softmax_scale);
    status = cudaGetLastError();
    if (status != cudaSuccess) {
        return refuse(error, error_bytes, "launch of %u CTAs of %d threads with %d bytes of shared memory failed: %s",
                      grid.x, sdpa::kThreads, sdpa::kSharedBytes, cudaGetErrorString(status));
    }
    return 0;
}
