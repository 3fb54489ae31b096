// Asynchronous copies with planted defects: each thread streams tiles of 4 floats through a ring of two buffers.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTiles = 6;

enum Defect { kNone, kIntoBufferBeingRead, kNoWait, kStoreUnderCopy, kSourceChanged, kTooFewGroups, kNoBarrier };

// out[tile][thread] = sum of the four floats that the next thread's copy brought.
__global__ void stream(float* data, float* out, int defect) {
    __shared__ __align__(16) float ring[2][kThreads][4];
    const int thread = threadIdx.x;
    const auto request = [&](int tile, int buffer) {
        if (tile < kTiles) __pipeline_memcpy_async(ring[buffer][thread], data + (tile * kThreads + thread) * 4, 16);
        __pipeline_commit();
    };
    request(0, 0);
    for (int tile = 0; tile < kTiles; ++tile) {
        const int buffer = tile % 2;
        request(tile + 1, defect == kIntoBufferBeingRead ? buffer : 1 - buffer);  // line: request
        if (defect == kStoreUnderCopy && tile == 2) ring[1 - buffer][thread][3] = 0;
        if (defect == kSourceChanged && tile == 2) data[((tile + 1) * kThreads + thread) * 4] += 1;
        if (defect != kNoWait) __pipeline_wait_prior(defect == kTooFewGroups ? 2 : 1);
        if (defect != kNoBarrier) __syncthreads();  // every thread's part of the tile is there
        const float* four = ring[buffer][(thread + 1) % kThreads];
        out[tile * kThreads + thread] = four[0] + four[1] + four[2] + four[3];
        __syncthreads();  // read to the end before the next request overwrites it
    }
    __pipeline_wait_prior(0);
}
extern "C" int run_stream(float* data, float* out, int defect) {
    stream<<<1, kThreads>>>(data, out, defect);
    return cudaGetLastError();
}

// Which of `count` copies have landed before the wait, one flag each.
__global__ void early(const float* data, int* landed, int count) {
    __shared__ __align__(16) float tile[256];
    for (int i = 0; i < count; ++i) __pipeline_memcpy_async(tile + 4 * i, data + 4 * i, 16);
    __pipeline_commit();
    for (int i = 0; i < count; ++i) landed[i] = tile[4 * i] == data[4 * i];
    __pipeline_wait_prior(0);
}
extern "C" int run_early(const float* data, int* landed, int count) {
    early<<<1, 1>>>(data, landed, count);
    return cudaGetLastError();
}
