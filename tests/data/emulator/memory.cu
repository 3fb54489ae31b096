// Shared memory and asynchronous copies: the kernels of test_emulator_memory.py.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#define LAUNCH extern "C" int

__global__ void unwritten(float* out) {
    __shared__ float tile[64], other[2];
    extern __shared__ __align__(16) unsigned char raw[];
    const float* dynamic = reinterpret_cast<const float*>(raw);
    if (threadIdx.x < 16) tile[threadIdx.x] = 1;
    other[threadIdx.x % 2] = 2;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x] + other[0];
    if (threadIdx.x == 0) out[64] = dynamic[5];
}

// The first block leaves values behind; the second must not find them.
__global__ void leftovers(float* out) {
    extern __shared__ float tile[];
    if (blockIdx.x == 0) tile[threadIdx.x] = 7;
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}

template <typename T>
__device__ T* carve(int offset) {
    extern __shared__ float4 pool[];
    return reinterpret_cast<T*>(pool) + offset;
}
__global__ void dynamic(float* out, int n) {
    float* a = carve<float>(0);
    int* b = carve<int>(n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = i, b[i] = 10 * i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[n - 1 - i] + b[n - 1 - i];
}

__global__ void both(float* out) {
    __shared__ alignas(16) float fixed[4];
    extern __shared__ float tile[];
    fixed[threadIdx.x % 4] = 1;
    tile[threadIdx.x] = 2;
    out[threadIdx.x] = fixed[0] + tile[threadIdx.x];
}

__global__ void overrun(float* out, int index) {
    __shared__ float tile[32];
    __shared__ float next[32];
    next[threadIdx.x] = 0;
    tile[threadIdx.x] = 1;
    if (threadIdx.x == 3) tile[index] = 5;  // line: overrun
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x] + next[threadIdx.x];
}

// kMode: 0 right; 1 no wait; 2 wait without commit; 3 wait for all but the newest of one group; 4 reads another
// thread's copy without a barrier
__global__ void copies(const float4* in, float4* out, int mode) {
    __shared__ float4 tile[32];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &in[i], 16);  // line: copy
    if (mode != 2) __pipeline_commit();
    if (mode != 1) __pipeline_wait_prior(mode == 3 ? 1 : 0);
    if (mode != 4) __syncthreads();
    out[i] = tile[31 - i];
}

__global__ void zero_fill(const int* in, int* out) {
    __shared__ alignas(16) int tile[4];
    if (threadIdx.x == 0) __pipeline_memcpy_async(tile, in, 16, 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

// Two groups under way; the first must land and the second must not.
__global__ void staged(const int* in, int* out) {
    __shared__ __align__(16) int tile[2][4];
    for (int stage = 0; stage < 2; ++stage) {
        __pipeline_memcpy_async(tile[stage], in + 4 * stage, 16);
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    out[0] = tile[0][3], out[1] = tile[1][3];
    __pipeline_wait_prior(0);
    out[2] = tile[0][3], out[3] = tile[1][3];
}

__global__ void bad_copies(const char* in, int mode) {
    __shared__ alignas(16) char tile[64];
    const char* source = in;
    char local[16];
    if (mode == 0) __pipeline_memcpy_async(tile + 4, source, 8);
    if (mode == 1) __pipeline_memcpy_async(tile, source + 2, 4);
    if (mode == 2) __pipeline_memcpy_async(tile, source, 12);
    if (mode == 3) __pipeline_memcpy_async(tile + 64, source, 16);
    if (mode == 4) __pipeline_memcpy_async(const_cast<char*>(in), source, 16);
    if (mode == 5) __pipeline_memcpy_async(tile, tile + 16, 16);
    if (mode == 6) __pipeline_memcpy_async(tile, source, 16, 17);
    if (mode == 7) __pipeline_memcpy_async(tile, local, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

__global__ void uninitialised(float* out, int n) {
    float sums[4];
    for (int i = 0; i < n; ++i) sums[i] = 1;
    out[0] = sums[0], out[1] = sums[3];
}

__constant__ float table[4];
__device__ int device_counter = 3;
__global__ void globals(float* out) {
    out[threadIdx.x] = table[threadIdx.x] + device_counter;
}

LAUNCH run_unwritten(float* out) { unwritten<<<1, 64, 64>>>(out); return cudaGetLastError(); }
LAUNCH run_leftovers(float* out) { leftovers<<<2, 32, 128>>>(out); return cudaGetLastError(); }
LAUNCH run_dynamic(float* out, int n) { dynamic<<<1, 64, 8 * n>>>(out, n); return cudaGetLastError(); }
LAUNCH run_both(float* out, int bytes, int opt_in) {
    if (opt_in) {
        const cudaError_t status = cudaFuncSetAttribute(both, cudaFuncAttributeMaxDynamicSharedMemorySize, opt_in);
        if (status != cudaSuccess) return 1000 + status;
    }
    both<<<1, 32, bytes>>>(out);
    return cudaGetLastError();
}
LAUNCH run_overrun(float* out, int index) { overrun<<<1, 32>>>(out, index); return cudaGetLastError(); }
LAUNCH run_copies(const float4* in, float4* out, int mode) { copies<<<1, 32>>>(in, out, mode); return cudaGetLastError(); }
LAUNCH run_zero_fill(const int* in, int* out) { zero_fill<<<1, 4>>>(in, out); return cudaGetLastError(); }
LAUNCH run_staged(const int* in, int* out) { staged<<<1, 1>>>(in, out); return cudaGetLastError(); }
LAUNCH run_bad_copies(const char* in, int mode) { bad_copies<<<1, 1>>>(in, mode); return cudaGetLastError(); }
LAUNCH run_uninitialised(float* out, int n) { uninitialised<<<1, 1>>>(out, n); return cudaGetLastError(); }
LAUNCH run_globals(float* out) {
    const float values[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(table, values, sizeof values);
    globals<<<1, 4>>>(out);
    return cudaGetLastError();
}
LAUNCH device_limits(int* out) {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    out[0] = properties.major * 10 + properties.minor;
    out[1] = static_cast<int>(properties.sharedMemPerBlockOptin);
    cudaDeviceGetAttribute(&out[2], cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    float* buffer = nullptr;
    if (cudaMalloc(&buffer, 64) != cudaSuccess) return 1;
    out[3] = buffer[0] != buffer[0];
    cudaMemsetAsync(buffer, 0, 64, nullptr);
    out[4] = buffer[15] == 0.0f;
    cudaFree(buffer);
    return cudaDeviceSynchronize();
}
