// A sum in two kernels, coalesced: neighbouring threads read neighbouring numbers, shuffles add up a warp, one block joins the warps.
// Every sum has a fixed order, so equal calls give equal bits; atomicAdd on floats would not.
#include "../launcher.cuh"

constexpr int kThreads = 256, kBlocks = 64, kWarps = kThreads / 32;

__device__ float block_sums[kBlocks];

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

__device__ float block_sum(float value) {  // valid in thread 0
  __shared__ float warps[kWarps];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_sum(threadIdx.x < kWarps ? warps[threadIdx.x] : 0.0f);
}

__global__ void __launch_bounds__(kThreads) blocks_kernel(const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += int64_t(kBlocks) * kThreads) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) join_kernel(float* out) {
  const float sum = block_sum(threadIdx.x < kBlocks ? block_sums[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) out[0] = sum;
}

extern "C" int sum_launch(const float* x, float* out, int64_t n, void* stream, char* error, int64_t error_bytes) {
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  blocks_kernel<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, n);
  join_kernel<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(out);
  return launched(error, error_bytes);
}
