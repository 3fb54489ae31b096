// A small attention kernel, O = softmax(Q K^T / 8) V, in half: WMMA, double-buffered asynchronous copies, online softmax.
// Launcher and shared-memory plan as a real one has them. Planted defects: 1 leaves out the wait, 2 the barrier before
// a buffer is used again.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <cstdio>

namespace wmma = nvcuda::wmma;
constexpr int kDim = 64, kRows = 32, kKeys = 32, kThreads = 128, kLd = kDim + 8, kScoreLd = kKeys + 8;

struct Shared {
    alignas(128) half q[kRows * kLd];
    alignas(128) half k[2][kKeys * kLd];
    alignas(128) half v[2][kKeys * kLd];
    alignas(128) float scores[kRows * kScoreLd];
    alignas(128) half p[kRows * kScoreLd];
    alignas(128) float o[kRows * kLd];
    float rescale[kRows], sum[kRows];
};

__device__ __forceinline__ void request(half* tile, const half* rows) {
    for (int chunk = threadIdx.x; chunk < kKeys * kDim / 8; chunk += kThreads)
        __pipeline_memcpy_async(tile + chunk / 8 * kLd + chunk % 8 * 8, rows + chunk * 8, 16);
}

__global__ void __launch_bounds__(kThreads) attention(const half* q, const half* k, const half* v, half* out, int sequence, float scale, int defect) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t head = static_cast<size_t>(blockIdx.y) * sequence * kDim;
    request(s.q, q + head + static_cast<size_t>(blockIdx.x) * kRows * kDim);
    request(s.k[0], k + head);
    request(s.v[0], v + head);
    __pipeline_commit();
    for (int i = threadIdx.x; i < kRows * kLd; i += kThreads) s.o[i] = 0;
    float maximum = -INFINITY, sum = 0;  // of row threadIdx.x / 4
    for (int first = 0, buffer = 0; first < sequence; first += kKeys, buffer ^= 1) {
        if (first + kKeys < sequence) {
            request(s.k[buffer ^ 1], k + head + static_cast<size_t>(first + kKeys) * kDim);
            request(s.v[buffer ^ 1], v + head + static_cast<size_t>(first + kKeys) * kDim);
        }
        __pipeline_commit();
        if (defect != 1) __pipeline_wait_prior(1);
        __syncthreads();
        {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> scores;
            wmma::fill_fragment(scores, 0.0f);
            for (int d = 0; d < kDim; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, s.q + warp / 2 * 16 * kLd + d, kLd);
                wmma::load_matrix_sync(b, s.k[buffer] + warp % 2 * 16 * kLd + d, kLd);
                wmma::mma_sync(scores, a, b, scores);
            }
            wmma::store_matrix_sync(s.scores + warp / 2 * 16 * kScoreLd + warp % 2 * 16, scores, kScoreLd, wmma::mem_row_major);
        }
        __syncthreads();
        const int row = threadIdx.x / 4, part = threadIdx.x % 4;
        float highest = maximum;
        for (int i = part; i < kKeys; i += 4) highest = fmaxf(highest, s.scores[row * kScoreLd + i] * scale);
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, 2));
        const float factor = __expf(maximum - highest);
        maximum = highest;
        sum *= factor;
        for (int i = part; i < kKeys; i += 4) {
            const float p = __expf(s.scores[row * kScoreLd + i] * scale - maximum);
            sum += p;
            s.p[row * kScoreLd + i] = __float2half(p);
        }
        for (int i = part; i < kDim; i += 4) s.o[row * kLd + i] *= factor;
        __syncthreads();
        for (int n = 0; n < 2; ++n) {
            const int column = (warp % 2 * 2 + n) * 16;
            float* corner = s.o + warp / 2 * 16 * kLd + column;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
            wmma::load_matrix_sync(sums, corner, kLd, wmma::mem_row_major);
            for (int key = 0; key < kKeys; key += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, s.p + warp / 2 * 16 * kScoreLd + key, kScoreLd);
                wmma::load_matrix_sync(b, s.v[buffer] + key * kLd + column, kLd);
                wmma::mma_sync(sums, a, b, sums);
            }
            wmma::store_matrix_sync(corner, sums, kLd, wmma::mem_row_major);
        }
        if (defect != 2) __syncthreads();  // V and P are read to the end before they are overwritten
    }
    __pipeline_wait_prior(0);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    if (lane % 4 == 0) s.sum[threadIdx.x / 4] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kDim; i += kThreads)
        out[head + static_cast<size_t>(blockIdx.x) * kRows * kDim + i] = __float2half(s.o[i / kDim * kLd + i % kDim] / s.sum[i / kDim]);
}

extern "C" int attention_forward(const void* q, const void* k, const void* v, void* out, std::int64_t heads, std::int64_t sequence,
                                 float scale, int defect, void* stream, char* error, std::int64_t error_bytes) {
    if (sequence < kRows || sequence % kRows) {
        std::snprintf(error, static_cast<size_t>(error_bytes), "sequence: %lld is no multiple of %d", static_cast<long long>(sequence), kRows);
        return 1;
    }
    cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
    const dim3 grid(static_cast<unsigned>(sequence / kRows), static_cast<unsigned>(heads));
    attention<<<grid, kThreads, sizeof(Shared), static_cast<cudaStream_t>(stream)>>>(
        static_cast<const half*>(q), static_cast<const half*>(k), static_cast<const half*>(v), static_cast<half*>(out),
        static_cast<int>(sequence), scale, defect);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) std::snprintf(error, static_cast<size_t>(error_bytes), "launch: %s", cudaGetErrorString(status));
    return status;
}
