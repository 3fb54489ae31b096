// One kernel per unit whose peak `gates calibrate` measures. KIND chooses the kernel. N: threads, a multiple of kThreads;
// floats of the copy, a multiple of 4 * kThreads.
// Every thread keeps kChains independent results in registers, so that the latency of one hides behind the others.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kThreads = 256;
constexpr int kWarpgroup = 128;  // threads of a CTA of tensor_kernel
constexpr int kChains = 8;
constexpr int kRounds = 512;  // operations per chain and thread; calibration_problem.py counts by the same numbers
constexpr int kProducts = 64;  // per warpgroup, on average: launches so short that the card does not reach its power limit

// out = x, four floats per thread: enough are on their way, and the addresses go up with time, as memory has it best.
extern "C" __global__ void copy_kernel(const float4* x, float4* out) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  __stcs(out + i, __ldcs(x + i));
}

// out = x + the mean of kChains values that v / 2 + 1, repeated, brings to 2. A literal factor leaves two register operands, which
// never share a bank.
extern "C" __global__ void fma_kernel(const float* x, float* out) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float value[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) value[chain] = x[i] + float(chain);
#pragma unroll 32
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) value[chain] = fmaf(value[chain], 0.5f, 1.0f);
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
#pragma unroll 32
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(value[chain]) : "f"(-value[chain]));
  float sum = 0.0f;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += value[chain];
  out[i] = x[i] + sum / kChains;
}

// The sum of a thread's 128 elements of a warpgroup's 64 x 256 tile, which adds up products of 64 x 16 and 16 x 256 matrices of
// sixteenths: each adds 16 / 256 to each element. `products` is a multiple of 8. By wgmma seven of eight are with zeros, and the one
// counts for all: sums that change at every product take a card to its power limit.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
#define D128 D32(0), D32(32), D32(64), D32(96)

// d += A x B, queued. The descriptors lie in shared memory: K-major, no swizzle, cores of 8 rows of 16 bytes.
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
      "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"
      "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"
      "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,"
      "%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;"
      : D128
      : "l"(a), "l"(b));
}

__device__ __forceinline__ uint64_t descriptor(const void* matrix) {
  const uint64_t along_k = 128 >> 4, along_rows = 256 >> 4;  // from a core to the next, in 16 bytes
  return (uint64_t(__cvta_generic_to_shared(matrix)) & 0x3ffff) >> 4 | along_k << 16 | along_rows << 32;
}

__device__ __forceinline__ float tile_sum(__half2 sixteenths, int products) {
  __shared__ alignas(128) uint4 matrices[(64 + 256 + 256) * 16 / 8];  // A, B, zeros
  const unsigned pair = *reinterpret_cast<const unsigned*>(&sixteenths);
#pragma unroll
  for (int i = threadIdx.x; i < (64 + 256 + 256) * 16 / 8; i += kWarpgroup) {
    const unsigned value = i < (64 + 256) * 16 / 8 ? pair : 0;
    matrices[i] = make_uint4(value, value, value, value);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma sees the stores
  __syncthreads();
  const uint64_t a = descriptor(matrices), b = descriptor(matrices + 64 * 16 / 8), zeros = descriptor(matrices + (64 + 256) * 16 / 8);
  float d[128] = {};
  asm volatile("wgmma.fence.sync.aligned;" : D128 : : "memory");
#pragma unroll 1
  for (int product = 0; product < products; product += 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) multiply(d, a, i == 0 ? b : zeros);
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" : D128 : : "memory");
  float sums[8] = {};  // short chains: the next CTA waits for this one's end
#pragma unroll
  for (int i = 0; i < 128; ++i) sums[i % 8] += d[i];
  return 8.0f * (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}
#else
__device__ __forceinline__ float tile_sum(__half2 sixteenths, int products) {
  const unsigned a = *reinterpret_cast<const unsigned*>(&sixteenths);
  float sum = 0.0f;
#pragma unroll 1
  for (int columns = 0; columns < 256; columns += 8 * kChains) {
    float tile[kChains][4] = {};
#pragma unroll 4
    for (int product = 0; product < products; ++product)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(tile[chain][0]), "+f"(tile[chain][1]), "+f"(tile[chain][2]), "+f"(tile[chain][3])
                     : "r"(a));
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) sum += tile[chain][0] + tile[chain][1] + tile[chain][2] + tile[chain][3];
  }
  return sum;
}
#endif

// out = x + the tile's mean, products / 16, brought to kProducts. A CTA is one warpgroup. Three of them fit on an SM, so that its tensor
// cores work while one begins or ends; their lengths differ, or all three would begin and end together.
extern "C" __global__ void __launch_bounds__(kWarpgroup, 3) tensor_kernel(const float* x, float* out, float sixteenth) {
  const int64_t i = int64_t(blockIdx.x) * kWarpgroup + threadIdx.x;
  const int products = blockIdx.x % 2 == 0 ? kProducts - kProducts / 4 : kProducts + kProducts / 4;
  out[i] = x[i] + tile_sum(__floats2half2_rn(sixteenth, sixteenth), products) * (float(kProducts) / float(128 * products));
}

extern "C" int calibration_launch(const float* x, float* out, int64_t n, int64_t kind, void* stream, char* error, int64_t error_bytes) {
  const int step = kind == 0 ? 4 * kThreads : kThreads;
  if (n % step != 0 || kind < 0 || kind > 3) {
    std::snprintf(error, size_t(error_bytes), "N is %lld, not a multiple of %d, or KIND is %lld", (long long)n, step, (long long)kind);
    return 1;
  }
  const auto to = static_cast<cudaStream_t>(stream);
  const auto ctas = unsigned(n / kThreads);
  if (kind == 0)
    copy_kernel<<<ctas / 4, kThreads, 0, to>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out));
  else if (kind == 1)
    fma_kernel<<<ctas, kThreads, 0, to>>>(x, out);
  else if (kind == 2)
    ex2_kernel<<<ctas, kThreads, 0, to>>>(x, out);
  else
    tensor_kernel<<<unsigned(n / kWarpgroup), kWarpgroup, 0, to>>>(x, out, 0.0625f);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}
