// wgmma as functions.
//
// The four warps of a warpgroup, 128 threads whose first is a multiple of 128, call each of them together. D is 64 x N floats,
// A 64 x 16 halves, B 16 x N; or A 64 x 32 E4M3 bytes, B 32 x N, which are K-major then. Warp w of the group has the rows 16 w to 16 w + 15 in its registers; with g = lane / 4 and
// t = lane % 4, as in the PTX ISA ("Register fragments" of wgmma.mma_async.m64nNk16):
//   D: d[4 j], d[4 j + 1] row g, columns 8 j + 2t and + 1; d[4 j + 2], d[4 j + 3] row g + 8.
//   A: a[0] row g, columns 2t and 2t + 1, the first in the lower 16 bits; a[1] row g + 8; a[2] columns + 8; a[3] both.
//      Of bytes: a[0] row g, columns 4t to 4t + 3, the first in the lowest bits; a[1] row g + 8; a[2] columns + 16; a[3] both.
// A product runs on after the call. Between `fence` and the `wait` that covers it, its registers belong to it. sm_90a.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "shared_memory.cuh"

namespace wgmma {

enum Swizzle : unsigned { kNone = 0, k128Bytes = 1, k64Bytes = 2, k32Bytes = 3 };

// Where a matrix lies in shared memory. PTX ISA, "Matrix descriptor format" and "Canonical layouts", for halves that are
// swizzled: 8 rows of 128 (64, 32) bytes each make an atom, aligned to its size.
//   K-major, rows along M or N:  `stride` bytes from 8 rows to the next 8; `leading` is not used.
//   MN-major, rows along K:      `stride` from 8 rows to the next 8, `leading` from 64 (32, 16) columns to the next.
__device__ __forceinline__ std::uint64_t descriptor(unsigned matrix, unsigned leading, unsigned stride, Swizzle swizzle) {
    const auto field = [](unsigned bytes) { return static_cast<std::uint64_t>((bytes & 0x3ffff) >> 4); };
    return field(matrix) | field(leading) << 16 | field(stride) << 32 | static_cast<std::uint64_t>(swizzle) << 62;
}

__device__ __forceinline__ std::uint64_t descriptor(const void* matrix, unsigned leading, unsigned stride, Swizzle swizzle) {
    return descriptor(shared_memory::address(matrix), leading, stride, swizzle);
}

// The matrix `bytes` further on, a multiple of 16.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, unsigned bytes) { return descriptor + (bytes >> 4); }

// What is computed in these registers is computed before this point of the program, and read after it: the compiler doesn't
// see products running, and would move work on other registers past the wait for them.
template <int kCount, typename Register>
__device__ __forceinline__ void pin(Register (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        if constexpr (std::is_same_v<Register, float>) {
            asm volatile("" : "+f"(registers[i])::"memory");
        } else if constexpr (std::is_same_v<Register, unsigned>) {
            asm volatile("" : "+r"(registers[i])::"memory");
        } else {
            pin(registers[i]);
        }
    }
}

// Before the first product of a group: what was written to the registers that it takes, all given, is there.
template <typename... Registers>
__device__ __forceinline__ void fence(Registers&... registers) {
    (pin(registers), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Makes the products since the last commit a group.
__device__ __forceinline__ void commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// All groups but the newest kPending are done; `registers` are those that the others had.
template <int kPending, typename... Registers>
__device__ __forceinline__ void wait(Registers&... registers) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
    (pin(registers), ...);
}

// Operands of the instructions: 4 or 8 registers of D each, and their places in the text.
#define WGMMA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_8(i) WGMMA_4(i), WGMMA_4(i + 4)
#define WGMMA_16(i) WGMMA_8(i), WGMMA_8(i + 8)
#define WGMMA_24(i) WGMMA_16(i), WGMMA_8(i + 16)
#define WGMMA_32(i) WGMMA_16(i), WGMMA_16(i + 16)
#define WGMMA_36(i) WGMMA_32(i), WGMMA_4(i + 32)
#define WGMMA_48(i) WGMMA_32(i), WGMMA_16(i + 32)
#define WGMMA_64(i) WGMMA_32(i), WGMMA_32(i + 32)
#define WGMMA_68(i) WGMMA_64(i), WGMMA_4(i + 64)
#define WGMMA_80(i) WGMMA_64(i), WGMMA_16(i + 64)
#define WGMMA_96(i) WGMMA_64(i), WGMMA_32(i + 64)
#define WGMMA_112(i) WGMMA_96(i), WGMMA_16(i + 96)
#define WGMMA_128(i) WGMMA_64(i), WGMMA_64(i + 64)
#define WGMMA_PLACES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_PLACES_24 WGMMA_PLACES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WGMMA_PLACES_32 WGMMA_PLACES_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_PLACES_36 WGMMA_PLACES_32 ",%32,%33,%34,%35"
#define WGMMA_PLACES_48 WGMMA_PLACES_36 ",%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_PLACES_64 WGMMA_PLACES_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_PLACES_68 WGMMA_PLACES_64 ",%64,%65,%66,%67"
#define WGMMA_PLACES_80 WGMMA_PLACES_68 ",%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define WGMMA_PLACES_96 WGMMA_PLACES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_PLACES_112 WGMMA_PLACES_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define WGMMA_PLACES_128 WGMMA_PLACES_112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// `count` registers of D; then the places of what follows them. types: of A and B, with their K. ways: what follows the signs.
#define WGMMA_BOTH_SHARED(types, ways, n, count, a, b, add, transposed)                                                                \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" n types " {"                     \
                 WGMMA_PLACES_##count "}, " a ", " b ", add, 1, 1" ways(", 0, " transposed) ";\n}"                                      \
                 : WGMMA_##count(0) : "l"(a_matrix), "l"(b_matrix), "r"(static_cast<int>(add_to_d)), "n"(static_cast<int>(kTransposed)))
#define WGMMA_B_SHARED(types, ways, n, count, a0, a1, a2, a3, b, add, transposed)                                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" n types " {"                     \
                 WGMMA_PLACES_##count "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", add, 1, 1" ways(", " transposed) ";\n}"             \
                 : WGMMA_##count(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix),                                 \
                   "r"(static_cast<int>(add_to_d)), "n"(static_cast<int>(kTransposed)))
#define WGMMA_EITHER_WAY(ways) ways
#define WGMMA_K_MAJOR(ways)

// As `kind`, with the PTX names for Element.
#define WGMMA_OF_ELEMENT(kind, ...)                                      \
    if constexpr (std::is_same_v<Element, __half>) {                     \
        kind("k16.f32.f16.f16", WGMMA_EITHER_WAY, __VA_ARGS__);          \
    } else if constexpr (std::is_same_v<Element, __nv_bfloat16>) {       \
        kind("k16.f32.bf16.bf16", WGMMA_EITHER_WAY, __VA_ARGS__);        \
    } else {                                                             \
        kind("k32.f32.e4m3.e4m3", WGMMA_K_MAJOR, __VA_ARGS__);           \
    }

// d = A·B, or d += A·B with `add_to_d`; A from shared memory, K-major. B is K-major, or MN-major if kTransposed. Element is half,
// bfloat16 or __nv_fp8_e4m3.
template <int kN, bool kTransposed, typename Element = __half>
__device__ __forceinline__ void multiply(float (&d)[kN / 2], std::uint64_t a_matrix, std::uint64_t b_matrix, bool add_to_d) {
    static_assert(kN == 32 || kN == 48 || kN == 64 || kN == 96 || kN == 128 || kN == 160 || kN == 192 || kN == 224 || kN == 256,
                  "N is 32, 48, 64, 96, 128, 160, 192, 224 or 256");
    static_assert(!kTransposed || !std::is_same_v<Element, __nv_fp8_e4m3>, "B of bytes is K-major");
    if constexpr (kN == 32) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "32", 16, "%16", "%17", "%18", "%19")
    if constexpr (kN == 48) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "48", 24, "%24", "%25", "%26", "%27")
    if constexpr (kN == 64) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "64", 32, "%32", "%33", "%34", "%35")
    if constexpr (kN == 96) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "96", 48, "%48", "%49", "%50", "%51")
    if constexpr (kN == 128) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "128", 64, "%64", "%65", "%66", "%67")
    if constexpr (kN == 160) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "160", 80, "%80", "%81", "%82", "%83")
    if constexpr (kN == 192) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "192", 96, "%96", "%97", "%98", "%99")
    if constexpr (kN == 224) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "224", 112, "%112", "%113", "%114", "%115")
    if constexpr (kN == 256) WGMMA_OF_ELEMENT(WGMMA_BOTH_SHARED, "256", 128, "%128", "%129", "%130", "%131")
}

// The same, but d += A·B unless told otherwise; A from registers.
template <int kN, bool kTransposed, typename Element = __half>
__device__ __forceinline__ void multiply(float (&d)[kN / 2], const unsigned (&a)[4], std::uint64_t b_matrix, bool add_to_d = true) {
    static_assert(kN == 64 || kN == 72 || kN == 128 || kN == 136, "N is 64, 72, 128 or 136");
    static_assert(!kTransposed || !std::is_same_v<Element, __nv_fp8_e4m3>, "B of bytes is K-major");
    if constexpr (kN == 64) WGMMA_OF_ELEMENT(WGMMA_B_SHARED, "64", 32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
    if constexpr (kN == 72) WGMMA_OF_ELEMENT(WGMMA_B_SHARED, "72", 36, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
    if constexpr (kN == 128) WGMMA_OF_ELEMENT(WGMMA_B_SHARED, "128", 64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
    if constexpr (kN == 136) WGMMA_OF_ELEMENT(WGMMA_B_SHARED, "136", 68, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
}

#undef WGMMA_4
#undef WGMMA_8
#undef WGMMA_16
#undef WGMMA_24
#undef WGMMA_32
#undef WGMMA_36
#undef WGMMA_48
#undef WGMMA_64
#undef WGMMA_68
#undef WGMMA_80
#undef WGMMA_96
#undef WGMMA_112
#undef WGMMA_128
#undef WGMMA_PLACES_16
#undef WGMMA_PLACES_24
#undef WGMMA_PLACES_32
#undef WGMMA_PLACES_36
#undef WGMMA_PLACES_48
#undef WGMMA_PLACES_64
#undef WGMMA_PLACES_68
#undef WGMMA_PLACES_80
#undef WGMMA_PLACES_96
#undef WGMMA_PLACES_112
#undef WGMMA_PLACES_128
#undef WGMMA_BOTH_SHARED
#undef WGMMA_B_SHARED
#undef WGMMA_EITHER_WAY
#undef WGMMA_K_MAJOR
#undef WGMMA_OF_ELEMENT

// The registers that each thread of the warpgroup may have from here on: fewer, given back to the CTA, or more, taken from
// what others gave back, which it waits for. A multiple of 8 from 24 to 256. PTX ISA, setmaxnreg.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace wgmma
