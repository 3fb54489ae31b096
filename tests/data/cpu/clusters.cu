// Clusters, and copies in bulk between shared memory and elsewhere: one kernel for each rule, beside an honest neighbour (kHonest).
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace cg = cooperative_groups;

enum Mode { kHonest, kRace, kNoStart, kNoEnd, kPastEnd, kNoSuchRank, kTwice, kOfCta, kNotAwaited, kOverwritten, kReadAwaited, kRelaxed, kUnfenced, kBadMap, kAdded, kEarly, kUnwritten };

__device__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }

// Each block of four writes its row, then takes the row of the next one.
template <int kMode>
__global__ void __cluster_dims__(4) exchange_kernel(float* out) {
  __shared__ float row[64];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (kMode == kRace) cluster.sync();
  row[threadIdx.x] = 100.0f * blockIdx.x + threadIdx.x;  // own row
  if (kMode == kTwice) asm volatile("barrier.cluster.arrive;" ::: "memory");
  if (kMode == kRelaxed) {
    __threadfence();
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
  } else if (kMode != kRace && kMode != kNoStart) {
    cluster.sync();  // first
  }
  const float* there = cluster.map_shared_rank(row, kMode == kNoSuchRank ? 4 : next);
  float value;
  if (kMode == kOfCta) {
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(row + threadIdx.x)), "r"(next));
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(remote));  // of the block alone
  } else {
    value = there[threadIdx.x + (kMode == kPastEnd ? 1024 : 0)];  // the next row
  }
  if (kMode != kNoEnd) cluster.sync();
  out[blockIdx.x * 64 + threadIdx.x] = value;
}

// What a block knows of its cluster, 9 numbers each.
__global__ void ranks_kernel(int* out) {
  cg::cluster_group cluster = cg::this_cluster();
  int is_cluster;
  asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(is_cluster));
  const dim3 index = cluster.block_index(), size = cluster.dim_blocks();
  unsigned cluster_x;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(cluster_x));
  __shared__ int word;
  if (threadIdx.x != 0) return;
  const unsigned values[9] = {cluster.block_rank(), index.x, index.y, size.x, size.y, cluster.num_threads(), cluster_x, unsigned(is_cluster),
                              cluster.query_shared_rank(cluster.map_shared_rank(&word, 1))};
  for (int i = 0; i < 9; ++i) out[9 * (blockIdx.x + gridDim.x * blockIdx.y) + i] = int(values[i]);
}

// A histogram whose bins lie in the shared memory of all blocks of a cluster.
__global__ void histogram_kernel(const int* values, int* bins, int count, int per_block) {
  extern __shared__ int own[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) own[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    const int bin = values[i];
    atomicAdd(cluster.map_shared_rank(own, bin / per_block) + bin % per_block, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) atomicAdd(bins + cluster.block_rank() * per_block + i, own[i]);
}

// Block 0 brings 512 bytes to both blocks by one copy; each adds its rank and sends them to the other, which stores them in bulk.
template <int kMode>
__global__ void __cluster_dims__(2) copies_kernel(const float* in, float* out) {
  __shared__ alignas(128) float tile[128], received[128];
  __shared__ uint64_t full, sent;
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), at = shared_address(tile), to = shared_address(received), bar = shared_address(&full), done = shared_address(&sent);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(done) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar) : "memory");
  }
  if (kMode == kEarly) __syncthreads();
  else asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (rank == 0 && threadIdx.x == 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 512, [%2], %3;" ::"r"(at), "l"(in), "r"(bar), "h"(uint16_t(3)) : "memory");  // to both
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(bar) : "memory");
  tile[threadIdx.x] += float(rank);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned there, its_barrier;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(to), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(done), "r"(rank ^ 1));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(done) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(there), "r"(at), "r"(its_barrier) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(its_barrier) : "memory");
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(done) : "memory");
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(out + 128 * rank), "r"(to) : "memory");  // stored
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (kMode == kReadAwaited) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    else if (kMode != kNotAwaited && kMode != kOverwritten) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  __syncthreads();
  if (kMode == kOverwritten || kMode == kReadAwaited) received[threadIdx.x] = 5.0f;  // while it is stored
  if (kMode == kOverwritten && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  cluster.sync();
}

// A tensor map of 8 rows of 32 floats becomes one of 6 rows elsewhere; rows 4 to 7 of it are copied: the last two are zeros.
template <int kMode>
__global__ void mapped_kernel(const __grid_constant__ CUtensorMap map, CUtensorMap* scratch, const float* other, float* out) {
  __shared__ alignas(128) CUtensorMap own;
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full;
  const unsigned bar = shared_address(&full), at = shared_address(&own);
  if (threadIdx.x == 0) {
    own = map;
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(other) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(6) : "memory");
    if (kMode == kBadMap) asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(300) : "memory");  // too many rows
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(scratch), "r"(at) : "memory");
  if (kMode != kUnfenced) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(scratch) : "memory");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(tile)), "l"(scratch), "r"(bar), "r"(0), "r"(4) : "memory");  // by the map
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(bar) : "memory");
  for (int i = threadIdx.x; i < 128; i += 32) out[i] = tile[i];
  if (kMode == kAdded && threadIdx.x == 0) {  // to the first rows
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %2}], [%1];" ::"l"(scratch), "r"(shared_address(tile)), "r"(0) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Each block adds its tile to `sums` and to its neighbour's `taken`, in bulk; its threads send it four values each, and add to its count.
template <int kMode>
__global__ void __cluster_dims__(2) reductions_kernel(int* sums, int* out) {
  __shared__ alignas(128) int tile[128], taken[128], sent[512];
  __shared__ unsigned count;
  __shared__ uint64_t full;
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = int(cluster.block_rank()), thread = int(threadIdx.x);
  const unsigned at = shared_address(tile), bar = shared_address(&full);
  tile[thread] = (rank + 1) * thread;
  taken[thread] = 1000 * rank;
  if (thread == 0) {
    if (kMode != kUnwritten) count = 0;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(512 + 2048 + 512) : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  cluster.sync();
  const auto there = [&](const void* own) {
    unsigned found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(shared_address(own)), "r"(rank ^ 1));
    return found;
  };
  if (thread == 0) {
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%0], [%1], 512, [%2];" ::"r"(there(taken)), "r"(at), "r"(there(&full)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 512;" ::"l"(sums), "r"(at) : "memory");  // reduced
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (kMode != kNotAwaited) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there(sent + 4 * thread)), "r"(rank), "r"(thread), "r"(thread + 1), "r"(thread + 2), "r"(there(&full)) : "memory");
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%0], %1, [%2];" ::"r"(there(&count)), "r"(1000), "r"(there(&full)) : "memory");  // counted
  int early = 0;
  if (kMode == kEarly) early = sent[thread];  // before they are there
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(bar) : "memory");
  int* const row = out + (blockIdx.x * 128 + thread) * 3;
  row[0] = taken[thread];
  row[1] = sent[thread] + early;
  row[2] = int(count);
  cluster.sync();
}

namespace {

template <class... Given, class... Arguments>
int in_clusters(void (*kernel)(Given...), dim3 grid, unsigned block, dim3 cluster, size_t shared, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(block);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <int kMode>
int exchange_as(float* out, int64_t mode, cudaStream_t stream) {
  if (mode != kMode) {
    if constexpr (kMode < kRelaxed) return exchange_as<kMode + 1>(out, mode, stream);
    return 1;
  }
  exchange_kernel<kMode><<<8, 64, 0, stream>>>(out);
  return cudaGetLastError();
}

}  // namespace

extern "C" int exchange(float* out, int64_t mode, void* stream, char*, int64_t) { return exchange_as<0>(out, mode, cudaStream_t(stream)); }
extern "C" int ranks(int* out, int64_t width, void* stream, char*, int64_t) {
  return in_clusters(ranks_kernel, dim3(4, 2), 32, dim3(unsigned(width), 2), 0, cudaStream_t(stream), out);
}
extern "C" int histogram(const int* values, int* bins, int64_t count, void* stream, char*, int64_t) {
  return in_clusters(histogram_kernel, dim3(8), 64, dim3(4), 16 * sizeof(int), cudaStream_t(stream), values, bins, int(count), 16);
}
extern "C" int copies(const float* in, float* out, int64_t mode, void* stream, char*, int64_t) {
  const auto kernel = mode == kNotAwaited ? copies_kernel<kNotAwaited> : mode == kOverwritten ? copies_kernel<kOverwritten> : mode == kReadAwaited ? copies_kernel<kReadAwaited> : mode == kEarly ? copies_kernel<kEarly> : copies_kernel<kHonest>;
  kernel<<<2, 128, 0, cudaStream_t(stream)>>>(in, out);
  return cudaGetLastError();
}
extern "C" int mapped(const float* first, const float* other, void* scratch, float* out, int64_t mode, void* stream, char*, int64_t) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) != cudaSuccess) return 1;
  alignas(64) CUtensorMap map;
  const cuuint64_t extents[] = {32, 8}, strides[] = {128};
  const cuuint32_t box[] = {32, 4}, steps[] = {1, 1};
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(first), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) return 2;
  const auto kernel = mode == kUnfenced ? mapped_kernel<kUnfenced> : mode == kBadMap ? mapped_kernel<kBadMap> : mode == kAdded ? mapped_kernel<kAdded> : mapped_kernel<kHonest>;
  kernel<<<1, 32, 0, cudaStream_t(stream)>>>(map, static_cast<CUtensorMap*>(scratch), other, out);
  return cudaGetLastError();
}
extern "C" int reductions(int* sums, int* out, int64_t mode, void* stream, char*, int64_t) {
  const auto kernel = mode == kNotAwaited ? reductions_kernel<kNotAwaited> : mode == kEarly ? reductions_kernel<kEarly> : mode == kUnwritten ? reductions_kernel<kUnwritten> : reductions_kernel<kHonest>;
  kernel<<<4, 128, 0, cudaStream_t(stream)>>>(sums, out);
  return cudaGetLastError();
}
