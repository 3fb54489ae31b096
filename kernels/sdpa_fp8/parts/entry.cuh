// The C launcher of a stage for D = 64. The stage does the rest.
#pragma once

#include "problem.cuh"

namespace sdpa {

constexpr int kHeadDim = 64;  // D, elements

// Defined by each stage: launches its kernel.
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t B, std::int64_t H, void* stream);

}  // namespace sdpa

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp8_forward(
    const void* q, const void* k, const void* v, const void* q_scale, const void* k_scale, const void* v_scale,
    void* out, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, float softmax_scale, void* stream,
    char* error, std::int64_t error_bytes) {
    const launcher::Refusal refusal{error, error_bytes};
    sdpa::Problem problem;
    if (const int refused = sdpa::take_problem(refusal, problem, q, k, v, q_scale, k_scale, v_scale, out, B, H, S, softmax_scale)) return refused;
    if (D != sdpa::kHeadDim) return refusal.refuse("D: %lld, this kernel is for %d", static_cast<long long>(D), sdpa::kHeadDim);
    return sdpa::run(refusal, problem, B, H, stream);
}
