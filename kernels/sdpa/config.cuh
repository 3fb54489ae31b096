// Settings, units and limits of the attention kernels of both families.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifndef DEBUG_PRINT  // 1: the first scores of head 0, on stdout
#define DEBUG_PRINT 0
#endif

namespace sdpa {

static_assert(DEBUG_PRINT == 0 || DEBUG_PRINT == 1, "DEBUG_PRINT is 0 or 1");

constexpr unsigned kWarp = 0xffffffffu;
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLeastScale = 1e-30f;  // makes every score 0, as 0 would, but keeps -inf, the hidden ones, -inf

constexpr int kSmallSharedBytes = 99 * 1024;  // per CTA, on sm_86 and sm_89

// Elements from one row to the next, if the compiler knows how many. Otherwise a stride is an int.
template <int kElements>
struct FixedStride {};

// Elements from one row to the one `rows` further on.
template <typename Count, int kElements>
__device__ __forceinline__ Count distance(Count rows, FixedStride<kElements>) {
    return rows * kElements;
}
__device__ __forceinline__ std::int64_t distance(std::int64_t rows, int stride) { return rows * stride; }

// Two floats, rounded to half, as one register; `low` in the lower 16 bits.
__device__ __forceinline__ unsigned pack_halves(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    unsigned bits;
    std::memcpy(&bits, &pair, sizeof bits);
    return bits;
}

// The same, rounded to Element: half or bfloat16.
template <typename Element>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
    if constexpr (std::is_same_v<Element, __half>) {
        return pack_halves(low, high);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        unsigned bits;
        std::memcpy(&bits, &pair, sizeof bits);
        return bits;
    }
}

}  // namespace sdpa
