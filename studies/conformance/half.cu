// half, half2 and bfloat16: conversions and arithmetic, on bit patterns.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conformance.cuh"

typedef unsigned short Bits;

__device__ __forceinline__ __half as_half(Bits x) { return __ushort_as_half(x); }
__device__ __forceinline__ Bits bits_of(__half x) { return __half_as_ushort(x); }
__device__ __forceinline__ __half2 pair(Bits x, Bits y) { return __halves2half2(as_half(x), as_half(y)); }
__device__ __forceinline__ Bits low(__half2 v) { return bits_of(__low2half(v)); }
__device__ __forceinline__ Bits high(__half2 v) { return bits_of(__high2half(v)); }
__device__ __forceinline__ __nv_bfloat16 as_bfloat(Bits x) { return __ushort_as_bfloat16(x); }
__device__ __forceinline__ Bits bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }

ELEMENTWISE(half_to_float, Bits, float, 2, __half2float(as_half(x)), __half22float2(pair(x, Bits(x ^ 1))).y)
ELEMENTWISE(float_to_half, float, Bits, 6, bits_of(__float2half_rn(x)), bits_of(__float2half_rz(x)), bits_of(__float2half_rd(x)),
            bits_of(__float2half_ru(x)), bits_of(__half(x)), high(__floats2half2_rn(1.0f, x)))
ELEMENTWISE(double_to_half, double, Bits, 1, bits_of(__double2half(x)))
ELEMENTWISE(integer_to_half, int, Bits, 2, bits_of(__int2half_rn(x)), bits_of(__uint2half_rn(static_cast<unsigned>(x))))
ELEMENTWISE(half_to_integer, Bits, int, 2, __half2int_rn(as_half(x)), __half2int_rz(as_half(x)))

ELEMENTWISE(half_binary, ushort2, Bits, 12, bits_of(__hadd(as_half(x.x), as_half(x.y))), bits_of(__hsub(as_half(x.x), as_half(x.y))),
            bits_of(__hmul(as_half(x.x), as_half(x.y))), bits_of(as_half(x.x) + as_half(x.y)), bits_of(as_half(x.x) - as_half(x.y)),
            bits_of(as_half(x.x) * as_half(x.y)), bits_of(__hmax(as_half(x.x), as_half(x.y))), bits_of(__hmin(as_half(x.x), as_half(x.y))),
            high(__hadd2(pair(x.y, x.x), pair(x.x, x.y))), low(__hmul2(pair(x.y, x.x), pair(x.x, x.y))),
            high(__hmax2(pair(x.y, x.x), pair(x.x, x.y))), low(__hsub2(pair(x.y, x.x), pair(x.x, x.y))))
ELEMENTWISE(half_division, ushort2, Bits, 2, bits_of(__hdiv(as_half(x.x), as_half(x.y))), bits_of(as_half(x.x) / as_half(x.y)))
ELEMENTWISE(half_fused, ushort4, Bits, 3, bits_of(__hfma(as_half(x.x), as_half(x.y), as_half(x.z))),
            low(__hfma2(pair(x.x, x.w), pair(x.y, x.z), pair(x.z, x.y))), high(__hfma2(pair(x.x, x.w), pair(x.y, x.z), pair(x.z, x.y))))
ELEMENTWISE(half_compared, ushort2, unsigned char, 13, __heq(as_half(x.x), as_half(x.y)), __hne(as_half(x.x), as_half(x.y)),
            __hlt(as_half(x.x), as_half(x.y)), __hle(as_half(x.x), as_half(x.y)), __hgt(as_half(x.x), as_half(x.y)),
            __hge(as_half(x.x), as_half(x.y)), as_half(x.x) == as_half(x.y), as_half(x.x) != as_half(x.y), as_half(x.x) < as_half(x.y),
            as_half(x.x) <= as_half(x.y), as_half(x.x) > as_half(x.y), as_half(x.x) >= as_half(x.y), __hisnan(as_half(x.x)))
ELEMENTWISE(half_sign, Bits, Bits, 3, bits_of(__hneg(as_half(x))), bits_of(__habs(as_half(x))), bits_of(-as_half(x)))
ELEMENTWISE(half_whole, Bits, Bits, 3, bits_of(hfloor(as_half(x))), bits_of(hceil(as_half(x))), bits_of(hrint(as_half(x))))
ELEMENTWISE(half_functions, Bits, Bits, 8, bits_of(hexp(as_half(x))), low(h2exp(pair(x, x))), bits_of(hexp2(as_half(x))),
            bits_of(hlog(as_half(x))), bits_of(hlog2(as_half(x))), bits_of(hsqrt(as_half(x))), bits_of(hrsqrt(as_half(x))),
            bits_of(hrcp(as_half(x))))
ELEMENTWISE(half2_parts, ushort2, Bits, 8, low(__lows2half2(pair(x.x, x.y), pair(x.y, x.x))), high(__highs2half2(pair(x.x, x.y), pair(x.y, x.x))),
            low(__lowhigh2highlow(pair(x.x, x.y))), high(__half2half2(as_half(x.x))), high(__low2half2(pair(x.x, x.y))),
            low(__high2half2(pair(x.x, x.y))), bits_of(__float2half(__low2float(pair(x.x, 0)))), low(__float2half2_rn(2.5f)))

ELEMENTWISE(bfloat_to_float, Bits, float, 1, __bfloat162float(as_bfloat(x)))
ELEMENTWISE(float_to_bfloat, float, Bits, 2, bits_of(__float2bfloat16(x)), bits_of(__floats2bfloat162_rn(1.0f, x).y))
ELEMENTWISE(bfloat_binary, ushort2, Bits, 3, bits_of(as_bfloat(x.x) + as_bfloat(x.y)), bits_of(as_bfloat(x.x) - as_bfloat(x.y)),
            bits_of(as_bfloat(x.x) * as_bfloat(x.y)))
ELEMENTWISE(bfloat_division, ushort2, Bits, 1, bits_of(as_bfloat(x.x) / as_bfloat(x.y)))
ELEMENTWISE(bfloat_pairs, ushort2, float, 2, __bfloat1622float2(__nv_bfloat162(as_bfloat(x.x), as_bfloat(x.y))).x,
            __bfloat1622float2(__nv_bfloat162(as_bfloat(x.x), as_bfloat(x.y))).y)
