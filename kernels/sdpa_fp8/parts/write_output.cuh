// The end: O from shared memory to global memory.
#pragma once

#include "tiles.cuh"

namespace sdpa {

// The whole tile of O, normalised, to global memory as half: 16 bytes per thread and step. Rows past the end are left out.
__device__ __forceinline__ void write_output(const float* tile, const float* normalise, __half* rows, int valid_rows) {
#pragma unroll
    for (int i = 0; i < kBlockM * kHeadDim / 8 / kThreads; ++i) {
        const int chunk = threadIdx.x + i * kThreads;
        const int row = chunk / 8;
        if (row >= valid_rows) return;
        const float4* source = reinterpret_cast<const float4*>(tile + row * kScoreLd + chunk % 8 * 8);
        const float4 low = source[0], high = source[1];
        const float factor = normalise[row];
        reinterpret_cast<uint4*>(rows)[chunk] = make_uint4(
            pack_halves(low.x * factor, low.y * factor), pack_halves(low.z * factor, low.w * factor),
            pack_halves(high.x * factor, high.y * factor), pack_halves(high.z * factor, high.w * factor));
    }
}

}  // namespace sdpa
