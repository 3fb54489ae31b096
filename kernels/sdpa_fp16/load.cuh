// Rows of D halves from global memory to a padded tile, 16 bytes at a time. Rows past the end become zeros.
#pragma once

#include <cuda_pipeline.h>

#include "tiles.cuh"

namespace sdpa {

// The first `valid_rows` (may exceed kRows) of kRows rows; thread t moves the chunks t, t + kThreads, …
template <int kDim, int kRows, typename Move>
__device__ __forceinline__ void for_each_chunk(int valid_rows, Move move) {
    constexpr int kRowChunks = kDim / kChunk;
#pragma unroll 4  // so many vectors on their way at once; more would take registers that O needs
    for (int first = 0; first < kRows * kRowChunks; first += kThreads) {
        const int chunk = first + threadIdx.x, row = chunk / kRowChunks, column = chunk % kRowChunks * kChunk;
        if (kRows * kRowChunks % kThreads == 0 || row < kRows) move(row, column, row < valid_rows);
    }
}

template <int kDim>
__device__ __forceinline__ uint4 read_chunk(const __half* rows, int row, int column, bool exists) {
    return exists ? *reinterpret_cast<const uint4*>(rows + row * kDim + column) : make_uint4(0, 0, 0, 0);
}

// A tile of K or V. With more than one stage the copies are asynchronous and belong to the group that is open.
template <int kDim>
__device__ __forceinline__ void load_keys(const __half* rows, int valid_rows, __half* tile) {
    for_each_chunk<kDim, TILE_N>(valid_rows, [&](int row, int column, bool exists) {
        __half* const place = tile + row * Tiles<kDim>::kHalfLd + column;
        if constexpr (STAGES > 1) {
            __pipeline_memcpy_async(place, rows + (exists ? row : 0) * kDim + column, 16, exists ? 0 : 16);
        } else {
            *reinterpret_cast<uint4*>(place) = read_chunk<kDim>(rows, row, column, exists);
        }
    });
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

template <int kDim>
__device__ __forceinline__ void load_queries(const __half* rows, int valid_rows, QueryElement* tile) {
    for_each_chunk<kDim, TILE_M>(valid_rows, [&](int row, int column, bool exists) {
        const uint4 chunk = read_chunk<kDim>(rows, row, column, exists);
        QueryElement* const place = tile + row * Tiles<kDim>::kQueryLd + column;
        if constexpr (kUseWmmaQk) {
            *reinterpret_cast<uint4*>(place) = chunk;
        } else {
            float values[8];
            unpack(chunk, values);
            reinterpret_cast<float4*>(place)[0] = make_float4(values[0], values[1], values[2], values[3]);
            reinterpret_cast<float4*>(place)[1] = make_float4(values[4], values[5], values[6], values[7]);
        }
    });
}

}  // namespace sdpa
