// Faults that AddressSanitizer and UBSan find: the kernels of test_emulator_sanitized.py.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#define LAUNCH extern "C" int

__global__ void copy(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n - 1) out[i] = in[i];
}
__global__ void reads_past_the_end(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x + 1];  // line: global read
}
__global__ void writes_past_shared(float* out, int index) {
    __shared__ float tile[32];
    float* const view = tile;
    view[threadIdx.x] = 1;
    if (threadIdx.x == 9) view[index] = 2;  // line: shared write
    out[threadIdx.x] = view[threadIdx.x];
}
__global__ void writes_past_dynamic(float* out, int index) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = 1;
    if (threadIdx.x == 9) tile[index] = 2;  // line: dynamic write
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void copies_past_the_end(const float* in, float* out) {
    __shared__ alignas(16) float tile[4 * 32];
    __pipeline_memcpy_async(tile + 4 * threadIdx.x, in + 4 * threadIdx.x, 16);  // line: copy
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = tile[4 * threadIdx.x];
}
__global__ void wrong_row(float* out, int column) {
    __shared__ float tile[4][8];
    tile[threadIdx.x / 8][column] = 1;  // line: row
    out[threadIdx.x] = 0;
}
__global__ void misaligned(const float* in, float4* out) {
    out[0] = *reinterpret_cast<const float4*>(in + 1);  // line: vector load
}
__global__ void reduces(const float* in, float* out) {
    __shared__ float sums[4];
    float v = in[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) *out = sums[0] + sums[1] + sums[2] + sums[3];
}
__global__ void stuck(float* out) {
    float local[32];
    local[threadIdx.x % 32] = 1;
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = local[threadIdx.x % 32];
}

LAUNCH run_clean(const float* in, float* out) {
    copy<<<2, 64>>>(in, out, 100);
    stuck<<<1, 64>>>(out);
    return cudaGetLastError();
}
LAUNCH run_reduces(const float* in, float* out) { reduces<<<3, 128>>>(in, out); return cudaGetLastError(); }
LAUNCH run_global_read(const float* in, float* out) { reads_past_the_end<<<1, 32>>>(in, out); return cudaGetLastError(); }
LAUNCH run_shared_write(const float*, float* out) { writes_past_shared<<<1, 32>>>(out, 33); return cudaGetLastError(); }
LAUNCH run_dynamic_write(const float*, float* out) { writes_past_dynamic<<<1, 32, 128>>>(out, 32); return cudaGetLastError(); }
LAUNCH run_copy(const float* in, float* out) { copies_past_the_end<<<1, 26>>>(in, out); return cudaGetLastError(); }
LAUNCH run_row(const float*, float* out) { wrong_row<<<1, 32>>>(out, 8); return cudaGetLastError(); }
LAUNCH run_vector_load(const float* in, float* out) { misaligned<<<1, 1>>>(in, reinterpret_cast<float4*>(out)); return cudaGetLastError(); }
