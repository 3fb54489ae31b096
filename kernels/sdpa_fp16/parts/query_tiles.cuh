// A one-dimensional grid: the query tiles of one head, then those of the next, so that CTAs that read the same K and V run at
// about the same time.
#pragma once

#include "../../cuda/launcher.cuh"
#include "problem.cuh"

namespace sdpa {

static_assert(GENERAL == 0, "this stage has GENERAL=0 alone");

// Where a CTA works: one tile of query rows of one head.
template <typename T>
struct Place {
    const __half* q;  // row `first_query`
    const __half* k;  // the head's row 0
    const __half* v;
    __half* out;
    int first_query;
    int valid_queries;  // of the tile; may exceed it

    __device__ __forceinline__ explicit Place(const Problem& problem) {
        const int head = blockIdx.x / problem.query_tiles;
        first_query = blockIdx.x % problem.query_tiles * T::kTileM;
        valid_queries = problem.queries - first_query;
        const std::int64_t query_start = (static_cast<std::int64_t>(head) * problem.queries + first_query) * T::kDim;
        const std::int64_t key_start = static_cast<std::int64_t>(head) * problem.keys * T::kDim;
        q = problem.q.start + query_start;
        out = problem.out.start + query_start;
        k = problem.k.start + key_start;
        v = problem.v.start + key_start;
    }
};

// `kernel` on B * H heads, with a T in shared memory.
template <typename T>
int launch_tiles(const launcher::Refusal& refusal, void (*kernel)(Problem), Problem problem, std::int64_t heads, void* stream) {
    problem.query_tiles = (problem.queries + T::kTileM - 1) / T::kTileM;
    if (heads > launcher::kMaxGrid / problem.query_tiles) {
        return refusal.refuse("B, H, Sq: %lld heads of %d query tiles are more CTAs than a grid's %lld",
                              static_cast<long long>(heads), problem.query_tiles, static_cast<long long>(launcher::kMaxGrid));
    }
    const unsigned ctas = static_cast<unsigned>(heads * problem.query_tiles);
    return launcher::launch(refusal, kernel, ctas, T::kThreads, sizeof(T), stream, problem);
}

}  // namespace sdpa
