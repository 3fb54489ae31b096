// stage5_wgmma: attention on FP8 with wgmma on E4M3 bytes for both products. Formats as in stage0_scalar.cu; D is 64 or 128.
//
// Since the stage before (stage4_mma):
// - A producer warpgroup has TMA bring tiles, consumer warpgroups have 64 query rows each, CTAs stay, and O leaves by the copy engine, as in
//   fp16_v11_pingpong, but consumers take no turns. A causal mask is possible.
// - P is rounded to E4M3, and l is the sum of the rounded P. P is up to 2^kMostBits, so that small probabilities keep their bits.
// - Maxima are looked for only if a P would be larger than E4M3 takes (LAZY_RESCALE=0: at each tile). So most tiles need none.
// - Tensor cores sum up bytes' products with 13 bits: after kSumKeys keys O is added up in float, in shared memory.
// - Bytes are multiplied K-major alone, so the producer turns V over in shared memory.
//
// Tiles and V: parts/byte_tiles.cuh. P: parts/byte_probabilities.cuh. Softmax: sdpa/warpgroup_softmax.cuh. Which items a CTA takes: sdpa/schedule.cuh.

#ifndef TILE_M  // query rows of a CTA; 0: the launcher chooses all tiles by shape
#define TILE_M 0
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 0
#endif
#ifndef STAGES  // tiles of K, and of V turned over, in shared memory
#define STAGES 0
#endif
#ifndef LAZY_RESCALE  // 1: O keeps its scale while P fits into E4M3
#define LAZY_RESCALE 1
#endif

#include <algorithm>

#include "../sdpa/schedule.cuh"
#include "parts/byte_probabilities.cuh"
#include "parts/byte_producer.cuh"
#include "parts/long_sums.cuh"
#include "parts/problem.cuh"

namespace sdpa {

static_assert(LAZY_RESCALE == 0 || LAZY_RESCALE == 1, "LAZY_RESCALE is 0 or 1");

constexpr float kTooLarge = 8.75f;  // log2 of a P: E4M3 goes to 448
constexpr float kMostBits = 8.0f;   // log2 of the largest P after a maximum was looked for,
constexpr float kSlack = LAZY_RESCALE == 1 ? 4.0f : 0.0f;  // less this, so that it may grow
constexpr int kSumKeys = 2048;

template <int kDim_, int kTileM_, int kTileN_, int kStages_>
struct WgmmaTiling : ByteTiling<kDim_, kTileM_, kTileN_, kStages_, kTileM_ == 64 ? 64 : 32> {
    using Base = typename WgmmaTiling::ByteTiling;
    using Base::kConsumers, Base::kDim, Base::kOutputColumns, Base::kStages, Base::kStripBytes, Base::kTileBytes, Base::kTileN, Base::kTurnedBytes;
    static_assert(kStages >= 2 && kStages <= 8, "STAGES is 2 to 8");

    static constexpr int kSumTiles = kSumKeys / kTileN;
    static constexpr int kOutPanelBytes = 64 * 128, kOutBytes = kDim / 64 * kOutPanelBytes;  // of a consumer's rows of O, in half
    static constexpr int kRaw = 2;  // tiles of V as they come: the next one before this one is turned over
    static constexpr int kTiles = kStages * (kTileBytes + kTurnedBytes) + kRaw * kTileBytes + kConsumers * kOutputColumns / 8 * kWarpgroup * 16;

    // Q of the next item has a place of its own if there is one left.
    static constexpr int kQueries = kTiles + 2 * kConsumers * kStripBytes <= 224 * 1024 ? 2 : 1;

    union Output {
        alignas(1024) unsigned char strip[kOutBytes];
        float4 sums[kOutputColumns / 8][kWarpgroup];  // O and l so far: a block of each thread
    };

    struct Shared {
        alignas(1024) unsigned char k[kStages][kTileBytes];
        alignas(1024) unsigned char turned[kStages][kTurnedBytes];
        alignas(1024) unsigned char v[kRaw][kTileBytes];
        alignas(1024) unsigned char q[kQueries][kConsumers][kStripBytes];
        Output out[kConsumers];
        Item items[kQueries];  // of q; head -1: no more
        mbarrier::Barrier q_full[kQueries], q_empty[kQueries];  // there; read by all that read it
        mbarrier::Barrier k_full[kStages], k_empty[kStages], v_full[kRaw], v_empty[kRaw], turned_full[kStages], turned_empty[kStages];
    };
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kSharedBytes <= kMostSharedBytes, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// Numbers of named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kStripOf = 1 };

// The work of a consumer warpgroup: 64 query rows against the keys of its items.
template <typename T, bool kCausal>
class Consumer : public LongSums<T, kCausal> {
    using Shared = typename T::Shared;
    using Softmax = WarpgroupSoftmax<T, kCausal>;
    using typename Softmax::Scores;
    using Sums = LongSums<T, kCausal>;
    using Sums::add_up, Sums::begin_sums, Sums::kept_, Sums::output_is_new_, Sums::rescale, Sums::sums_there_;
    using Softmax::factor_, Softmax::first_row_, Softmax::lane, Softmax::max_, Softmax::negate_, Softmax::o_, Softmax::scale_;

public:
    // `group`: which of the CTA's consumers.
    __device__ __forceinline__ Consumer(const Problem& problem, Shared& shared, const tma::TensorMap& out, int group)
        : Sums(shared.out[group], kStripOf + group, problem.sequence), problem_(problem), shared_(shared), out_(out), group_(group) {
    }

    __device__ __forceinline__ void run() {
        Item item = begin();
        mbarrier::wait(&shared_.k_full[0], 0);
        find_matrices(slot_.stage);
        wgmma::fence(s_, o_, p_);
        issue_scores();
        finish_scores<true, 0>(0, item.end == 1, [] {});
        for (;;) {
#pragma unroll 1
            for (int tile = 1; tile < item.end; ++tile) {
                const int before = issue_both();
                finish_scores<false, 1>(tile, tile + 1 == item.end, [&] {
                    finish_output(before);
                    if (tile % T::kSumTiles == 0) add_up();
                });
            }
            const int head = head_, first_row = first_row_;
            item = begin();
            if (item.head < 0) {
                wgmma::fence(o_, p_);
                issue_output();
                finish_output(slot_.stage);
                store(head, first_row);
                break;
            }
            const Slot<T::kStages> first = next();
            mbarrier::wait(&shared_.k_full[first.stage], first.parity);
            const int before = issue_both();
            finish_scores<true, 1>(0, item.end == 1, [&] {
                finish_output(before);
                store(head, first_row);
            });
        }
        if (threadIdx.x % kWarpgroup == 0) tma::wait_stores_read();
    }

private:
    // A value that is the same for a warp, in a register of which the compiler sees that.
    static __device__ __forceinline__ int of_warp(int value) { return __shfl_sync(kWarp, value, 0); }

    // The next item, whose Q is there. Every row sees a key of its first tile, so no maximum stays -infinity.
    __device__ __forceinline__ Item begin() {
        mbarrier::wait(&shared_.q_full[queries_.stage], queries_.parity);
        const Item item = shared_.items[queries_.stage];
        if (item.head < 0) return item;
        head_ = item.head;
        const float scale = problem_.q_scale[head_] * problem_.k_scale[head_] * problem_.softmax_scale * kLog2E;
        negate_ = scale < 0.0f;
        scale_ = fmaxf(fabsf(scale), kLeastScale);
        first_row_ = item.first_query + 64 * group_;
        plain_ = this->plain_tiles();
        max_[0] = max_[1] = -INFINITY;
        return item;
    }

    // The place of the tile after the newest.
    __device__ __forceinline__ Slot<T::kStages> next() const {
        Slot<T::kStages> place = slot_;
        place.advance();
        return place;
    }

    // Q·K^T of the next tile and P·V of the newest one, both there. Returns the stage of the latter.
    __device__ __forceinline__ int issue_both() {
        const int before = slot_.stage;
        slot_.advance();
        wgmma::fence(s_, o_, p_);
        issue_scores();
        issue_output();
        return before;
    }

    // Turns scores into p_. The exponentials overlap P·V of the tile before (kPending groups of products after the scores'). `finish_before`
    // waits for that P·V, and may change O. `last`: of the item. The next products are prepared before the exponentials: their barriers are
    // looked at, so that the answers come meanwhile, and their matrices found.
    template <bool kFirst, int kPending, typename FinishBefore>
    __device__ __forceinline__ void finish_scores(int tile, bool last, FinishBefore finish_before) {
        wgmma::wait<kPending>(s_);
        mbarrier::arrive_as_warp(&shared_.k_empty[slot_.stage]);
        const Slot<T::kStages> after = next();
        const bool keys_there = last || mbarrier::is_over(&shared_.k_full[after.stage], after.parity);
        const bool values_there = mbarrier::is_over(&shared_.turned_full[slot_.stage], slot_.parity);
        if (last) {
            mbarrier::arrive_as_warp(&shared_.q_empty[queries_.stage]);
            queries_.advance();
        }
        find_matrices(after.stage);
        this->prepare_scores(s_, tile, tile >= plain_);
        unsigned rounded[T::kTileN / 32][4];
        bool raised = kFirst || LAZY_RESCALE == 0;
        if (raised) raise_maxima();
        to_exponents();
        if (!raised && any_above(s_, kTooLarge)) {
            raise_exponents();
            raised = true;
        }
        round_probabilities(s_, rounded);
        wgmma::pin(rounded);
        if (!keys_there) mbarrier::wait(&shared_.k_full[after.stage], after.parity);
        if (!values_there) mbarrier::wait(&shared_.turned_full[slot_.stage], slot_.parity);
        finish_before();
        if (kFirst) {
            begin_sums();
        } else if (raised) {
            rescale();
        }
        // Not a copy: the compiler would have the products take `rounded` itself, and wait for those before.
#pragma unroll
        for (int i = 0; i < T::kTileN / 8; ++i) p_[i / 4][i % 4] = rounded[i / 4][i % 4] ^ zero_;
    }

    // Scores to the exponents of P, base 2. A maximum is stored as what becomes 1: it is 2^kMostBits at most below the largest of a row.
    __device__ __forceinline__ void to_exponents() {
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) s_[i] = fmaf(s_[i], scale_, -max_[i / 2 % 2]);
    }

    __device__ __forceinline__ void raise_exponents() {
        float more[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            more[half] = fmaxf(0.0f, Softmax::row_maximum(Softmax::lane_maximum(s_, half)) - (kMostBits - kSlack));
            max_[half] += more[half];
            factor_[half] = exp2f(-more[half]);
        }
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) s_[i] -= more[i / 2 % 2];
    }

    __device__ __forceinline__ void raise_maxima() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            this->raise_maximum(half, Softmax::lane_maximum(s_, half), [](float old, float seen) { return fmaxf(old, seen - (kMostBits - kSlack)); });
        }
    }

    __device__ __forceinline__ void finish_output(int stage) {
        wgmma::wait<0>(o_, p_, s_);
        mbarrier::arrive_as_warp(&shared_.turned_empty[stage]);
    }

    // What the next products take: the newest item's Q, K in stage `stage`, V of the newest tile. Found here, not where it is taken.
    __device__ __forceinline__ void find_matrices(int stage) {
        queries_at_ = of_warp(shared_memory::address(shared_.q[queries_.stage][group_]));
        keys_at_ = of_warp(shared_memory::address(shared_.k[stage]));
        values_at_ = of_warp(shared_memory::address(shared_.turned[slot_.stage]));
        asm volatile("" : "+r"(queries_at_), "+r"(keys_at_), "+r"(values_at_));
    }

    // s = Q·K^T; 32 columns at a time.
    __device__ __forceinline__ void issue_scores() {
        const std::uint64_t queries = rows_descriptor<T::kDim>(queries_at_), keys = rows_descriptor<T::kDim>(keys_at_);
#pragma unroll
        for (int bytes = 0; bytes < T::kDim; bytes += 32) {
            wgmma::multiply<T::kTileN, false, __nv_fp8_e4m3>(s_, wgmma::advance(queries, bytes), wgmma::advance(keys, bytes), bytes > 0);
        }
        wgmma::commit();
    }

    // o = P·V, or o += P·V; 32 keys at a time.
    __device__ __forceinline__ void issue_output() {
        const std::uint64_t values = rows_descriptor<T::kPanelKeys>(values_at_);
#pragma unroll
        for (int key = 0; key < T::kTileN; key += 32) {
            const int panel = key / T::kPanelKeys, bytes = key % T::kPanelKeys;
            wgmma::multiply<T::kOutputColumns, false, __nv_fp8_e4m3>(o_, p_[key / 32], wgmma::advance(values, panel * T::kPanelBytes + bytes),
                                                                     key > 0 || !output_is_new_);
        }
        wgmma::commit();
        output_is_new_ = false;
    }

    // O / l of the item that ended, rows that exist, to its head, by way of the consumer's strip of shared memory. Two blocks of o_ have the even and the
    // odd ones of 16 columns: a lane has columns 4t to 4t + 3. The last block is l, in all its columns.
    __device__ __forceinline__ void store(int head, int first_row) {
        const bool chosen = threadIdx.x % kWarpgroup == 0;
        const float scale = problem_.v_scale[head];
        if (sums_there_) this->add_sums();
        if (chosen) tma::wait_stores_read();
        __syncwarp();
        named_barrier::sync(kStripOf + group_, kWarpgroup);  // the item before has left the strip
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float factor = __fdividef(scale, o_[T::kDim / 2 + 2 * half]);
            const int row = this->strip_row(half);
#pragma unroll
            for (int i = 0; i < T::kDim / 16; ++i) {
                const float* const even = o_ + 8 * i + 2 * half;
                const float* const odd = even + 4;
                unsigned char* const chunks = kept_.strip + i / 4 * T::kOutPanelBytes;
                *reinterpret_cast<uint2*>(chunks + swizzled_place<128>(row, i % 4 * 2 + lane() % 4 / 2) + lane() % 2 * 8) =
                    make_uint2(pack_halves(even[0] * factor, odd[0] * factor), pack_halves(even[1] * factor, odd[1] * factor));
            }
        }
        shared_memory::fence_async();
        named_barrier::sync(kStripOf + group_, kWarpgroup);  // the strip is written
        if (chosen) {
            for (int panel = 0; panel < T::kDim / 64; ++panel) {
                tma::store(out_, kept_.strip + panel * T::kOutPanelBytes, 64 * panel, first_row, head);
            }
            tma::commit_stores();
        }
        __syncwarp();  // whole warps come to the next barrier
    }

    const Problem& problem_;
    Shared& shared_;
    const tma::TensorMap& out_;
    int group_, head_, plain_;
    unsigned queries_at_, keys_at_, values_at_;
    Slot<T::kStages> slot_;  // of the newest tile, whose scores s_ are
    Scores s_;
    unsigned p_[T::kTileN / 32][4];
    unsigned zero_ = problem_.sequence >> 31;
    Slot<T::kQueries> queries_;
};

// grid: one CTA for each SM. block: T::kThreads, the producer's warpgroup first. dynamic shared memory: T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp8_wgmma_kernel(const Problem problem, const Schedule schedule, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    auto& shared = aligned<T>(shared_bytes);
    if (threadIdx.x == 0) {
        tma::prefetch(maps.q);
        tma::prefetch(maps.k);
        tma::prefetch(maps.v);
        tma::prefetch(maps.out);
        init_barriers<T>(shared);
    }
    if (threadIdx.x < kWarpgroup) {
        for (int stage = 0; stage < T::kStages; ++stage) write_ones<T>(shared.turned[stage]);
        shared_memory::fence_async();
    }
    __syncthreads();  // the barriers and the ones are there

    if (threadIdx.x < kWarpgroup) {
        wgmma::give_registers<T::kProducerRegisters>();
        Producer<T> producer(shared, maps);
        Items<T, kCausal> items(schedule, problem.sequence);
        for (Item item; items.next(item);) producer.produce(item);
        producer.finish();
    } else {
        wgmma::take_registers<T::kConsumerRegisters>();
        const int group = __shfl_sync(kWarp, threadIdx.x / kWarpgroup, 0) - 1;  // the same for a warp, and the compiler sees that
        Consumer<T, kCausal>(problem, shared, maps.out, group).run();
    }
}

template <typename T, bool kCausal>
int run_tiling(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    const std::int64_t query_tiles = (problem.sequence + T::kTileM - 1) / T::kTileM, items = heads * query_tiles;
    if (heads > launcher::kMaxGrid / 2 / query_tiles) {
        return refusal.refuse("B, H, S: %lld heads of %lld query tiles are more than %lld items", static_cast<long long>(heads),
                              static_cast<long long>(query_tiles), static_cast<long long>(launcher::kMaxGrid / 2));
    }
    Maps maps;
    const auto bytes_map = [&](tma::TensorMap& map, const char* name, const std::uint8_t* tensor, unsigned rows) {
        return tma::make_map<std::uint8_t, T::kDim>(refusal, map, name, tensor, T::kDim, problem.sequence, heads, rows);
    };
    if (const int refused = bytes_map(maps.q, "q", problem.q, 64)) return refused;
    if (const int refused = bytes_map(maps.k, "k", problem.k, T::kTileN)) return refused;
    if (const int refused = bytes_map(maps.v, "v", problem.v, T::kTileN)) return refused;
    if (const int refused = tma::make_map(refusal, maps.out, "out", problem.out, T::kDim, problem.sequence, heads, 64)) return refused;
    const std::int64_t sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
    const Schedule schedule{static_cast<int>(query_tiles), static_cast<int>(heads), 1};
    return launcher::launch(refusal, sdpa_fp8_wgmma_kernel<T, kCausal>, static_cast<unsigned>(std::min(items, sms)), T::kThreads, T::kSharedBytes,
                            stream, problem, schedule, maps);
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    if constexpr (TILE_M > 0) {
        return run_tiling<WgmmaTiling<kDim, TILE_M, TILE_N, STAGES>, kCausal>(refusal, problem, heads, stream);
    } else {
        const std::int64_t sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
        // Few items: short ones for twice the CTAs.
        if (problem.sequence <= 64 || 2 * heads * ((problem.sequence + 127) / 128) <= sms) {
            return run_tiling<WgmmaTiling<kDim, 64, 128, 3>, kCausal>(refusal, problem, heads, stream);
        }
        return run_tiling<WgmmaTiling<kDim, 128, 160, kDim == 128 ? 2 : 3>, kCausal>(refusal, problem, heads, stream);
    }
}

template <int kDim>
int run_masked(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, bool causal, void* stream) {
    return causal ? run<kDim, true>(refusal, problem, heads, stream) : run<kDim, false>(refusal, problem, heads, stream);
}

}  // namespace sdpa

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp8_causal_forward(
    const void* q, const void* k, const void* v, const void* q_scale, const void* k_scale, const void* v_scale, void* out, std::int64_t B,
    std::int64_t H, std::int64_t S, std::int64_t D, std::int64_t causal, float softmax_scale, void* stream, char* error, std::int64_t error_bytes) {
    const launcher::Refusal refusal{error, error_bytes};
    sdpa::Problem problem;
    if (const int refused = sdpa::take_problem(refusal, problem, q, k, v, q_scale, k_scale, v_scale, out, B, H, S, softmax_scale)) return refused;
    if (causal != 0 && causal != 1) return refusal.refuse("causal: %lld, must be 0 or 1", static_cast<long long>(causal));
    if (B > launcher::kMaxGrid / H) {
        return refusal.refuse("B, H: %lld x %lld heads are more than %lld", static_cast<long long>(B), static_cast<long long>(H),
                              static_cast<long long>(launcher::kMaxGrid));
    }
    if (D == 64) return sdpa::run_masked<64>(refusal, problem, B * H, causal == 1, stream);
    if (D == 128) return sdpa::run_masked<128>(refusal, problem, B * H, causal == 1, stream);
    return refusal.refuse("D: %lld, this kernel is for 64 and 128", static_cast<long long>(D));
}
