// Small float formats to float and back, rounded to nearest even where nothing else is said.
#pragma once

#include <cstdint>
#include <cstring>

namespace gates_cpu {

#if defined(__F16C__)  // the instructions by themselves: <immintrin.h> takes longer to read than most files to compile
typedef short Halves8 __attribute__((vector_size(16)));
typedef float Floats4 __attribute__((vector_size(16)));
#endif

inline float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

inline float half_to_float(std::uint16_t bits) {
#if defined(__F16C__)
    const Halves8 halves = {static_cast<short>(bits)};
    return __builtin_ia32_vcvtph2ps(halves)[0];
#else
    const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return float_of(sign | ((rest << 13) + 0x38000000u));
    return float_of(sign | bits_of(static_cast<float>(rest) * 5.9604644775390625e-8f));
#endif
}

inline std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return 0x7fff;  // NaN, as devices have it
#if defined(__F16C__)
    (void)sign;
    const Floats4 floats = {value};
    return static_cast<std::uint16_t>(__builtin_ia32_vcvtps2ph(floats, 0)[0]);
#else
    if (rest >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        const float scaled = float_of(rest) + 0.5f;  // the addition rounds at the step of subnormal halves
        return static_cast<std::uint16_t>(sign | (bits_of(scaled) - 0x3f000000u));
    }
    return static_cast<std::uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1)) >> 13));
#endif
}

inline float bf16_to_float(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }

inline std::uint16_t float_to_bf16(float value) {
    const std::uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

// To tf32: 10 bits of mantissa; to nearest with ties away from zero (cvt.rna), or cut (what a tensor core does with a float).
inline float to_tf32(float value, bool nearest) {
    std::uint32_t bits = bits_of(value);
    if ((bits & 0x7f800000u) == 0x7f800000u) return value;
    if (nearest) bits += 0x1000u;
    return float_of(bits & 0xffffe000u);
}

float e4m3_to_float(std::uint8_t bits);
float e5m2_to_float(std::uint8_t bits);
std::uint8_t float_to_e4m3(float value);  // saturating
std::uint8_t float_to_e5m2(float value);

}  // namespace gates_cpu
