// Tiles of halves, which one warpgroup of a CTA has TMA bring.
#pragma once

#include "../../cuda/tma.cuh"
#include "../../sdpa/warpgroups.cuh"
#include "heads.cuh"

namespace sdpa {

constexpr int kHalfRow = 64;  // elements of a row of shared memory: 128 bytes, the width of the swizzle

// Shared memory stores a matrix of D columns as D / 64 panels of 64 columns, one after the other.
template <int kDim_, int kTileM_, int kTileN_, int kStages_, int kProducerRegisters_>
struct WarpgroupTiling : Warpgroups<kTileM_, kProducerRegisters_> {
    static constexpr int kDim = kDim_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kPanels = kDim / kHalfRow, kOutputColumns = kDim;
    static constexpr int kKeyPanelBytes = kTileN * 128, kTileBytes = kPanels * kKeyPanelBytes;
    static_assert(kKeyPanelBytes % kAtomBytes == 0, "panels are whole atoms of the swizzle");
};

// The map of a tensor in boxes of `box_rows` rows of one head. 0, or 1 with a message. heads: of Q, of all batches.
template <int kDim, typename Values>
int map_rows(const launcher::Refusal& refusal, tma::TensorMap& map, const char* name, const Tensor<Values>& tensor, std::int64_t rows,
             std::int64_t heads, [[maybe_unused]] const Problem& problem, unsigned box_rows) {
#if GENERAL == 1
    const auto bytes = [](std::int64_t elements) { return static_cast<cuuint64_t>(elements) * sizeof(Element); };
    const tma::Sizes<4> extents = {kDim, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(tensor.heads),
                                   static_cast<cuuint64_t>(heads / problem.q.heads)};
    const tma::Sizes<4> strides = {0, bytes(tensor.row_stride), bytes(tensor.head_stride), bytes(tensor.batch_stride)};
    return tma::make_map<Element, 4>(refusal, map, name, tensor.start, extents, strides, box_rows);
#else
    return tma::make_map(refusal, map, name, tensor.start, kDim, rows, heads, box_rows);
#endif
}

// Rows of a head from `row` on, all panels, to `tile`; `full` counts their bytes. One thread.
template <typename T>
__device__ __forceinline__ void load_panels(unsigned char* tile, int panel_bytes, const tma::TensorMap& map, mbarrier::Barrier* full, int row, unsigned head,
                                            [[maybe_unused]] unsigned batch) {
#pragma unroll
    for (int panel = 0; panel < T::kPanels; ++panel) {
#if GENERAL == 1
        tma::load(tile + panel * panel_bytes, map, full, panel * kHalfRow, row, head, batch);
#else
        tma::load(tile + panel * panel_bytes, map, full, panel * kHalfRow, row, head);
#endif
    }
}

// A strip of 64 rows, all panels, to a head's rows from `row` on. One thread.
template <typename T>
__device__ __forceinline__ void store_panels(const tma::TensorMap& map, const unsigned char* strip, int row, const Head& head) {
    for (int panel = 0; panel < T::kPanels; ++panel) {
#if GENERAL == 1
        tma::store(map, strip + panel * T::kQueryPanelBytes, panel * kHalfRow, row, head.of_queries, head.batch);
#else
        tma::store(map, strip + panel * T::kQueryPanelBytes, panel * kHalfRow, row, head.of_queries);
#endif
    }
}

}  // namespace sdpa
