// C = A·B^T in half with sums in float: A [M, K], B [N, K], C [M, N], row-major; N and K are multiples of 8. sm_90a.
//
// A CTA computes tiles of 128 x 256. One thread has the copy engine (TMA) fill a ring of stages of 64 columns of A and B; two
// warpgroups multiply 64 rows each straight from shared memory (wgmma). Two CTAs are a cluster: their tiles lie below each other
// and need the same rows of B, of which each loads half for both. CTAs stay for all tiles (persistent), so that the ring fills up
// for the next tile while this one is written.
#include <cuda_fp16.h>

#include "../../../kernels/cuda/cluster.cuh"
#include "../../../kernels/cuda/tma.cuh"
#include "../../../kernels/cuda/wgmma.cuh"

namespace {

constexpr int kTileM = 128, kTileN = 256, kTileK = 64, kStages = 4;
constexpr unsigned kCluster = 2;
constexpr int kWarpgroup = 128, kThreads = 3 * kWarpgroup, kConsumerWarps = 8;
constexpr int kRowBytes = 128, kAtomBytes = 8 * kRowBytes;  // of a stage's rows; the swizzle repeats after 8

struct Stage {
    unsigned char a[kTileM * kRowBytes];
    unsigned char b[kTileN * kRowBytes];
};

struct Shared {
    Stage stages[kStages];
    mbarrier::Barrier full[kStages], empty[kStages];  // A and B are there; the consumers of both CTAs have read them
};
constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;  // dynamic shared memory may start between two multiples of 1024

struct Problem {
    __half* c;
    int m, n, k;
};

// The tiles of this CTA, one after the other: body(first row, first column).
template <typename Body>
__device__ __forceinline__ void each_tile(const Problem& problem, unsigned rank, Body body) {
    const int across = (problem.n + kTileN - 1) / kTileN, down = (problem.m + kTileM * kCluster - 1) / (kTileM * kCluster);
    for (int pair = blockIdx.x / kCluster; pair < across * down; pair += gridDim.x / kCluster) {
        body((pair / across * kCluster + rank) * kTileM, pair % across * kTileN);
    }
}

// Keeps the copies going, a ring of stages ahead of the consumers. One thread.
__device__ __forceinline__ void produce(Shared& shared, const tma::TensorMap& a, const tma::TensorMap& b, const Problem& problem, unsigned rank) {
    constexpr int kHalf = kTileN / kCluster;
    mbarrier::Slot<kStages> slot;
    each_tile(problem, rank, [&](int row, int column) {
#pragma unroll 1
        for (int k = 0; k < problem.k; k += kTileK, slot.advance()) {
            Stage& stage = shared.stages[slot.stage];
            mbarrier::Barrier* const full = &shared.full[slot.stage];
            mbarrier::wait(&shared.empty[slot.stage], slot.parity ^ 1);
            mbarrier::arrive_expecting(full, sizeof(Stage));
            tma::load(stage.a, a, full, k, row, 0);
            tma::load_to_all(stage.b + rank * kHalf * kRowBytes, b, full, k, column + rank * kHalf, 0, (1 << kCluster) - 1);
        }
    });
}

// This warp has read the stage: its producer, and the one that fills the other half of B, may overwrite it.
__device__ __forceinline__ void release(Shared& shared, int stage) {
    if (threadIdx.x % 32 < kCluster) mbarrier::arrive_at(&shared.empty[stage], threadIdx.x % 32);
}

// Of four blocks of 8 columns each of four neighbouring lanes has 2 columns; then each has the block of its number.
__device__ __forceinline__ void exchange(unsigned (&pairs)[4]) {
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = (threadIdx.x & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & step) continue;
            const unsigned other = __shfl_xor_sync(0xffffffffu, upper ? pairs[i] : pairs[i + step], step);
            pairs[i] = upper ? other : pairs[i];
            pairs[i + step] = upper ? pairs[i + step] : other;
        }
    }
}

// 64 rows of a tile to C, 16 bytes a lane. The 128 threads of a warpgroup.
__device__ __forceinline__ void store(const Problem& problem, const float (&sums)[kTileN / 2], int first_row, int first_column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + threadIdx.x % kWarpgroup / 32 * 16 + 8 * half + lane / 4;
#pragma unroll
        for (int block = 0; block < kTileN / 8; block += 4) {
            unsigned pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const __half2 pair = __floats2half2_rn(sums[4 * (block + i) + 2 * half], sums[4 * (block + i) + 2 * half + 1]);
                pairs[i] = reinterpret_cast<const unsigned&>(pair);
            }
            exchange(pairs);
            const int column = first_column + 8 * (block + lane % 4);
            if (row >= problem.m || column >= problem.n) continue;
            *reinterpret_cast<uint4*>(problem.c + static_cast<std::int64_t>(row) * problem.n + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }
}

// Rows `group` * 64 on of each tile. The 128 threads of a warpgroup.
__device__ __forceinline__ void consume(Shared& shared, const Problem& problem, unsigned rank, int group) {
    mbarrier::Slot<kStages> slot;
    each_tile(problem, rank, [&](int row, int column) {
        float sums[kTileN / 2];
        int before = 0;
#pragma unroll 1
        for (int k = 0; k < problem.k; k += kTileK, slot.advance()) {
            Stage& stage = shared.stages[slot.stage];
            const std::uint64_t a = wgmma::descriptor(stage.a + group * 64 * kRowBytes, 0, kAtomBytes, wgmma::k128Bytes);
            const std::uint64_t b = wgmma::descriptor(stage.b, 0, kAtomBytes, wgmma::k128Bytes);
            mbarrier::wait(&shared.full[slot.stage], slot.parity);
            wgmma::fence();
#pragma unroll
            for (int step = 0; step < kTileK / 16; ++step) {
                wgmma::multiply<kTileN, false>(sums, wgmma::advance(a, step * 32), wgmma::advance(b, step * 32), k > 0 || step > 0);
            }
            wgmma::commit();
            wgmma::wait<1>();  // the products of the stage before
            if (k > 0) release(shared, before);
            before = slot.stage;
        }
        wgmma::wait<0>(sums);
        release(shared, before);

        store(problem, sums, row + group * 64, column);
    });
}

// grid: CTAs that stay, in clusters of kCluster. block: the producer's warpgroup first. dynamic shared memory: kSharedBytes.
__global__ void __launch_bounds__(kThreads, 1) gemm_kernel(
    const Problem problem, const __grid_constant__ tma::TensorMap a, const __grid_constant__ tma::TensorMap b) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes + (0u - shared_memory::address(shared_bytes)) % kAtomBytes);
    const unsigned rank = cluster::rank();
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            mbarrier::init(&shared.full[stage], 1);
            mbarrier::init(&shared.empty[stage], kCluster * kConsumerWarps);
        }
        shared_memory::fence_async();
    }
    cluster::sync();  // both CTAs' barriers are there

    if (threadIdx.x < kWarpgroup) {
        wgmma::give_registers<24>();
        if (threadIdx.x == 0) produce(shared, a, b, problem, rank);
    } else {
        wgmma::take_registers<240>();
        consume(shared, problem, rank, __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0) - 1);
    }
    __syncwarp();
    cluster::sync();  // copies and arrivals reach a CTA that is still there
}

int forward(const void* a, const void* b, void* c, std::int64_t m, std::int64_t n, std::int64_t k, void* stream, const launcher::Refusal& refusal) {
    if (const int refused = launcher::check_pointers(refusal, {{"a", a}, {"b", b}, {"c", c}}, 16)) return refused;
    if (const int refused = launcher::check_extents(refusal, {{"M", m}, {"N", n}, {"K", k}}, 1 << 20)) return refused;
    if (n % 8 != 0 || k % 8 != 0) return refusal.refuse("N, K: %lld and %lld, must be multiples of 8", (long long)n, (long long)k);
    tma::TensorMap a_map, b_map;
    if (const int refused = tma::make_map(refusal, a_map, "a", a, k, m, 1, kTileM)) return refused;
    if (const int refused = tma::make_map(refusal, b_map, "b", b, k, n, 1, kTileN / kCluster)) return refused;
    const unsigned ctas = launcher::device_attribute(cudaDevAttrMultiProcessorCount) / kCluster * kCluster;
    return cluster::launch(refusal, gemm_kernel, ctas, kCluster, kThreads, kSharedBytes, stream,
                           Problem{static_cast<__half*>(c), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)}, a_map, b_map);
}

}  // namespace

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int gemm_launch(const void* a, const void* b, void* c, std::int64_t m, std::int64_t n, std::int64_t k, void* stream, char* error,
                           std::int64_t error_bytes) {
    return forward(a, b, c, m, n, k, stream, {error, error_bytes});
}
