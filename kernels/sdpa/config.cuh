// Settings, units and limits of the attention kernels of both families.
#pragma once

#include <cstring>

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

// Two floats, rounded to half, as one register; `low` in the lower 16 bits.
__device__ __forceinline__ unsigned pack_halves(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    unsigned bits;
    std::memcpy(&bits, &pair, sizeof bits);
    return bits;
}

}  // namespace sdpa
