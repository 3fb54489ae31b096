// What the threads of a block share: barriers, shared memory, atomics, asynchronous copies; and variables of the program.
#include <assert.h>
#include <cuda_pipeline.h>
#include <stdio.h>

#include "conformance.cuh"

// in: [pattern][thread]; blocks of 100 threads; out: [pattern][count, and, or][thread].
__global__ void barriers(const int* in, int* out) {
    const int predicate = in[blockIdx.x * blockDim.x + threadIdx.x];
    int* row = out + blockIdx.x * 3 * blockDim.x + threadIdx.x;
    row[0] = __syncthreads_count(predicate);
    row[blockDim.x] = __syncthreads_and(predicate) != 0;
    row[2 * blockDim.x] = __syncthreads_or(predicate) != 0;
}
LAUNCHER(barrier_votes) {
    barriers<<<static_cast<unsigned>(count / 100), 100, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out));
    return cudaGetLastError();
}

// Static and dynamic shared memory side by side: reversed through one, rotated through the other, in a 3-D grid and block.
struct __align__(16) Wide { int value[4]; };
template <int kThreads>
__global__ void __launch_bounds__(kThreads) shared_memory(const int* in, int* out, const __grid_constant__ int offset) {
    extern __shared__ __align__(16) unsigned char bytes[];
    __shared__ int tile[kThreads];
    __shared__ Wide wide;
    int* dynamic = reinterpret_cast<int*>(bytes);
    const int thread = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const int block = static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
    tile[thread] = in[thread];
    if (thread < 4) wide.value[thread] = thread + block;
    __threadfence_block();
    __syncthreads();
    dynamic[(thread + offset) % kThreads] = tile[kThreads - 1 - thread];
    __threadfence();
    __syncthreads();
    const auto add = [&](int value) { return value + dynamic[thread]; };
    out[block * kThreads + thread] = add(wide.value[thread % 4]);
    __threadfence_system();
}
LAUNCHER(shared_memory_both) {
    shared_memory<128><<<dim3(2, 2, 2), dim3(8, 4, 4), 128 * sizeof(int), static_cast<cudaStream_t>(stream)>>>(
        static_cast<const int*>(in), static_cast<int*>(out), 5);
    return cudaGetLastError();
}
LAUNCHER(shared_memory_large) {  // 96 KiB, after asking for it
    const cudaError_t status = cudaFuncSetAttribute(shared_memory<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
    if (status != cudaSuccess) return status;
    shared_memory<64><<<1, 64, 96 * 1024, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out), 7);
    return cudaGetLastError();
}

// in: an old value and an operand; out: for each operation what it returned and what it left.
template <typename T>
__global__ void atomics(const T* in, T* out, int columns) {
    const T old = in[2 * threadIdx.x], value = in[2 * threadIdx.x + 1];
    T* row = out + threadIdx.x * 2 * columns;
    for (int c = 0; c < columns; ++c) row[2 * c + 1] = old;
    row[0] = atomicAdd(row + 1, value);
    row[2] = atomicExch(row + 3, value);
    if constexpr (sizeof(T) == 4 && T(0.5) == T(0)) {
        row[4] = atomicMin(row + 5, value);
        row[6] = atomicMax(row + 7, value);
        row[8] = atomicAnd(row + 9, value);
        row[10] = atomicOr(row + 11, value);
        row[12] = atomicXor(row + 13, value);
        row[14] = atomicCAS(row + 15, old, value);
        row[16] = atomicCAS(row + 17, value, old);
        row[18] = atomicSub(row + 19, value);
    }
    if constexpr (sizeof(T) == 4 && T(0.5) == T(0) && T(-1) > T(0)) {
        row[20] = atomicInc(row + 21, value);
        row[22] = atomicDec(row + 23, value);
    }
}
LAUNCHER(atomic_int) {
    atomics<int><<<1, static_cast<unsigned>(count), 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out), 10);
    return cudaGetLastError();
}
LAUNCHER(atomic_unsigned) {
    atomics<unsigned><<<1, static_cast<unsigned>(count), 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const unsigned*>(in), static_cast<unsigned*>(out), 12);
    return cudaGetLastError();
}
LAUNCHER(atomic_long) {
    atomics<unsigned long long><<<1, static_cast<unsigned>(count), 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const unsigned long long*>(in), static_cast<unsigned long long*>(out), 2);
    return cudaGetLastError();
}
LAUNCHER(atomic_float) {
    atomics<float><<<1, static_cast<unsigned>(count), 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const float*>(in), static_cast<float*>(out), 2);
    return cudaGetLastError();
}

// Many threads on few addresses, in shared and in global memory: whole numbers, so that the order does not matter.
__global__ void contended(const int* in, int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    const int value = in[threadIdx.x];
    atomicAdd(&sum, value);
    atomicAdd(out, value);
    atomicMax(out + 1, value);
    atomicMin(out + 2, value);
    atomicAdd(reinterpret_cast<float*>(out + 3), static_cast<float>(value % 1000));
    atomicInc(reinterpret_cast<unsigned*>(out + 4), 9);
    int seen = out[5];
    while (true) {  // the usual loop around compare and swap
        const int before = atomicCAS(out + 5, seen, seen + value % 100);
        if (before == seen) break;
        seen = before;
    }
    __syncthreads();
    if (threadIdx.x == 0) out[6 + blockIdx.x] = sum;
}
LAUNCHER(atomic_contended) {
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    const cudaError_t status = cudaMemsetAsync(out, 0, 10 * sizeof(int), on);
    if (status != cudaSuccess) return status;
    contended<<<4, 256, 0, on>>>(static_cast<const int*>(in), static_cast<int*>(out));
    return cudaGetLastError();
}

// Three groups of copies under way, of 4, 8 and 16 bytes each, with zero-filled ends; out: what each wait had brought.
template <int kBytes>
__global__ void copies(const char* in, int* out) {
    __shared__ __align__(16) char tile[3][32 * kBytes];
    const int thread = threadIdx.x;
    for (int group = 0; group < 3; ++group) {
        __pipeline_memcpy_async(&tile[group][thread * kBytes], in + (group * 32 + thread) * kBytes, kBytes, (thread + group) % (kBytes + 1));
        __pipeline_commit();
    }
    constexpr int kWords = 32 * kBytes / 4;
    const auto show = [&](int group) {
        __syncthreads();
        for (int i = thread; i < kWords; i += 32) out[group * kWords + i] = reinterpret_cast<const int*>(tile[group])[i];
    };
    __pipeline_wait_prior(2);
    show(0);
    __pipeline_wait_prior(1);
    show(1);
    __pipeline_wait_prior(0);
    show(2);
    // A buffer used again, and a wait for more groups than there are.
    __syncthreads();
    __pipeline_memcpy_async(&tile[0][thread * kBytes], in + thread * kBytes, kBytes);
    __pipeline_commit();
    __pipeline_wait_prior(5);
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = thread; i < kWords; i += 32) out[3 * kWords + i] = reinterpret_cast<const int*>(tile[0])[kWords - 1 - i];
}
LAUNCHER(copies_4) { return copies<4><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const char*>(in), static_cast<int*>(out)), cudaGetLastError(); }
LAUNCHER(copies_8) { return copies<8><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const char*>(in), static_cast<int*>(out)), cudaGetLastError(); }
LAUNCHER(copies_16) { return copies<16><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const char*>(in), static_cast<int*>(out)), cudaGetLastError(); }

// Variables of the program, functions of each kind, and loads and stores with a hint.
__constant__ int table[32];
__device__ int counter;

__device__ __noinline__ int doubled(int x) { return 2 * x; }
__host__ __device__ __forceinline__ int increased(int x) { return x + 1; }

__global__ void variables(const int* in, int* out) {
    assert(blockDim.x == 32);
    if (out == nullptr) printf("never %d\n", table[0]);
    if (threadIdx.x == 0) counter = table[3];
    const int x = __ldg(in + threadIdx.x) + __ldcs(in) - __ldca(in) + __ldcg(in) - in[0];
    out[threadIdx.x] = increased(doubled(x)) + table[threadIdx.x];
    __stcs(out + 32 + threadIdx.x, x);
    __stcg(out + 64 + threadIdx.x, -x);
    const long long before = clock64();
    __syncthreads();
    out[96 + threadIdx.x] = clock64() >= before;
}
LAUNCHER(program_variables) {
    int values[32];
    for (int i = 0; i < 32; ++i) values[i] = increased(100 * i);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    cudaError_t status = cudaMemcpyToSymbol(table, values, sizeof values);
    if (status != cudaSuccess) return status;
    variables<<<1, 32, 0, on>>>(static_cast<const int*>(in), static_cast<int*>(out));
    status = cudaStreamSynchronize(on);
    if (status != cudaSuccess) return status;
    int seen = 0;
    status = cudaMemcpyFromSymbol(&seen, counter, sizeof seen);
    return status != cudaSuccess ? status : cudaMemcpy(static_cast<int*>(out) + 128, &seen, sizeof seen, cudaMemcpyHostToDevice);
}
