// A grid of query tiles x heads, with GENERAL query tiles x heads x batches, for kernels that take the absolute value of softmax_scale.
#pragma once

#include <algorithm>
#include <cmath>

#include "../../cuda/launcher.cuh"
#include "heads.cuh"

namespace sdpa {

constexpr std::int64_t kMostHeads = 65535;  // a grid's height, and its depth

// The head of this CTA, and its number among those of all batches.
__device__ __forceinline__ Head grid_head(const Problem& problem) { return head_of(problem, blockIdx.z, blockIdx.y); }
__device__ __forceinline__ int grid_head_number() { return blockIdx.z * gridDim.y + blockIdx.y; }

// Whether the rows of each head follow each other.
inline bool rows_are_dense([[maybe_unused]] const Problem& problem, [[maybe_unused]] int width) {
#if GENERAL == 1
    return problem.q.row_stride == width && problem.k.row_stride == width && problem.v.row_stride == width && problem.out.row_stride == width;
#else
    return true;
#endif
}

// Replaces the scale by its absolute value; `negate` keeps its sign.
inline void take_size_of_scale(Problem& problem) {
    problem.negate = problem.scale < 0.0f;
    problem.scale = std::fmax(std::fabs(problem.scale), kLeastScale);
}

// `kernel(problem, more...)` on a grid of query tiles x heads. The problem that it gets has the scale's absolute value.
template <int kTileM, typename Kernel, typename... More>
int launch_grid(const launcher::Refusal& refusal, Kernel kernel, Problem problem, std::int64_t heads, int threads, int shared_bytes,
                void* stream, const More&... more) {
#if GENERAL == 1
    const std::int64_t high = problem.q.heads, deep = heads / high;
#else
    const std::int64_t high = heads, deep = 1;
#endif
    if (high > kMostHeads || deep > kMostHeads) {
        return refusal.refuse("B, H: %lld heads, at most %lld", static_cast<long long>(std::max(high, deep)), static_cast<long long>(kMostHeads));
    }
    take_size_of_scale(problem);
    const dim3 grid((static_cast<unsigned>(problem.queries) + kTileM - 1) / kTileM, static_cast<unsigned>(high), static_cast<unsigned>(deep));
    return launcher::launch(refusal, kernel, grid, threads, shared_bytes, stream, problem, more...);
}

}  // namespace sdpa
