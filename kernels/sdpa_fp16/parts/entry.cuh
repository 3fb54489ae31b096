// The C launcher of every stage: it checks the arguments and calls the stage's `run` for D and the mask.
#pragma once

#include <cmath>

#include "../../cuda/launcher.cuh"
#include "problem.cuh"

#ifndef CAUSAL  // 0 leaves the kernels with a causal mask out, and refuses calls that ask for it
#define CAUSAL 1
#endif

namespace sdpa {

static_assert(CAUSAL == 0 || CAUSAL == 1, "CAUSAL is 0 or 1");

constexpr std::int64_t kMaxLength = 1 << 30;  // keeps positions in int

// Defined by each stage: launches its kernel for D = kDim, with or without the causal mask.
template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream);

template <int kDim>
int run_masked(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, bool causal, void* stream) {
    if (!causal) return run<kDim, false>(refusal, problem, heads, stream);
    if constexpr (CAUSAL == 1) {
        return run<kDim, true>(refusal, problem, heads, stream);
    } else {
        return refusal.refuse("causal: 1, but this library was built with CAUSAL=0");
    }
}

inline int forward(const void* q, const void* k, const void* v, void* out, std::int64_t B, std::int64_t H, std::int64_t Sq,
                   std::int64_t Sk, std::int64_t D, std::int64_t causal, float softmax_scale, void* stream,
                   const launcher::Refusal& refusal) {
    const launcher::Pointer pointers[] = {{"q", q}, {"k", k}, {"v", v}, {"out", out}};
    if (const int refused = launcher::check_pointers(refusal, pointers, 16)) return refused;
    const launcher::Extent extents[] = {{"B", B}, {"H", H}, {"Sq", Sq}, {"Sk", Sk}};
    if (const int refused = launcher::check_extents(refusal, extents, kMaxLength)) return refused;
    if (B > launcher::kMaxGrid / H) {
        return refusal.refuse("B, H: %lld x %lld heads are more than a grid's %lld CTAs", static_cast<long long>(B),
                              static_cast<long long>(H), static_cast<long long>(launcher::kMaxGrid));
    }
    if (causal != 0 && causal != 1) return refusal.refuse("causal: %lld, must be 0 or 1", static_cast<long long>(causal));
    if (!std::isfinite(softmax_scale)) return refusal.refuse("softmax_scale: %f, must be finite", softmax_scale);

    Problem problem{static_cast<const __half*>(q), static_cast<const __half*>(k), static_cast<const __half*>(v),
                    static_cast<__half*>(out), static_cast<int>(Sq), static_cast<int>(Sk), 0, softmax_scale * kLog2E, false};
    if (D == 64) return run_masked<64>(refusal, problem, B * H, causal == 1, stream);
    if (D == 128) return run_masked<128>(refusal, problem, B * H, causal == 1, stream);
    return refusal.refuse("D: %lld, this kernel is for 64 and 128", static_cast<long long>(D));
}

}  // namespace sdpa

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp16_forward(
    const void* q, const void* k, const void* v, void* out, std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk,
    std::int64_t D, std::int64_t causal, float softmax_scale, void* stream, char* error, std::int64_t error_bytes) {
    return sdpa::forward(q, k, v, out, B, H, Sq, Sk, D, causal, softmax_scale, stream, {error, error_bytes});
}
