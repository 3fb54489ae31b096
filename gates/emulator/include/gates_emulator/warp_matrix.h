// Host versions of ldmatrix and mma.sync, for the wrapper functions of kernels (docs/internals/emulator.md).
//
// Registers hold two halves each, laid out over the lanes as the PTX ISA says, unlike WMMA's fragments, whose layout CUDA
// leaves open. A lane reads its own row for ldmatrix when it arrives, not when the last one does, so that a missing
// barrier or __syncwarp before it shows. Sums of mma.sync are float, over k in order.
#pragma once
#pragma GCC system_header

#include "../cuda_fp16.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

struct LdmatrixOperands {
    u_int16_t row[8];
    unsigned* registers;
    bool transposed;
};

inline void need_whole_warp(const Warp& warp, unsigned lanes, const char* what) {
    if (lanes != kAllLanes)
        fatal(cudaErrorLaunchFailure, "warp_divergence", warp.meeting[0].file, warp.meeting[0].line,
              "%s needs all 32 lanes of the warp; some have returned or don't exist", what);
}

template <typename Operands>
const Operands& operands_of(const Warp& warp, int lane) {
    return *reinterpret_cast<const Operands*>(warp.value[lane]);
}

inline void combine_ldmatrix(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "ldmatrix");
    for (int lane = 0; lane < 32; ++lane) {
        const LdmatrixOperands& own = operands_of<LdmatrixOperands>(warp, lane);
        const int g = lane / 4, t = lane % 4;
        for (int matrix = 0; matrix < 4; ++matrix) {
            const auto element = [&](int row, int column) -> unsigned {
                return operands_of<LdmatrixOperands>(warp, 8 * matrix + row).row[column];
            };
            own.registers[matrix] = own.transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                                                   : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
        }
    }
}

// Four 8x8 matrices; lane l gives row l % 8 of matrix l / 8.
__attribute__((noinline)) inline void ldmatrix_x4(unsigned (&registers)[4], const void* row, bool transposed, GATES_EMULATOR_SITE) {
    if (reinterpret_cast<size_t>(row) % 16)
        fatal(cudaErrorMisalignedAddress, "bad_ldmatrix", file, line, "ldmatrix: a row must be aligned to 16 bytes");
    if (!in_arena(row))
        fatal(cudaErrorInvalidAddressSpace, "bad_ldmatrix", file, line, "ldmatrix from an address that is not in shared memory");
    if (!in_one_region(row, 16))
        fatal(cudaErrorIllegalAddress, "shared_out_of_bounds", file, line, "ldmatrix from outside any shared variable");
    LdmatrixOperands operands{{}, registers, transposed};
    memcpy(operands.row, row, sizeof operands.row);
    meet(kAllLanes, transposed ? "ldmatrix.trans" : "ldmatrix", reinterpret_cast<u_int64_t>(&operands), 0, combine_ldmatrix, file, line);
}

struct MmaSyncOperands {
    float* c;
    const unsigned* a;
    unsigned b[2];
};

inline float half_of(unsigned bits, int upper) {
    __half value;
    const u_int16_t half = static_cast<u_int16_t>(bits >> (16 * upper));
    memcpy(&value, &half, sizeof value);
    return __half2float(value);
}

inline void combine_mma_m16n8k16(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "mma.sync");
    typedef float Row __attribute__((vector_size(32)));
    alignas(32) float a[16][16], b[16][8], c[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const MmaSyncOperands& own = operands_of<MmaSyncOperands>(warp, lane);
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 2; ++i) {
            for (int upper = 0; upper < 2; ++upper) {
                a[g][8 * i + 2 * t + upper] = half_of(own.a[2 * i], upper);
                a[g + 8][8 * i + 2 * t + upper] = half_of(own.a[2 * i + 1], upper);
                b[8 * i + 2 * t + upper][g] = half_of(own.b[i], upper);
                c[g + 8 * i][2 * t + upper] = own.c[2 * i + upper];
            }
        }
    }
    for (int row = 0; row < 16; ++row) {
        Row sum;
        memcpy(&sum, c[row], sizeof sum);
        for (int k = 0; k < 16; ++k) {
            Row values;
            memcpy(&values, b[k], sizeof values);
            sum += values * a[row][k];  // the product of two halves is exact in float
        }
        memcpy(c[row], &sum, sizeof sum);
    }
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        float* own = operands_of<MmaSyncOperands>(warp, lane).c;
        for (int i = 0; i < 4; ++i) own[i] = c[g + i / 2 * 8][2 * t + i % 2];
    }
}

// c += A·B, 16 x 8 x 16, half inputs, float sums.
__attribute__((noinline)) inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, GATES_EMULATOR_SITE) {
    const MmaSyncOperands operands{c, a, {b0, b1}};
    meet(kAllLanes, "mma.sync", reinterpret_cast<u_int64_t>(&operands), 0, combine_mma_m16n8k16, file, line);
}

}  // namespace gates_emulator
#pragma GCC visibility pop
