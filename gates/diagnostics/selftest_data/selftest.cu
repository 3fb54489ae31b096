// out = a x + y. FAULT plants a defect: 1 a NaN, 2 zeros, 3 more values alive than there are registers.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kThreads = 128;
constexpr int kAlive = 128;

extern "C" __global__ void
#if FAULT == 3
__launch_bounds__(1024, 2)  // at most 32 registers a thread
#endif
selftest_kernel(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = a * x[i] + y[i];
#if FAULT == 1
  if (i == n / 2) value = (x[i] - x[i]) / (x[i] - x[i]);
#elif FAULT == 2
  value = 0.0f;
#elif FAULT == 3
  float alive[kAlive];
#pragma unroll
  for (int k = 0; k < kAlive; ++k) alive[k] = x[(i + k * 37) % n];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kAlive; ++k) sum = sum * a + alive[k];
#pragma unroll
  for (int k = kAlive - 1; k >= 0; --k) sum = sum * alive[k] + a;
  value += sum;
#endif
  out[i] = value;
}

extern "C" int selftest_launch(const float* x, const float* y, float* out, int64_t n, float a, void* stream, char* error,
                               int64_t error_bytes) {
  const unsigned blocks = unsigned((n + kThreads - 1) / kThreads);
  selftest_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n, a);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}
