// fp16_v10_hopper: scaled dot-product attention in half, by the copy engine and warpgroup products of sm_90a.
//
// What changed since fp16_v9_pipeline: one thread has tiles of K and V copied (TMA) into a ring of stages, and gives its warps'
// registers to the others; warpgroups of 128 threads multiply straight from shared memory (wgmma) and wait for tiles on
// mbarriers; the products of one tile run while others compute the softmax of theirs.
//
// A CTA has 128 query rows or more, so few rows leave SMs without work: fp16_v9_pipeline is made for those.
// Tiles: hopper_tiles.cuh. Consumers: hopper_consumer.cuh.

#ifndef TILE_M
#define TILE_M 0  // the launcher chooses by shape
#endif
#ifndef TILE_N
#define TILE_N 0
#endif
#ifndef STAGES
#define STAGES 0
#endif

#include "../cuda/tma.cuh"
#include "hopper_consumer.cuh"
#include "parts/entry.cuh"
#include "parts/head_grid.cuh"

namespace sdpa {

// Rows of one tile of a head, all panels, to `tile`. One thread.
template <typename T>
__device__ __forceinline__ void load_panels(unsigned char* tile, int panel_bytes, const tma::TensorMap& map, mbarrier::Barrier* full, int row) {
#pragma unroll
    for (int panel = 0; panel < T::kPanels; ++panel) {
        tma::load(tile + panel * panel_bytes, map, full, panel * kHalfRow, row, blockIdx.y);
    }
}

// Makes the barriers, and has Q copied at once. One thread.
template <typename T>
__device__ __forceinline__ void begin(typename T::Shared& shared, const tma::TensorMap& q, int first_query) {
    mbarrier::init(&shared.q_full, 1);
    for (int stage = 0; stage < T::kStages; ++stage) {
        mbarrier::init(&shared.full[stage], 1);
        mbarrier::init(&shared.empty[stage], T::kConsumerWarps);
    }
    shared_memory::fence_async();
    mbarrier::arrive_expecting(&shared.q_full, T::kQueryBytes);
    load_panels<T>(shared.q, T::kQueryPanelBytes, q, &shared.q_full, first_query);
}

// Keeps the copies going, a ring of stages ahead of the consumers. One thread.
template <typename T>
__device__ __forceinline__ void produce(typename T::Shared& shared, const tma::TensorMap& k, const tma::TensorMap& v, int tiles) {
    Slot<T> slot;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, slot.advance()) {
        mbarrier::wait(&shared.empty[slot.stage], slot.parity ^ 1);
        mbarrier::arrive_expecting(&shared.full[slot.stage], 2 * T::kTileBytes);
        load_panels<T>(shared.k[slot.stage], T::kKeyPanelBytes, k, &shared.full[slot.stage], tile * T::kTileN);
        load_panels<T>(shared.v[slot.stage], T::kKeyPanelBytes, v, &shared.full[slot.stage], tile * T::kTileN);
    }
}

// grid: query tiles x heads. block: T::kThreads, the producer's warpgroup first. dynamic shared memory: T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_hopper_kernel(
    const Problem problem, const __grid_constant__ tma::TensorMap q, const __grid_constant__ tma::TensorMap k,
    const __grid_constant__ tma::TensorMap v) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<typename T::Shared*>(shared_bytes + (0u - shared_memory::address(shared_bytes)) % kAtomBytes);

    // With the causal mask later rows see more keys: the CTAs with most work start first.
    const int query_tile = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x, first_query = query_tile * T::kTileM;
    const int seen = kCausal ? min(problem.keys, first_query + T::kTileM) : problem.keys;  // keys that some row sees
    const int tiles = (seen + T::kTileN - 1) / T::kTileN;
    if (threadIdx.x == 0) {
        tma::prefetch(q);
        tma::prefetch(k);
        tma::prefetch(v);
        begin<T>(shared, q, first_query);
    }
    __syncthreads();  // the barriers are there

    if (threadIdx.x < kWarpgroup) {
        wgmma::give_registers<T::kProducerRegisters>();
        if (threadIdx.x == 0) produce<T>(shared, k, v, tiles);
    } else {
        wgmma::take_registers<T::kConsumerRegisters>();
        const int group = __shfl_sync(kWarp, threadIdx.x / kWarpgroup, 0) - 1;  // the same for a warp, and the compiler sees that
        Consumer<T, kCausal> consumer(problem, shared, group, first_query);
        consumer.run(tiles);
        consumer.write(problem.out + static_cast<std::int64_t>(blockIdx.y) * problem.queries * T::kDim, problem.queries);
    }
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    return with_hopper_tiling<kDim>(problem, heads, [&](auto tiling) {
        using T = decltype(tiling);
        tma::TensorMap q, k, v;
        if (const int refused = tma::make_map(refusal, q, "q", problem.q, kDim, problem.queries, heads, T::kTileM)) return refused;
        if (const int refused = tma::make_map(refusal, k, "k", problem.k, kDim, problem.keys, heads, T::kTileN)) return refused;
        if (const int refused = tma::make_map(refusal, v, "v", problem.v, kDim, problem.keys, heads, T::kTileN)) return refused;
        return launch_grid<T::kTileM>(refusal, sdpa_fp16_hopper_kernel<T, kCausal>, problem, heads, T::kThreads, T::kSharedBytes, stream, q, k, v);
    });
}

}  // namespace sdpa
