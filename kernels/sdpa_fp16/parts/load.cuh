// Rows of D halves from global memory to a padded tile, 16 bytes at a time. Rows past the end become zeros.
#pragma once

#include "strips.cuh"

namespace sdpa {

// Calls move(row, column, exists) for every chunk of kRows rows. `exists`: row < valid_rows, which may exceed kRows. Thread t has
// chunks t, t + kThreads, …
template <typename T, int kRows, typename Move>
__device__ __forceinline__ void for_each_chunk(int valid_rows, Move move) {
    constexpr int kRowChunks = T::kDim / kChunk;
#pragma unroll 4  // so many vectors in flight; more would take registers that O needs
    for (int first = 0; first < kRows * kRowChunks; first += T::kThreads) {
        const int chunk = first + threadIdx.x, row = chunk / kRowChunks, column = chunk % kRowChunks * kChunk;
        if (kRows * kRowChunks % T::kThreads == 0 || row < kRows) move(row, column, row < valid_rows);
    }
}

// Eight halves as floats.
__device__ __forceinline__ void unpack(uint4 chunk, float (&values)[8]) {
    const unsigned words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        __half2 pair;
        std::memcpy(&pair, &words[i], sizeof pair);
        const float2 two = __half22float2(pair);
        values[2 * i] = two.x;
        values[2 * i + 1] = two.y;
    }
}

__device__ __forceinline__ void store_chunk(uint4 chunk, __half* place) { *reinterpret_cast<uint4*>(place) = chunk; }

__device__ __forceinline__ void store_chunk(uint4 chunk, float* place) {
    float values[8];
    unpack(chunk, values);
    reinterpret_cast<float4*>(place)[0] = make_float4(values[0], values[1], values[2], values[3]);
    reinterpret_cast<float4*>(place)[1] = make_float4(values[4], values[5], values[6], values[7]);
}

// A tile of kRows rows, kLd elements apart. Elements are halves, or floats: those are converted once instead of at each use.
template <typename T, int kRows, int kLd, typename Element>
__device__ __forceinline__ void load_rows(const __half* rows, int valid_rows, Element* tile) {
    for_each_chunk<T, kRows>(valid_rows, [&](int row, int column, bool exists) {
        const uint4 chunk = exists ? *reinterpret_cast<const uint4*>(rows + row * T::kDim + column) : make_uint4(0, 0, 0, 0);
        store_chunk(chunk, tile + row * kLd + column);
    });
}

}  // namespace sdpa
