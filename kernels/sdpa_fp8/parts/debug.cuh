// DEBUG_PRINT=1: the intermediate values of the first query tile of head 0 against the first tile of keys, on stdout.
#pragma once

#include <cstdio>

#include "softmax.cuh"

namespace sdpa {

constexpr bool kDebugPrint = DEBUG_PRINT == 1;
constexpr int kDebugRows = 2;
constexpr int kDebugColumns = 8;

// The first rows of a [kBlockM][ld] tile. Called by one thread, after a barrier that completes the tile.
template <typename Element>
__device__ inline void print_tile(const char* name, const Element* tile, int ld) {
    for (int row = 0; row < kDebugRows; ++row) {
        for (int column = 0; column < kDebugColumns; ++column) {
            printf("%s[%d][%d] = %.6f\n", name, row, column, static_cast<double>(static_cast<float>(tile[row * ld + column])));
        }
    }
}

// m and this thread's part of l, from the thread that leads a row.
__device__ inline void print_state(const Softmax& softmax) {
    if (softmax.leads_row() && softmax.row() < kDebugRows) {
        printf("m[%d] = %.6f (log2 units), l[%d] >= %.6f (one thread's part)\n", softmax.row(),
               static_cast<double>(softmax.maximum()), softmax.row(), static_cast<double>(softmax.partial_sum()));
    }
}

}  // namespace sdpa
