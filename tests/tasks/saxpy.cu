// SAXPY in two stages. USE_COALESCED=0: each thread walks a run of neighbours, so a warp's accesses
// are far apart. USE_COALESCED=1: neighbouring threads take neighbouring groups of four floats.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kThreads = 128;
constexpr int kRun = 64;  // elements a thread of the slow version

__global__ void saxpy_kernel(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
#if USE_COALESCED
  const int64_t first = thread * 4;
  if (first + 4 <= n) {
    const float4 u = *reinterpret_cast<const float4*>(x + first);
    const float4 v = *reinterpret_cast<const float4*>(y + first);
    *reinterpret_cast<float4*>(out + first) =
        make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
  } else {
    for (int64_t i = first; i < n; ++i) out[i] = a * x[i] + y[i];
  }
#else
  for (int64_t i = thread * kRun; i < n && i < (thread + 1) * kRun; ++i) out[i] = a * x[i] + y[i];
#endif
}

static int refuse(char* error, int64_t error_bytes, const char* what) {
  std::snprintf(error, size_t(error_bytes), "%s", what);
  return 1;
}

extern "C" int saxpy_launch(const float* x, const float* y, float* out, int64_t n, float a, void* stream, char* error,
                            int64_t error_bytes) {
  if (x == nullptr) return refuse(error, error_bytes, "x is null");
  if (y == nullptr) return refuse(error, error_bytes, "y is null");
  if (out == nullptr) return refuse(error, error_bytes, "out is null");
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  const int64_t per_block = int64_t(kThreads) * (USE_COALESCED ? 4 : kRun);
  const unsigned blocks = unsigned((n + per_block - 1) / per_block);
  saxpy_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n, a);
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? 0 : refuse(error, error_bytes, cudaGetErrorString(status));
}
