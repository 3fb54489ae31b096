// out = silu(x) * y, one thread an element. Change first: the kernel, then the launcher's arguments.
//
// The launcher's parameters before `stream` are the problem's ARGUMENTS in order: a pointer for a tensor, int64_t for a whole
// number, float for a float. No torch headers: nvcc compiles this in seconds.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

// A toggle of task.yaml is a macro here. This one is the threads of a block: gates sweep ./my_kernel --param CTA_THREADS=128,256,512
constexpr int kThreads = CTA_THREADS;
static_assert(kThreads % 32 == 0 && kThreads >= 32 && kThreads <= 1024, "CTA_THREADS must be 1 to 32 whole warps");

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
