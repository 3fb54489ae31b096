// E4M3 and E5M2: every encoding of the OCP 8-bit formats as cuda_fp8.h converts it, rounded to nearest even.
#pragma once
#pragma GCC system_header

#include <assert.h>

#include "cuda_bf16.h"


typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace gates_emulator {

// Sign 1, exponent 4 (bias 7), mantissa 3; S.1111.111 is NaN and there is no infinity. Exact in half.
constexpr unsigned short e4m3_to_half(unsigned code) {
    const unsigned sign = (code & 0x80) << 8, magnitude = code & 0x7f;
    if (magnitude == 0x7f) return 0x7fff;  // CUDA drops the sign of a NaN
    if (magnitude >= 8) return static_cast<unsigned short>(sign | ((magnitude << 7) + ((15 - 7) << 10)));
    if (magnitude == 0) return static_cast<unsigned short>(sign);
    unsigned mantissa = magnitude, exponent = 15 - 6;  // m * 2^-9: shift until the leading bit is at 8
    while (!(mantissa & 8)) mantissa <<= 1, --exponent;
    return static_cast<unsigned short>(sign | exponent << 10 | (mantissa & 7) << 7);
}

struct E4M3Table {
    unsigned short half[256];
    constexpr E4M3Table() : half() {
        for (unsigned code = 0; code < 256; ++code) half[code] = e4m3_to_half(code);
    }
};
inline constexpr E4M3Table e4m3_table;

inline unsigned short fp8_to_half_bits(unsigned char code, __nv_fp8_interpretation_t format) {
    if (format == __NV_E4M3) return e4m3_table.half[code];
    return (code & 0x7f) > 0x7c ? 0x7fff : static_cast<unsigned short>(code << 8);  // E5M2: a half's upper byte
}

// |x| to a whole number of steps of the format at that exponent, ties to even, then to the code.
inline unsigned char double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    const bool e4m3 = format == __NV_E4M3;
    const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    const unsigned largest = e4m3 ? 0x7e : 0x7b, overflow = e4m3 ? 0x7f : 0x7c;
    const unsigned sign = bits_as<unsigned long long>(x) >> 56 & 0x80;
    if (x != x)  // a double's NaN keeps its sign, and in E5M2 the upper bits of its payload
        return static_cast<unsigned char>(sign | (e4m3 ? 0x7f : 0x7e | (bits_as<unsigned long long>(x) >> 50 & 3)));
    const double magnitude = fabs(x);
    int exponent = 1 - bias;  // of the smallest normal
    if (magnitude > ldexp(1.0, exponent)) exponent = magnitude > 1e6 ? 20 : ilogb(magnitude);
    const double steps = nearbyint(ldexp(magnitude, mantissa_bits - exponent));
    unsigned code = static_cast<unsigned>(steps < 1e6 ? steps : 1e6);
    // Steps from the smallest normal on continue the codes: a carry of the mantissa raises the exponent.
    code += static_cast<unsigned>(exponent - (1 - bias)) << mantissa_bits;
    if (code > largest || magnitude > 1e6) code = saturate == __NV_SATFINITE ? largest : overflow;
    return static_cast<unsigned char>(code | sign);
}

}  // namespace gates_emulator

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t format) {
    return {gates_emulator::fp8_to_half_bits(x, format)};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t format) {
    return {gates_emulator::fp8_to_half_bits(static_cast<unsigned char>(x), format),
            gates_emulator::fp8_to_half_bits(static_cast<unsigned char>(x >> 8), format)};
}
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return gates_emulator::double_to_fp8(x, saturate, format);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    if (x != x) return 0x7f;  // one NaN
    return gates_emulator::double_to_fp8(x, saturate, format);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return __nv_cvt_float_to_fp8(gates_emulator::half_bits_to_float(x.x), saturate, format);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return __nv_cvt_float_to_fp8(gates_emulator::bfloat_bits_to_float(x.x), saturate, format);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(v.x, saturate, format) |
                                             __nv_cvt_float_to_fp8(v.y, saturate, format) << 8);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 v, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_double_to_fp8(v.x, saturate, format) |
                                             __nv_cvt_double_to_fp8(v.y, saturate, format) << 8);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw v, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_halfraw_to_fp8({v.x}, saturate, format) |
                                             __nv_cvt_halfraw_to_fp8({v.y}, saturate, format) << 8);
}

// The value types saturate, as in cuda_fp8.h.
#define GATES_EMULATOR_FP8(suffix, format)                                                                         \
    struct __nv_fp8_##suffix {                                                                                     \
        __nv_fp8_storage_t __x;                                                                                    \
        __nv_fp8_##suffix() = default;                                                                             \
        explicit __nv_fp8_##suffix(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, format)) {}             \
        explicit __nv_fp8_##suffix(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, format)) {}           \
        explicit __nv_fp8_##suffix(int x) : __nv_fp8_##suffix(static_cast<double>(x)) {}                           \
        explicit __nv_fp8_##suffix(__half x) : __nv_fp8_##suffix(__half2float(x)) {}                               \
        explicit __nv_fp8_##suffix(__nv_bfloat16 x) : __nv_fp8_##suffix(__bfloat162float(x)) {}                    \
        explicit operator float() const { return __half2float(operator __half()); }                                \
        explicit operator double() const { return __half2float(operator __half()); }                               \
        explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, format); }                          \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16(operator float()); }                        \
    };                                                                                                             \
    struct __attribute__((aligned(2))) __nv_fp8x2_##suffix {                                                       \
        __nv_fp8x2_storage_t __x;                                                                                  \
        __nv_fp8x2_##suffix() = default;                                                                           \
        explicit __nv_fp8x2_##suffix(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, format)) {}       \
        explicit __nv_fp8x2_##suffix(__half2 v) : __x(__nv_cvt_halfraw2_to_fp8x2(v, __NV_SATFINITE, format)) {}    \
        explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, format); }                      \
        explicit operator float2() const { return __half22float2(operator __half2()); }                            \
    };                                                                                                             \
    struct __attribute__((aligned(4))) __nv_fp8x4_##suffix {                                                       \
        __nv_fp8x4_storage_t __x;                                                                                  \
        __nv_fp8x4_##suffix() = default;                                                                           \
        explicit __nv_fp8x4_##suffix(float4 v)                                                                     \
            : __x(__nv_fp8x4_storage_t(__nv_cvt_float2_to_fp8x2({v.x, v.y}, __NV_SATFINITE, format)) |             \
                  __nv_fp8x4_storage_t(__nv_cvt_float2_to_fp8x2({v.z, v.w}, __NV_SATFINITE, format)) << 16) {}     \
        explicit operator float4() const {                                                                         \
            const float2 low = __half22float2(__nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(__x), format));      \
            const float2 high = __half22float2(__nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(__x >> 16), format)); \
            return {low.x, low.y, high.x, high.y};                                                                 \
        }                                                                                                          \
    };
GATES_EMULATOR_FP8(e4m3, __NV_E4M3)
GATES_EMULATOR_FP8(e5m2, __NV_E5M2)
#undef GATES_EMULATOR_FP8

