// One call of an FP8 stage: the problem, and the checks of its arguments. The stage does the rest.
#pragma once

#include <cmath>
#include <cstdint>

#include "../../cuda/launcher.cuh"
#include "../../sdpa/config.cuh"

namespace sdpa {

constexpr int kHeadDim = 64;  // D, elements
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

// Defined by each stage: launches its kernel.
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t B, std::int64_t H, void* stream);

inline int forward(const void* q, const void* k, const void* v, const void* q_scale, const void* k_scale, const void* v_scale,
                   void* out, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, float softmax_scale, void* stream,
                   const launcher::Refusal& refusal) {
    const launcher::Pointer tensors[] = {{"q", q}, {"k", k}, {"v", v}, {"out", out}};
    if (const int refused = launcher::check_pointers(refusal, tensors, 16)) return refused;
    const launcher::Pointer scales[] = {{"q_scale", q_scale}, {"k_scale", k_scale}, {"v_scale", v_scale}};
    if (const int refused = launcher::check_pointers(refusal, scales, 4)) return refused;
    const launcher::Extent heads[] = {{"B", B}, {"H", H}};
    if (const int refused = launcher::check_extents(refusal, heads, launcher::kMaxGrid)) return refused;
    const launcher::Extent rows[] = {{"S", S}};
    if (const int refused = launcher::check_extents(refusal, rows, kMaxSequence)) return refused;
    if (D != kHeadDim) return refusal.refuse("D: %lld, this kernel is for %d", static_cast<long long>(D), kHeadDim);
    if (!std::isfinite(softmax_scale)) return refusal.refuse("softmax_scale: %f, must be finite", softmax_scale);

    const Problem problem{static_cast<const std::uint8_t*>(q), static_cast<const std::uint8_t*>(k),
                          static_cast<const std::uint8_t*>(v), static_cast<const float*>(q_scale),
                          static_cast<const float*>(k_scale), static_cast<const float*>(v_scale), static_cast<__half*>(out),
                          static_cast<int>(S), softmax_scale};
    return run(refusal, problem, B, H, stream);
}

}  // namespace sdpa

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp8_forward(
    const void* q, const void* k, const void* v, const void* q_scale, const void* k_scale, const void* v_scale,
    void* out, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, float softmax_scale, void* stream,
    char* error, std::int64_t error_bytes) {
    return sdpa::forward(q, k, v, q_scale, k_scale, v_scale, out, B, H, S, D, softmax_scale, stream, {error, error_bytes});
}
