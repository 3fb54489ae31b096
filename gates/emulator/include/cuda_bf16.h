// __nv_bfloat16: the upper half of a float, rounded to nearest even. Conversions and arithmetic; no WMMA.
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
inline float bfloat_bits_to_float(unsigned short bits) { return bits_as<float>(static_cast<unsigned>(bits) << 16); }
}  // namespace gates_emulator

struct __attribute__((aligned(2))) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
    __nv_bfloat16(float x) : __x(gates_emulator::float_to_bfloat_bits(x)) {}
    explicit __nv_bfloat16(int x) : __nv_bfloat16(static_cast<float>(x)) {}
    operator __nv_bfloat16_raw() const { return {__x}; }
    operator float() const { return gates_emulator::bfloat_bits_to_float(__x); }
};
inline float __bfloat162float(__nv_bfloat16 x) { return gates_emulator::bfloat_bits_to_float(x.__x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
#define GATES_EMULATOR_BFLOAT_OPERATOR(op, name)                                                              \
    inline __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) op float(b); }              \
    inline __nv_bfloat16 operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return name(a, b); }                 \
    inline __nv_bfloat16& operator op##=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = name(a, b); }
GATES_EMULATOR_BFLOAT_OPERATOR(+, __hadd)
GATES_EMULATOR_BFLOAT_OPERATOR(-, __hsub)
GATES_EMULATOR_BFLOAT_OPERATOR(*, __hmul)
GATES_EMULATOR_BFLOAT_OPERATOR(/, __hdiv)
#undef GATES_EMULATOR_BFLOAT_OPERATOR

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
    __nv_bfloat162(const __nv_bfloat162_raw& raw) : x(__nv_bfloat16_raw{raw.x}), y(__nv_bfloat16_raw{raw.y}) {}
    operator __nv_bfloat162_raw() const { return {x.__x, y.__x}; }
};
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__nv_bfloat16(a), __nv_bfloat16(b)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }

