// __half and __half2: IEEE binary16, conversions rounded to nearest even, arithmetic rounded once per operation.
#pragma once
#pragma GCC system_header

#include "cuda_runtime.h"


struct __half_raw { unsigned short x; };
struct __half2_raw { unsigned short x, y; };

namespace gates_emulator {

inline float half_bits_to_float(unsigned short bits) { return static_cast<float>(bits_as<_Float16>(bits)); }
inline unsigned short float_to_half_bits(float x) {
    if (__builtin_expect(x != x, 0)) return 0x7fff;  // CUDA's one NaN
    return bits_as<unsigned short>(static_cast<_Float16>(x));
}
// Through double directly: through float would round twice.
inline unsigned short double_to_half_bits(double x) {
    if (x != x) return 0x7fff;
    return bits_as<unsigned short>(static_cast<_Float16>(x));
}
// Towards zero (direction 0), down (-1) or up (1).
inline unsigned short float_to_half_bits_directed(float x, int direction) {
    unsigned short bits = float_to_half_bits(x);
    const float back = half_bits_to_float(bits);
    if (x != x || back == x) return bits;
    const bool negative = bits >> 15;
    const bool grew = fabsf(back) > fabsf(x);
    const bool outward = direction == 0 ? false : (direction > 0) != negative;
    if (grew && !outward) return static_cast<unsigned short>(bits - 1);
    if (!grew && outward) return static_cast<unsigned short>(bits + 1);
    return bits;
}

}  // namespace gates_emulator

struct __attribute__((aligned(2))) __half {
    unsigned short __x;
    __half() = default;
    __half(const __half_raw& raw) : __x(raw.x) {}
    __half(float x) : __x(gates_emulator::float_to_half_bits(x)) {}
    __half(double x) : __x(gates_emulator::double_to_half_bits(x)) {}
    template <typename Integer, std::enable_if_t<std::is_integral<Integer>::value, int> = 0>
    __half(Integer x) : __half(static_cast<double>(x)) {}
    operator __half_raw() const { return {__x}; }
    operator float() const { return gates_emulator::half_bits_to_float(__x); }
};
typedef __half half;

inline float __half2float(__half h) { return gates_emulator::half_bits_to_float(h.__x); }
inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline __half __float2half_rz(float x) { return __half_raw{gates_emulator::float_to_half_bits_directed(x, 0)}; }
inline __half __float2half_rd(float x) { return __half_raw{gates_emulator::float_to_half_bits_directed(x, -1)}; }
inline __half __float2half_ru(float x) { return __half_raw{gates_emulator::float_to_half_bits_directed(x, 1)}; }
inline __half __double2half(double x) { return __half(x); }
inline __half __int2half_rn(int x) { return __half(x); }
inline __half __uint2half_rn(unsigned x) { return __half(x); }
inline int __half2int_rn(__half h) { return __float2int_rn(__half2float(h)); }
inline int __half2int_rz(__half h) { return __float2int_rz(__half2float(h)); }
inline unsigned short __half_as_ushort(__half h) { return h.__x; }
inline short __half_as_short(__half h) { return static_cast<short>(h.__x); }
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline __half __short_as_half(short bits) { return __half_raw{static_cast<unsigned short>(bits)}; }

#define GATES_EMULATOR_HALF_OPERATOR(op, name)                                                                \
    inline __half name(__half a, __half b) { return __half(__half2float(a) op __half2float(b)); }             \
    inline __half operator op(__half a, __half b) { return name(a, b); }                                      \
    inline __half& operator op##=(__half& a, __half b) { return a = name(a, b); }
GATES_EMULATOR_HALF_OPERATOR(+, __hadd)
GATES_EMULATOR_HALF_OPERATOR(-, __hsub)
GATES_EMULATOR_HALF_OPERATOR(*, __hmul)
GATES_EMULATOR_HALF_OPERATOR(/, __hdiv)
#undef GATES_EMULATOR_HALF_OPERATOR
inline __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
inline __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
inline __half __hneg(__half a) { return __half_raw{static_cast<unsigned short>(a.__x ^ 0x8000)}; }
inline __half __habs(__half a) { return __half_raw{static_cast<unsigned short>(a.__x & 0x7fff)}; }
inline __half operator-(__half a) { return __hneg(a); }
inline __half operator+(__half a) { return a; }
// A product of halves is exact in double, and so is the sum where it can matter to the half.
inline __half __hfma(__half a, __half b, __half c) {
    return __half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}
inline bool __hisnan(__half a) { return (a.__x & 0x7fff) > 0x7c00; }
inline int __hisinf(__half a) { return (a.__x & 0x7fff) == 0x7c00 ? (a.__x >> 15 ? -1 : 1) : 0; }
// The number wins over a NaN, and +0 is larger than -0.
inline __half __hmax(__half a, __half b) {
    if (__hisnan(a) || __hisnan(b)) return !__hisnan(a) ? a : !__hisnan(b) ? b : __half(__half_raw{0x7fff});
    const float x = __half2float(a), y = __half2float(b);
    return x > y || (x == y && !(a.__x >> 15)) ? a : b;
}
inline __half __hmin(__half a, __half b) {
    if (__hisnan(a) || __hisnan(b)) return !__hisnan(a) ? a : !__hisnan(b) ? b : __half(__half_raw{0x7fff});
    const float x = __half2float(a), y = __half2float(b);
    return x < y || (x == y && a.__x >> 15) ? a : b;
}
#define GATES_EMULATOR_HALF_COMPARE(op, name)                                                          \
    inline bool name(__half a, __half b) { return __half2float(a) op __half2float(b); }                \
    inline bool operator op(__half a, __half b) { return name(a, b); }
GATES_EMULATOR_HALF_COMPARE(==, __heq)
GATES_EMULATOR_HALF_COMPARE(!=, __hneu)
inline bool __hne(__half a, __half b) { return !__hisnan(a) && !__hisnan(b) && __hneu(a, b); }  // false for a NaN
GATES_EMULATOR_HALF_COMPARE(<, __hlt)
GATES_EMULATOR_HALF_COMPARE(<=, __hle)
GATES_EMULATOR_HALF_COMPARE(>, __hgt)
GATES_EMULATOR_HALF_COMPARE(>=, __hge)
#undef GATES_EMULATOR_HALF_COMPARE

struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    __half2() = default;
    __half2(__half a, __half b) : x(a), y(b) {}
    __half2(const __half2_raw& raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
    operator __half2_raw() const { return {x.__x, y.__x}; }
};
typedef __half2 half2;

inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {__half2float(v.x), __half2float(v.y)}; }
inline float __low2float(__half2 v) { return __half2float(v.x); }
inline float __high2float(__half2 v) { return __half2float(v.y); }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
inline __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
#define GATES_EMULATOR_HALF2(name, scalar) \
    inline __half2 name(__half2 a, __half2 b) { return {scalar(a.x, b.x), scalar(a.y, b.y)}; }
GATES_EMULATOR_HALF2(__hadd2, __hadd)
GATES_EMULATOR_HALF2(__hsub2, __hsub)
GATES_EMULATOR_HALF2(__hmul2, __hmul)
GATES_EMULATOR_HALF2(__h2div, __hdiv)
GATES_EMULATOR_HALF2(__hmax2, __hmax)
GATES_EMULATOR_HALF2(__hmin2, __hmin)
GATES_EMULATOR_HALF2(operator+, __hadd)
GATES_EMULATOR_HALF2(operator-, __hsub)
GATES_EMULATOR_HALF2(operator*, __hmul)
GATES_EMULATOR_HALF2(operator/, __hdiv)
#undef GATES_EMULATOR_HALF2
inline __half2 __hneg2(__half2 a) { return {__hneg(a.x), __hneg(a.y)}; }
inline __half2 __habs2(__half2 a) { return {__habs(a.x), __habs(a.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }

#define GATES_EMULATOR_HALF_MATH(name, name2, function)                                          \
    inline __half name(__half a) { return __half(function(__half2float(a))); }                   \
    inline __half2 name2(__half2 a) { return {name(a.x), name(a.y)}; }
GATES_EMULATOR_HALF_MATH(hexp, h2exp, expf)
GATES_EMULATOR_HALF_MATH(hexp2, h2exp2, exp2f)
GATES_EMULATOR_HALF_MATH(hlog, h2log, logf)
GATES_EMULATOR_HALF_MATH(hlog2, h2log2, log2f)
GATES_EMULATOR_HALF_MATH(hsqrt, h2sqrt, sqrtf)
GATES_EMULATOR_HALF_MATH(hrsqrt, h2rsqrt, rsqrtf)
GATES_EMULATOR_HALF_MATH(hrcp, h2rcp, 1.0f /)
GATES_EMULATOR_HALF_MATH(htanh, h2tanh, tanhf)
GATES_EMULATOR_HALF_MATH(hfloor, h2floor, floorf)
GATES_EMULATOR_HALF_MATH(hceil, h2ceil, ceilf)
GATES_EMULATOR_HALF_MATH(hrint, h2rint, nearbyintf)
#undef GATES_EMULATOR_HALF_MATH

