// fp16_v9_pipeline: which tiles for which shape. Toggles with TILE_M > 0 decide for all shapes.
#pragma once

#include "../cuda/launcher.cuh"
#include "../sdpa/tiles.cuh"
#include "config.cuh"

namespace sdpa {

static_assert(TILE_M > 0 || (TILE_N == 0 && NUM_WARPS == 0 && STRIPS == 0 && STAGES == 0),
              "TILE_N, NUM_WARPS, STRIPS and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

// launch(Tiling) for this problem; what it returns.
template <int kDim, typename Launch>
int with_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        using Forced = typename ToggledTiling<__half, kDim, TILE_M, TILE_N, NUM_WARPS, STAGES>::type;
        static_assert(kDim != 64 || Forced::kSharedBytes <= kMostSharedBytes,
                      "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
        return launch(Forced{});
    } else {
        const int sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
        const auto ctas = [&](int rows) { return heads * ((problem.queries + rows - 1) / rows); };
        if constexpr (kDim == 64) {
            // Two CTAs and more for each SM: tiles that reuse K and V most. One for nearly each: the same with keys in two
            // halves, for twice the warps. Fewer: 32 rows, and the keys in four.
            if (ctas(128) >= 2 * sms) return launch(Tiling<__half, 64, 2, 4, 1, 64, 3>{});
            if (4 * ctas(128) >= 3 * sms) return launch(Tiling<__half, 64, 2, 4, 2, 64, 2>{});
            if (problem.keys <= 64) return launch(Tiling<__half, 64, 1, 2, 1, 32, 2>{});
            using Deep = Tiling<__half, 64, 1, 2, 4, 128, 1>;
            if (launcher::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= Deep::kSharedBytes) return launch(Deep{});
            return launch(Tiling<__half, 64, 1, 2, 4, 64, 1>{});
        } else {
            if (2 * ctas(64) >= sms) return launch(Tiling<__half, 128, 1, 4, 1, 64, 2>{});
            return launch(Tiling<__half, 128, 1, 2, 4, 16, 2>{});
        }
    }
}

}  // namespace sdpa
