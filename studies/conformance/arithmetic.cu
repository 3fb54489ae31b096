// Arithmetic, conversions and bit functions, element by element.
#include <math.h>

#include <string.h>

#include "conformance.cuh"

// The C library's functions.
ELEMENTWISE(exponential, float, float, 2, expf(x), exp2f(x))
ELEMENTWISE(logarithm, float, float, 2, logf(x), log2f(x))
ELEMENTWISE(trigonometric, float, float, 3, sinf(x), cosf(x), tanf(x))
ELEMENTWISE(hyperbolic_tangent, float, float, 1, tanhf(x))
ELEMENTWISE(power, float2, float, 1, powf(x.x, x.y))
ELEMENTWISE(reciprocal_root, float, float, 1, rsqrtf(x))
ELEMENTWISE(reciprocal_root_double, double, double, 1, rsqrt(x))

// Fast-math forms.
ELEMENTWISE(fast_exponential, float, float, 1, __expf(x))
ELEMENTWISE(fast_exponential_10, float, float, 1, __exp10f(x))
ELEMENTWISE(fast_logarithm, float, float, 3, __logf(x), __log2f(x), __log10f(x))
ELEMENTWISE(fast_trigonometric, float, float, 2, __sinf(x), __cosf(x))
ELEMENTWISE(fast_tangent, float, float, 1, __tanf(x))
ELEMENTWISE(fast_power, float2, float, 1, __powf(x.x, x.y))
ELEMENTWISE(fast_division, float2, float, 1, __fdividef(x.x, x.y))

// Rounded once, to nearest even; x / y, 1 / x and sqrtf too, unless nvcc is told otherwise.
ELEMENTWISE(rounded, float2, float, 9, __fadd_rn(x.x, x.y), __fmul_rn(x.x, x.y), __fmaf_rn(x.x, x.y, x.x), __frcp_rn(x.x),
            __fsqrt_rn(fabsf(x.x)), __frsqrt_rn(fabsf(x.y)), x.x / x.y, sqrtf(fabsf(x.y)), __fsub_rn(x.x, x.y))
ELEMENTWISE(chosen, float2, float, 5, min(x.x, x.y), max(x.x, x.y), fminf(x.x, x.y), fmaxf(x.x, x.y), __saturatef(x.x))
ELEMENTWISE(whole, float, float, 5, floorf(x), ceilf(x), truncf(x), rintf(x), fabsf(x))

// Conversions.
ELEMENTWISE(float_to_integer, float, int, 6, __float2int_rn(x), __float2int_rz(x), __float2int_rd(x), __float2int_ru(x),
            static_cast<int>(__float2uint_rn(x)), static_cast<int>(__float2uint_rz(x)))
ELEMENTWISE(integer_to_float, int, float, 2, __int2float_rn(x), __uint2float_rn(static_cast<unsigned>(x)))
ELEMENTWISE(double_to_float, double, float, 1, __double2float_rn(x))
ELEMENTWISE(reinterpreted, int, unsigned, 3, static_cast<unsigned>(__float_as_int(__int_as_float(x))),
            __float_as_uint(__uint_as_float(static_cast<unsigned>(x))), __float_as_uint(-__int_as_float(x)))

// Integers. x.x and x.y are also a shift and a selector.
ELEMENTWISE(bits, uint2, unsigned, 16, static_cast<unsigned>(__popc(x.x)), static_cast<unsigned>(__clz(static_cast<int>(x.x))),
            static_cast<unsigned>(__ffs(static_cast<int>(x.x))), __brev(x.x),
            static_cast<unsigned>(__mulhi(static_cast<int>(x.x), static_cast<int>(x.y))), __umulhi(x.x, x.y),
            static_cast<unsigned>(__dp4a(static_cast<int>(x.x), static_cast<int>(x.y), static_cast<int>(x.x ^ x.y))),
            __funnelshift_l(x.x, x.y, x.y >> 7), __funnelshift_r(x.x, x.y, x.x >> 9), __byte_perm(x.x, x.y, x.x ^ x.y),
            static_cast<unsigned>(min(static_cast<int>(x.x), static_cast<int>(x.y))),
            static_cast<unsigned>(max(static_cast<int>(x.x), static_cast<int>(x.y))), min(x.x, x.y), max(x.x, x.y),
            min(static_cast<int>(x.x), x.y), max(x.x, static_cast<int>(x.y)))

// Sizes and alignments of the vector types.
#define LAYOUT(T) static_cast<unsigned>(sizeof(T)), static_cast<unsigned>(alignof(T))
#define LAYOUTS(T) LAYOUT(T##1), LAYOUT(T##2), LAYOUT(T##3), LAYOUT(T##4)
ELEMENTWISE(vector_layout, unsigned, unsigned, 71, LAYOUTS(char), LAYOUTS(uchar), LAYOUTS(short), LAYOUTS(ushort), LAYOUTS(int),
            LAYOUTS(uint), LAYOUTS(float), LAYOUT(double1), LAYOUT(double2), LAYOUT(double3), LAYOUT(double4), LAYOUT(longlong2),
            LAYOUT(dim3), LAYOUT(uint3), x + 1)

// make_float4 and its kin, and vector accesses.
ELEMENTWISE(vectors, uint4, unsigned, 6, make_uint4(x.w, x.z, x.y, x.x).x, make_int2(7, static_cast<int>(x.y)).y,
            static_cast<unsigned>(make_uchar4(1, 2, 3, static_cast<unsigned char>(x.w)).w),
            static_cast<unsigned>(make_short2(static_cast<short>(x.x), 1).x), __float_as_uint(make_float4(1, 2, 3, 4).z),
            __float_as_uint(make_float2(5, 6).y))
