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

// A product of halves is exact in double, and so is the sum where it can matter to the half.
inline __half __hfma(__half a, __half b, __half c) {
    return __half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}

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
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }

#define GATES_EMULATOR_SCALAR __half
#define GATES_EMULATOR_SCALAR_RAW __half_raw
#define GATES_EMULATOR_PAIR __half2
#define GATES_EMULATOR_INFINITY 0x7c00
#include "gates_emulator/half_functions.h"
