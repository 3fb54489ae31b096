// ldmatrix, stmatrix and mma.sync as functions.
//
// All 32 lanes of a warp call each of them together. A register is an unsigned with two halves, the lower index in the
// lower 16 bits. With g = lane / 4 and t = lane % 4, as in the PTX ISA ("Matrix fragments for mma.m16n8k16"):
//   A, 16 x 16: a[0] row g, columns 2t and 2t + 1; a[1] row g + 8; a[2] columns + 8; a[3] both.
//   B, 16 x 8:  b[0] rows 2t and 2t + 1, column g; b[1] rows + 8.
//   C, 16 x 8:  c[0], c[1] row g, columns 2t and 2t + 1; c[2], c[3] row g + 8.
#pragma once

#include <type_traits>

#include <cuda_fp16.h>

namespace warp_matrix {

// Four 8x8 matrices of halves, or of pairs of bytes, from shared memory. Lane l gives row l % 8 of matrix l / 8: 16 bytes,
// aligned to 16. registers[i]: row g, columns 2t and 2t + 1 of matrix i, or with kTransposed rows 2t and 2t + 1 of column g.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(unsigned (&registers)[4], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (kTransposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(address) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(address) : "memory");
    }
}

// Four 8x8 matrices to shared memory, where load_matrices<false> would read them. sm_90.
__device__ __forceinline__ void store_matrices(void* row, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

#define WARP_MATRIX_MULTIPLY(type)                                                                                                     \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

// c += A·B, 16 x 8 x 16, inputs of Element, half or bfloat16, float sums.
template <typename Element = __half>
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (std::is_same_v<Element, __half>) {
        WARP_MATRIX_MULTIPLY("f16");
    } else {
        WARP_MATRIX_MULTIPLY("bf16");
    }
}

#undef WARP_MATRIX_MULTIPLY

}  // namespace warp_matrix
