// What all launchers of the toolbox share: the honest answer of a row, and the frame of a launcher.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace {

constexpr int kThreads = 64;
constexpr int kMaxValues = 256;  // N

struct Mix {
    const float* scores;
    const float* v;
    float* out;
    int rows, values, columns;
    float sharpness;
};

__device__ float largest(const Mix& mix, int row) {
    float result = mix.scores[row * mix.values];
    for (int n = 1; n < mix.values; ++n) result = fmaxf(result, mix.scores[row * mix.values + n]);
    return result;
}

// The answer of one row; every thread of the block calls it.
__device__ void mix_row(const Mix& mix, int row, float* out) {
    __shared__ float weights[kMaxValues];
    const float top = largest(mix, row);
    for (int n = threadIdx.x; n < mix.values; n += kThreads) {
        weights[n] = expf(mix.sharpness * (mix.scores[row * mix.values + n] - top));
    }
    __syncthreads();
    float total = 0.0f;
    for (int n = 0; n < mix.values; ++n) total += weights[n];
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) {
        float sum = 0.0f;
        for (int n = 0; n < mix.values; ++n) sum += weights[n] * mix.v[n * mix.columns + c];
        out[row * mix.columns + c] = sum / total;
    }
    __syncthreads();
}

int refuse(char* error, int64_t error_bytes, const char* what) {
    std::snprintf(error, size_t(error_bytes), "%s", what);
    return 1;
}

// What every launcher is given.
struct Call {
    Mix mix;
    cudaStream_t stream;
    char* error;
    int64_t error_bytes;

    int64_t elements() const { return int64_t(mix.rows) * mix.columns; }
    int finish() const {
        const cudaError_t status = cudaGetLastError();
        return status == cudaSuccess ? 0 : refuse(error, error_bytes, cudaGetErrorString(status));
    }
};

}  // namespace

// An extern "C" launcher called NAME with a body that sees `call`.
#define LAUNCHER(NAME)                                                                                                     \
    static int NAME##_body(const Call& call);                                                                              \
    extern "C" int NAME(const float* scores, const float* v, float* out, int64_t R, int64_t N, int64_t C, float sharpness, \
                        void* stream, char* error, int64_t error_bytes) {                                                  \
        if (R < 1 || N < 1 || C < 1) return refuse(error, error_bytes, "R, N and C must be at least 1");                   \
        if (N > kMaxValues) return refuse(error, error_bytes, "N: at most 256");                                           \
        return NAME##_body(Call{Mix{scores, v, out, int(R), int(N), int(C), sharpness}, static_cast<cudaStream_t>(stream), \
                                error, error_bytes});                                                                      \
    }                                                                                                                      \
    static int NAME##_body(const Call& call)

// Launch KERNEL on the call's stream, a block a row.
#define ROWS(KERNEL, ...) KERNEL<<<unsigned(call.mix.rows), kThreads, 0, call.stream>>>(call.mix, ##__VA_ARGS__)
