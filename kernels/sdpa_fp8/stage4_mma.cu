// stage4_mma: attention on FP8 with only the bytes of K and V in shared memory. Formats as in stage0_scalar.cu.
//
// Since the stage before (stage3_cp_async):
// - mma.sync in place of WMMA, on fragments that a lane decodes from the bytes. So no tile of halves is written, and scores, P,
//   m, l and O stay in registers.
// - Tiles of K and V are swizzled: ldmatrix (V) and 16-byte reads (K) have no bank conflicts.
// - The warps of a CTA have different keys, and combine their parts of O at the end.
// - With 256 keys per tile, all 512 of the mission shape are on their way before the first product.
// STRIPS=2 gives a warp 32 query rows: it reads half as much of K and V per row.
//
// Both products take halves, in which E4M3 values are exact, with float sums. mma.sync takes E4M3, too (m16n8k32), but there is
// no toggle for it. On sm_89 it becomes QMMA, whose sums have 13 bits of mantissa (SageAttention2): with scores in the thousands,
// which some inputs have, exp makes a large error of that. On sm_90 ptxas (13.0) turns it into the same decoding and HMMA as here,
// and decodes Q again for each product.
//
// The way through the tiles: sdpa/loop.cuh; copies of K and V: sdpa/copies.cuh; softmax and mask: sdpa/rows.cuh; parts of O:
// sdpa/combine.cuh; tiles and shared memory: sdpa/tiles.cuh.

#ifndef TILE_M  // query rows per CTA: with 32, B1 H8 S512 has 128 CTAs for 132 SMs
#define TILE_M 32
#endif
#ifndef TILE_N  // keys per tile
#define TILE_N 256
#endif
#ifndef NUM_WARPS  // per CTA
#define NUM_WARPS 8
#endif
#ifndef STRIPS
#define STRIPS 1
#endif
#ifndef STAGES  // tiles of K and V in shared memory, all of them on their way at once
#define STAGES 2
#endif

#include "../cuda/fp8.cuh"
#include "../cuda/warp_matrix.cuh"
#include "../sdpa/combine.cuh"
#include "../sdpa/loop.cuh"
#include "../sdpa/rows.cuh"
#include "parts/entry.cuh"

namespace sdpa {

using T = ToggledTiling<std::uint8_t, kHeadDim, TILE_M, TILE_N, NUM_WARPS, STAGES, STAGES>::type;

constexpr int kCtas = 512 / T::kThreads;  // per SM, at least: limits a thread to 65,536 / 512 = 128 registers

static_assert(T::kDim == 64, "D is 64: four lanes read 16 bytes each of a row");
static_assert(T::kWarpsN > 1, "NUM_WARPS > TILE_M / (16 STRIPS): at least two warps have parts of the same rows of O");
static_assert(T::kSharedBytes <= kSmallSharedBytes, "sm_89 gives a CTA at most 99 KiB of shared memory");

// The work of a warp: the two products of its strips of query rows with its keys, from E4M3 bytes.
//
// The columns of Q and K may be in any order, as long as it is the same in both. So may columns of O,
// if the writer knows it. With g = lane / 4 and t = lane % 4:
//   Q·K^T  mma.sync wants of row g elements 2t, 2t + 1, 2t + 8 and 2t + 9 of 16, four times for D = 64. A lane takes bytes
//          16t to 16t + 15 for them: one 16-byte read of Q, or of K, and neither a shuffle nor ldmatrix.
//   P·V    ldmatrix.trans moves 16-bit units: V's bytes of keys 2t and 2t + 1, of columns 2g and 2g + 1. A byte permute
//          makes pairs of keys of them, and one product takes the even columns of 16, the next one the odd ones.
class ByteWork : public WarpRows<T, false> {
public:
    __device__ __forceinline__ explicit ByteWork(float scale) : WarpRows(scale) {}

    // Q's bytes from global memory, of the CTA's tile, of which `valid_rows` rows exist; others are copies of the last one.
    __device__ __forceinline__ void request_queries(const std::uint8_t* tile, int valid_rows) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = min(warp_row() + 16 * strip + 8 * half + lane() / 4, valid_rows - 1);
                bytes_[strip][half] = reinterpret_cast<const uint4*>(tile + row * T::kDim)[lane() % 4];
            }
        }
    }

    // Q's fragments from those bytes. If the scale is negative, its absolute value and -Q are taken.
    __device__ __forceinline__ void decode_queries(bool negate) {
#pragma unroll
        for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint4 bytes = bytes_[strip][half];
                const unsigned words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
                for (int step = 0; step < 4; ++step) {
                    const unsigned word = words[step] ^ (negate ? 0x80808080u : 0u);
                    fp8::decode(word, q_[strip][step][half], q_[strip][step][half + 2]);
                }
            }
        }
    }

    // Q·K^T of one part of the warp's share of a tile of K.
    template <int kPart>
    __device__ __forceinline__ void compute_scores(const std::uint8_t* tile) {
        const std::uint8_t* const first = tile + chunk_place<T>(warp_key() + lane() / 4, lane() % 4);
#pragma unroll
        for (int key = kPart * T::kPartKeys; key < (kPart + 1) * T::kPartKeys; key += 8) {
            // Rows 8 apart have their chunks in the same order.
            const uint4 bytes = *reinterpret_cast<const uint4*>(first + key * T::kDim);
            const unsigned words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
            for (int strip = 0; strip < T::kStrips; ++strip) {
#pragma unroll
                for (int i = 0; i < 4; ++i) s_[strip][key / 8][i] = 0.0f;
            }
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                unsigned b[2];
                fp8::decode(words[step], b[0], b[1]);
#pragma unroll
                for (int strip = 0; strip < T::kStrips; ++strip) {
                    warp_matrix::multiply_add(s_[strip][key / 8], q_[strip][step], b[0], b[1]);
                }
            }
        }
    }

    // O += P·V of the warp's share of a tile of V, 16 keys at a time.
    __device__ __forceinline__ void accumulate(const std::uint8_t* tile) {
#pragma unroll
        for (int key = 0; key < T::kWarpKeys; key += 16) {
            unsigned p[T::kStrips][4];
            probabilities(key, p);
#pragma unroll
            for (int chunk = 0; chunk < T::kRowChunks; chunk += 2) {
                unsigned units[4];  // of chunk `chunk`: keys 0 to 7, keys 8 to 15; the same of the next chunk
                const std::uint8_t* const first = tile + chunk_place<T>(warp_key() + lane() % 16, chunk + lane() / 16);
                warp_matrix::load_matrices<true>(units, first + key * T::kDim);
#pragma unroll
                for (int next = 0; next < 2; ++next) {
                    unsigned even[2], odd[2];
#pragma unroll
                    for (int i = 0; i < 2; ++i) fp8::decode(pair_keys(units[2 * next + i]), even[i], odd[i]);
#pragma unroll
                    for (int strip = 0; strip < T::kStrips; ++strip) {
                        warp_matrix::multiply_add(o_[strip][2 * (chunk + next)], p[strip], even[0], even[1]);
                        warp_matrix::multiply_add(o_[strip][2 * (chunk + next) + 1], p[strip], odd[0], odd[1]);
                    }
                }
            }
        }
    }

    // Two blocks of O, the even and the odd columns of 16: this lane has columns 4t to 4t + 3 of row g, `row`, and of g + 8.
    static constexpr int kWritten = 2;
    static __device__ __forceinline__ void write(__half* out, int row, int block, int valid_rows, const float (&o)[2][4]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (row + 8 * half >= valid_rows) return;
            uint2* const place = reinterpret_cast<uint2*>(out + (row + 8 * half) * T::kDim + 8 * block + 4 * (lane() % 4));
            *place = make_uint2(pack_halves(o[0][2 * half], o[1][2 * half]), pack_halves(o[0][2 * half + 1], o[1][2 * half + 1]));
        }
    }

private:
    // Bytes (key 2t; column 2g, 2g + 1), (key 2t + 1; the same) to (column 2g; key 2t, 2t + 1), (column 2g + 1; the same).
    static __device__ __forceinline__ unsigned pair_keys(unsigned units) { return __byte_perm(units, 0, 0x3120); }

    uint4 bytes_[T::kStrips][2];  // of rows g and g + 8
    unsigned q_[T::kStrips][4][4];
};

// grid: query tiles x H x B, which spares a division. block: T::kThreads. dynamic shared memory: T::kSharedBytes.
__global__ void __launch_bounds__(T::kThreads, kCtas) sdpa_fp8_mma_kernel(const Problem problem) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];

    const int head = blockIdx.z * gridDim.y + blockIdx.y;
    const int first_query = blockIdx.x * T::kTileM, valid_queries = problem.sequence - first_query;
    const std::int64_t head_start = static_cast<std::int64_t>(head) * problem.sequence * T::kDim;
    const std::int64_t query_start = head_start + static_cast<std::int64_t>(first_query) * T::kDim;
    const int tiles = (problem.sequence + T::kTileN - 1) / T::kTileN;
    const TileCopy<T> keys(problem.k + head_start, problem.sequence, tiles, shared_bytes);
    const TileCopy<T> values(problem.v + head_start, problem.sequence, tiles, shared_bytes + T::kStages * T::kTileElements);

    // Read as volatile, or the compiler would move the loads down to where the values are used, each with its latency.
    const float query_scale = *static_cast<const volatile float*>(problem.q_scale + head);
    const float key_scale = *static_cast<const volatile float*>(problem.k_scale + head);
    const float output_scale = *static_cast<const volatile float*>(problem.v_scale + head);
    const float scale = query_scale * key_scale * problem.softmax_scale * kLog2E;

    ByteWork work(fmaxf(fabsf(scale), kLeastScale));
    work.request_queries(problem.q + query_start, valid_queries);
    issue_first_tiles(keys, values);
    work.decode_queries(scale < 0.0f);
    attend(work, keys, values, tiles, first_query, problem.sequence);
    Combine<T>(shared_bytes, output_scale).run(work, problem.out + query_start, valid_queries);
}

constexpr std::int64_t kMostHeads = 65535;  // a grid's height, and its depth

int run(const launcher::Refusal& refusal, const Problem& problem, std::int64_t B, std::int64_t H, void* stream) {
    const launcher::Extent heads[] = {{"B", B}, {"H", H}};
    if (const int refused = launcher::check_extents(refusal, heads, kMostHeads)) return refused;
    const dim3 grid((problem.sequence + T::kTileM - 1) / T::kTileM, static_cast<unsigned>(H), static_cast<unsigned>(B));
    return launcher::launch(refusal, sdpa_fp8_mma_kernel, grid, T::kThreads, T::kSharedBytes, stream, problem);
}

}  // namespace sdpa
