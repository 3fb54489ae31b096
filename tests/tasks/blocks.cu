// SAXPY with a toggle for the sweep's tests: BLOCK threads a CTA, each with a word in shared
// memory. BLOCK=100 does not compile, 512 is beyond the task's budget, and 64 forgets to add y.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

static_assert(BLOCK % 32 == 0, "BLOCK must be whole warps");

__global__ void saxpy_kernel(const float* x, const float* y, float* out, int64_t n, float a) {
  __shared__ float slot[BLOCK];
  const int64_t i = int64_t(blockIdx.x) * BLOCK + threadIdx.x;
  slot[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = a * slot[threadIdx.x] + (BLOCK == 64 ? 0.0f : y[i]);
}

static int refuse(char* error, int64_t error_bytes, const char* what) {
  std::snprintf(error, size_t(error_bytes), "%s", what);
  return 1;
}

extern "C" int saxpy_launch(const float* x, const float* y, float* out, int64_t n, float a, void* stream, char* error,
                            int64_t error_bytes) {
  if (x == nullptr || y == nullptr || out == nullptr) return refuse(error, error_bytes, "a pointer is null");
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  saxpy_kernel<<<unsigned((n + BLOCK - 1) / BLOCK), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n, a);
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? 0 : refuse(error, error_bytes, cudaGetErrorString(status));
}
