// Load: FP8 bytes from global memory to tiles of half or float in shared memory.
//
// A tile of rows is contiguous in global memory (D = 64 bytes per row), so chunk c of a tile is bytes [16c, 16c + 16):
// quarter c % 4 of row c / 4. Thread t owns chunks t, t + kThreads, … in every step, from the read to the conversion.
// Rows past the end of the sequence become zeros; softmax masks their scores.
#pragma once

#include "decode.cuh"
#include "tiles.cuh"

namespace sdpa {

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

// All loads of a tile are issued before the first is used, so that it waits for memory once.
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

}  // namespace sdpa
