// Phase 1, load: FP8 bytes from global memory to half or float tiles in shared memory.
//
// A tile of rows is contiguous in global memory (D = 64 bytes a row), so chunk c of a tile is bytes [16c, 16c + 16):
// quarter c % 4 of row c / 4. Thread t owns chunks t, t + 128, … in every step, from the copy to the conversion.
// Rows past the end of the sequence become zeros; softmax masks their scores.
#pragma once

#include <cuda_fp8.h>
#include <cuda_pipeline.h>

#include "config.cuh"

namespace sdpa {

// Two E4M3 bytes to two halves, exactly (every E4M3 value is a half); one instruction on sm_89 and newer.
__device__ __forceinline__ __half2 decode_pair(unsigned bytes) {
    return __half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes & 0xffffu), __NV_E4M3));
}

__device__ __forceinline__ void decode_word(unsigned word, __half* destination) {
    __half2* pairs = reinterpret_cast<__half2*>(destination);
    pairs[0] = decode_pair(word);
    pairs[1] = decode_pair(word >> 16);
}

// 16 bytes to 16 elements at `destination`, which is 16-byte aligned; stores are 16 bytes wide.
__device__ __forceinline__ void store_decoded(uint4 bytes, __half* destination) {
    struct alignas(16) Eight {
        __half values[8];
    } low, high;
    decode_word(bytes.x, low.values);
    decode_word(bytes.y, low.values + 4);
    decode_word(bytes.z, high.values);
    decode_word(bytes.w, high.values + 4);
    reinterpret_cast<Eight*>(destination)[0] = low;
    reinterpret_cast<Eight*>(destination)[1] = high;
}

__device__ __forceinline__ float4 decode_floats(unsigned word) {
    const float2 low = __half22float2(decode_pair(word));
    const float2 high = __half22float2(decode_pair(word >> 16));
    return make_float4(low.x, low.y, high.x, high.y);
}

__device__ __forceinline__ void store_decoded(uint4 bytes, float* destination) {
    float4* quads = reinterpret_cast<float4*>(destination);
    quads[0] = decode_floats(bytes.x);
    quads[1] = decode_floats(bytes.y);
    quads[2] = decode_floats(bytes.z);
    quads[3] = decode_floats(bytes.w);
}

// Place of chunk `chunk` in a tile of Elements.
template <typename Element>
__device__ __forceinline__ Element* chunk_place(Element* tile, int chunk) {
    return tile + chunk / 4 * kTileLd<Element> + chunk % 4 * kChunkBytes;
}

// Chunk `chunk` of the tile at `rows`, of which `valid_rows` exist.
__device__ __forceinline__ uint4 read_chunk(const std::uint8_t* rows, int chunk, int valid_rows) {
    return chunk / 4 < valid_rows ? reinterpret_cast<const uint4*>(rows)[chunk] : make_uint4(0, 0, 0, 0);
}

// Q, once a CTA.
template <typename Element>
__device__ __forceinline__ void load_queries(const std::uint8_t* rows, int valid_rows, Element* tile) {
    for (int chunk = threadIdx.x; chunk < kQueryChunks; chunk += kThreads) {
        store_decoded(read_chunk(rows, chunk, valid_rows), chunk_place(tile, chunk));
    }
}

// K and V of one tile, direct: all loads are issued before the first conversion, so that a tile waits for memory once.
template <typename KElement, typename VElement>
__device__ __forceinline__ void load_tile(
    const std::uint8_t* k_rows, const std::uint8_t* v_rows, int valid_rows, KElement* k_tile, VElement* v_tile) {
    uint4 k_bytes[kTileChunks], v_bytes[kTileChunks];
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        k_bytes[i] = read_chunk(k_rows, threadIdx.x + i * kThreads, valid_rows);
        v_bytes[i] = read_chunk(v_rows, threadIdx.x + i * kThreads, valid_rows);
    }
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        store_decoded(k_bytes[i], chunk_place(k_tile, threadIdx.x + i * kThreads));
        store_decoded(v_bytes[i], chunk_place(v_tile, threadIdx.x + i * kThreads));
    }
}

// Start the copy of one tile's bytes to staging buffer `slot`. A missing row is zero-filled, and its source clamped to
// the first row, since the address of a copy of no bytes must still be valid. valid_rows <= 0 copies nothing. The
// group is committed in any case: one group a tile keeps the count in await_tile true at the end of the sequence.
template <typename StagingBuffers>
__device__ __forceinline__ void request_tile(
    StagingBuffers& staging, int slot, const std::uint8_t* k_rows, const std::uint8_t* v_rows, int valid_rows) {
    if (valid_rows > 0) {
#pragma unroll
        for (int i = 0; i < kTileChunks; ++i) {
            const int chunk = threadIdx.x + i * kThreads;
            const bool exists = chunk / 4 < valid_rows;
            const std::size_t source = exists ? chunk * kChunkBytes : 0;
            const std::size_t zero_fill = exists ? 0 : kChunkBytes;
            __pipeline_memcpy_async(&staging.k[slot][chunk * kChunkBytes], k_rows + source, kChunkBytes, zero_fill);
            __pipeline_memcpy_async(&staging.v[slot][chunk * kChunkBytes], v_rows + source, kChunkBytes, zero_fill);
        }
    }
    __pipeline_commit();
}

// Wait for the oldest requested tile, in `slot`, and convert this thread's chunks of it. No barrier in between: a
// thread reads only what it copied itself, and for the same reason it may refill the slot right after.
template <typename StagingBuffers, typename KElement, typename VElement>
__device__ __forceinline__ void await_tile(StagingBuffers& staging, int slot, KElement* k_tile, VElement* v_tile) {
    __pipeline_wait_prior(kPipelineDepth - 1);
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        const int chunk = threadIdx.x + i * kThreads;
        store_decoded(reinterpret_cast<const uint4*>(staging.k[slot])[chunk], chunk_place(k_tile, chunk));
        store_decoded(reinterpret_cast<const uint4*>(staging.v[slot])[chunk], chunk_place(v_tile, chunk));
    }
}

}  // namespace sdpa
