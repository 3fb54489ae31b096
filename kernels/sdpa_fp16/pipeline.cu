// fp16_v9_pipeline: scaled dot-product attention in half, with nothing but K, V and Q in shared memory on the way.
//
// What changed since fp16_v8_tiles: mma.sync on fragments that ldmatrix reads from swizzled tiles, so scores, P, m, l and O
// stay in registers; 16-byte asynchronous copies, as many tiles ahead as there is room for, all issued before the first
// product; and keys shared out between the warps of a CTA, which makes enough work for all SMs from few query rows.
//
// Tiles: sdpa/tiles.cuh, chosen by pipeline_choice.cuh. The way through them: sdpa/loop.cuh. Phases:
// pipeline_load.cuh, pipeline_warp.cuh on top of sdpa/rows.cuh, sdpa/combine.cuh.

#ifndef TILE_M
#define TILE_M 0  // the launcher chooses by shape
#endif
#ifndef TILE_N
#define TILE_N 0
#endif
#ifndef NUM_WARPS
#define NUM_WARPS 0
#endif
#ifndef STAGES
#define STAGES 0
#endif
#ifndef USE_WMMA
#define USE_WMMA 1
#endif

#include "../sdpa/combine.cuh"
#include "../sdpa/loop.cuh"
#include "entry.cuh"
#include "pipeline_choice.cuh"
#include "pipeline_load.cuh"
#include "pipeline_warp.cuh"

namespace sdpa {

// grid: query tiles x heads. block: T::kThreads. dynamic shared memory: T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_pipeline_kernel(const Problem problem) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    __half* const query_tile = reinterpret_cast<__half*>(shared_bytes);
    __half* const key_ring = query_tile + T::kQueryElements;

    const int first_query = blockIdx.x * T::kTileM, valid_queries = problem.queries - first_query;
    const std::int64_t query_start = (static_cast<std::int64_t>(blockIdx.y) * problem.queries + first_query) * T::kDim;
    const std::int64_t key_start = static_cast<std::int64_t>(blockIdx.y) * problem.keys * T::kDim;
    const int seen = kCausal ? min(problem.keys, first_query + T::kTileM) : problem.keys;  // keys that some row sees
    const int tiles = (seen + T::kTileN - 1) / T::kTileN;
    const TileCopy<T> keys(problem.k + key_start, problem.keys, tiles, key_ring);
    const TileCopy<T> values(problem.v + key_start, problem.keys, tiles, key_ring + T::kStages * T::kTileElements);

    copy_queries<T>(problem.q + query_start, valid_queries, query_tile);
    __pipeline_commit();
    issue_first_tiles(keys, values);
    WarpWork<T, kCausal> work(problem.scale);
    __pipeline_wait_prior(kCopying<T>);
    __syncthreads();  // Q is whole
    work.load_queries(query_tile, problem.negate);

    attend(work, keys, values, tiles, first_query, problem.keys);
    if constexpr (T::kWarpsN == 1) {
        write_rows<T>(work, problem.out + query_start, valid_queries);
    } else {
        Combine<T>(shared_bytes).run(work, problem.out + query_start, valid_queries);
    }
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    return with_tiling<kDim>(problem, heads, [&](auto tiling) {
        using T = decltype(tiling);
        if constexpr (T::kSharedBytes > kMostSharedBytes) {
            return refusal.refuse("D: %d, these tiles then take %d bytes of shared memory, of %d", kDim, T::kSharedBytes, kMostSharedBytes);
        } else {
            return launch_grid<T::kTileM>(refusal, sdpa_fp16_pipeline_kernel<T, kCausal>, problem, heads, T::kThreads, T::kSharedBytes, stream);
        }
    });
}

}  // namespace sdpa
