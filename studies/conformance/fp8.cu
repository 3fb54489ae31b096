// 8-bit floats: every code to wider formats, and back with every rounding, saturating and not.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "conformance.cuh"

typedef __nv_fp8_storage_t Code;
typedef unsigned short Bits;

template <typename T>
__device__ __forceinline__ T from_code(Code code) {
    T value;
    value.__x = code;
    return value;
}
__device__ __forceinline__ __half_raw half_raw(Bits x) {
    __half_raw raw;
    raw.x = x;
    return raw;
}
__device__ __forceinline__ __half2_raw half2_raw(Bits x, Bits y) {
    __half2_raw raw;
    raw.x = x;
    raw.y = y;
    return raw;
}
__device__ __forceinline__ __nv_bfloat16_raw bfloat_raw(Bits x) {
    __nv_bfloat16_raw raw;
    raw.x = x;
    return raw;
}

#define FOUR_WAYS(function, value)                                                            \
    function(value, __NV_SATFINITE, __NV_E4M3), function(value, __NV_NOSAT, __NV_E4M3),       \
        function(value, __NV_SATFINITE, __NV_E5M2), function(value, __NV_NOSAT, __NV_E5M2)

ELEMENTWISE(fp8_to_half, Code, Bits, 4, __nv_cvt_fp8_to_halfraw(x, __NV_E4M3).x, __nv_cvt_fp8_to_halfraw(x, __NV_E5M2).x,
            __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(x << 8 | 0x38), __NV_E4M3).y,
            __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(0x3c00 | x), __NV_E5M2).x)
ELEMENTWISE(fp8_to_float, Code, float, 2, static_cast<float>(from_code<__nv_fp8_e4m3>(x)), static_cast<float>(from_code<__nv_fp8_e5m2>(x)))
ELEMENTWISE(float_to_fp8, float, Code, 4, FOUR_WAYS(__nv_cvt_float_to_fp8, x))
ELEMENTWISE(double_to_fp8, double, Code, 4, FOUR_WAYS(__nv_cvt_double_to_fp8, x))
ELEMENTWISE(half_to_fp8, Bits, Code, 4, FOUR_WAYS(__nv_cvt_halfraw_to_fp8, half_raw(x)))
ELEMENTWISE(bfloat_to_fp8, Bits, Code, 4, FOUR_WAYS(__nv_cvt_bfloat16raw_to_fp8, bfloat_raw(x)))
ELEMENTWISE(float_pairs_to_fp8, float2, Bits, 4, FOUR_WAYS(__nv_cvt_float2_to_fp8x2, x))
ELEMENTWISE(half_pairs_to_fp8, ushort2, Bits, 4, FOUR_WAYS(__nv_cvt_halfraw2_to_fp8x2, half2_raw(x.x, x.y)))
ELEMENTWISE(fp8_types, float, Code, 4, __nv_fp8_e4m3(x).__x, __nv_fp8_e5m2(x).__x, __nv_fp8_e4m3(__float2half_rn(x)).__x,
            __nv_fp8_e5m2(static_cast<double>(x)).__x)
ELEMENTWISE(fp8_vectors, float4, unsigned, 3, static_cast<unsigned>(__nv_fp8x4_e4m3(x).__x), static_cast<unsigned>(__nv_fp8x4_e5m2(x).__x),
            static_cast<unsigned>(__nv_fp8x2_e4m3(make_float2(x.y, x.z)).__x))
ELEMENTWISE(fp8_vectors_to_float, unsigned, float, 3, static_cast<float4>(from_code<__nv_fp8x4_e4m3>(static_cast<Code>(x))).x,
            static_cast<float2>(from_code<__nv_fp8x2_e4m3>(static_cast<Code>(x))).x,
            static_cast<float4>(from_code<__nv_fp8x4_e5m2>(static_cast<Code>(x))).w)
