// stage4_mma: attention on FP8 with nothing but the bytes of K and V in shared memory. Formats as in sdpa_fp8.cu.
//
// What changed since stage3_cp_async: mma.sync on fragments that a lane decodes from the bytes themselves, so that no tile
// of halves is written, and scores, P, m, l and O stay in registers; V's tiles are swizzled for ldmatrix; keys are shared
// out between the warps of a CTA; and with 256 keys a tile all 512 of the mission shape are on their way before the first
// product.
//
// Both products run on halves, in which E4M3 values are exact, with float sums. mma.sync takes E4M3 itself, too (m16n8k32). On
// sm_89 that is QMMA, which keeps sums with fewer bits than float (13 of mantissa, says the paper on SageAttention2); scores in the
// thousands, which some inputs have, would then be off by more than exp forgives, and only a card can show by how much. On sm_90
// ptxas (13.0) makes decoding and HMMA of it, as is done here, but decodes Q anew for each product. So there is no toggle for it.
//
// Phases: sdpa/copies.cuh, mma_warp.cuh on top of sdpa/rows.cuh, sdpa/combine.cuh; the way through the
// tiles: sdpa/loop.cuh. Tiles and shared memory: sdpa/tiles.cuh.

#ifndef TILE_M  // query rows of a CTA: 32 give 128 CTAs on B1 H8 S512, for 132 SMs
#define TILE_M 32
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 256
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 8
#endif
#ifndef STRIPS
#define STRIPS 1
#endif
#ifndef STAGES  // tiles of K and V in shared memory, all of them on their way at once
#define STAGES 2
#endif

#include "../sdpa/combine.cuh"
#include "../sdpa/loop.cuh"
#include "entry.cuh"
#include "mma_warp.cuh"

namespace sdpa {

using T = ToggledTiling<std::uint8_t, kHeadDim, TILE_M, TILE_N, NUM_WARPS, STAGES, STAGES>::type;

constexpr int kCtas = 512 / T::kThreads;  // of an SM, at least: keeps a thread at 65,536 / 512 = 128 registers

static_assert(T::kWarpsN > 1, "the parts of O are put together from two warps and more: NUM_WARPS > TILE_M / (16 STRIPS)");
static_assert(T::kSharedBytes <= kSmallSharedBytes, "sm_89 gives a CTA at most 99 KiB of shared memory");

// grid: query tiles x H x B, which spares a division. block: T::kThreads. dynamic shared memory: T::kSharedBytes.
__global__ void __launch_bounds__(T::kThreads, kCtas) sdpa_fp8_mma_kernel(const Problem problem) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];

    const int head = blockIdx.z * gridDim.y + blockIdx.y;
    const int first_query = blockIdx.x * T::kTileM, valid_queries = problem.sequence - first_query;
    const std::int64_t head_start = static_cast<std::int64_t>(head) * problem.sequence * T::kDim;
    const std::int64_t query_start = head_start + static_cast<std::int64_t>(first_query) * T::kDim;
    const int tiles = (problem.sequence + T::kTileN - 1) / T::kTileN;
    const TileCopy<T> keys(problem.k + head_start, problem.sequence, tiles, shared_bytes);
    const TileCopy<T> values(problem.v + head_start, problem.sequence, tiles, shared_bytes + T::kStages * T::kTileElements);

    // Read as volatile, or the compiler would move the loads down to where the values are used, each with its latency.
    const float query_scale = *static_cast<const volatile float*>(problem.q_scale + head);
    const float key_scale = *static_cast<const volatile float*>(problem.k_scale + head);
    const float output_scale = *static_cast<const volatile float*>(problem.v_scale + head);
    const float scale = query_scale * key_scale * problem.softmax_scale * kLog2E;

    ByteWork<T> work(fmaxf(fabsf(scale), kLeastScale));
    work.request_queries(problem.q + query_start, valid_queries);
    issue_first_tiles(keys, values);
    work.decode_queries(scale < 0.0f);
    attend(work, keys, values, tiles, first_query, problem.sequence);
    Combine<T>(shared_bytes, output_scale).run(work, problem.out + query_start, valid_queries);
}

constexpr std::int64_t kMostHeads = 65535;  // a grid's height, and its depth

int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t B, std::int64_t H, void* stream) {
    const launcher::Extent heads[] = {{"B", B}, {"H", H}};
    if (const int refused = launcher::check_extents(refusal, heads, kMostHeads)) return refused;
    const dim3 grid((problem.sequence + T::kTileM - 1) / T::kTileM, static_cast<unsigned>(H), static_cast<unsigned>(B));
    return launcher::launch(refusal, sdpa_fp8_mma_kernel, grid, T::kThreads, T::kSharedBytes, stream, problem);
}

}  // namespace sdpa
