// One call of an attention kernel.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../sdpa/config.cuh"

#ifndef GENERAL  // 1: the launcher is sdpa_forward. Tensors may be strided, heads of Q share those of K and V, and rows have a log-sum-exp
#define GENERAL 0
#endif
#ifndef BF16  // 1: tensors of bfloat16; goes with GENERAL
#define BF16 0
#endif

namespace sdpa {

static_assert(GENERAL == 0 || GENERAL == 1, "GENERAL is 0 or 1");
static_assert(BF16 == 0 || (BF16 == 1 && GENERAL == 1), "BF16 is 0 or 1, and 1 goes with GENERAL=1");

using Element = std::conditional_t<BF16 == 1, __nv_bfloat16, __half>;

constexpr int kChunk = 8;  // elements of a vector load or an asynchronous copy: 16 bytes

// [B, heads, rows, D]. The D elements of a row follow each other. Without GENERAL rows, heads and batches do so, too.
template <typename Values>
struct Tensor {
    Values* start;
#if GENERAL == 1
    std::int64_t batch_stride, head_stride;  // elements
    int row_stride, heads;
#endif
};

struct Problem {
    Tensor<const Element> q, k, v;
    Tensor<Element> out;
    int queries, keys;  // of a head
    int query_tiles;
    float scale;  // softmax_scale * log2(e), as exp2 wants it
    bool negate;  // the scale is negative; `scale` then has its absolute value, and the kernel negates Q or the scores
#if GENERAL == 1
    int group;   // heads of Q that share a head of K and V
    float* lse;  // [B, heads, queries], or null
#endif
};

}  // namespace sdpa
