// Attention in registers, phase load: tiles of K and V to swizzled shared memory, by asynchronous copies of 16 bytes.
#pragma once

#include <cstdint>

#include <cuda_pipeline.h>

#include "tiles.cuh"

namespace sdpa {

// K or V, tile by tile into a ring of stages. The kWarpsM warps that have the same keys copy just those. `stride`: elements from
// one row to the next.
template <typename T, typename Stride = FixedStride<T::kDim>>
class TileCopy {
public:
    using Element = typename T::Element;

    __device__ __forceinline__ TileCopy(const Element* rows, int keys, int tiles, Element* ring, Stride stride = {})
        : rows_(rows), ring_(ring), keys_(keys), tiles_(tiles), stride_(stride) {}

    // Issues the copies of part kPart of kParts of tile `tile`, as a group; an empty one if there is no such tile. Rows past
    // the end are copies of the last one: their scores are masked. That takes one min; zeros would take another kind
    // of copy.
    template <int kPart = 0, int kParts = 1>
    __device__ __forceinline__ void issue(int tile) const {
        constexpr int kFirst = kPart * kCopies / kParts, kLast = (kPart + 1) * kCopies / kParts;
        const int member = threadIdx.x % kMembers, first_row = threadIdx.x / kMembers * T::kWarpKeys;
        const int row = first_row + member / T::kRowChunks, column = member % T::kRowChunks;
        const int first_key = tile * T::kTileN;
        Element* const to = stage(tile) + chunk_place<T>(row, column);
        const auto place = [&](int i) {
            if constexpr (kStep % 8 == 0) return to + i * kStep * T::kDim;  // rows 8 apart have the same order of chunks
            return stage(tile) + chunk_place<T>(row + i * kStep, column);
        };
        if (tile < tiles_ && first_key + first_row + T::kWarpKeys <= keys_) {
            const Element* const from = rows_ + distance(static_cast<std::int64_t>(first_key + row), stride_) + column * T::kChunk;
#pragma unroll
            for (int i = kFirst; i < kLast; ++i) {
                __pipeline_memcpy_async(place(i), from + distance(i * kStep, stride_), 16);
            }
        } else if (tile < tiles_) {
#pragma unroll 1
            for (int i = kFirst; i < kLast; ++i) {
                const std::int64_t key = min(first_key + row + i * kStep, keys_ - 1);
                __pipeline_memcpy_async(place(i), rows_ + distance(key, stride_) + column * T::kChunk, 16);
            }
        }
        __pipeline_commit();
    }

    // All parts of a tile of K.
    __device__ __forceinline__ void issue_parts(int tile) const {
        static_assert(T::kKeyParts == 1 || T::kKeyParts == 2, "K comes in one part or two");
        issue<0, T::kKeyParts>(tile);
        if constexpr (T::kKeyParts == 2) issue<1, 2>(tile);
    }

    // Where tile `tile` lies.
    __device__ __forceinline__ Element* stage(int tile) const { return ring_ + tile % T::kStages * T::kTileElements; }

private:
    static constexpr int kMembers = T::kWarpsM * 32;
    static constexpr int kStep = kMembers / T::kRowChunks;  // rows that they copy at once
    static constexpr int kCopies = T::kWarpKeys / kStep;    // of a thread
    static_assert(kCopies % T::kKeyParts == 0 && T::kWarpKeys % kStep == 0, "every thread makes the same number of copies of each part");

    const Element* rows_;  // of the head
    Element* ring_;
    int keys_, tiles_;
    Stride stride_;
};

// A barrier for the warps that have the same keys.
template <typename T>
__device__ __forceinline__ void meet() {
    if constexpr (T::kAlone) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// All groups but the newest `kNewer` have landed, whichever of these warps issued them.
template <typename T, int kNewer>
__device__ __forceinline__ void await_copies() {
    __pipeline_wait_prior(kNewer);
    meet<T>();
}

}  // namespace sdpa
