// A histogram of bytes: each block counts a stretch in shared memory, and adds its 256 counts to global memory once.
#include "../launcher.cuh"

constexpr int kBins = 256, kThreads = 256, kBytes = 4096;  // bytes per block

__global__ void clear_kernel(int32_t* counts) { counts[threadIdx.x] = 0; }

__global__ void __launch_bounds__(kThreads) count_kernel(const uint8_t* x, int32_t* counts, int64_t n) {
  __shared__ int32_t mine[kBins];
  mine[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kBytes;
  for (int64_t i = first + threadIdx.x; i < min(n, first + kBytes); i += kThreads) atomicAdd(&mine[x[i]], 1);
  __syncthreads();
  if (mine[threadIdx.x]) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

extern "C" int histogram_launch(const uint8_t* x, int32_t* counts, int64_t n, void* stream, char* error, int64_t error_bytes) {
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  clear_kernel<<<1, kBins, 0, static_cast<cudaStream_t>(stream)>>>(counts);
  count_kernel<<<unsigned((n + kBytes - 1) / kBytes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, counts, n);
  return launched(error, error_bytes);
}
