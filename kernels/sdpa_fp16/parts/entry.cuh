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

// `problem` already holds the fields that GENERAL adds.
inline int forward(const launcher::Refusal& refusal, Problem problem, const void* q, const void* k, const void* v, void* out, std::int64_t B,
                   std::int64_t H, std::int64_t Sq, std::int64_t Sk, std::int64_t D, std::int64_t causal, float softmax_scale, void* stream) {
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

    problem.queries = static_cast<int>(Sq);
    problem.keys = static_cast<int>(Sk);
    problem.scale = softmax_scale * kLog2E;
    problem.q.start = static_cast<const Element*>(q);
    problem.k.start = static_cast<const Element*>(k);
    problem.v.start = static_cast<const Element*>(v);
    problem.out.start = static_cast<Element*>(out);
    if (D == 64) return run_masked<64>(refusal, problem, B * H, causal == 1, stream);
    if (D == 128) return run_masked<128>(refusal, problem, B * H, causal == 1, stream);
    return refusal.refuse("D: %lld, this kernel is for 64 and 128", static_cast<long long>(D));
}

#if GENERAL == 1

// The strides and heads of one tensor; 0, or 1 with a message. The stride of a dimension of size 1 is ignored.
template <typename Values>
int take_strides(const launcher::Refusal& refusal, Tensor<Values>& tensor, const char* name, const std::int64_t (&strides)[3], std::int64_t B,
                 std::int64_t heads, std::int64_t rows, std::int64_t D) {
    const std::int64_t extents[] = {B, heads, rows};
    std::int64_t used[3];
    for (int i = 0; i < 3; ++i) {
        used[i] = extents[i] == 1 ? D : strides[i];
        if (used[i] < 1 || used[i] % kChunk != 0 || used[i] > (i == 2 ? INT32_MAX : INT64_MAX)) {
            return refusal.refuse("%s: stride of %lld elements along %s, must be a positive multiple of %d", name,
                                  static_cast<long long>(used[i]), i == 0 ? "B" : i == 1 ? "H" : "S", kChunk);
        }
    }
    tensor.batch_stride = used[0];
    tensor.head_stride = used[1];
    tensor.row_stride = static_cast<int>(used[2]);
    tensor.heads = static_cast<int>(heads);
    return 0;
}

#endif

}  // namespace sdpa

#if GENERAL == 1

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`. q and out have H heads, k and v
// Hkv. strides: elements from one batch, head and row to the next, of q, k, v and out. lse: float [B, H, Sq], or null.
extern "C" int sdpa_forward(
    const void* q, const void* k, const void* v, void* out, float* lse, std::int64_t B, std::int64_t H, std::int64_t Hkv, std::int64_t Sq,
    std::int64_t Sk, std::int64_t D, std::int64_t causal, float softmax_scale, const std::int64_t (*strides)[3], void* stream, char* error,
    std::int64_t error_bytes) {
    const launcher::Refusal refusal{error, error_bytes};
    if (H < 1 || Hkv < 1 || H % Hkv != 0) {
        return refusal.refuse("Hkv: %lld, must divide the %lld heads of q", static_cast<long long>(Hkv), static_cast<long long>(H));
    }
    sdpa::Problem problem{};
    problem.group = static_cast<int>(H / Hkv);
    problem.lse = lse;
    if (const int refused = sdpa::take_strides(refusal, problem.q, "q", strides[0], B, H, Sq, D)) return refused;
    if (const int refused = sdpa::take_strides(refusal, problem.k, "k", strides[1], B, Hkv, Sk, D)) return refused;
    if (const int refused = sdpa::take_strides(refusal, problem.v, "v", strides[2], B, Hkv, Sk, D)) return refused;
    if (const int refused = sdpa::take_strides(refusal, problem.out, "out", strides[3], B, H, Sq, D)) return refused;
    return sdpa::forward(refusal, problem, q, k, v, out, B, H, Sq, Sk, D, causal, softmax_scale, stream);
}

#else

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int sdpa_fp16_forward(
    const void* q, const void* k, const void* v, void* out, std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk,
    std::int64_t D, std::int64_t causal, float softmax_scale, void* stream, char* error, std::int64_t error_bytes) {
    return sdpa::forward({error, error_bytes}, {}, q, k, v, out, B, H, Sq, Sk, D, causal, softmax_scale, stream);
}

#endif
