// One kernel per unit whose peak `gates calibrate` measures. N threads, a multiple of kThreads; KIND chooses the kernel.
// Every thread keeps kChains independent results in registers, so that the latency of one hides behind the others.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kThreads = 256;
constexpr int kChains = 8;
constexpr int kRounds = 128;  // operations per chain and thread; calibration_problem.py counts by the same number

// out = x, four floats per thread and turn.
extern "C" __global__ void copy_kernel(const float4* x, float4* out, int64_t quads) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < quads) __stcs(out + i, __ldcs(x + i));
}

// out = x + the mean of kChains values that v / 2 + 1, repeated, brings to 2.
extern "C" __global__ void fma_kernel(const float* x, float* out, float half, float one) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float value[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) value[chain] = x[i] + float(chain);
#pragma unroll 16
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) value[chain] = fmaf(value[chain], half, one);
  float sum = 0.0f;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += value[chain];
  out[i] = x[i] + sum / kChains;
}

// out = x + the mean of kChains values that 2^-v, repeated, brings to its fixed point.
extern "C" __global__ void ex2_kernel(const float* x, float* out) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float value[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) value[chain] = x[i] + float(chain);
#pragma unroll 16
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(value[chain]) : "f"(-value[chain]));
  float sum = 0.0f;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += value[chain];
  out[i] = x[i] + sum / kChains;
}

// out = x + the mean of kChains tiles that each add kRounds products of 16 x 16 and 16 x 8 matrices of sixteenths: 16 / 256 per product.
extern "C" __global__ void mma_kernel(const float* x, float* out, float sixteenth) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const __half2 pair = __floats2half2_rn(sixteenth, sixteenth);
  const unsigned a = *reinterpret_cast<const unsigned*>(&pair);
  float tile[kChains][4] = {};
#pragma unroll 4
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                   : "+f"(tile[chain][0]), "+f"(tile[chain][1]), "+f"(tile[chain][2]), "+f"(tile[chain][3])
                   : "r"(a));
  float sum = 0.0f;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += tile[chain][0] + tile[chain][1] + tile[chain][2] + tile[chain][3];
  out[i] = x[i] + sum / (4 * kChains);
}

extern "C" int calibration_launch(const float* x, float* out, int64_t n, int64_t kind, void* stream, char* error, int64_t error_bytes) {
  if (n % (4 * kThreads) != 0 || kind < 0 || kind > 3) {
    std::snprintf(error, size_t(error_bytes), "N is %lld, not a multiple of %d, or KIND is %lld", (long long)n, 4 * kThreads, (long long)kind);
    return 1;
  }
  const auto to = static_cast<cudaStream_t>(stream);
  const unsigned ctas = unsigned(n / kThreads);
  if (kind == 0)
    copy_kernel<<<ctas / 4, kThreads, 0, to>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out), n / 4);
  else if (kind == 1)
    fma_kernel<<<ctas, kThreads, 0, to>>>(x, out, 0.5f, 1.0f);
  else if (kind == 2)
    ex2_kernel<<<ctas, kThreads, 0, to>>>(x, out);
  else
    mma_kernel<<<ctas, kThreads, 0, to>>>(x, out, 0.0625f);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}
