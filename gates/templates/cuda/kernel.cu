// out = silu(x) * y, one thread an element. Change first: the kernel, then the launcher's arguments.
//
// The launcher's parameters before `stream` are the problem's ARGUMENTS in order: a pointer for a tensor, int64_t for a whole
// number, float for a float. No torch headers: nvcc compiles this in seconds, and g++ for the CPU emulator.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kThreads = 256;

__global__ void silu_mul_kernel(const float* x, const float* y, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] / (1.0f + expf(-x[i])) * y[i];
}

// Enqueues on `stream` and does not wait. Returns 0, or another number with a message in `error`.
extern "C" int silu_mul_launch(const float* x, const float* y, float* out, int64_t n, void* stream, char* error, int64_t error_bytes) {
  if (n < 1) {
    std::snprintf(error, size_t(error_bytes), "N must be at least 1");
    return 1;
  }
  const unsigned blocks = unsigned((n + kThreads - 1) / kThreads);
  silu_mul_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return status == cudaSuccess ? 0 : 1;
}
