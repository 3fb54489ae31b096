// One kernel for each rule of sm_90's asynchronous engines that the CPU device holds, beside an honest neighbour (kHonest).
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

enum Mode { kHonest, kNoFence, kNoWait, kOneGroupLess, kOverwritten, kNoProxyFence, kNoCommit, kNotAwaited, kMisplaced, kHalfGroup, kFirstUnfenced, kReleased };

__device__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }

// A matrix of rows of 16 halves, K-major: without a swizzle in cores of 8 rows of 16 bytes, 128 bytes along K and 256 along rows apart.
__device__ uint64_t descriptor(const void* matrix, unsigned leading, unsigned stride, unsigned swizzle) {
  return uint64_t(shared_address(matrix) >> 4) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

#define MULTIPLY(d, a, b)                                                                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"                            \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b))
#define PIN(d) asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory")

// out = 2 x A·B^T + start, a 64 x 8 matrix; A 64 x 16, B 8 x 16. 128 threads.
template <int kMode>
__global__ void product_kernel(const __half* a, const __half* b, const float* start, float* out) {
  __shared__ alignas(1024) __half left[64 * 16], right[8 * 16];
  const int thread = threadIdx.x, lane = thread % 32;
  for (int i = thread; i < 64 * 16; i += 128) {
    const int row = i / 16, k = i % 16;
    left[row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8] = a[i];  // fills A
  }
  right[thread / 16 % 8 * 8 + thread % 16 / 8 * 64 + thread % 8] = b[thread];
  if (kMode != kNoProxyFence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t at = descriptor(left, 128, 256, 0), bt = descriptor(right, 128, 256, 0);
  float d[4], *const to = out + thread / 32 * 16 * 8 + lane / 4 * 8 + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) d[i] = start[i] * 2.0f;  // written
  if (kMode == kHalfGroup && thread >= 64) return;
  PIN(d);
  if (kMode != kNoFence && kMode != kFirstUnfenced) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if (kMode == kMisplaced) MULTIPLY(d, descriptor(left + 64, 0, 1024, 1), bt);  // 128 bytes too far
  if (kMode == kNoFence) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; ++i) d[i] = d[i] * 0.5f + start[i];  // written again
    PIN(d);
  }
  MULTIPLY(d, at, bt);  // first product
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  MULTIPLY(d, at, bt);  // second product
  if (kMode != kNoCommit) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (kMode == kOverwritten) left[thread] = __float2half(7.0f);  // while the products run
  if (kMode == kOneGroupLess) asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  else if (kMode != kNoWait && kMode != kNotAwaited) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  if (kMode == kNotAwaited) return;
  PIN(d);
  for (int i = 0; i < 4; ++i) to[i / 2 * 64 + i % 2] = d[i] - start[i];  // used
}

// Two consumers ask for `kAsked` registers, the producer gives back all but 24: 24 + 2 x 240 is what 64K registers allow.
template <int kAsked>
__global__ void __launch_bounds__(384, 1) registers_kernel(float* out) {
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kAsked));  // takes
    out[threadIdx.x - 128] = 1.0f;
  }
}

// A swizzled matrix in dynamic shared memory, which may begin at any multiple of what its declaration asks for, or of 16 bytes.
enum Alignment { kByLuck, kByHand, kDeclared };
extern __shared__ unsigned char anywhere[];
extern __shared__ __align__(1024) unsigned char declared[];

template <int kAlignment>
__global__ void dynamic_kernel(float* out) {
  unsigned char* const bytes = kAlignment == kDeclared ? declared : anywhere;
  unsigned char* const tile = bytes + (kAlignment == kByHand ? (0u - shared_address(bytes)) % 1024 : 0);
  for (int i = threadIdx.x; i < 9 * 1024 / 4; i += 128) reinterpret_cast<unsigned*>(tile)[i] = 0x3c003c00u;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {};
  PIN(d);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  MULTIPLY(d, descriptor(tile, 0, 1024, 1), descriptor(tile + 8192, 0, 1024, 1));  // swizzled
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  PIN(d);
  out[threadIdx.x] = d[0];
}

// A thread refills what a warpgroup reads, by a copy in bulk, once the warps have said that they have read it.
__global__ void ring_kernel(const float* x, const __half* b, float* out, int mode) {
  __shared__ alignas(1024) __half left[64 * 16], right[8 * 16];
  __shared__ uint64_t full, empty;
  const unsigned full_at = shared_address(&full), empty_at = shared_address(&empty);
  if (threadIdx.x < 128) right[threadIdx.x] = b[threadIdx.x];
  if (threadIdx.x == 128) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full_at) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(empty_at) : "memory");  // made
  }
  if (mode != kNoProxyFence || threadIdx.x < 128) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const auto wait = [](unsigned barrier, unsigned parity) {
    unsigned done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    }
  };
  if (threadIdx.x >= 128) {
    for (unsigned turn = 0; turn < 3 && threadIdx.x == 128; ++turn) {
      if (turn > 0) wait(empty_at, (turn - 1) & 1);
      asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], 2048; }" ::"r"(full_at) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" ::"r"(shared_address(left)), "l"(x + turn * 512), "r"(full_at) : "memory");  // refills
    }
    return;
  }
  float d[4] = {};
  for (unsigned turn = 0; turn < 3; ++turn) {
    wait(full_at, turn & 1);
    PIN(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    MULTIPLY(d, descriptor(left, 128, 256, 0), descriptor(right, 128, 256, 0));  // reads
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (mode == kReleased && threadIdx.x % 32 == 0) asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(empty_at) : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    PIN(d);
    if (mode != kReleased && threadIdx.x % 32 == 0) asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(empty_at) : "memory");
  }
  out[threadIdx.x] = d[0];
}

#define TAIL void*, char*, int64_t
template <int kMode> void try_product(int mode, const __half* a, const __half* b, const float* start, float* out) {
  if (mode == kMode) product_kernel<kMode><<<1, 128>>>(a, b, start, out);
  if constexpr (kMode > 0) try_product<kMode - 1>(mode, a, b, start, out);
}
extern "C" int product(const __half* a, const __half* b, const float* start, float* out, int64_t mode, TAIL) {
  try_product<kFirstUnfenced>(int(mode), a, b, start, out);
  return cudaGetLastError();
}
extern "C" int registers(float* out, int64_t asked, TAIL) {
  if (asked == 240) registers_kernel<240><<<1, 384>>>(out);
  else registers_kernel<248><<<1, 384>>>(out);
  return cudaGetLastError();
}
extern "C" int dynamic(float* out, int64_t alignment, TAIL) {
  if (alignment == kDeclared) dynamic_kernel<kDeclared><<<1, 128, 10 * 1024>>>(out);
  else if (alignment == kByHand) dynamic_kernel<kByHand><<<1, 128, 10 * 1024>>>(out);
  else dynamic_kernel<kByLuck><<<1, 128, 10 * 1024>>>(out);
  return cudaGetLastError();
}
extern "C" int ring(const float* x, const __half* b, float* out, int64_t mode, TAIL) {
  ring_kernel<<<1, 160>>>(x, b, out, int(mode));
  return cudaGetLastError();
}
