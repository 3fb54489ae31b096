// fp16_v10_hopper: scaled dot-product attention in half, by the copy engine and warpgroup products of sm_90a.
//
// Since the stage before (fp16_v9_pipeline):
// - One thread has the copy engine (TMA) bring tiles of Q, K and V into a ring of stages. Its warpgroup gives most of its registers
//   to the others.
// - The other warpgroups have 64 query rows each. They wait for tiles on mbarriers and multiply from shared memory (wgmma).
// - Products are asynchronous: P·V of one tile runs while the softmax of the next tile begins.
// A CTA has 128 query rows or more, so few rows leave SMs without work: fp16_v9_pipeline is made for those.
//
// Tiles and registers: parts/warpgroup_tiles.cuh. A consumer's rows: parts/warpgroup_rows.cuh.

#ifndef TILE_M  // query rows of a CTA; 0: the launcher chooses all tiles by shape
#define TILE_M 0
#endif
#ifndef TILE_N  // keys of a tile if D = 64; half of it if D = 128
#define TILE_N 0
#endif
#ifndef STAGES  // tiles of K and V in shared memory
#define STAGES 0
#endif

#include "parts/entry.cuh"
#include "parts/head_grid.cuh"
#include "parts/warpgroup_rows.cuh"

namespace sdpa {

template <int kDim_, int kTileM_, int kTileN_, int kStages_>
struct HopperTiling : WarpgroupTiling<kDim_, kTileM_, kTileN_, kStages_, 24> {
    using Base = typename HopperTiling::WarpgroupTiling;
    using Base::kDim, Base::kPanels, Base::kStages, Base::kTileBytes, Base::kTileM, Base::kTileN;
    static_assert(kTileN * kDim == 64 * 64 || kTileN * kDim == 96 * 64 || kTileN * kDim == 128 * 64,
                  "TILE_N is 64, 96 or 128: scores of more keys don't fit into a thread's registers");
    static_assert(kStages >= 3 && kStages <= 8, "STAGES is 3 to 8: a consumer waits for its next tile while it still has two");

    static constexpr int kQueryPanelBytes = kTileM * 128, kQueryBytes = kPanels * kQueryPanelBytes;

    struct Shared {
        alignas(1024) unsigned char q[kQueryBytes];
        alignas(1024) unsigned char k[kStages][kTileBytes];
        alignas(1024) unsigned char v[kStages][kTileBytes];
        mbarrier::Barrier q_full;
        mbarrier::Barrier full[kStages], empty[kStages];  // K and V are there; all consumer warps have read them
    };
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kSharedBytes <= kMostSharedBytes, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// Makes the barriers, and has Q copied at once. One thread.
template <typename T>
__device__ __forceinline__ void begin(typename T::Shared& shared, const tma::TensorMap& q, int first_query, const Head& head) {
    mbarrier::init(&shared.q_full, 1);
    for (int stage = 0; stage < T::kStages; ++stage) {
        mbarrier::init(&shared.full[stage], 1);
        mbarrier::init(&shared.empty[stage], T::kConsumerWarps);
    }
    shared_memory::fence_async();
    mbarrier::arrive_expecting(&shared.q_full, T::kQueryBytes);
    load_panels<T>(shared.q, T::kQueryPanelBytes, q, &shared.q_full, first_query, head.of_queries, head.batch);
}

// Keeps the copies going, a ring of stages ahead of the consumers. One thread.
template <typename T>
__device__ __forceinline__ void produce(typename T::Shared& shared, const tma::TensorMap& k, const tma::TensorMap& v, int tiles,
                                        const Head& head) {
    mbarrier::Slot<T::kStages> slot;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, slot.advance()) {
        mbarrier::wait(&shared.empty[slot.stage], slot.parity ^ 1);
        mbarrier::arrive_expecting(&shared.full[slot.stage], 2 * T::kTileBytes);
        load_panels<T>(shared.k[slot.stage], T::kKeyPanelBytes, k, &shared.full[slot.stage], tile * T::kTileN, head.of_keys, head.batch);
        load_panels<T>(shared.v[slot.stage], T::kKeyPanelBytes, v, &shared.full[slot.stage], tile * T::kTileN, head.of_keys, head.batch);
    }
}

// The work of a consumer warpgroup: 64 query rows against all keys that they see.
template <typename T, bool kCausal>
class Consumer : public WarpgroupRows<T, kCausal> {
    using Rows = WarpgroupRows<T, kCausal>;
    using Rows::s_, Rows::p_, Rows::o_, Rows::max_, Rows::sum_;

public:
    // `group`: which of the CTA's consumers. `first_query`: of the CTA.
    __device__ __forceinline__ Consumer(const Problem& problem, typename T::Shared& shared, int group, int first_query)
        : Rows(problem), shared_(shared), queries_(wgmma::descriptor(shared.q + group * 64 * 128, 0, kAtomBytes, wgmma::k128Bytes)) {
        this->first_row_ = first_query + 64 * group;
        max_[0] = max_[1] = -INFINITY;
        sum_[0] = sum_[1] = 0.0f;
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] = 0.0f;
    }

    // Computes O and l of the rows over tiles 0 to `tiles` - 1; they stay in registers.
    __device__ __forceinline__ void run(int tiles) {
        const int plain = this->plain_tiles();
        mbarrier::wait(&shared_.q_full, 0);
        mbarrier::wait(&shared_.full[slot_.stage], slot_.parity);
        this->issue_scores(queries_, shared_.k[slot_.stage]);
        wgmma::wait<0>(s_);
        finish_scores<true>(0, tiles > 1, [] {});
        int tile = 1;
#pragma unroll 1
        for (; tile < min(plain, tiles); ++tile) step<false>(tile, tile + 1 < tiles);
#pragma unroll 1
        for (; tile < tiles; ++tile) step<true>(tile, tile + 1 < tiles);
        this->issue_output(shared_.v[slot_.stage]);
        wgmma::wait<0>(o_, p_);
        this->sum_up(sum_);
    }

private:
    // Scores and probabilities of tile `tile`, which is there, and P·V of the tile before. `more`: a tile follows.
    template <bool kGeneral>
    __device__ __forceinline__ void step(int tile, bool more) {
        const int before = slot_.stage;
        slot_.advance();
        this->issue_scores(queries_, shared_.k[slot_.stage]);
        this->issue_output(shared_.v[before]);
        wgmma::wait<1>(s_);
        finish_scores<kGeneral>(tile, more, [&] {
            wgmma::wait<0>(o_, p_, s_);
            this->release(&shared_.empty[before]);
        });
    }

    // Turns scores into probabilities p_ and rescales O. The upper rows' exponentials overlap P·V of the tile before.
    // `finish_before` waits for that P·V. The wait for the next tile is a loop: the compiler cannot move finish_before's wait
    // above it. The next products then need no wait for a tile.
    template <bool kGeneral, typename FinishBefore>
    __device__ __forceinline__ void finish_scores(int tile, bool more, FinishBefore finish_before) {
        const auto raise = [](float old, float seen) { return fmaxf(old, seen); };
        this->template prepare_scores<kGeneral>(tile);
        this->exponentiate(0, raise);
        wgmma::pin(s_);
        if (more) {
            mbarrier::Slot<T::kStages> next = slot_;
            next.advance();
            mbarrier::wait(&shared_.full[next.stage], next.parity);
        }
        finish_before();
        this->exponentiate(1, raise);
        this->rescale_output();
        this->round_probabilities();
    }

    typename T::Shared& shared_;
    std::uint64_t queries_;            // the warpgroup's rows of panel 0
    mbarrier::Slot<T::kStages> slot_;  // of the newest tile
};

// grid: query tiles x heads. block: T::kThreads, the producer's warpgroup first. dynamic shared memory: T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_hopper_kernel(
    const Problem problem, const __grid_constant__ tma::TensorMap q, const __grid_constant__ tma::TensorMap k,
    const __grid_constant__ tma::TensorMap v) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    auto& shared = aligned<T>(shared_bytes);

    // With the causal mask later rows see more keys: the CTAs with most work start first.
    const int query_tile = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x, first_query = query_tile * T::kTileM;
    const int seen = kCausal ? min(problem.keys, first_query + T::kTileM) : problem.keys;  // keys that some row sees
    const int tiles = (seen + T::kTileN - 1) / T::kTileN;
    const Head head = grid_head(problem);
    if (threadIdx.x == 0) {
        tma::prefetch(q);
        tma::prefetch(k);
        tma::prefetch(v);
        begin<T>(shared, q, first_query, head);
    }
    __syncthreads();  // the barriers are there

    if (threadIdx.x < kWarpgroup) {
        wgmma::give_registers<T::kProducerRegisters>();
        if (threadIdx.x == 0) produce<T>(shared, k, v, tiles, head);
    } else {
        wgmma::take_registers<T::kConsumerRegisters>();
        const int group = __shfl_sync(kWarp, threadIdx.x / kWarpgroup, 0) - 1;  // the same for a warp, and the compiler sees that
        Consumer<T, kCausal> consumer(problem, shared, group, first_query);
        consumer.run(tiles);
        consumer.write(problem, head, grid_head_number());
    }
}

// Calls launch with the tiling for this problem and returns its result. D = 128 has tiles of half as many keys: O takes the
// registers that scores leave.
template <int kDim, typename Launch>
int with_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        return launch(HopperTiling<kDim, TILE_M, TILE_N * 64 / kDim, STAGES>{});
    } else {
        // At least two CTAs per SM: taller tiles read each tile of K and V for more rows.
        const std::int64_t tall = heads * ((problem.queries + 191) / 192);
        if (tall >= 2 * launcher::device_attribute(cudaDevAttrMultiProcessorCount)) return launch(HopperTiling<kDim, 192, 128 * 64 / kDim, 3>{});
        return launch(HopperTiling<kDim, 128, 128 * 64 / kDim, 3>{});
    }
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    return with_tiling<kDim>(problem, heads, [&](auto tiling) {
        using T = decltype(tiling);
        tma::TensorMap q, k, v;
        if (const int refused = map_rows<kDim>(refusal, q, "q", problem.q, problem.queries, heads, problem, T::kTileM)) return refused;
        if (const int refused = map_rows<kDim>(refusal, k, "k", problem.k, problem.keys, heads, problem, T::kTileN)) return refused;
        if (const int refused = map_rows<kDim>(refusal, v, "v", problem.v, problem.keys, heads, problem, T::kTileN)) return refused;
        return launch_grid<T::kTileM>(refusal, sdpa_fp16_hopper_kernel<T, kCausal>, problem, heads, T::kThreads, T::kSharedBytes, stream, q, k, v);
    });
}

}  // namespace sdpa
