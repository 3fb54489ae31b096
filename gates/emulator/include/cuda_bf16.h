// __nv_bfloat16 and __nv_bfloat162: the upper half of a float. Conversions and arithmetic rounded to nearest even, once; no WMMA.
#pragma once
#pragma GCC system_header

#include "cuda_fp16.h"


struct __nv_bfloat16_raw { unsigned short x; };
struct __nv_bfloat162_raw { unsigned short x, y; };

namespace gates_emulator {
inline unsigned short float_to_bfloat_bits(float x) {
    if (x != x) return 0x7fff;
    const unsigned bits = bits_as<unsigned>(x);
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// Towards zero (direction 0), down (-1) or up (1).
inline unsigned short float_to_bfloat_bits_directed(float x, int direction) {
    if (x != x) return 0x7fff;
    const unsigned bits = bits_as<unsigned>(x);
    const bool outward = direction != 0 && (direction > 0) != (bits >> 31);
    return static_cast<unsigned short>((bits + (outward ? 0xffff : 0)) >> 16);
}
// Of two neighbours the odd one, where the exact number lies between them: rounded again, to fewer digits, it goes the right way.
inline unsigned short double_to_bfloat_bits(double x) {
    const float nearest = static_cast<float>(x);
    unsigned bits = bits_as<unsigned>(nearest);
    if (x == x && nearest != x && !(bits & 1)) bits += fabs(nearest) < fabs(x) ? 1 : -1;
    return float_to_bfloat_bits(bits_as<float>(bits));
}
inline double add_to_odd(double a, double b) {
    const double sum = a + b, of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
    u_int64_t bits = bits_as<u_int64_t>(sum);
    if (isfinite(sum) && error != 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return bits_as<double>(bits);
}
inline float bfloat_bits_to_float(unsigned short bits) { return bits_as<float>(static_cast<unsigned>(bits) << 16); }
}  // namespace gates_emulator

struct __attribute__((aligned(2))) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
    __nv_bfloat16(float x) : __x(gates_emulator::float_to_bfloat_bits(x)) {}
    __nv_bfloat16(double x) : __x(gates_emulator::double_to_bfloat_bits(x)) {}
    template <typename Integer, std::enable_if_t<std::is_integral<Integer>::value, int> = 0>
    __nv_bfloat16(Integer x) : __nv_bfloat16(static_cast<double>(x)) {}
    operator __nv_bfloat16_raw() const { return {__x}; }
    operator float() const { return gates_emulator::bfloat_bits_to_float(__x); }
};
typedef __nv_bfloat16 nv_bfloat16;

inline float __bfloat162float(__nv_bfloat16 x) { return float(x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rz(float x) { return __nv_bfloat16_raw{gates_emulator::float_to_bfloat_bits_directed(x, 0)}; }
inline __nv_bfloat16 __float2bfloat16_rd(float x) { return __nv_bfloat16_raw{gates_emulator::float_to_bfloat_bits_directed(x, -1)}; }
inline __nv_bfloat16 __float2bfloat16_ru(float x) { return __nv_bfloat16_raw{gates_emulator::float_to_bfloat_bits_directed(x, 1)}; }
inline __nv_bfloat16 __double2bfloat16(double x) { return x; }
inline __nv_bfloat16 __int2bfloat16_rn(int x) { return x; }
inline __nv_bfloat16 __uint2bfloat16_rn(unsigned x) { return x; }
inline int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(x); }
inline int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
inline short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.__x); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
inline __nv_bfloat16 __short_as_bfloat16(short bits) { return __nv_bfloat16_raw{static_cast<unsigned short>(bits)}; }
// The product is exact in double.
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return gates_emulator::add_to_odd(static_cast<double>(float(a)) * float(b), float(c));
}

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
    __nv_bfloat162(const __nv_bfloat162_raw& raw) : x(__nv_bfloat16_raw{raw.x}), y(__nv_bfloat16_raw{raw.y}) {}
    operator __nv_bfloat162_raw() const { return {x.__x, y.__x}; }
};
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }

#define GATES_EMULATOR_SCALAR __nv_bfloat16
#define GATES_EMULATOR_SCALAR_RAW __nv_bfloat16_raw
#define GATES_EMULATOR_PAIR __nv_bfloat162
#define GATES_EMULATOR_INFINITY 0x7f80
#include "gates_emulator/half_functions.h"
