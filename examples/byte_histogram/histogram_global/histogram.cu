// A histogram of bytes: one atomicAdd in global memory per byte. Whole numbers add up to the same bits in any order.
#include "../launcher.cuh"

constexpr int kBins = 256, kThreads = 256;

__global__ void clear_kernel(int32_t* counts) { counts[threadIdx.x] = 0; }

__global__ void count_kernel(const uint8_t* x, int32_t* counts, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i]], 1);
}

extern "C" int histogram_launch(const uint8_t* x, int32_t* counts, int64_t n, void* stream, char* error, int64_t error_bytes) {
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  clear_kernel<<<1, kBins, 0, static_cast<cudaStream_t>(stream)>>>(counts);
  count_kernel<<<unsigned((n + kThreads - 1) / kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, counts, n);
  return launched(error, error_bytes);
}
