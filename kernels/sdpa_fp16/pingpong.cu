// fp16_v11_pingpong: scaled dot-product attention in half; the products of one warpgroup run during the softmax of another.
//
// Since the stage before (fp16_v10_hopper):
// - Warpgroups take turns (PINGPONG=0: they don't): while one has its products issued, the others compute their softmax.
// - D = 128 has tiles of 128 keys, so that Q·K^T reads less shared memory per product: two consumers of 240 registers.
// - K and V are awaited and given back each alone: K of the next tile comes as soon as its scores are there.
// - CTAs stay: each takes one item, a tile of query rows, after the other, and the products go on without a gap: the first scores
//   of an item run beside the last P·V of the item before. With the causal mask long items and short ones make pairs.
// - O is rescaled only once a maximum has grown by kSlack (LAZY_RESCALE=0: at each tile), since P and l may be so much larger.
// - O leaves through shared memory, by the copy engine, during the next item.
// - Where items are fewer than SMs, a cluster of CTAs shares the keys of one and puts the parts of O together.
//
// With g = lane / 4 and t = lane % 4 a lane holds, of every 16 x 8 block of its warp's 16 rows of scores and of O, rows g and
// g + 8 and columns 2t and 2t + 1; as A of the second product P wants just these.

#ifndef TILE_M
#define TILE_M 0  // the launcher chooses by shape
#endif
#ifndef TILE_N
#define TILE_N 0
#endif
#ifndef STAGES
#define STAGES 0
#endif
#ifndef PINGPONG  // 1: consumers take turns with their products
#define PINGPONG 1
#endif
#ifndef LAZY_RESCALE  // 1: O keeps its scale while maxima grow little, in tilings for which that pays
#define LAZY_RESCALE 1
#endif

#include "../cuda/cluster.cuh"
#include "../cuda/named_barrier.cuh"
#include "../cuda/tma.cuh"
#include "../cuda/wgmma.cuh"
#include "parts/entry.cuh"
#include "parts/head_grid.cuh"

#include <algorithm>
#include <cstdio>

namespace sdpa {

static_assert(PINGPONG == 0 || PINGPONG == 1, "PINGPONG is 0 or 1");
static_assert(LAZY_RESCALE == 0 || LAZY_RESCALE == 1, "LAZY_RESCALE is 0 or 1");
static_assert(TILE_M > 0 || (TILE_N == 0 && STAGES == 0), "TILE_N and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

constexpr int kWarpgroup = 128;      // threads, the unit of wgmma and of register budgets
constexpr int kHalfRow = 64;         // halves of a row of shared memory: 128 bytes, the width of the swizzle
constexpr int kAtomBytes = 8 * 128;  // 8 rows, after which the swizzle repeats
constexpr float kSlack = 8.0f;       // log2 of the largest probability where O is rescaled lazily

// A matrix of D columns lies in shared memory as D / 64 panels of 64 columns, one after the other; Q and O in strips of 64 rows,
// one for each consumer.
template <int kDim_, int kTileM_, int kTileN_, int kStages_>
struct PingPongTiling {
    static constexpr int kDim = kDim_, kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kPanels = kDim / kHalfRow;
    static constexpr int kConsumers = kTileM / 64;  // warpgroups
    static constexpr int kConsumerWarps = 4 * kConsumers;
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
    static constexpr bool kTurns = PINGPONG == 1 && kConsumers > 1;
    static constexpr bool kLazy = LAZY_RESCALE == 1 && (kDim == 128 || kConsumers == 3);  // else rescaling O is less work than asking

    static_assert(kTileM % 64 == 0 && kConsumers >= 1 && kConsumers <= 3, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups");
    static_assert(kTileN == 64 || kTileN == 96 || kTileN == 128, "TILE_N is 64, 96 or 128: more scores don't fit into a thread's registers");
    static_assert(kStages >= 2 && kStages <= 8, "STAGES is 2 to 8");

    // A thread's registers, which are given out in eights: at the launch as many for all as an SM's 65,536 allow; then consumers
    // share what the producer gives back.
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 24;
    static constexpr int kShare = (kLaunchRegisters * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
    static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;

    static constexpr int kStripPanelBytes = 64 * 128, kStripBytes = kPanels * kStripPanelBytes;
    static constexpr int kKeyPanelBytes = kTileN * 128, kTileBytes = kPanels * kKeyPanelBytes;
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
    // Dynamic shared memory may start between two multiples of 1024.
    static constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;
    static_assert(kPartBytes <= 2 * kStages * kTileBytes, "a part of O takes the place of K and V");
    static_assert(kSharedBytes <= 227 * 1024, "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
};

// Numbers of named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kTurnOf = 1, kStripOf = 4, kAllConsumers = 7 };

using mbarrier::Slot;

// One tile of query rows of one head, and the tiles of keys that this CTA takes of it: `begin` to `end` - 1.
struct Item {
    int head, first_query, begin, end;
};

// Which items there are: tiles of query rows x heads.
struct Schedule {
    int query_tiles, heads;
    int shares;  // CTAs that share the keys of an item
};

// The items of this CTA, or of its cluster, one after the other.
//
// Without a mask they follow each other head by head. With the causal one tile i and the last but i of a head are a pair, and all pairs
// have as many keys. CTAs take pairs while there are two rounds of them and more; what is left goes longest first and in turns, so that
// the shortest items even out the end.
template <typename T, bool kCausal>
class Items {
public:
    __device__ __forceinline__ Items(const Schedule& schedule, int keys)
        : schedule_(schedule), keys_(keys), tiles_(schedule.query_tiles), teams_(gridDim.x / schedule.shares),
          own_(blockIdx.x / schedule.shares) {}

    // False after the last one; each CTA has one.
    __device__ __forceinline__ bool next(Item& item) {
        int tile;
        do {
            if (!(kCausal ? find_causal(item.head, tile) : find(item.head, tile))) return false;
            ++round_;
        } while (tile < 0);
        item.first_query = tile * T::kTileM;
        const int seen = kCausal ? min(keys_, item.first_query + T::kTileM) : keys_;  // keys that some row sees
        const int all = (seen + T::kTileN - 1) / T::kTileN, shares = schedule_.shares, share = blockIdx.x % shares;
        item.begin = kCausal ? 0 : all * share / shares;
        item.end = kCausal ? all : all * (share + 1) / shares;
        return true;
    }

private:
    __device__ __forceinline__ bool find(int& head, int& tile) const {
        const int position = round_ * teams_ + own_;
        head = position / tiles_;
        tile = position % tiles_;
        return head < schedule_.heads;
    }

    // `tile` is -1 for the second of a pair that is one tile, in the middle.
    __device__ __forceinline__ bool find_causal(int& head, int& tile) const {
        const int heads = schedule_.heads, of_head = (tiles_ + 1) / 2, pairs = heads * of_head;
        const int rounds = max(0, pairs / teams_ - 1), first = rounds * teams_, left = pairs - first;  // rounds of pairs; pairs after them
        int place;  // of the pair in its head: the longest and the shortest first
        bool shorter = round_ % 2 == 1;
        if (round_ < 2 * rounds) {
            const int pair = round_ / 2 * teams_ + own_;
            head = pair / of_head;
            place = pair % of_head;
        } else {
            const int begun = first / of_head, lacks = first % of_head, whole = heads - 1 - begun;  // a head lacks its longest pairs
            int position = (round_ - 2 * rounds) * teams_ + (shorter ? teams_ - 1 - own_ : own_);
            shorter = position >= left;
            if (shorter && tiles_ % 2 == 1) position += whole + 1;  // tiles in the middle have no second
            if (position >= 2 * left) return false;
            const int length = shorter ? 2 * left - 1 - position : position;  // 0: that of the longest
            if (length < lacks * whole) {
                place = length / whole;
                head = begun + 1 + length % whole;
            } else {
                place = lacks + (length - lacks * whole) / (whole + 1);
                head = begun + (length - lacks * whole) % (whole + 1);
            }
        }
        tile = shorter ? place : tiles_ - 1 - place;
        if (shorter && 2 * place + 1 == tiles_) tile = -1;
        return true;
    }

    const Schedule& schedule_;
    int keys_, tiles_, teams_, own_, round_ = 0;
};

struct Maps {
    tma::TensorMap q, k, v, out;
};

// The work of the copy engine's thread: Q, K and V of all items, as far ahead of the consumers as the rings allow.
template <typename T>
class Producer {
    using Shared = typename T::Shared;

public:
    __device__ __forceinline__ Producer(Shared& shared, const Maps& maps) : shared_(shared), maps_(maps) {}

    // In the order in which consumers take them: the scores of a tile come before the output of the tile before.
    __device__ __forceinline__ void produce(const Item& item) {
#pragma unroll 1
        for (int tile = item.begin; tile < item.end; ++tile) {
            load(shared_.k[keys_.stage], maps_.k, shared_.k_full, shared_.k_empty, keys_, tile, item.head);
            if (tile == item.begin) load_queries(item);
            load_values();
            tile_ = tile;
            head_ = item.head;
        }
    }

    // V of the newest tile of K.
    __device__ __forceinline__ void load_values() {
        if (tile_ >= 0) load(shared_.v[values_.stage], maps_.v, shared_.v_full, shared_.v_empty, values_, tile_, head_);
    }

private:
    __device__ __forceinline__ void load_queries(const Item& item) {
        mbarrier::Barrier* const full = &shared_.q_full[queries_.stage];
        mbarrier::wait(&shared_.q_empty[queries_.stage], queries_.parity ^ 1);
        mbarrier::arrive_expecting(full, T::kConsumers * T::kStripBytes);
        for (int group = 0; group < T::kConsumers; ++group) {
            for (int panel = 0; panel < T::kPanels; ++panel) {
                tma::load(shared_.q[queries_.stage][group] + panel * T::kStripPanelBytes, maps_.q, full, panel * kHalfRow,
                          item.first_query + 64 * group, item.head);
            }
        }
        queries_.advance();
    }

    __device__ __forceinline__ void load(unsigned char* to, const tma::TensorMap& map, mbarrier::Barrier* full, mbarrier::Barrier* empty,
                                         Slot<T::kStages>& slot, int tile, int head) {
        mbarrier::wait(&empty[slot.stage], slot.parity ^ 1);
        mbarrier::arrive_expecting(&full[slot.stage], T::kTileBytes);
        for (int panel = 0; panel < T::kPanels; ++panel) {
            tma::load(to + panel * T::kKeyPanelBytes, map, &full[slot.stage], panel * kHalfRow, tile * T::kTileN, head);
        }
        slot.advance();
    }

    Shared& shared_;
    const Maps& maps_;
    Slot<T::kStages> keys_, values_;
    Slot<T::kQueries> queries_;
    int tile_ = -1, head_ = 0;  // of the newest tile of K
};

// The work of a consumer warpgroup: 64 query rows against the keys of an item.
template <typename T, bool kCausal>
class Consumer {
    using Shared = typename T::Shared;

public:
    // `group`: which of the CTA's consumers.
    __device__ __forceinline__ Consumer(const Problem& problem, Shared& shared, const tma::TensorMap& out, int group)
        : shared_(shared), out_(out), scale_(problem.scale), negate_(problem.negate), keys_(problem.keys), group_(group) {
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
            const int all_see = kCausal ? min(keys_, first_row_ + 1) : keys_;  // keys that every row sees
            const int plain = negate_ ? 0 : all_see / T::kTileN;               // tiles before this one need no mask
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
        issue_output(slot_.stage);
        wgmma::wait<0>(o_, p_);
        sum_up(sum_);
    }

    // The last item's rows that exist, straight to the head's O: no item follows that this could hold up.
    __device__ __forceinline__ void store_last(__half* out, int queries) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int query = row(half);
            if (query >= queries) continue;
            const float factor = __fdividef(1.0f, sum_[half]);
            unsigned* const pairs = reinterpret_cast<unsigned*>(out + static_cast<std::int64_t>(query) * T::kDim + column());
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                pairs[4 * block] = pack_halves(o_[4 * block + 2 * half] * factor, o_[4 * block + 2 * half + 1] * factor);
            }
        }
    }

    // The same where the CTAs of a cluster have a share of the keys each: all parts to shared memory, then each CTA puts every
    // `shares`-th row together. O = sum of w O_part, w = exp2(m_part - m) / l, l = sum of exp2(m_part - m) l_part.
    __device__ __forceinline__ void combine(__half* out, int first_query, int queries, int shares) {
        named_barrier::sync(kAllConsumers, T::kConsumers * kWarpgroup);  // K and V, whose place the parts take, are read to the end
        const int first = 64 * group_;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first + strip_row(half);
            if (lane() % 4 == 0) shared_.state[row] = make_float2(max_[half], sum_[half]);
#pragma unroll
            for (int block = 0; block < T::kDim / 8; ++block) {
                *reinterpret_cast<float2*>(shared_.part + part_place(row, block) + column()) =
                    make_float2(o_[4 * block + 2 * half], o_[4 * block + 2 * half + 1]);
            }
        }
        cluster::sync();  // all parts are there
        constexpr int kBlocks = T::kDim / 8, kThreads = T::kConsumers * kWarpgroup;
        const int rows = min(T::kTileM, queries - first_query), thread = threadIdx.x - kWarpgroup;
        for (int row = cluster::rank() + thread / kBlocks * shares; row < rows; row += kThreads / kBlocks * shares) {
            float most = -INFINITY, sum = 0.0f, sums[8] = {};
            for (int share = 0; share < shares; ++share) most = fmaxf(most, cluster::of_rank(shared_.state, share)[row].x);
            for (int share = 0; share < shares; ++share) {
                const float2 state = cluster::of_rank(shared_.state, share)[row];
                const float weight = exp2f(state.x - most);
                sum = fmaf(weight, state.y, sum);
                const float4* const place = reinterpret_cast<const float4*>(cluster::of_rank(shared_.part, share) + part_place(row, thread % kBlocks));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float4 four = place[i];
                    sums[4 * i] = fmaf(weight, four.x, sums[4 * i]);
                    sums[4 * i + 1] = fmaf(weight, four.y, sums[4 * i + 1]);
                    sums[4 * i + 2] = fmaf(weight, four.z, sums[4 * i + 2]);
                    sums[4 * i + 3] = fmaf(weight, four.w, sums[4 * i + 3]);
                }
            }
            const float factor = __fdividef(1.0f, sum);
            const uint4 halves = {pack_halves(sums[0] * factor, sums[1] * factor), pack_halves(sums[2] * factor, sums[3] * factor),
                                  pack_halves(sums[4] * factor, sums[5] * factor), pack_halves(sums[6] * factor, sums[7] * factor)};
            reinterpret_cast<uint4*>(out + static_cast<std::int64_t>(first_query + row) * T::kDim)[thread % kBlocks] = halves;
        }
        cluster::sync();  // the others have read this CTA's part
    }

    // After the last item.
    __device__ __forceinline__ void finish() {
        if (group_ == 0) take_turn();  // the last one's last pass, so that no barrier is left half full
        if (threadIdx.x % kWarpgroup == 0) tma::wait_stores_read();
    }

private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int column() { return lane() % 4 * 2; }  // of a block
    static __device__ __forceinline__ int strip_row(int half) { return threadIdx.x % kWarpgroup / 32 * 16 + lane() / 4 + 8 * half; }
    static __device__ __forceinline__ int part_place(int row, int block) { return row * T::kDim + (block ^ row % 8) * 8; }  // no bank is asked twice

    // A value that is the same for a warp, in a register of which the compiler sees that.
    static __device__ __forceinline__ int of_warp(int value) { return __shfl_sync(kWarp, value, 0); }

    __device__ __forceinline__ int row(int half) const { return first_row_ + strip_row(half); }

    __device__ __forceinline__ void take_turn() const {
        if constexpr (T::kTurns) named_barrier::sync(kTurnOf + group_, 2 * kWarpgroup);
    }
    __device__ __forceinline__ void pass_turn() const {
        if constexpr (T::kTurns) named_barrier::arrive(kTurnOf + (group_ + 1 == T::kConsumers ? 0 : group_ + 1), 2 * kWarpgroup);
    }

    // This warp has read what the barrier guards.
    static __device__ __forceinline__ void release(mbarrier::Barrier* barrier) {
        if (lane() == 0) mbarrier::arrive(barrier);
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

    // Sums of a row's four lanes.
    static __device__ __forceinline__ void sum_up(float (&sum)[2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(kWarp, sum[half], 1);
            sum[half] += __shfl_xor_sync(kWarp, sum[half], 2);
        }
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

    // Has both products issued, and returns where V lies.
    __device__ __forceinline__ int issue_both() {
        slot_.advance();
        const int stage = of_warp(slot_.stage), before = stage == 0 ? T::kStages - 1 : stage - 1;
        take_turn();
        issue_scores(stage);
        mbarrier::wait(&shared_.v_full[before], slot_.parity ^ (stage == 0));
        issue_output(before);
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
                unsigned char* const chunks = shared_.out[group_] + block / 8 * T::kStripPanelBytes + row * 128;
                *reinterpret_cast<unsigned*>(chunks + (block % 8 ^ row % 8) * 16 + column() * 2) =
                    pack_halves(o_[4 * block + 2 * half] * factor, o_[4 * block + 2 * half + 1] * factor);
            }
        }
        shared_memory::fence_async();
        named_barrier::sync(kStripOf + group_, kWarpgroup);  // the strip is written
        if (chosen) {
            for (int panel = 0; panel < T::kPanels; ++panel) {
                tma::store(out_, shared_.out[group_] + panel * T::kStripPanelBytes, panel * kHalfRow, item.first_query + 64 * group_, item.head);
            }
            tma::commit_stores();
        }
    }

    // s = Q·K^T, 16 columns of Q and K at a time: 32 bytes of each row of a panel.
    __device__ __forceinline__ void issue_scores(int stage) {
        const std::uint64_t queries = wgmma::descriptor(shared_.q[of_warp(query_slot_.stage)][group_], 0, kAtomBytes, wgmma::k128Bytes);
        const std::uint64_t keys = wgmma::descriptor(shared_.k[stage], 0, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(s_, o_, p_);
#pragma unroll
        for (int step = 0; step < T::kDim / 16; ++step) {
            const int panel = step / 4, bytes = step % 4 * 32;
            wgmma::multiply<T::kTileN, false>(s_, wgmma::advance(queries, panel * T::kStripPanelBytes + bytes),
                                              wgmma::advance(keys, panel * T::kKeyPanelBytes + bytes), step > 0);
        }
        wgmma::commit();
    }

    // o += P·V, 16 keys at a time: 16 rows of each panel.
    __device__ __forceinline__ void issue_output(int stage) {
        const std::uint64_t values = wgmma::descriptor(shared_.v[stage], T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes);
        wgmma::fence(o_, p_);
#pragma unroll
        for (int step = 0; step < T::kTileN / 16; ++step) {
            wgmma::multiply<T::kDim, true>(o_, p_[step], wgmma::advance(values, step * 16 * 128));
        }
        wgmma::commit();
    }

    // Scores become probabilities p_, and O shrinks to the new maxima. Exponentials run while P·V of the tile before does (kPending
    // groups of products after the scores'), whose end is waited for in `finish_before`. The wait for the next tile, a loop, keeps
    // the compiler from moving that one ahead of them; and so no wait for K stands before the products.
    template <bool kGeneral, bool kFirst, int kPending, typename FinishBefore>
    __device__ __forceinline__ void finish_scores(int tile, bool last, FinishBefore finish_before) {
        wgmma::wait<kPending>(s_);
        release(&shared_.k_empty[slot_.stage]);
        if (last) {
            release(&shared_.q_empty[query_slot_.stage]);
            query_slot_.advance();
        }
        if constexpr (kGeneral) {
            if (negate_) {  // softmax_scale is negative, and scale_ its size
#pragma unroll
                for (int i = 0; i < T::kTileN / 2; ++i) s_[i] = -s_[i];
            }
            mask(tile * T::kTileN);
        }
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) print_scores();
        }
        exponentiate(0);
        exponentiate(1);
        wgmma::pin(s_);
        if (!last) {
            Slot<T::kStages> next = slot_;
            next.advance();
            mbarrier::wait(&shared_.k_full[next.stage], next.parity);
        }
        finish_before();
        if (!kFirst && (!T::kLazy || __any_sync(kWarp, factor_[0] != 1.0f || factor_[1] != 1.0f))) {
#pragma unroll
            for (int i = 0; i < T::kDim / 2; ++i) o_[i] *= factor_[i / 2 % 2];
        }
#pragma unroll
        for (int i = 0; i < T::kTileN / 4; ++i) p_[i / 4][i % 4] = pack_halves(s_[2 * i], s_[2 * i + 1]);
    }

    // Scores of rows g (`half` 0) or g + 8 become probabilities relative to their new maximum, in log2 units; factor_ is what
    // O and l so far shrink by.
    __device__ __forceinline__ void exponentiate(int half) {
        float most[2];  // of even and odd blocks: half as long a chain
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
            const float pair = fmaxf(s_[4 * block + 2 * half], s_[4 * block + 2 * half + 1]);
            most[block % 2] = block < 2 ? pair : fmaxf(most[block % 2], pair);
        }
        most[0] = fmaxf(most[0], most[1]);
        most[0] = fmaxf(most[0], __shfl_xor_sync(kWarp, most[0], 1));
        most[0] = fmaxf(most[0], __shfl_xor_sync(kWarp, most[0], 2));
        const float old = max_[half], seen = most[0] * scale_;
        max_[half] = !T::kLazy ? fmaxf(old, seen) : seen > old + kSlack ? seen : old;
        factor_[half] = exp2f(old - max_[half]);
        float sum[2] = {};
#pragma unroll
        for (int block = 0; block < T::kTileN / 8; ++block) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int i = 4 * block + 2 * half + j;
                s_[i] = exp2f(fmaf(s_[i], scale_, -max_[half]));
                sum[j] += s_[i];
            }
        }
        sum_[half] = fmaf(sum_[half], factor_[half], sum[0] + sum[1]);
    }

    // Hides keys that don't exist and, with the causal mask, those after each query. Most tiles have none.
    __device__ __forceinline__ void mask(int first_key) {
        if (first_key + T::kTileN <= keys_ && (!kCausal || first_key + T::kTileN <= first_row_ + 1)) return;
#pragma unroll
        for (int i = 0; i < T::kTileN / 2; ++i) {
            const int key = first_key + i / 4 * 8 + column() + i % 2;
            if (key >= keys_ || (kCausal && key > row(i / 2 % 2))) s_[i] = -INFINITY;
        }
    }

    __device__ inline void print_scores() const {
        if (blockIdx.x != 0 || first_row_ != 0 || threadIdx.x % kWarpgroup >= 8) return;
        for (int i = 0; i < 2; ++i) printf("score[%d][%d] = %.6f\n", row(0), column() + i, static_cast<double>(s_[i]));
    }

    Shared& shared_;
    const tma::TensorMap& out_;
    float scale_;
    bool negate_;
    int keys_, group_, first_row_;
    Slot<T::kStages> slot_;         // of the newest tile
    Slot<T::kQueries> query_slot_;  // of its Q
    float s_[T::kTileN / 2];
    unsigned p_[T::kTileN / 16][4];
    float o_[T::kDim / 2];
    float max_[2], sum_[2];  // m of rows g and g + 8, and this lane's part of l
    float factor_[2];
};

// grid: one CTA for each SM, or `shares` for each item. block: T::kThreads, the producer's warpgroup first. dynamic shared memory:
// T::kSharedBytes.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_pingpong_kernel(const Problem problem, const Schedule schedule, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<typename T::Shared*>(shared_bytes + (0u - shared_memory::address(shared_bytes)) % kAtomBytes);
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
            Producer<T> producer(shared, maps);
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
        __half* const out = problem.out + static_cast<std::int64_t>(item.head) * problem.queries * T::kDim;
        if (kCausal || schedule.shares == 1) {
            consumer.store_last(out, problem.queries);
        } else {
            consumer.combine(out, item.first_query, problem.queries, schedule.shares);
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
    if (const int refused = tma::make_map(refusal, maps.q, "q", problem.q, T::kDim, problem.queries, heads, 64)) return refused;
    if (const int refused = tma::make_map(refusal, maps.k, "k", problem.k, T::kDim, problem.keys, heads, T::kTileN)) return refused;
    if (const int refused = tma::make_map(refusal, maps.v, "v", problem.v, T::kDim, problem.keys, heads, T::kTileN)) return refused;
    if (const int refused = tma::make_map(refusal, maps.out, "out", problem.out, T::kDim, problem.queries, heads, 64)) return refused;

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
        // Few items: short ones for twice the CTAs; with the mask also where the longest would keep the others waiting.
        if (problem.queries <= 64 || (kCausal ? 1 : 2) * items(128) <= sms) {
            return run_tiling<PingPongTiling<kDim, 64, 128, 256 / kDim>, kCausal>(refusal, problem, heads, stream);
        }
        if constexpr (kDim == 128) {
            return run_tiling<PingPongTiling<128, 128, 128, 2>, kCausal>(refusal, problem, heads, stream);
        } else {
            // Items for every SM several times over: more rows for each tile of K and V that is read.
            if (items(192) >= 2 * sms) return run_tiling<PingPongTiling<64, 192, 128, 3>, kCausal>(refusal, problem, heads, stream);
            return run_tiling<PingPongTiling<64, 128, 128, 3>, kCausal>(refusal, problem, heads, stream);
        }
    }
}

}  // namespace sdpa
