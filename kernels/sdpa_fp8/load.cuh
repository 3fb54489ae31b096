// Phase 1, load: FP8 bytes from global memory to half or float tiles in shared memory.
//
// A tile of rows is contiguous in global memory (D = 64 bytes a row), so chunk c of a tile is bytes [16c, 16c + 16):
// quarter c % 4 of row c / 4. Thread t owns chunks t, t + kThreads, … in every step, from the copy to the conversion.
// Rows past the end of the sequence become zeros; softmax masks their scores.
#pragma once

#include <cuda_fp8.h>
#include <cuda_pipeline.h>

#include "config.cuh"

namespace sdpa {

// Two E4M3 bytes to two halves, exactly (every E4M3 value is a half); one instruction on sm_89 and newer.
__device__ __forceinline__ __half2_raw decode_pair(unsigned bytes) {
    return __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes & 0xffffu), __NV_E4M3);
}

// Four E4M3 bytes to four halves, as two registers.
__device__ __forceinline__ uint2 decode_halves(unsigned word) {
    const __half2_raw low = decode_pair(word), high = decode_pair(word >> 16);
    uint2 bits;
    std::memcpy(&bits.x, &low, sizeof bits.x);
    std::memcpy(&bits.y, &high, sizeof bits.y);
    return bits;
}

// 16 bytes to 16 elements at `destination`, which is 16-byte aligned; stores are 16 bytes wide.
__device__ __forceinline__ void store_decoded(uint4 bytes, __half* destination) {
    const uint2 a = decode_halves(bytes.x), b = decode_halves(bytes.y);
    const uint2 c = decode_halves(bytes.z), d = decode_halves(bytes.w);
    reinterpret_cast<uint4*>(destination)[0] = make_uint4(a.x, a.y, b.x, b.y);
    reinterpret_cast<uint4*>(destination)[1] = make_uint4(c.x, c.y, d.x, d.y);
}

__device__ __forceinline__ float4 decode_floats(unsigned word) {
    const float2 low = __half22float2(__half2(decode_pair(word)));
    const float2 high = __half22float2(__half2(decode_pair(word >> 16)));
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

// A thread's chunks of Q, in registers on their way from memory to the tile.
struct QueryBytes {
    uint4 q[kQueryChunks];
};

__device__ __forceinline__ void read_queries(const std::uint8_t* rows, int valid_rows, QueryBytes& bytes) {
#pragma unroll
    for (int i = 0; i < kQueryChunks; ++i) {
        const int chunk = threadIdx.x + i * kThreads;  // a CTA can have more threads than Q has chunks
        bytes.q[i] = read_chunk(rows, chunk, valid_rows < kBlockM ? valid_rows : kBlockM);
    }
}

template <typename Element>
__device__ __forceinline__ void store_queries(const QueryBytes& bytes, Element* tile) {
#pragma unroll
    for (int i = 0; i < kQueryChunks; ++i) {
        const int chunk = threadIdx.x + i * kThreads;
        if (chunk / 4 < kBlockM) store_decoded(bytes.q[i], chunk_place(tile, chunk));
    }
}

// A thread's chunks of one tile of K and V, in registers on their way from memory to the tiles of elements.
struct TileBytes {
    uint4 k[kTileChunks];
    uint4 v[kTileChunks];
};

// Direct: all loads of a tile are issued before the first is used, so that it waits for memory once.
__device__ __forceinline__ void read_tile(
    const std::uint8_t* k_rows, const std::uint8_t* v_rows, int valid_rows, TileBytes& bytes) {
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        bytes.k[i] = read_chunk(k_rows, threadIdx.x + i * kThreads, valid_rows);
        bytes.v[i] = read_chunk(v_rows, threadIdx.x + i * kThreads, valid_rows);
    }
}

template <typename KElement, typename VElement>
__device__ __forceinline__ void store_tile(const TileBytes& bytes, KElement* k_tile, VElement* v_tile) {
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        store_decoded(bytes.k[i], chunk_place(k_tile, threadIdx.x + i * kThreads));
        store_decoded(bytes.v[i], chunk_place(v_tile, threadIdx.x + i * kThreads));
    }
}

// Asynchronous: start the copy of one tile's bytes to staging buffer `slot`. A missing row is zero-filled, and its
// source is the first row, since the address of a copy of no bytes must still be valid. valid_rows <= 0 copies nothing.
// The group is committed in any case: one group a tile keeps the count in await_tile true at the end of the sequence.
template <typename StagingBuffers>
__device__ __forceinline__ void request_tile(
    StagingBuffers& staging, int slot, const std::uint8_t* k_rows, const std::uint8_t* v_rows, int valid_rows) {
    if (valid_rows > 0) {
#pragma unroll
        for (int i = 0; i < kTileChunks; ++i) {
            const int chunk = threadIdx.x + i * kThreads;
            const bool exists = chunk / 4 < valid_rows;
            const int source = exists ? chunk * kChunkBytes : 0;
            const std::size_t zero_fill = exists ? 0 : kChunkBytes;
            __pipeline_memcpy_async(&staging.k[slot][chunk * kChunkBytes], k_rows + source, kChunkBytes, zero_fill);
            __pipeline_memcpy_async(&staging.v[slot][chunk * kChunkBytes], v_rows + source, kChunkBytes, zero_fill);
        }
    }
    __pipeline_commit();
}

// Wait for the oldest requested tile, in `slot`, and fetch this thread's chunks of it. No barrier is needed: a thread
// reads only what it copied itself, and for the same reason it may refill the slot once it has used the bytes.
template <typename StagingBuffers>
__device__ __forceinline__ void await_tile(const StagingBuffers& staging, int slot, TileBytes& bytes) {
    __pipeline_wait_prior(kPipelineDepth - 1);
#pragma unroll
    for (int i = 0; i < kTileChunks; ++i) {
        bytes.k[i] = reinterpret_cast<const uint4*>(staging.k[slot])[threadIdx.x + i * kThreads];
        bytes.v[i] = reinterpret_cast<const uint4*>(staging.v[slot])[threadIdx.x + i * kThreads];
    }
}

}  // namespace sdpa
