// y = x after STEPS dependent multiply-adds by a = 1, b = 0, in every thread: time = launch + STEPS * latency of one FMA.
// One CTA a multiprocessor, so that CTAs don't disturb each other.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

template <bool COUNTED>
__global__ void chain(const float* x, float* y, int64_t count, float a, float b, long long* cycles) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    float value = i < count ? x[i] : 0.0f;
    long long start = 0;
    if (COUNTED) {
        value = fmaf(value, a, b);  // the load is over before the clock is read
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(start), "+f"(value)::"memory");
    }
#pragma unroll 1
    for (int step = 0; step < STEPS / 8; ++step) {
#pragma unroll
        for (int inner = 0; inner < 8; ++inner) value = fmaf(value, a, b);
    }
#pragma unroll
    for (int inner = 0; inner < STEPS % 8; ++inner) value = fmaf(value, a, b);
    if (COUNTED) {
        long long end = 0;
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(end), "+f"(value)::"memory");
        if (i == 0) *cycles = end - start;
    }
    if (i < count) y[i] = value;
}

static int told(cudaError_t status, char* error, int64_t error_bytes) {
    if (status == cudaSuccess) return 0;
    std::snprintf(error, error_bytes, "chain: %s", cudaGetErrorString(status));
    return 1;
}

extern "C" int launch_chain(const float* x, float* y, int64_t count, float a, float b, void* stream, char* error, int64_t error_bytes) {
    chain<false><<<unsigned((count + 127) / 128), 128, 0, static_cast<cudaStream_t>(stream)>>>(x, y, count, a, b, nullptr);
    return told(cudaGetLastError(), error, error_bytes);
}

// The same launch with the chain's clock cycles, as its first thread counts them, in *cycles (device memory).
extern "C" int count_chain(
    const float* x, float* y, int64_t count, float a, float b, long long* cycles, void* stream, char* error, int64_t error_bytes) {
    chain<true><<<unsigned((count + 127) / 128), 128, 0, static_cast<cudaStream_t>(stream)>>>(x, y, count, a, b, cycles);
    return told(cudaGetLastError(), error, error_bytes);
}
