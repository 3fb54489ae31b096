// fp16_v9_pipeline, phase load: Q to swizzled shared memory, by asynchronous copies of 16 bytes. K and V: sdpa/copies.cuh.
#pragma once

#include <cuda_pipeline.h>

#include "../sdpa/tiles.cuh"

namespace sdpa {

// Rows past the end are copies of the last one; their results are not written.
template <typename T>
__device__ __forceinline__ void copy_queries(const __half* rows, int valid_rows, __half* tile) {
    constexpr int kChunks = T::kTileM * T::kRowChunks;
#pragma unroll
    for (int first = 0; first < kChunks; first += T::kThreads) {
        const int chunk = first + threadIdx.x, row = chunk / T::kRowChunks, column = chunk % T::kRowChunks;
        if (kChunks % T::kThreads == 0 || chunk < kChunks) {
            __pipeline_memcpy_async(tile + chunk_place<T>(row, column),
                                    rows + min(row, valid_rows - 1) * T::kDim + column * T::kChunk, 16);
        }
    }
}

}  // namespace sdpa
