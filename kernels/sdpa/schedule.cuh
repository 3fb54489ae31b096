// Which tiles of query rows a persistent CTA takes, one after the other.
#pragma once

#include "config.cuh"

namespace sdpa {

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
// Without a mask they follow each other head by head. With the causal mask, tile i of a head and its i-th tile from the end are a
// pair. All pairs have about the same number of keys. CTAs take whole pairs while at least two rounds remain. The rest is handed out
// longest first, alternating the CTA order, so that short items balance the end.
template <typename T, bool kCausal>
class Items {
public:
    __device__ __forceinline__ Items(const Schedule& schedule, int keys)
        : schedule_(schedule), keys_(keys), tiles_(schedule.query_tiles), teams_(gridDim.x / schedule.shares),
          own_(blockIdx.x / schedule.shares) {}

    // Returns false after the last item. Every CTA has at least one.
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
            // Head `begun` has already given its `lacks` longest pairs.
            const int begun = first / of_head, lacks = first % of_head, whole = heads - 1 - begun;
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

}  // namespace sdpa
