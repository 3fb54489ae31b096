// Toggles of the FP16 attention kernels, and what all rungs share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../sdpa/config.cuh"

// Set with -D; task.yaml names the values of each rung.
#ifndef USE_WMMA  // 0: scalar products; 1: Q·K^T on tensor cores; 2: P·V too
#define USE_WMMA 0
#endif
#ifndef TILE_M  // query rows of a CTA
#define TILE_M 64
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 64
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 4
#endif
#ifndef STAGES  // tiles of K and V in shared memory; with 2 and more, asynchronous copies fill all but the one in use
#define STAGES 1
#endif
#ifndef CAUSAL  // 0 leaves the kernels with a causal mask out, and refuses calls that ask for it
#define CAUSAL 1
#endif

namespace sdpa {

static_assert(USE_WMMA >= 0 && USE_WMMA <= 2, "USE_WMMA is 0, 1 or 2");
static_assert(CAUSAL == 0 || CAUSAL == 1, "CAUSAL is 0 or 1");

constexpr int kChunk = 8;  // halves of a vector load or an asynchronous copy: 16 bytes

// Q, K, V and O of one call. Rows of D halves; a head's rows follow each other, then come the next head's.
struct Problem {
    const __half* q;
    const __half* k;
    const __half* v;
    __half* out;
    int queries, keys;  // of a head
    int query_tiles;
    float scale;  // softmax_scale * log2(e), as exp2 wants it
    bool negate;  // set by a launcher whose kernel takes the scale's size alone, with -Q for a negative one
};

// Where a CTA works: one tile of query rows of one head.
template <int kDim, int kTileM>
struct Place {
    const __half* q;  // row `first_query`
    const __half* k;  // the head's row 0
    const __half* v;
    __half* out;
    int first_query;
    int valid_queries;  // of the tile; may exceed it

    __device__ __forceinline__ explicit Place(const Problem& problem) {
        const int head = blockIdx.x / problem.query_tiles;
        first_query = blockIdx.x % problem.query_tiles * kTileM;
        valid_queries = problem.queries - first_query;
        const std::int64_t query_start = (static_cast<std::int64_t>(head) * problem.queries + first_query) * kDim;
        const std::int64_t key_start = static_cast<std::int64_t>(head) * problem.keys * kDim;
        q = problem.q + query_start;
        out = problem.out + query_start;
        k = problem.k + key_start;
        v = problem.v + key_start;
    }
};

}  // namespace sdpa
