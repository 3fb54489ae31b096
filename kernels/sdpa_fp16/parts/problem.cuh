// One call of an FP16 attention kernel.
#pragma once

#include <cstdint>

#include "../../sdpa/config.cuh"

namespace sdpa {

constexpr int kChunk = 8;  // halves of a vector load or an asynchronous copy: 16 bytes

// Q, K, V and O of one call. Rows of D halves; a head's rows follow each other, then the next head's rows.
struct Problem {
    const __half* q;
    const __half* k;
    const __half* v;
    __half* out;
    int queries, keys;  // of a head
    int query_tiles;
    float scale;  // softmax_scale * log2(e), as exp2 wants it
    bool negate;  // the scale is negative; `scale` then has its absolute value, and the kernel negates Q or the scores
};

}  // namespace sdpa
