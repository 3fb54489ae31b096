// DEBUG_PRINT=1 of the stages whose scores are in shared memory.
#pragma once

#include <cstdio>

namespace sdpa {

// The first scores of head 0, from the thread whose warp computed them.
template <typename T>
__device__ inline void print_scores(const float* scores) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    for (int row = 0; row < 2; ++row) {
        for (int key = 0; key < 8; ++key) printf("score[%d][%d] = %.6f\n", row, key, static_cast<double>(scores[row * T::kScoreLd + key]));
    }
}

}  // namespace sdpa
