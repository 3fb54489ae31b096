// Attention in registers: a warp's loop over the tiles, while the next ones are copied.
#pragma once

#include "copies.cuh"

namespace sdpa {

template <typename T>
constexpr int kCopying = T::kGroups * T::kAhead;  // groups on their way when a tile is begun

template <typename T, typename Stride>
__device__ __forceinline__ void issue_first_tiles(const TileCopy<T, Stride>& keys, const TileCopy<T, Stride>& values) {
#pragma unroll
    for (int tile = 0; tile < T::kAhead; ++tile) {
        keys.issue_parts(tile);
        values.issue(tile);
    }
}

// All `tiles` tiles of keys, of which `valid_keys` keys exist, against the warp's query rows. `work`: a class on top of
// WarpRows, which adds compute_scores (Q·K^T of a part of a tile) and accumulate (O += P·V).
template <typename T, typename Stride, typename Work>
__device__ __forceinline__ void attend(Work& work, const TileCopy<T, Stride>& keys, const TileCopy<T, Stride>& values, int tiles,
                                       int first_query, int valid_keys) {
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        const auto* const key_tile = keys.stage(tile);
        await_copies<T, kCopying<T> - 1>();
        work.template compute_scores<0>(key_tile);
        if constexpr (T::kKeyParts == 2) {
            await_copies<T, kCopying<T> - 2>();
            work.template compute_scores<1>(key_tile);
        }
        work.mask(first_query, tile * T::kTileN, valid_keys);
        if constexpr (DEBUG_PRINT == 1) {
            if (tile == 0) work.print_scores();
        }
        work.raise_maxima(tile == 0);
        const int next = tile + T::kAhead;
        if constexpr (T::kRefillAtOnce) {
            if (next < tiles) meet<T>();  // K is read to the end
            keys.issue_parts(next);
            await_copies<T, kCopying<T> - 1>();  // V of this tile
        } else {
            await_copies<T, kCopying<T> - 2>();  // V of this tile; everyone is done with V of the one before
            keys.issue_parts(next);
            values.issue(next);
        }
        work.accumulate(values.stage(tile));
        if constexpr (T::kRefillAtOnce) {
            if (next < tiles) meet<T>();  // V is read to the end
            values.issue(next);
        }
    }
    __pipeline_wait_prior(0);  // only empty groups are left
    work.finish();
}

}  // namespace sdpa
