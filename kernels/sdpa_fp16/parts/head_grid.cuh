// A grid of query tiles x heads, for kernels that take the absolute value of softmax_scale.
#pragma once

#include <cmath>

#include "../../cuda/launcher.cuh"
#include "problem.cuh"

namespace sdpa {

constexpr std::int64_t kMostHeads = 65535;  // a grid's height

// Replaces the scale by its absolute value; `negate` keeps its sign.
inline void take_size_of_scale(Problem& problem) {
    problem.negate = problem.scale < 0.0f;
    problem.scale = std::fmax(std::fabs(problem.scale), kLeastScale);
}

// `kernel(problem, more...)` on a grid of query tiles x heads. The problem that it gets has the scale's absolute value.
template <int kTileM, typename Kernel, typename... More>
int launch_grid(const launcher::Refusal& refusal, Kernel kernel, Problem problem, std::int64_t heads, int threads, int shared_bytes,
                void* stream, const More&... more) {
    if (heads > kMostHeads) {
        return refusal.refuse("B, H: %lld heads, at most %lld", static_cast<long long>(heads), static_cast<long long>(kMostHeads));
    }
    take_size_of_scale(problem);
    const dim3 grid((static_cast<unsigned>(problem.queries) + kTileM - 1) / kTileM, static_cast<unsigned>(heads));
    return launcher::launch(refusal, kernel, grid, threads, shared_bytes, stream, problem, more...);
}

}  // namespace sdpa
