// Where the rows of a head lie, and what GENERAL adds to that: strides, heads that share K and V, the log-sum-exp of rows.
#pragma once

#include "problem.cuh"

namespace sdpa {

// A head of Q, and the head of K and V that it uses. Without GENERAL, heads are numbered across batches.
struct Head {
    unsigned batch, of_queries, of_keys;
};

__device__ __forceinline__ Head head_of([[maybe_unused]] const Problem& problem, unsigned batch, unsigned head) {
#if GENERAL == 1
    return {batch, head, problem.group == 1 ? head : head / problem.group};
#else
    return {batch, head, head};
#endif
}

// `number` counts the heads of Q, batch by batch.
__device__ __forceinline__ Head head_of(const Problem& problem, int number) {
#if GENERAL == 1
    return head_of(problem, number / problem.q.heads, number % problem.q.heads);
#else
    return head_of(problem, 0, number);
#endif
}

// Elements from one row to the next: an int, or a FixedStride if the compiler knows them.
template <int kDim>
using RowStride = std::conditional_t<GENERAL == 1, int, FixedStride<kDim>>;

// Rows of one head, from one of them on.
template <typename Values, typename Stride>
struct HeadRows {
    Values* first;
    Stride stride;

    template <typename Count>
    __device__ __forceinline__ Values* row(Count number) const {
        return first + distance(number, stride);
    }
};

// The rows of head `head` of batch `batch`, which has `rows` rows, from `first_row` on.
template <int kDim, typename Stride = RowStride<kDim>, typename Values>
__device__ __forceinline__ HeadRows<Values, Stride> rows_of(const Tensor<Values>& tensor, [[maybe_unused]] unsigned batch, unsigned head,
                                                            [[maybe_unused]] int rows, int first_row) {
    Stride stride{};
#if GENERAL == 1
    if constexpr (std::is_same_v<Stride, int>) stride = tensor.row_stride;
    return {tensor.start + batch * tensor.batch_stride + head * tensor.head_stride + distance(static_cast<std::int64_t>(first_row), stride), stride};
#else
    return {tensor.start + (static_cast<std::int64_t>(head) * rows + first_row) * kDim, stride};
#endif
}

__device__ __forceinline__ bool lse_is_asked_for([[maybe_unused]] const Problem& problem) {
#if GENERAL == 1
    return problem.lse != nullptr;
#else
    return false;
#endif
}

// Keeps log(sum of exp(score)) of query `row` of head `number`, if asked for. most: its largest score in log2 units; sum: of
// exp2(score - most).
__device__ __forceinline__ void keep_lse([[maybe_unused]] const Problem& problem, int number, int row, float most, float sum) {
#if GENERAL == 1
    constexpr float kLn2 = 0.69314718055994530942f;
    if (lse_is_asked_for(problem) && row < problem.queries) {
        problem.lse[static_cast<std::int64_t>(number) * problem.queries + row] = (most + log2f(sum)) * kLn2;
    }
#endif
}

}  // namespace sdpa
