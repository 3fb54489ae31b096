// fp16_v9_pipeline: which tiles for which shape. Toggles with TILE_M > 0 decide for all shapes.
#pragma once

#include "pipeline_tiles.cuh"

namespace sdpa {

// An attribute of the current device; 0 if it can't be read, which picks the smallest tiles.
inline int device_attribute(cudaDeviceAttr attribute) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return 0;
    return value;
}

static_assert(TILE_M > 0 || (TILE_N == 0 && NUM_WARPS == 0 && STRIPS == 0 && STAGES == 0),
              "TILE_N, NUM_WARPS, STRIPS and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

template <int kDim>
struct ForcedTiling {
    static constexpr int kRows = 16 * (STRIPS > 0 ? STRIPS : 1);  // of a warp
    static constexpr int kWarpsM = TILE_M < kRows ? 1 : TILE_M / kRows;
    static constexpr int kWarpsN = NUM_WARPS < kWarpsM ? 1 : NUM_WARPS / kWarpsM;
    static_assert(TILE_M == 0 || TILE_M == kRows * kWarpsM, "TILE_M is STRIPS strips of 16 rows for each row of warps");
    static_assert(TILE_M == 0 || NUM_WARPS == kWarpsM * kWarpsN, "NUM_WARPS is a multiple of TILE_M / (16 STRIPS)");
    static_assert(TILE_M == 0 || (TILE_N > 0 && TILE_N % (16 * kWarpsN) == 0), "TILE_N gives each of the warps that share a row a multiple of 16 keys");
    using type = Tiling<kDim, STRIPS, kWarpsM, kWarpsN, TILE_N / kWarpsN, STAGES>;
};

// launch(Tiling) for this problem; what it returns.
template <int kDim, typename Launch>
int with_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        using Forced = typename ForcedTiling<kDim>::type;
        static_assert(kDim != 64 || Forced::kSharedBytes <= kMostPipelineBytes,
                      "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
        return launch(Forced{});
    } else {
        const int sms = device_attribute(cudaDevAttrMultiProcessorCount);
        const auto ctas = [&](int rows) { return heads * ((problem.queries + rows - 1) / rows); };
        if constexpr (kDim == 64) {
            // Two CTAs and more for each SM: tiles that reuse K and V most. One for nearly each: the same with keys in two
            // halves, for twice the warps. Fewer: 32 rows, and the keys in four.
            if (ctas(128) >= 2 * sms) return launch(Tiling<64, 2, 4, 1, 64, 3>{});
            if (4 * ctas(128) >= 3 * sms) return launch(Tiling<64, 2, 4, 2, 64, 2>{});
            if (problem.keys <= 64) return launch(Tiling<64, 1, 2, 1, 32, 2>{});
            using Deep = Tiling<64, 1, 2, 4, 128, 1>;
            if (device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= Deep::kSharedBytes) return launch(Deep{});
            return launch(Tiling<64, 1, 2, 4, 64, 1>{});
        } else {
            if (2 * ctas(64) >= sms) return launch(Tiling<128, 1, 4, 1, 64, 2>{});
            return launch(Tiling<128, 1, 2, 4, 16, 2>{});
        }
    }
}

}  // namespace sdpa
