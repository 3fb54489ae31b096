// Probabilities of a lane of a consumer warpgroup as E4M3 bytes, from their exponents to base 2. Exponents lie as scores do:
// sdpa/warpgroup_softmax.cuh.
#pragma once

#include "../../cuda/fp8.cuh"
#include "../../sdpa/config.cuh"

namespace sdpa {

// Whether one of the warp's exponents is above `most`, which is positive. As integers, positive floats have the order that they have, and
// negative ones are negative. sm_90 has one instruction for the largest of three integers.
template <int kCount>
__device__ __forceinline__ bool any_above(const float (&exponents)[kCount], float most) {
    int largest[2] = {};  // two chains, half as long
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        largest[i / 2 % 2] = max(largest[i / 2 % 2], max(__float_as_int(exponents[i]), __float_as_int(exponents[i + 1])));
    }
    return __any_sync(kWarp, max(largest[0], largest[1]) > __float_as_int(most));
}

// A word has a row's columns 2t and 2t + 1 of two blocks of 8, as A of a product has them whose V is turned over: byte_tiles.cuh.
template <int kCount>
__device__ __forceinline__ void round_probabilities(const float (&exponents)[kCount], unsigned (&rounded)[kCount / 16][4]) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
        const float* const first = exponents + i / 2 * 8 + 2 * (i % 2);  // i % 2: row g or g + 8
        rounded[i / 4][i / 2 % 2 * 2 + i % 2] = fp8::encode(exp2f(first[0]), exp2f(first[1]), exp2f(first[4]), exp2f(first[5]));
    }
}

}  // namespace sdpa
