// fp16_v11_pingpong: scaled dot-product attention in half; the products of one warpgroup run during the softmax of another.
//
// Since the stage before (fp16_v10_hopper):
// - Warpgroups take turns (PINGPONG=0: they don't): while one has its products issued, the others compute their softmax.
// - D = 128 has tiles of 128 keys, so that Q·K^T reads less shared memory per product: two consumers of 240 registers.
// - K and V have barriers of their own: K of the next tile comes as soon as the scores of this one are there.
// - CTAs are persistent. Each takes items (tiles of query rows) in turn. The first scores of an item overlap the last P·V of the
//   item before. With the causal mask a long item and a short one make a pair.
// - For D = 128 or three consumers, O is rescaled only if a maximum grows by more than kSlack (LAZY_RESCALE=0: at each tile).
//   P and l may then be up to 2^kSlack times larger.
// - O leaves through shared memory, by the copy engine, during the next item.
// - Without a causal mask, if there are at least two SMs per item and four tiles of keys, a cluster of CTAs splits the item's keys.
//   It combines the parts of O at the end.
//
// Tiles and registers: parts/warpgroup_tiles.cuh. A consumer's rows: parts/warpgroup_rows.cuh; parts/cluster_rows.cuh if a cluster
// shares out their keys. Which items a CTA takes: sdpa/schedule.cuh.

#ifndef TILE_M  // query rows of a CTA; 0: the launcher chooses all tiles by shape
#define TILE_M 0
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 0
#endif
#ifndef STAGES  // tiles of K and V in shared memory
#define STAGES 0
#endif
#ifndef PINGPONG  // 1: consumers take turns with their products
#define PINGPONG 1
#endif
#ifndef LAZY_RESCALE  // 1: O keeps its scale while maxima grow little, in tilings for which that pays
#define LAZY_RESCALE 1
#endif

#include <algorithm>

#include "../cuda/named_barrier.cuh"
#include "../sdpa/schedule.cuh"
#include "parts/cluster_rows.cuh"
#include "parts/entry.cuh"
#include "parts/head_grid.cuh"

namespace sdpa {

static_assert(PINGPONG == 0 || PINGPONG == 1, "PINGPONG is 0 or 1");
static_assert(LAZY_RESCALE == 0 || LAZY_RESCALE == 1, "LAZY_RESCALE is 0 or 1");

constexpr float kSlack = 8.0f;  // log2 of the largest probability if O is rescaled lazily

// Q and O are stored in strips of 64 rows, one per consumer.
template <int kDim_, int kTileM_, int kTileN_, int kStages_>
struct PingPongTiling : WarpgroupTiling<kDim_, kTileM_, kTileN_, kStages_, kTileM_ == 192 ? 32 : 24> {
    using Base = typename PingPongTiling::WarpgroupTiling;
    using Base::kConsumers, Base::kDim, Base::kPanels, Base::kStages, Base::kTileBytes, Base::kTileM, Base::kTileN;
    static constexpr bool kTurns = PINGPONG == 1 && kConsumers > 1;
    static constexpr bool kLazy = LAZY_RESCALE == 1 && (kDim == 128 || kConsumers == 3);  // else rescaling O is less work than asking

    static_assert(kTileN == 64 || kTileN == 96 || kTileN == 128, "TILE_N is 64, 96 or 128: more scores don't fit into a thread's registers");
    static_assert(kStages >= 2 && kStages <= 8, "STAGES is 2 to 8");

    static constexpr int kQueryPanelBytes = 64 * 128, kStripBytes = kPanels * kQueryPanelBytes;
    static constexpr int kPartBytes = kTileM * kDim * 4;  // O of a CTA that has a share of the keys, in float

    // Q of the next item has a place of its own if there is one left.
    static constexpr int kQueries = 3 * kConsumers * kStripBytes + 2 * kStages * kTileBytes <= 224 * 1024 ? 2 : 1;

    struct Shared {
        union {
            struct {
                alignas(1024) unsigned char k[kStages][kTileBytes];
                alignas(1024) unsigned char v[kStages][kTileBytes];
            };
            float part[kTileM * kDim];
        };
        alignas(1024) unsigned char q[kQueries][kConsumers][kStripBytes];
        alignas(1024) unsigned char out[kConsumers][kStripBytes];
        float2 state[kTileM];  // m and l of a part's rows
        mbarrier::Barrier q_full[kQueries], q_empty[kQueries];
        mbarrier::Barrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];  // there; read by all consumer warps
    };
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kPartBytes <= 2 * kStages * kTileBytes, "a part of O takes the place of K and V");
    static_assert(kSharedBytes <= kMostSharedBytes, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// Numbers of named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kTurnOf = 1, kStripOf = 4, kAllConsumers = 7 };

using mbarrier::Slot;

struct Maps {
    tma::TensorMap q, k, v, out;
};

// The work of the copy engine's thread: Q, K and V of all items, as far ahead of the consumers as the rings allow.
template <typename T>
class Producer {
    using Shared = typename T::Shared;

public:
    __device__ __forceinline__ Producer(const Problem& problem, Shared& shared, const Maps& maps) : problem_(problem), shared_(shared), maps_(maps) {}

    // In the order in which consumers take them: the scores of a tile come before the output of the tile before.
    __device__ __forceinline__ void produce(const Item& item) {
        const Head head = head_of(problem_, item.head);
#pragma unroll 1
        for (int tile = item.begin; tile < item.end; ++tile) {
            load(shared_.k[keys_.stage], maps_.k, shared_.k_full, shared_.k_empty, keys_, tile, head);
            if (tile == item.begin) load_queries(item.first_query, head);
            load_values();
            tile_ = tile;
            head_ = head;
        }
    }

    // V of the newest tile of K.
    __device__ __forceinline__ void load_values() {
        if (tile_ >= 0) load(shared_.v[values_.stage], maps_.v, shared_.v_full, shared_.v_empty, values_, tile_, head_);
    }

private:
    __device__ __forceinline__ void load_queries(int first_query, const Head& head) {
        mbarrier::Barrier* const full = &shared_.q_full[queries_.stage];
        mbarrier::wait(&shared_.q_empty[queries_.stage], queries_.parity ^ 1);
        mbarrier::arrive_expecting(full, T::kConsumers * T::kStripBytes);
        for (int group = 0; group < T::kConsumers; ++group) {
            load_panels<T>(shared_.q[queries_.stage][group], T::kQueryPanelBytes, maps_.q, full, first_query + 64 * group, head.of_queries, head.batch);
        }
        queries_.advance();
    }

    __device__ __forceinline__ void load(unsigned char* to, const tma::TensorMap& map, mbarrier::Barrier* full, mbarrier::Barrier* empty,
                                         Slot<T::kStages>& slot, int tile, const Head& head) {
        mbarrier::wait(&empty[slot.stage], slot.parity ^ 1);
        mbarrier::arrive_expecting(&full[slot.stage], T::kTileBytes);
        load_panels<T>(to, T::kKeyPanelBytes, map, &full[slot.stage], tile * T::kTileN, head.of_keys, head.batch);
        slot.advance();
    }

    const Problem& problem_;
    Shared& shared_;
    const Maps& maps_;
    Slot<T::kStages> keys_, values_;
    Slot<T::kQueries> queries_;
    int tile_ = -1;  // the newest tile of K
    Head head_{};    // and its head
};

// The work of a consumer warpgroup: 64 query rows against the keys of an item.
template <typename T, bool kCausal>
class Consumer : public ClusterRows<T, kCausal> {
    using Shared = typename T::Shared;
    using Rows = ClusterRows<T, kCausal>;
    using Rows::column, Rows::factor_, Rows::first_row_, Rows::max_, Rows::o_, Rows::p_, Rows::release, Rows::s_, Rows::strip_row;
    using Rows::sum_, Rows::sum_up;

public:
    // `group`: which of the CTA's consumers.
    __device__ __forceinline__ Consumer(const Problem& problem, Shared& shared, const tma::TensorMap& out, int group)
        : Rows(problem), problem_(problem), shared_(shared), out_(out), group_(group) {
        if (group == T::kConsumers - 1) pass_turn();  // the first one's first turn
    }

    // All items but the end of the last one, which `item` is then: its O, not yet divided by l, is in registers.
    __device__ __forceinline__ void run(Items<T, kCausal> items, Item& item) {
        items.next(item);
        begin(item);
        mbarrier::wait(&shared_.k_full[slot_.stage], slot_.parity);
        issue_scores(slot_.stage);
        finish_scores<true, true, 0>(item.begin, item.begin + 1 == item.end, [] {});
        clear_output();
        for (;;) {
            const int plain = this->plain_tiles();
            int tile = item.begin + 1;
#pragma unroll 1
            for (; tile < min(plain, item.end); ++tile) step<false>(tile, tile + 1 == item.end);
#pragma unroll 1
            for (; tile < item.end; ++tile) step<true>(tile, tile + 1 == item.end);
            Item next;
            if (!items.next(next)) break;
            change(item, next);
            item = next;
        }
        mbarrier::wait(&shared_.v_full[slot_.stage], slot_.parity);
        this->issue_output(shared_.v[slot_.stage]);
        wgmma::wait<0>(o_, p_);
        sum_up(sum_);
    }

    // After the last item.
    __device__ __forceinline__ void finish() {
        if (group_ == 0) take_turn();  // the last one's last pass, so that no barrier is left half full
        if (threadIdx.x % kWarpgroup == 0) tma::wait_stores_read();
    }

private:
    // A value that is the same for a warp, in a register of which the compiler sees that.
    static __device__ __forceinline__ int of_warp(int value) { return __shfl_sync(kWarp, value, 0); }

    __device__ __forceinline__ void take_turn() const {
        if constexpr (T::kTurns) named_barrier::sync(kTurnOf + group_, 2 * kWarpgroup);
    }
    __device__ __forceinline__ void pass_turn() const {
        if constexpr (T::kTurns) named_barrier::arrive(kTurnOf + (group_ + 1 == T::kConsumers ? 0 : group_ + 1), 2 * kWarpgroup);
    }

    // The rows of an item begin, and its Q is there. Every row sees a key of the first tile, so no maximum stays -infinity.
    __device__ __forceinline__ void begin(const Item& item) {
        first_row_ = item.first_query + 64 * group_;
        max_[0] = max_[1] = -INFINITY;
        sum_[0] = sum_[1] = 0.0f;
        mbarrier::wait(&shared_.q_full[query_slot_.stage], query_slot_.parity);
    }

    __device__ __forceinline__ void clear_output() {
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] = 0.0f;
    }

    // Scores and probabilities of tile `tile`, which is there, and P·V of the tile before. `last`: of the item.
    template <bool kGeneral>
    __device__ __forceinline__ void step(int tile, bool last) {
        const int before = issue_both();
        finish_scores<kGeneral, false, 1>(tile, last, [&] { finish_output(before); });
    }

    // The same for the first tile of `next`, and the end of `item`.
    __device__ __forceinline__ void change(const Item& item, const Item& next) {
        float sum[2] = {sum_[0], sum_[1]};
        this->keep_lse_early(problem_, item.head);
        begin(next);
        Slot<T::kStages> first = slot_;
        first.advance();
        mbarrier::wait(&shared_.k_full[first.stage], first.parity);
        const int before = issue_both();
        finish_scores<true, true, 1>(next.begin, next.begin + 1 == next.end, [&] { finish_output(before); });
        sum_up(sum);
        store(item, sum);
        clear_output();
    }

    // Issues both products, and returns the stage of V.
    __device__ __forceinline__ int issue_both() {
        slot_.advance();
        const int stage = of_warp(slot_.stage), before = stage == 0 ? T::kStages - 1 : stage - 1;
        take_turn();
        issue_scores(stage);
        mbarrier::wait(&shared_.v_full[before], slot_.parity ^ (stage == 0));
        this->issue_output(shared_.v[before]);
        pass_turn();
        return before;
    }

    __device__ __forceinline__ void finish_output(int stage) {
        wgmma::wait<0>(o_, p_, s_);
        release(&shared_.v_empty[stage]);
    }

    // O / l, rows that exist, to the item's head, by way of the consumer's strip of shared memory.
    __device__ __forceinline__ void store(const Item& item, const float (&sum)[2]) {
        const bool chosen = threadIdx.x % kWarpgroup == 0;
        if (chosen) tma::wait_stores_read();
        named_barrier::sync(kStripOf + group_, kWarpgroup);  // the item before has left the strip
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float factor = __fdividef(1.0f, sum[half]);
            const int row = strip_row(half);
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                unsigned char* const chunks = shared_.out[group_] + block / 8 * T::kQueryPanelBytes + row * 128;
                *reinterpret_cast<unsigned*>(chunks + (block % 8 ^ row % 8) * 16 + column() * 2) =
                    pack_pair<Element>(o_[4 * block + 2 * half] * factor, o_[4 * block + 2 * half + 1] * factor);
            }
        }
        shared_memory::fence_async();
        named_barrier::sync(kStripOf + group_, kWarpgroup);  // the strip is written
        if (chosen) {
            store_panels<T>(out_, shared_.out[group_], item.first_query + 64 * group_, head_of(problem_, item.head));
            tma::commit_stores();
        }
    }

    // s = Q·K^T of the newest item's Q.
    __device__ __forceinline__ void issue_scores(int stage) {
        const unsigned char* const queries = shared_.q[of_warp(query_slot_.stage)][group_];
        Rows::issue_scores(wgmma::descriptor(queries, 0, kAtomBytes, wgmma::k128Bytes), shared_.k[stage]);
    }

    // Turns scores into probabilities p_ and rescales O. The exponentials overlap P·V of the tile before (kPending groups of products
    // after the scores'). `finish_before` waits for that P·V. The wait for the next tile is a loop: the compiler cannot move
    // finish_before's wait above it. The next products then need no wait for K.
    template <bool kGeneral, bool kFirst, int kPending, typename FinishBefore>
    __device__ __forceinline__ void finish_scores(int tile, bool last, FinishBefore finish_before) {
        wgmma::wait<kPending>(s_);
        release(&shared_.k_empty[slot_.stage]);
        if (last) {
            release(&shared_.q_empty[query_slot_.stage]);
            query_slot_.advance();
        }
        this->template prepare_scores<kGeneral>(tile);
        const auto raise = [](float old, float seen) { return !T::kLazy ? fmaxf(old, seen) : seen > old + kSlack ? seen : old; };
        this->exponentiate(0, raise);
        this->exponentiate(1, raise);
        wgmma::pin(s_);
        if (!last) {
            Slot<T::kStages> next = slot_;
            next.advance();
            mbarrier::wait(&shared_.k_full[next.stage], next.parity);
        }
        finish_before();
        if (!kFirst && (!T::kLazy || __any_sync(kWarp, factor_[0] != 1.0f || factor_[1] != 1.0f))) this->rescale_output();
        this->round_probabilities();
    }

    const Problem& problem_;
    Shared& shared_;
    const tma::TensorMap& out_;
    int group_;
    Slot<T::kStages> slot_;         // of the newest tile
    Slot<T::kQueries> query_slot_;  // of its Q
};

// grid: one CTA for each SM, or `shares` for each item. block: T::kThreads, the producer's warpgroup first. dynamic shared memory:
// T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_pingpong_kernel(const Problem problem, const Schedule schedule, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    auto& shared = aligned<T>(shared_bytes);
    if (threadIdx.x == 0) {
        tma::prefetch(maps.q);
        tma::prefetch(maps.k);
        tma::prefetch(maps.v);
        tma::prefetch(maps.out);
        for (int query = 0; query < T::kQueries; ++query) {
            mbarrier::init(&shared.q_full[query], 1);
            mbarrier::init(&shared.q_empty[query], T::kConsumerWarps);
        }
        for (int stage = 0; stage < T::kStages; ++stage) {
            mbarrier::init(&shared.k_full[stage], 1);
            mbarrier::init(&shared.k_empty[stage], T::kConsumerWarps);
            mbarrier::init(&shared.v_full[stage], 1);
            mbarrier::init(&shared.v_empty[stage], T::kConsumerWarps);
        }
        shared_memory::fence_async();
    }
    __syncthreads();  // the barriers are there

    if (threadIdx.x < kWarpgroup) {
        wgmma::give_registers<T::kProducerRegisters>();
        if (threadIdx.x == 0) {
            Producer<T> producer(problem, shared, maps);
            Items<T, kCausal> items(schedule, problem.keys);
            for (Item item; items.next(item);) producer.produce(item);
            producer.load_values();
        }
    } else {
        wgmma::take_registers<T::kConsumerRegisters>();
        const int group = __shfl_sync(kWarp, threadIdx.x / kWarpgroup, 0) - 1;  // the same for a warp, and the compiler sees that
        Consumer<T, kCausal> consumer(problem, shared, maps.out, group);
        Item item;
        consumer.run(Items<T, kCausal>(schedule, problem.keys), item);
        if (kCausal || schedule.shares == 1) {
            consumer.write(problem, head_of(problem, item.head), item.head);  // the last item: none follows that this could hold up
        } else {
            named_barrier::sync(kAllConsumers, T::kConsumers * kWarpgroup);  // K and V, whose place the parts take, are read to the end
            consumer.combine(shared, group, problem, item.head, item.first_query, schedule.shares);
        }
        consumer.finish();
    }
}

template <typename T, bool kCausal>
int run_tiling(const launcher::Refusal& refusal, Problem problem, std::int64_t heads, void* stream) {
    const std::int64_t query_tiles = (problem.queries + T::kTileM - 1) / T::kTileM, items = heads * query_tiles;
    if (heads > launcher::kMaxGrid / 2 / query_tiles) {
        return refusal.refuse("B, H, Sq: %lld heads of %lld query tiles are more than %lld items", static_cast<long long>(heads),
                              static_cast<long long>(query_tiles), static_cast<long long>(launcher::kMaxGrid / 2));
    }
    take_size_of_scale(problem);
    Maps maps;
    if (const int refused = map_rows<T::kDim>(refusal, maps.q, "q", problem.q, problem.queries, heads, problem, 64)) return refused;
    if (const int refused = map_rows<T::kDim>(refusal, maps.k, "k", problem.k, problem.keys, heads, problem, T::kTileN)) return refused;
    if (const int refused = map_rows<T::kDim>(refusal, maps.v, "v", problem.v, problem.keys, heads, problem, T::kTileN)) return refused;
    if (const int refused = map_rows<T::kDim>(refusal, maps.out, "out", problem.out, problem.queries, heads, problem, 64)) return refused;

    const std::int64_t sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
    const auto kernel = sdpa_fp16_pingpong_kernel<T, kCausal>;
    Schedule schedule{static_cast<int>(query_tiles), static_cast<int>(heads), 1};
    if (!kCausal && 2 * items <= sms) {
        // Two tiles and more for each CTA, and all clusters at a time: they don't fill every group of SMs.
        schedule.shares = static_cast<int>(std::min<std::int64_t>({8, sms / items, problem.keys / (2 * T::kTileN)}));
        while (schedule.shares > 1 && cluster::most_active(kernel, schedule.shares, T::kThreads, T::kSharedBytes) < items) --schedule.shares;
        schedule.shares = std::max(schedule.shares, 1);
    }
    const unsigned shares = schedule.shares, ctas = static_cast<unsigned>(std::min(items, sms / shares)) * shares;
    if (shares == 1) return launcher::launch(refusal, kernel, ctas, T::kThreads, T::kSharedBytes, stream, problem, schedule, maps);
    return cluster::launch(refusal, kernel, ctas, shares, T::kThreads, T::kSharedBytes, stream, problem, schedule, maps);
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    if constexpr (TILE_M > 0) {
        return run_tiling<PingPongTiling<kDim, TILE_M, TILE_N, STAGES>, kCausal>(refusal, problem, heads, stream);
    } else {
        const std::int64_t sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
        const auto items = [&](int rows) { return heads * ((problem.queries + rows - 1) / rows); };
        // Few items: short ones for twice the CTAs; with the mask also if the longest would keep the others waiting.
        if (problem.queries <= 64 || (kCausal ? 1 : 2) * items(128) <= sms) {
            return run_tiling<PingPongTiling<kDim, 64, 128, 256 / kDim>, kCausal>(refusal, problem, heads, stream);
        }
        if constexpr (kDim == 128) {
            return run_tiling<PingPongTiling<128, 128, 128, 2>, kCausal>(refusal, problem, heads, stream);
        } else {
            // At least two items per SM: taller tiles read each tile of K and V for more rows.
            if (items(192) >= 2 * sms) return run_tiling<PingPongTiling<64, 192, 128, 3>, kCausal>(refusal, problem, heads, stream);
            return run_tiling<PingPongTiling<64, 128, 128, 3>, kCausal>(refusal, problem, heads, stream);
        }
    }
}

}  // namespace sdpa
