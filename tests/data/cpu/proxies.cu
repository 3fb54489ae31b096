// Threads fill a tile, and an engine reads it. Between the two comes fence.proxy.async: of each thread that wrote, or, after a barrier, of the thread that issues.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

enum Reader { kStore, kTensorStore, kReduction, kTensorReduction, kNeighbour, kLoad };
enum Fence { kWriters, kIssuer, kOneWay, kWarp, kNone, kOneWriter, kTooEarly, kOfBarriers, kHalves, kOtherSpace };

__device__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }
#define FENCE(kind) asm volatile("fence.proxy.async" kind ";" ::: "memory")

template <int kReader, int kFence>
__global__ void __cluster_dims__(kReader == kNeighbour ? 2 : 1) proxies_kernel(const __grid_constant__ CUtensorMap map, float* scratch, float* out) {
  __shared__ alignas(128) float tile[64], received[64];
  __shared__ uint64_t full;
  const unsigned thread = threadIdx.x, at = shared_address(tile), to = shared_address(received), bar = shared_address(&full);
  if (thread == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(bar) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (kFence == kTooEarly) FENCE("");
  float* const filled = kReader == kLoad ? scratch : tile;
  if (kFence == kHalves) {
    const unsigned short low = 0, high = __float_as_uint(float(thread)) >> 16;
    reinterpret_cast<volatile unsigned short*>(filled)[2 * thread] = low;  // fills halves
    reinterpret_cast<volatile unsigned short*>(filled)[2 * thread + 1] = high;
    __syncthreads();
    reinterpret_cast<volatile float*>(filled)[thread ^ 1];  // a read of words orders nothing
  } else if (kFence != kWarp) {
    filled[thread] = float(thread);  // fills it
  } else if (thread < 32) {
    filled[thread] = float(thread), filled[thread + 32] = float(thread + 32);
  }
  if (kFence == kWriters || (kFence == kOneWriter && thread == 0)) FENCE("");
  if (kFence == kOneWay) FENCE("::generic.release.sync_restrict::shared::cta.cluster");
  if (kFence == kOfBarriers) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  if (kFence == kOtherSpace && kReader == kLoad) FENCE(".shared::cta");
  else if (kFence == kOtherSpace) FENCE(".global");
  if (kFence == kWarp) __syncwarp();
  else __syncthreads();
  if ((kFence == kIssuer || kFence == kWarp) && thread == 0) FENCE("");
  if (thread == 0) {
    if (kReader == kStore) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out), "r"(at) : "memory");  // kStore
    if (kReader == kTensorStore) asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" ::"l"(&map), "r"(at), "r"(0) : "memory");  // kTensorStore
    if (kReader == kReduction) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(out), "r"(at) : "memory");  // kReduction
    if (kReader == kTensorReduction) asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%2}], [%1];" ::"l"(&map), "r"(at), "r"(0) : "memory");  // kTensorReduction
    if (kReader == kLoad) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(to), "l"(scratch), "r"(bar) : "memory");  // kLoad
    if (kReader == kNeighbour) {
      unsigned rank, there, its_barrier;
      asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(to), "r"(rank ^ 1));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(bar), "r"(rank ^ 1));
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(there), "r"(at), "r"(its_barrier) : "memory");  // kNeighbour
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
  if (kReader == kLoad || kReader == kNeighbour) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(bar) : "memory");
    if (blockIdx.x == 0) out[thread] = received[thread];
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <int kReader, int kFence> int run(int reader, int fence, const CUtensorMap& map, float* scratch, float* out, cudaStream_t stream) {
  if (reader == kReader && fence == kFence) {
    proxies_kernel<kReader, kFence><<<kReader == kNeighbour ? 2 : 1, 64, 0, stream>>>(map, scratch, out);
    return cudaGetLastError();
  }
  if constexpr (kFence < kOtherSpace) return run<kReader, kFence + 1>(reader, fence, map, scratch, out, stream);
  else if constexpr (kReader < kLoad) return run<kReader + 1, 0>(reader, fence, map, scratch, out, stream);
  return 1;
}

extern "C" int proxies(float* scratch, float* out, int64_t reader, int64_t fence, void* stream, char*, int64_t) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) != cudaSuccess) return 1;
  alignas(64) CUtensorMap map;
  const cuuint64_t extents[] = {64}, strides[] = {256};
  const cuuint32_t box[] = {64}, steps[] = {1};
  if (reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, out, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) return 2;
  return run<0, 0>(int(reader), int(fence), map, scratch, out, cudaStream_t(stream));
}
