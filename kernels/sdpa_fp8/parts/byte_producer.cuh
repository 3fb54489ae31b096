// The warpgroup of a CTA that brings tiles of bytes, and turns V over.
#pragma once

#include "../../sdpa/schedule.cuh"
#include "byte_tiles.cuh"

namespace sdpa {

using mbarrier::Slot;

struct Maps {
    tma::TensorMap q, k, v, out;
};

// One thread; shared_memory::fence_async and a barrier of the CTA come before their first use.
template <typename T>
__device__ __forceinline__ void init_barriers(typename T::Shared& shared) {
    for (int query = 0; query < T::kQueries; ++query) {
        mbarrier::init(&shared.q_full[query], 1);
        mbarrier::init(&shared.q_empty[query], T::kConsumerWarps);
    }
    for (int raw = 0; raw < T::kRaw; ++raw) {
        mbarrier::init(&shared.v_full[raw], 1);
        mbarrier::init(&shared.v_empty[raw], kWarpgroup / 32);
    }
    for (int stage = 0; stage < T::kStages; ++stage) {
        mbarrier::init(&shared.k_full[stage], 1);
        mbarrier::init(&shared.k_empty[stage], T::kConsumerWarps);
        mbarrier::init(&shared.turned_full[stage], kWarpgroup / 32);
        mbarrier::init(&shared.turned_empty[stage], T::kConsumerWarps);
    }
}

// The producer's warpgroup: Q, K and V of all items, as far ahead of the consumers as the rings allow. Thread 0 asks for the copies, all
// threads turn V over, of a tile later than its K.
template <typename T>
class Producer {
    using Shared = typename T::Shared;

public:
    __device__ __forceinline__ Producer(Shared& shared, const Maps& maps) : shared_(shared), maps_(maps) {}

    __device__ __forceinline__ void produce(const Item& item) {
#pragma unroll 1
        for (int tile = 0; tile < item.end; ++tile) {
            if (threadIdx.x == 0) {
                load(shared_.k[keys_.stage], maps_.k, shared_.k_full, shared_.k_empty, keys_, tile, item.head);
                if (tile == 0) load_queries(item);
                load(shared_.v[values_.stage], maps_.v, shared_.v_full, shared_.v_empty, values_, tile, item.head);
            }
            __syncwarp();
            if (begun_) turn_values();
            begun_ = true;
        }
    }

    // After the last item.
    __device__ __forceinline__ void finish() {
        turn_values();
        if (threadIdx.x == 0) mbarrier::arrive(announce({-1, 0, 0, 0}));
    }

private:
    // V of the newest tile.
    __device__ __forceinline__ void turn_values() {
        mbarrier::wait(&shared_.v_full[raw_.stage], raw_.parity);
        mbarrier::wait(&shared_.turned_empty[turned_.stage], turned_.parity ^ 1);
        turn_over<T>(shared_.v[raw_.stage], shared_.turned[turned_.stage]);
        shared_memory::fence_async();
        __syncwarp();
        mbarrier::arrive_as_warp(&shared_.v_empty[raw_.stage]);
        mbarrier::arrive_as_warp(&shared_.turned_full[turned_.stage]);
        raw_.advance();
        turned_.advance();
    }

    // Tells consumers the item of the next place of Q, when that is free; returns its barrier.
    __device__ __forceinline__ mbarrier::Barrier* announce(const Item& item) {
        mbarrier::wait(&shared_.q_empty[queries_.stage], queries_.parity ^ 1);
        shared_.items[queries_.stage] = item;
        return &shared_.q_full[queries_.stage];
    }

    __device__ __forceinline__ void load_queries(const Item& item) {
        mbarrier::Barrier* const full = announce(item);
        mbarrier::arrive_expecting(full, T::kConsumers * T::kStripBytes);
        for (int group = 0; group < T::kConsumers; ++group) {
            tma::load(shared_.q[queries_.stage][group], maps_.q, full, 0, item.first_query + 64 * group, item.head);
        }
        queries_.advance();
    }

    template <int kSlots>
    __device__ __forceinline__ void load(unsigned char* to, const tma::TensorMap& map, mbarrier::Barrier* full, mbarrier::Barrier* empty,
                                         Slot<kSlots>& slot, int tile, int head) {
        mbarrier::wait(&empty[slot.stage], slot.parity ^ 1);
        mbarrier::arrive_expecting(&full[slot.stage], T::kTileBytes);
        tma::load(to, map, &full[slot.stage], 0, tile * T::kTileN, head);
        slot.advance();
    }

    Shared& shared_;
    const Maps& maps_;
    Slot<T::kStages> keys_, turned_;
    Slot<T::kRaw> values_, raw_;  // the next to be asked for; to be turned over
    Slot<T::kQueries> queries_;
    bool begun_ = false;
};

}  // namespace sdpa
