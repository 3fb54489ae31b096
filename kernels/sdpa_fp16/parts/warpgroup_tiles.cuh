// One warpgroup of a CTA has TMA bring tiles. The others own 64 query rows each.
#pragma once

#include "../../cuda/tma.cuh"
#include "heads.cuh"

namespace sdpa {

static_assert(TILE_M > 0 || (TILE_N == 0 && STAGES == 0), "TILE_N and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

constexpr int kWarpgroup = 128;               // threads, the unit of wgmma and of register budgets
constexpr int kHalfRow = 64;                  // elements of a row of shared memory: 128 bytes, the width of the swizzle
constexpr int kAtomBytes = 8 * 128;           // 8 rows, after which the swizzle repeats
constexpr int kMostSharedBytes = 227 * 1024;  // most shared memory per CTA of sm_90, bytes

// Shared memory stores a matrix of D columns as D / 64 panels of 64 columns, one after the other.
template <int kDim_, int kTileM_, int kTileN_, int kStages_, int kProducerRegisters_>
struct WarpgroupTiling {
    static constexpr int kDim = kDim_, kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
    static constexpr int kPanels = kDim / kHalfRow;
    static constexpr int kConsumers = kTileM / 64;  // warpgroups
    static constexpr int kConsumerWarps = 4 * kConsumers;
    static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

    static_assert(kTileM % 64 == 0 && kConsumers >= 1 && kConsumers <= 3, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups");

    // A thread's registers, which are given out in eights: at the launch as many for all as an SM's 65,536 allow; then consumers
    // share what the producer gives back.
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static constexpr int kProducerRegisters = kProducerRegisters_;
    static constexpr int kShare = (kLaunchRegisters * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
    static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;

    static constexpr int kKeyPanelBytes = kTileN * 128, kTileBytes = kPanels * kKeyPanelBytes;
    static_assert(kKeyPanelBytes % kAtomBytes == 0, "panels are whole atoms of the swizzle");
};

// The CTA's tiles, from the first multiple of 1024 on: dynamic shared memory may start at an unaligned address.
template <typename T>
__device__ __forceinline__ typename T::Shared& aligned(unsigned char* shared_bytes) {
    return *reinterpret_cast<typename T::Shared*>(shared_bytes + (0u - shared_memory::address(shared_bytes)) % kAtomBytes);
}

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
