// A stage for the tests of the static gates, with a toggle for each planted defect.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#ifndef USE_WMMA
#define USE_WMMA 1
#endif
#ifndef LOCAL_TABLE  // an array indexed at run time: local memory
#define LOCAL_TABLE 0
#endif
#ifndef WITHOUT_MANY  // the second kernel vanishes
#define WITHOUT_MANY 0
#endif
#ifndef STATIC_BYTES  // shared memory of the first kernel
#define STATIC_BYTES 1024
#endif

// One warp multiplies two 16x16 tiles: C = A·B, A row-major, B column-major.
__global__ void product(const half* a, const half* b, float* c) {
  __shared__ __align__(16) half tile[STATIC_BYTES / 2];
  for (int part = threadIdx.x; part < 32; part += blockDim.x) {
    __pipeline_memcpy_async(tile + 8 * part, a + 8 * part, 16);
    __pipeline_memcpy_async(tile + 256 + 8 * part, b + 8 * part, 16);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  if constexpr (USE_WMMA) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> left;
    fragment<matrix_b, 16, 16, 16, half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    load_matrix_sync(left, tile, 16);
    load_matrix_sync(right, tile + 256, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
  } else {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      float sum = 0.0f;
      for (int k = 0; k < 16; ++k) sum += __half2float(tile[i / 16 * 16 + k]) * __half2float(tile[256 + i % 16 * 16 + k]);
      c[i] = sum;
    }
  }
  if constexpr (LOCAL_TABLE) {
    float table[32];
    for (int i = 0; i < 32; ++i) table[(i * (int)c[i]) & 31] = c[i + 1];
    c[threadIdx.x] = table[(int)c[threadIdx.x] & 31];
  }
}

#if !WITHOUT_MANY
// Many live values: spills under a low register cap.
__global__ void many(float* x) {
  float live[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) live[i] = x[i * 32 + threadIdx.x];
  for (int round = 0; round < 4; ++round) {
#pragma unroll
    for (int i = 0; i < 64; ++i) live[i] = live[i] * live[(i + 7) % 64] + x[round];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) x[i * 32 + threadIdx.x] = live[i];
}
#endif

extern "C" int launch(const half* a, const half* b, float* c, void* stream, char* error, int64_t error_bytes) {
  product<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c);
#if !WITHOUT_MANY
  many<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(c);
#endif
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) snprintf(error, error_bytes, "%s", cudaGetErrorString(status));
  return status != cudaSuccess;
}
