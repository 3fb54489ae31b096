// E4M3 bytes to halves, and floats to E4M3 bytes, by PTX.
#pragma once

#include <cstring>

#include <cuda_fp8.h>

namespace fp8 {

// Four E4M3 bytes to four halves, exactly, since every E4M3 value is a half: bytes 0 and 1 to `low`, 2 and 3 to `high`. One
// instruction for each pair on sm_89 and newer; __nv_cvt_fp8x2_to_halfraw2 of the upper pair takes a shift before it.
__device__ __forceinline__ void decode(unsigned bytes, unsigned& low, unsigned& high) {
    asm("{\n\t.reg .b16 lower, upper;\n\tmov.b32 {lower, upper}, %2;\n\t"
        "cvt.rn.f16x2.e4m3x2 %0, lower;\n\tcvt.rn.f16x2.e4m3x2 %1, upper;\n\t}"
        : "=r"(low), "=r"(high) : "r"(bytes));
}

// Four floats to E4M3 bytes, the first in the lowest bits; 448 in place of what is larger.
__device__ __forceinline__ unsigned encode(float x, float y, float z, float w) {
    unsigned bytes;
    asm("{\n\t.reg .b16 lower, upper;\n\tcvt.rn.satfinite.e4m3x2.f32 lower, %2, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 upper, %4, %3;\n\tmov.b32 %0, {lower, upper};\n\t}"
        : "=r"(bytes) : "f"(x), "f"(y), "f"(z), "f"(w));
    return bytes;
}

}  // namespace fp8
