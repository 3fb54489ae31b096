// USE_WMMA=0: the 16 x 8 x 16 product of mma.sync by shuffles and FMA, on the same fragments (cuda/warp_matrix.cuh).
#pragma once

#include "config.cuh"

namespace sdpa {

__device__ __forceinline__ float2 halves_of(unsigned bits) {
    __half2 pair;
    std::memcpy(&pair, &bits, sizeof pair);
    return __half22float2(pair);
}

// c += A·B. The elements of row g that A·B sums over lie with the lanes 4g to 4g + 3, those of column n with 4n to 4n + 3.
__device__ __forceinline__ void scalar_multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const int row = threadIdx.x % 32 / 4 * 4, column = threadIdx.x % 4 * 8;
    const unsigned b[2] = {b0, b1};
#pragma unroll
    for (int owner = 0; owner < 4; ++owner) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float2 upper = halves_of(__shfl_sync(kWarp, a[2 * i], row + owner));
            const float2 lower = halves_of(__shfl_sync(kWarp, a[2 * i + 1], row + owner));
            const float2 left = halves_of(__shfl_sync(kWarp, b[i], column + owner));
            const float2 right = halves_of(__shfl_sync(kWarp, b[i], column + 4 + owner));
            c[0] = fmaf(upper.y, left.y, fmaf(upper.x, left.x, c[0]));
            c[1] = fmaf(upper.y, right.y, fmaf(upper.x, right.x, c[1]));
            c[2] = fmaf(lower.y, left.y, fmaf(lower.x, left.x, c[2]));
            c[3] = fmaf(lower.y, right.y, fmaf(lower.x, right.x, c[3]));
        }
    }
}

}  // namespace sdpa
