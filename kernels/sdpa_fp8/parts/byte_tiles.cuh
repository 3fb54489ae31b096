// Tiles of E4M3 bytes in shared memory as wgmma takes them, and V turned over for it.
#pragma once

#include "../../cuda/tma.cuh"
#include "../../cuda/warp_matrix.cuh"
#include "../../cuda/wgmma.cuh"
#include "../../sdpa/warpgroups.cuh"

namespace sdpa {

// Bytes are multiplied from K-major matrices alone: along a row lie the elements that a product sums up. Q and K have D there, with a
// swizzle of D bytes. V has to have its keys there: kPanels panels of kPanelKeys keys, with a swizzle of as many bytes.
//
// Rows of such a panel are the columns of V, of each 16 the even ones first, then the odd ones; and eight rows of ones, so that the
// product has l in its last columns: a sum of P as it was rounded, with the rounding of sums that O has.
template <int kDim_, int kTileM_, int kTileN_, int kStages_, int kProducerRegisters_>
struct ByteTiling : Warpgroups<kTileM_, kProducerRegisters_> {
    static constexpr int kDim = kDim_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kOutputColumns = kDim + 8;

    static_assert(kDim == 64 || kDim == 128, "a row of Q and of K is as wide as a swizzle");
    static_assert(kTileN % 32 == 0, "TILE_N is a multiple of 32, the keys of one product");

    static constexpr int kStripBytes = 64 * kDim, kTileBytes = kTileN * kDim;
    static constexpr int kPanelKeys = kTileN % 128 == 0 ? 128 : kTileN % 64 == 0 ? 64 : 32, kPanels = kTileN / kPanelKeys;
    static constexpr int kPanelBytes = kOutputColumns * kPanelKeys, kTurnedBytes = kPanels * kPanelBytes;
};

template <int kRowBytes>
__device__ __forceinline__ std::uint64_t rows_descriptor(unsigned rows) {
    constexpr auto kSwizzle = kRowBytes == 128 ? wgmma::k128Bytes : kRowBytes == 64 ? wgmma::k64Bytes : wgmma::k32Bytes;
    return wgmma::descriptor(rows, 0, 8 * kRowBytes, kSwizzle);
}

// Where the 16 bytes `chunk` of row `row` lie.
template <int kRowBytes>
__device__ __forceinline__ int swizzled_place(int row, int chunk) {
    return row * kRowBytes + (chunk ^ row * kRowBytes / 128 % (kRowBytes / 16)) * 16;
}

// The rows of ones of a tile of V, by the producer's threads.
template <typename T>
__device__ __forceinline__ void write_ones(unsigned char* turned) {
    constexpr int kWords = 8 * T::kPanelKeys / 4;
    for (int i = threadIdx.x; i < T::kPanels * kWords; i += kWarpgroup) {
        reinterpret_cast<unsigned*>(turned + i / kWords * T::kPanelBytes + T::kDim * T::kPanelKeys)[i % kWords] = 0x38383838;
    }
}

// Turns a tile of V over, by the four warps of the producer: 32 keys and 16 columns at a time.
//
// ldmatrix.trans moves 16-bit units: with g = lane / 4 and t = lane % 4 a lane gets columns 2g and 2g + 1 of keys 2t and 2t + 1, and the same
// of keys + 8. A byte permute makes four keys of column 2g of them, and four of column 2g + 1. In a row the 16 keys so have the order
// 0, 1, 8, 9, 2, 3, 10, 11, ...: in it a lane's own probabilities are its part of P as A of the product.
template <typename T>
__device__ __forceinline__ void turn_over(const unsigned char* tile, unsigned char* turned) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int kColumnGroups = T::kDim / 16, kGroups = T::kPanelKeys / 32;
#pragma unroll
    for (int i = 0; i < kColumnGroups / 4; ++i) {
        const int columns = 4 * i + warp;
        const unsigned char* const from = tile + swizzled_place<T::kDim>(lane, columns);
        const int row = 16 * columns + lane / 16 * 8 + lane % 8;
#pragma unroll
        for (int panel = 0; panel < T::kPanels; ++panel) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                unsigned units[4];  // of keys 0 to 7, 8 to 15, 16 to 23, 24 to 31
                warp_matrix::load_matrices<true>(units, from + (panel * kGroups + group) * 32 * T::kDim);
                warp_matrix::store_matrices(turned + panel * T::kPanelBytes + swizzled_place<T::kPanelKeys>(row, 2 * group + lane / 8 % 2),
                                            __byte_perm(units[0], units[1], 0x6420), __byte_perm(units[2], units[3], 0x6420),
                                            __byte_perm(units[0], units[1], 0x7531), __byte_perm(units[2], units[3], 0x7531));
            }
        }
    }
}

}  // namespace sdpa
