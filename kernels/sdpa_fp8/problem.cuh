// One call of the FP8 attention kernels.
#pragma once

#include <cstdint>

#include "../sdpa/config.cuh"

namespace sdpa {

constexpr int kHeadDim = 64;  // D, elements
constexpr std::int64_t kMaxSequence = 1 << 30;  // keeps key positions in int

// Rows of D bytes, of halves for `out`; a head's rows follow each other, then come the next head's.
struct Problem {
    const std::uint8_t* q;  // E4M3, as are k and v
    const std::uint8_t* k;
    const std::uint8_t* v;
    const float* q_scale;  // one a head
    const float* k_scale;
    const float* v_scale;
    __half* out;
    int sequence;  // S
    float softmax_scale;
};

}  // namespace sdpa
