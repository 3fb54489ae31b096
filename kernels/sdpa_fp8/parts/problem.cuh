// One call of an FP8 stage: the problem, and the checks of its arguments.
#pragma once

#include <cmath>
#include <cstdint>

#include "../../cuda/launcher.cuh"
#include "../../sdpa/config.cuh"

namespace sdpa {

constexpr std::int64_t kMaxSequence = 1 << 30;  // keeps key positions in int

// Rows of D bytes, of halves for `out`; a head's rows follow each other, then come the next head's.
struct Problem {
    const std::uint8_t* q;  // E4M3, as are k and v
    const std::uint8_t* k;
    const std::uint8_t* v;
    const float* q_scale;  // one per head
    const float* k_scale;
    const float* v_scale;
    __half* out;
    int sequence;  // S
    float softmax_scale;
};

// `problem` of these arguments: 0, or 1 with a message. D is for the stage to check.
inline int take_problem(const launcher::Refusal& refusal, Problem& problem, const void* q, const void* k, const void* v, const void* q_scale,
                        const void* k_scale, const void* v_scale, void* out, std::int64_t B, std::int64_t H, std::int64_t S,
                        float softmax_scale) {
    const launcher::Pointer tensors[] = {{"q", q}, {"k", k}, {"v", v}, {"out", out}};
    if (const int refused = launcher::check_pointers(refusal, tensors, 16)) return refused;
    const launcher::Pointer scales[] = {{"q_scale", q_scale}, {"k_scale", k_scale}, {"v_scale", v_scale}};
    if (const int refused = launcher::check_pointers(refusal, scales, 4)) return refused;
    const launcher::Extent heads[] = {{"B", B}, {"H", H}};
    if (const int refused = launcher::check_extents(refusal, heads, launcher::kMaxGrid)) return refused;
    const launcher::Extent rows[] = {{"S", S}};
    if (const int refused = launcher::check_extents(refusal, rows, kMaxSequence)) return refused;
    if (!std::isfinite(softmax_scale)) return refusal.refuse("softmax_scale: %f, must be finite", softmax_scale);
    problem = {static_cast<const std::uint8_t*>(q), static_cast<const std::uint8_t*>(k),
               static_cast<const std::uint8_t*>(v), static_cast<const float*>(q_scale),
               static_cast<const float*>(k_scale), static_cast<const float*>(v_scale), static_cast<__half*>(out),
               static_cast<int>(S), softmax_scale};
    return 0;
}

}  // namespace sdpa
