// fp16_v9_pipeline: scaled dot-product attention in half, with nothing but K, V and Q in shared memory on the way.
//
// Since the stage before (fp16_v8_tiles):
// - mma.sync takes fragments that ldmatrix reads. Scores, P, m, l and O stay in registers.
// - Tiles are swizzled, not padded: rows that ldmatrix reads at once fall into different banks (USE_SWIZZLE=0: they conflict).
// - Asynchronous copies of kAhead tiles (all stages, or all but one) are issued before the first product.
// - The warps of a CTA share out the keys of a tile, so that few query rows give all SMs work. At the end their parts of O are
//   put together.
// - If TILE_M is 0, the launcher chooses the tiles by shape.
//
// A warp's rows: ../sdpa/rows.cuh. Its way through the tiles: ../sdpa/loop.cuh. The parts of O: ../sdpa/combine.cuh.

#ifndef TILE_M  // query rows of a CTA; 0: the launcher chooses all tiles by shape
#define TILE_M 0
#endif
#ifndef TILE_N  // keys of a tile
#define TILE_N 0
#endif
#ifndef NUM_WARPS  // of a CTA
#define NUM_WARPS 0
#endif
#ifndef STAGES  // tiles of K and V in shared memory
#define STAGES 0
#endif

#include <cuda_pipeline.h>

#include "../cuda/warp_matrix.cuh"
#include "../sdpa/combine.cuh"
#include "../sdpa/loop.cuh"
#include "parts/entry.cuh"
#include "parts/head_grid.cuh"
#include "parts/heads.cuh"

namespace sdpa {

static_assert(TILE_M > 0 || (TILE_N == 0 && NUM_WARPS == 0 && STRIPS == 0 && STAGES == 0),
              "TILE_N, NUM_WARPS, STRIPS and STAGES go with TILE_M: where it is 0 the launcher chooses all of them by shape");

// Q to swizzled shared memory, 16 bytes at a time. Rows past the end are copies of the last one; their results are not written.
template <typename T, typename Stride>
__device__ __forceinline__ void copy_queries(const HeadRows<const Element, Stride>& rows, int valid_rows, Element* tile) {
    constexpr int kChunks = T::kTileM * T::kRowChunks;
#pragma unroll
    for (int first = 0; first < kChunks; first += T::kThreads) {
        const int chunk = first + threadIdx.x, row = chunk / T::kRowChunks, column = chunk % T::kRowChunks;
        if (kChunks % T::kThreads == 0 || chunk < kChunks) {
            __pipeline_memcpy_async(tile + chunk_place<T>(row, column),
                                    rows.row(min(row, valid_rows - 1)) + column * T::kChunk, 16);
        }
    }
}

// Writes two neighbouring columns, in block `block`, of one row of O; skips rows from `valid_rows` on.
template <typename Stride>
__device__ __forceinline__ void write_pair(const HeadRows<Element, Stride>& out, int row, int block, int valid_rows, float low, float high) {
    if (row >= valid_rows) return;
    *reinterpret_cast<unsigned*>(out.row(row) + 8 * block + threadIdx.x % 4 * 2) = pack_pair<Element>(low, high);
}

// The work of a warp: the two products of its strips of query rows with its keys.
template <typename T, bool kCausal>
class WarpWork : public WarpRows<T, kCausal> {
    using Rows = WarpRows<T, kCausal>;
    using Rows::lane, Rows::o_, Rows::s_, Rows::warp_key;

public:
    using Rows::warp_row;

    __device__ __forceinline__ explicit WarpWork(float scale) : Rows(scale) {}

    // Loads Q's fragments from the CTA's tile. `negate`: the scale is negative, so Q is negated.
    __device__ __forceinline__ void load_queries(const Element* tile, bool negate) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int step = 0; step < T::kDim / 16; ++step) {
                const int row = warp_row() + 16 * strip + lane() % 16;
                warp_matrix::load_matrices<false>(q_[strip][step], tile + chunk_place<T>(row, 2 * step + lane() / 16));
#pragma unroll
                for (int i = 0; i < 4; ++i) q_[strip][step][i] ^= negate ? 0x80008000u : 0u;
            }
        }
    }

    // Q·K^T of one part of the warp's share of a tile of K.
    template <int kPart>
    __device__ __forceinline__ void compute_scores(const Element* tile) {
#pragma unroll
        for (int key = kPart * T::kPartKeys; key < (kPart + 1) * T::kPartKeys; key += 16) {
#pragma unroll
            for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
                for (int i = 0; i < 8; ++i) s_[strip][key / 8 + i / 4][i % 4] = 0.0f;
            }
#pragma unroll
            for (int step = 0; step < T::kDim / 16; ++step) {
                unsigned b[4];  // keys 0 to 7: b[0], b[1]; keys 8 to 15: b[2], b[3]
                const int row = warp_key() + key + lane() / 16 * 8 + lane() % 8;
                warp_matrix::load_matrices<false>(b, tile + chunk_place<T>(row, 2 * step + lane() / 8 % 2));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    warp_matrix::multiply_add<Element>(s_[strip][key / 8], q_[strip][step], b[0], b[1]);
                    warp_matrix::multiply_add<Element>(s_[strip][key / 8 + 1], q_[strip][step], b[2], b[3]);
                }
            }
        }
    }

    // O += P·V of the warp's share of a tile of V, 16 keys at a time.
    __device__ __forceinline__ void accumulate(const Element* tile) {
#pragma unroll
        for (int key = 0; key < T::kWarpKeys; key += 16) {
            unsigned p[T::kStrips][4];
            this->probabilities(key, p);
#pragma unroll
            for (int column = 0; column < T::kDim / 8; column += 2) {
                unsigned b[4];  // columns of chunk `column`: b[0], b[1]; of the next chunk: b[2], b[3]
                const int row = warp_key() + key + lane() % 16;
                warp_matrix::load_matrices<true>(b, tile + chunk_place<T>(row, column + lane() / 16));
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    warp_matrix::multiply_add<Element>(o_[strip][column], p[strip], b[0], b[1]);
                    warp_matrix::multiply_add<Element>(o_[strip][column + 1], p[strip], b[2], b[3]);
                }
            }
        }
    }

    // One block of O, of which this lane has columns 2t and 2t + 1 of row g, `row`, and of row g + 8.
    static constexpr int kWritten = 1;
    template <typename Stride>
    static __device__ __forceinline__ void write(const HeadRows<Element, Stride>& out, int row, int block, int valid_rows, const float (&o)[1][4]) {
        write_pair(out, row, block, valid_rows, o[0][0], o[0][1]);
        write_pair(out, row + 8, block, valid_rows, o[0][2], o[0][3]);
    }

private:
    unsigned q_[T::kStrips][T::kDim / 16][4];
};

// O of a warp that has all keys of its rows. keep(row of the tile, m, l) is called by one lane per row.
template <typename T, typename Work, typename Stride, typename Keep>
__device__ __forceinline__ void write_rows(const Work& work, const HeadRows<Element, Stride>& out, int valid_rows, Keep keep) {
    float factors[T::kStrips][2];
    int next = 0;
    work.for_each_row([&](int row, float m, float l) {
        if (threadIdx.x % 4 == 0) keep(row, m, l);
        factors[next / 2][next % 2] = __fdividef(1.0f, l);
        ++next;
    });
    work.for_each_block([&](int strip, int block, const float(&o)[4]) {
        const int row = Work::warp_row() + 16 * strip + threadIdx.x % 32 / 4;
        write_pair(out, row, block, valid_rows, o[0] * factors[strip][0], o[1] * factors[strip][0]);
        write_pair(out, row + 8, block, valid_rows, o[2] * factors[strip][1], o[3] * factors[strip][1]);
    });
}

// grid: query tiles x heads. block: T::kThreads. dynamic shared memory: T::kSharedBytes. Stride: of all rows.
template <typename T, bool kCausal, typename Stride>
__global__ void __launch_bounds__(T::kThreads, 1) sdpa_fp16_pipeline_kernel(const Problem problem) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    Element* const query_tile = reinterpret_cast<Element*>(shared_bytes);
    Element* const key_ring = query_tile + T::kQueryElements;

    const int first_query = blockIdx.x * T::kTileM, valid_queries = problem.queries - first_query;
    const Head head = grid_head(problem);
    const auto key_rows = rows_of<T::kDim, Stride>(problem.k, head.batch, head.of_keys, problem.keys, 0);
    const auto value_rows = rows_of<T::kDim, Stride>(problem.v, head.batch, head.of_keys, problem.keys, 0);
    const int seen = kCausal ? min(problem.keys, first_query + T::kTileM) : problem.keys;  // keys that some row sees
    const int tiles = (seen + T::kTileN - 1) / T::kTileN;
    const TileCopy<T, Stride> keys(key_rows.first, problem.keys, tiles, key_ring, key_rows.stride);
    const TileCopy<T, Stride> values(value_rows.first, problem.keys, tiles, key_ring + T::kStages * T::kTileElements, value_rows.stride);

    copy_queries<T>(rows_of<T::kDim, Stride>(problem.q, head.batch, head.of_queries, problem.queries, first_query), valid_queries, query_tile);
    __pipeline_commit();
    issue_first_tiles(keys, values);
    WarpWork<T, kCausal> work(problem.scale);
    __pipeline_wait_prior(kCopying<T>);
    __syncthreads();  // Q is whole
    work.load_queries(query_tile, problem.negate);

    attend(work, keys, values, tiles, first_query, problem.keys);
    const auto out = rows_of<T::kDim, Stride>(problem.out, head.batch, head.of_queries, problem.queries, first_query);
    const auto keep = [&](int row, float m, float l) { keep_lse(problem, grid_head_number(), first_query + row, m, l); };
    if constexpr (T::kWarpsN == 1) {
        write_rows<T>(work, out, valid_queries, keep);
    } else {
        Combine<T>(shared_bytes).run(work, out, valid_queries, keep);
    }
}

// Calls launch with the tiling for this problem and returns its result.
template <int kDim, typename Launch>
int with_tiling(const Problem& problem, std::int64_t heads, Launch launch) {
    if constexpr (TILE_M > 0) {
        using Forced = typename ToggledTiling<Element, kDim, TILE_M, TILE_N, NUM_WARPS, STAGES>::type;
        static_assert(kDim != 64 || Forced::kSharedBytes <= kMostSharedBytes,
                      "these tiles need more than the 227 KiB of shared memory that sm_90 gives a CTA");
        return launch(Forced{});
    } else {
        const int sms = launcher::device_attribute(cudaDevAttrMultiProcessorCount);
        const auto ctas = [&](int rows) { return heads * ((problem.queries + rows - 1) / rows); };
        if constexpr (kDim == 64) {
            // At least 2 CTAs per SM: the tiling with most reuse of K and V. At least 3/4 CTA per SM: two groups of warps split
            // the keys. Fewer: 32 rows; four groups split the keys, unless there are at most 64.
            if (ctas(128) >= 2 * sms) return launch(Tiling<Element, 64, 2, 4, 1, 64, 3>{});
            if (4 * ctas(128) >= 3 * sms) return launch(Tiling<Element, 64, 2, 4, 2, 64, 2>{});
            if (problem.keys <= 64) return launch(Tiling<Element, 64, 1, 2, 1, 32, 2>{});
            using Deep = Tiling<Element, 64, 1, 2, 4, 128, 1>;
            if (launcher::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= Deep::kSharedBytes) return launch(Deep{});
            return launch(Tiling<Element, 64, 1, 2, 4, 64, 1>{});
        } else {
            if (2 * ctas(64) >= sms) return launch(Tiling<Element, 128, 1, 4, 1, 64, 2>{});
            return launch(Tiling<Element, 128, 1, 2, 4, 16, 2>{});
        }
    }
}

template <int kDim, bool kCausal>
int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t heads, void* stream) {
    return with_tiling<kDim>(problem, heads, [&](auto tiling) {
        using T = decltype(tiling);
        if constexpr (T::kSharedBytes > kMostSharedBytes) {
            return refusal.refuse("D: %d, these tiles then take %d bytes of shared memory, of %d", kDim, T::kSharedBytes, kMostSharedBytes);
        } else {
            const auto launch = [&](auto kernel) {
                return launch_grid<T::kTileM>(refusal, kernel, problem, heads, T::kThreads, T::kSharedBytes, stream);
            };
            if (!rows_are_dense(problem, kDim)) return launch(sdpa_fp16_pipeline_kernel<T, kCausal, RowStride<kDim>>);
            return launch(sdpa_fp16_pipeline_kernel<T, kCausal, FixedStride<kDim>>);
        }
    });
}

}  // namespace sdpa
