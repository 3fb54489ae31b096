// One call of an FP16 attention kernel.
#pragma once

#include <cstdint>

#include "../../sdpa/config.cuh"

namespace sdpa {

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

}  // namespace sdpa
