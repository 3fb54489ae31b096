// What the emulator was given after the device's recording was made.
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda_bf16.h>
#include <device_launch_parameters.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "conformance.cuh"

using Bits = unsigned short;

__device__ __forceinline__ float assumed(float x) {
    const float size = fabsf(x);
    __builtin_assume(!(size < 0.0f));
    return size;
}

ELEMENTWISE(normal_tail, float, float, 1, normcdff(x))
ELEMENTWISE(normal_tail_double, double, double, 1, normcdf(x))
ELEMENTWISE(bfloat_pair, float2, Bits, 2, __bfloat16_as_ushort(__float22bfloat162_rn(x).x), __bfloat16_as_ushort(__float22bfloat162_rn(x).y))
ELEMENTWISE(assumption, float, float, 1, assumed(x))
ELEMENTWISE(libcu, float, float, 2, x < cuda::std::numeric_limits<float>::max() ? x : 0.0f,
            static_cast<float>(sizeof(cuda::std::uint8_t) + make_float2(x, 1.0f).y))
