// Threads that work together: asynchronous copies, barriers of libcu++ and PTX, cooperative groups, CUB, warp operations.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_profiler_api.h>

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_runtime.h>

#include <cstdint>

namespace cg = cooperative_groups;

__device__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }

__global__ void copy_kernel(const float* x, float* out, int mode) {
  __shared__ alignas(16) float tile[128];
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(tile + threadIdx.x)), "l"(x + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  const float* const again = x + (mode == 2 ? 127 - threadIdx.x : threadIdx.x);  // other bytes, or the same
  if (mode >= 2) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(tile + threadIdx.x)), "l"(again));  // once more
  if (mode != 1) asm volatile("cp.async.wait_all;");  // left out: the copy has not landed
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];  // copied
}

// A bulk copy, counted by an mbarrier.
__global__ void bulk_kernel(const float* x, float* out, int mode) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t barrier;
  const unsigned at = shared_address(&barrier);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(at));
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned bytes = mode == 2 ? sizeof tile + 16 : sizeof tile;  // more than ever comes: nobody goes on
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(at), "r"(bytes));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(tile)), "l"(x),
                 "r"(unsigned(sizeof tile)), "r"(at));
  }
  if (mode != 1) {  // left out: the copy has not landed
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @done bra DONE; bra AGAIN; DONE: }" ::"r"(at));  // waits
  }
  out[threadIdx.x] = tile[127 - threadIdx.x];  // bulk copied
}

__global__ void libcu_kernel(const float* x, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ alignas(16) float tile[128];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(cg::this_thread_block(), tile, x, cuda::aligned_size_t<16>(sizeof tile), barrier);
  barrier.arrive_and_wait();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

// Two stages of a pipeline, whose barriers count each thread's copies of four bytes.
__global__ void pipeline_kernel(const float* x, float* out, int mode) {
  constexpr int kStages = 2;
  __shared__ float tile[kStages][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto pipeline = cuda::make_pipeline(cg::this_thread_block(), &state);
  const auto fetch = [&](int turn) {
    pipeline.producer_acquire();
    cuda::memcpy_async(&tile[turn % kStages][threadIdx.x], x + turn % 2 * 64 + threadIdx.x, sizeof(float), pipeline);  // fetches
    pipeline.producer_commit();
  };
  float sum = 0.0f;
  fetch(0);
  for (int turn = 0; turn < 4; ++turn) {
    if (turn < 3) fetch(turn + 1);
    if (mode != 1) pipeline.consumer_wait();
    sum += tile[turn % kStages][threadIdx.x ^ 1];  // of a stage
    if (mode != 2 || turn < 1) pipeline.consumer_release();  // or never again: the third fetch waits for ever
  }
  out[threadIdx.x] = sum;
}

// Warp 1 takes what warp 0 wrote, once a flag in shared memory says so. Mode 3: each lane has a fence, and lane 0 tells of all at once;
// mode 4: warp 1 has no fence.
__global__ void flag_kernel(const float* x, float* out, int mode) {
  __shared__ float row[32];
  __shared__ int flag;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    if (mode == 2) __threadfence_block();  // too early
    row[lane] = x[lane];  // hands over
    if (mode == 0 || mode >= 3) __threadfence_block();
    if (mode != 3) __syncwarp();
    if (lane == 0) {
      if (mode == 0 || mode == 4) __threadfence_block();
      *static_cast<volatile int*>(&flag) = 1;
    }
  } else {
    while (*static_cast<volatile int*>(&flag) == 0) __nanosleep(20);
    if (mode != 4) __threadfence_block();
    out[lane] = row[31 - lane];  // takes over
  }
}

// The largest value by guesses that swaps check; a thread whose value is not larger does not swap.
__global__ void largest_kernel(const int* x, int* out, int mode) {
  int seen = *out;  // guesses
  while (mode == 0 && seen < x[threadIdx.x + blockIdx.x * blockDim.x]) {
    const int before = atomicCAS(out, seen, x[threadIdx.x + blockIdx.x * blockDim.x]);
    if (before == seen) break;
    seen = before;
  }
  if (mode == 1 && seen < x[threadIdx.x + blockIdx.x * blockDim.x]) atomicExch(out, x[threadIdx.x + blockIdx.x * blockDim.x]);
}

// The same by an mbarrier, at which lane 0 arrives for its warp. Mode 1: no __syncwarp comes before.
__global__ void arrival_kernel(const float* x, float* out, int mode) {
  __shared__ float row[32];
  __shared__ alignas(8) unsigned long long bar;
  const int lane = threadIdx.x % 32;
  const unsigned at = unsigned(__cvta_generic_to_shared(&bar));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    row[lane] = x[lane];  // arrives later
    if (mode == 0) __syncwarp();
    if (lane == 0) asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(at) : "memory");
  } else {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(at) : "memory");
    out[lane] = row[31 - lane];  // waited
  }
}

// Block 0 hands `row` over to block 1. Mode 1: lane 0 tells of all lanes' stores, which no __syncwarp orders; 2: nothing comes between
// the flag and the reads; 3: a barrier does; 4: the flag is released and acquired.
__device__ volatile int handed;
__global__ void handed_kernel(const float* x, float* row, float* out, int mode) {
  const int lane = threadIdx.x;
  if (blockIdx.x == 0) {
    row[lane] = x[lane];  // hands to a block
    if (mode != 4) __threadfence();
    if (mode != 1) __syncwarp();
    if (lane != 0) return;
    if (mode == 4) {
      asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(const_cast<int*>(&handed)) : "memory");
      return;
    }
    if (mode != 1) __threadfence();
    handed = 1;
  } else {
    int seen = 0;
    while (seen == 0) {
      if (mode == 4) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(const_cast<int*>(&handed)) : "memory");
      else seen = handed;
    }
    if (mode < 2) __threadfence();
    if (mode == 3) __syncthreads();
    out[lane] = row[31 - lane];  // takes of a block
  }
}

// Each lane tells of its own store, so no lanes have to meet.
__device__ int each[32];
__global__ void each_kernel(const float* x, float* row, float* out) {
  const int lane = threadIdx.x % 32;
  if (blockIdx.x == 0) {
    row[lane] = x[lane];
    __threadfence();
    atomicExch(each + lane, 1);
  } else {
    while (*const_cast<volatile int*>(each + 31 - lane) == 0) __nanosleep(20);
    __threadfence();
    out[lane] = row[31 - lane];
    atomicExch(each + 31 - lane, 0);
  }
}

// Blocks count themselves; the last one sums up. Mode 0: each thread fences its store, and thread 0 counts after a barrier; 1: no thread
// fences; 2: before its store; 3: for its block alone.
__device__ int counted_blocks, told_of[4];
__global__ void last_block_kernel(const float* x, float* row, float* out, int mode) {
  __shared__ bool last;
  if (mode == 2) __threadfence();
  row[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x];
  if (mode == 0) __threadfence();
  if (mode == 3) __threadfence_block();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&counted_blocks, 1) == int(gridDim.x) - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  float sum = 0.0f;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += row[b * 64 + threadIdx.x];
  out[threadIdx.x] = sum / gridDim.x;
}

// The lanes of a warp take turns with a lock in shared memory. Mode 1: none fences; 2: none fences what it wrote.
__global__ void lane_lock_kernel(const float*, float*, float* out, int mode) {
  __shared__ int lock, total;
  if (threadIdx.x == 0) lock = total = 0;
  __syncwarp();
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0, 1) != 0) continue;
    if (mode != 1) __threadfence_block();
    total += 1;
    if (mode == 0) __threadfence_block();
    atomicExch(&lock, 0);
    done = true;
  }
  __syncwarp();
  out[threadIdx.x] = float(total);
}

// Warp 1 takes shared memory that warp 0 hands over by a flag in global memory. Mode 1: warp 0 has no fence; 2: warp 1 has none.
__global__ void far_flag_kernel(const float* x, float*, float* out, int mode) {
  __shared__ float row[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    row[lane] = x[lane];
    __syncwarp();
    if (lane != 0) return;
    if (mode != 1) __threadfence();
    atomicExch(told_of, 1);
  } else {
    while (*const_cast<volatile int*>(told_of) == 0) __nanosleep(20);
    if (mode != 2) __threadfence();
    out[lane] = row[31 - lane];
  }
}

// A vector's second element is a flag. Mode 0: it is stored alone and polled by vectors; 1: the other way round; 2: the same without a fence.
__global__ void vector_flag_kernel(const float* x, float* row, float* out, int mode) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    row[0] = x[1];
    if (mode != 2) __threadfence();
    if (mode == 0) *const_cast<volatile int*>(told_of + 1) = 1;
    else asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %1};" ::"l"(told_of), "r"(1) : "memory");
  } else {
    int first, seen = 0;
    while (seen == 0) {
      if (mode == 0) asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(first), "=r"(seen) : "l"(told_of) : "memory");
      else seen = *const_cast<volatile int*>(told_of + 1);
    }
    __threadfence();
    out[0] = row[0];
  }
}

// Blocks add to `row` one after the other; all threads of a block poll by a barrier. Mode 1: a block lets the next one come without a fence.
__global__ void semaphore_kernel(const float* x, float* row, float* out, int mode) {
  int turn = -1;
  while (__syncthreads_and(turn != int(blockIdx.x))) {
    if (threadIdx.x == 0) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(turn) : "l"(told_of) : "memory");
  }
  __syncthreads();
  row[63 - threadIdx.x] += x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0 && mode == 0) asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(told_of), "r"(blockIdx.x + 1) : "memory");
  if (threadIdx.x == 0 && mode == 1) *const_cast<volatile int*>(told_of) = int(blockIdx.x) + 1;
  if (blockIdx.x == gridDim.x - 1) out[63 - threadIdx.x] = row[63 - threadIdx.x] / gridDim.x;
}

// Lanes sleep until lane 0 of their warp has stored. Mode 1: lane 0 has no fence.
__global__ void lane_sleeps_kernel(const float* x, float* row, float* out, int mode) {
  if (threadIdx.x != 0) {
    while (*const_cast<volatile int*>(told_of) == 0) __nanosleep(20);
    __threadfence();
  } else {
    row[0] = x[3];
    if (mode == 0) __threadfence();
    *const_cast<volatile int*>(told_of) = 1;
  }
  out[threadIdx.x] = row[0];
}

// Thread 0 works between the barriers. Mode 1: it skips one of them.
__global__ void turns_kernel(const float* x, float* row, float* out, int mode) {
  #pragma unroll 1
  for (int turn = 0; turn < 4; ++turn) {
    if (mode == 0 || turn != 1 || threadIdx.x != 0) __syncthreads();
    if (threadIdx.x == 0) *const_cast<volatile float*>(row) = x[turn];
  }
  out[threadIdx.x] = x[threadIdx.x];
}

// A block counts by atomic operations of its own scope. Mode 1: all blocks count in one place.
__global__ void block_scope_kernel(const float* x, float*, float* out, int mode) {
  int* const count = told_of + (mode == 0 ? blockIdx.x : 0);
  atomicAdd_block(count, 1);
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = atomicAdd_block(count, 0) >= 64 ? x[1] : 0.0f;
}

// Lane 0 reads what others wrote, of which some have ended. Mode 1: they ended before the lanes met.
__global__ void ended_lanes_kernel(const float* x, float*, float* out, int mode) {
  __shared__ float row[32];
  row[threadIdx.x] = x[threadIdx.x];
  if (mode == 0) __syncwarp();
  if (threadIdx.x >= 16) asm volatile("exit;");
  __syncwarp();
  if (threadIdx.x == 0) out[0] = row[1] + 0.0f * row[31];
}

// All lanes guess by one read; the odd ones keep what they read, and no swap checks it. Mode 0: those swap, too.
__global__ void odd_guess_kernel(int* total, int* seen, int mode) {
  int known = *total;  // all guess
  while (mode == 0 || threadIdx.x % 2 == 0) {
    const int before = atomicCAS(total, known, known + 1);
    if (before == known) break;
    known = before;
  }
  seen[threadIdx.x + blockIdx.x * blockDim.x] = known;
}

__global__ void grid_kernel(const float* x, float* part, float* out, int n) {
  auto grid = cg::this_grid();
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float v = 0.0f;
  for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) v += x[i];
  v = cg::reduce(warp, v, cg::plus<float>());
  if (warp.thread_rank() == 0) part[blockIdx.x] = v;
  grid.sync();
  if (grid.thread_rank() != 0) return;
  float sum = 0.0f;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += part[i];
  *out = sum;
}

__global__ void sort_kernel(const int* x, int* sorted, int* sums) {
  using Sort = cub::BlockRadixSort<int, 128, 4>;
  using Scan = cub::BlockScan<int, 128>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
  } storage;
  int v[4], s[4];
  for (int i = 0; i < 4; ++i) v[i] = x[threadIdx.x * 4 + i];
  Sort(storage.sort).Sort(v);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(v, s);
  for (int i = 0; i < 4; ++i) {
    sorted[threadIdx.x * 4 + i] = v[i];
    sums[threadIdx.x * 4 + i] = s[i];
  }
}

__global__ void warp_kernel(const int* x, int* out) {
  const int v = x[threadIdx.x];
  out[threadIdx.x * 4] = __syncthreads_count(v > 50) * 4 + __syncthreads_and(v >= 0) * 2 + __syncthreads_or(v == 1000);
  int odd = 0;
  if (v & 1) odd = cg::reduce(cg::coalesced_threads(), v, cg::plus<int>());  // lanes of one branch
  out[threadIdx.x * 4 + 1] = odd;
  out[threadIdx.x * 4 + 2] = int(__reduce_add_sync(~0u, unsigned(v)));
  out[threadIdx.x * 4 + 3] = __popc(__match_any_sync(~0u, v & 3)) * 100 + int(__ballot_sync(~0u, v & 1) & 63);
}

#define TAIL void*, char*, int64_t
extern "C" int copy(const float* x, float* out, int64_t mode, TAIL) { copy_kernel<<<1, 128>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int bulk(const float* x, float* out, int64_t mode, TAIL) { bulk_kernel<<<1, 128>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int libcu(const float* x, float* out, TAIL) { libcu_kernel<<<1, 128>>>(x, out); return cudaGetLastError(); }
extern "C" int staged(const float* x, float* out, int64_t mode, TAIL) { pipeline_kernel<<<1, 64>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int flagged(const float* x, float* out, int64_t mode, TAIL) { flag_kernel<<<1, 64>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int arrived(const float* x, float* out, int64_t mode, TAIL) { arrival_kernel<<<1, 64>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int handed_over(const float* x, float* row, float* out, int64_t mode, TAIL) {
  const int none = 0;
  if (cudaMemcpyToSymbol(handed, &none, sizeof none) != cudaSuccess) return 1;
  handed_kernel<<<2, 32>>>(x, row, out, int(mode));
  return cudaGetLastError();
}
static bool nothing_told() {
  const int none[4] = {};
  return cudaMemcpyToSymbol(counted_blocks, none, sizeof(int)) == cudaSuccess && cudaMemcpyToSymbol(told_of, none, sizeof none) == cudaSuccess;
}
#define ORDERED(name, blocks, threads) \
  extern "C" int name(const float* x, float* row, float* out, int64_t mode, TAIL) { \
    if (!nothing_told()) return 1; \
    name##_kernel<<<blocks, threads>>>(x, row, out, int(mode)); \
    return cudaGetLastError(); \
  }
ORDERED(last_block, 4, 64)
ORDERED(lane_lock, 1, 32)
ORDERED(far_flag, 1, 64)
ORDERED(vector_flag, 2, 32)
ORDERED(semaphore, 4, 64)
ORDERED(lane_sleeps, 1, 32)
ORDERED(turns, 1, 64)
ORDERED(block_scope, 2, 64)
ORDERED(ended_lanes, 1, 32)
extern "C" int each_tells(const float* x, float* row, float* out, TAIL) { each_kernel<<<2, 32>>>(x, row, out); return cudaGetLastError(); }
extern "C" int odd_guess(int* total, int* seen, int64_t mode, TAIL) { odd_guess_kernel<<<2, 64>>>(total, seen, int(mode)); return cudaGetLastError(); }
extern "C" int largest(const int* x, int* out, int64_t mode, TAIL) { largest_kernel<<<4, 32>>>(x, out, int(mode)); return cudaGetLastError(); }
extern "C" int sort(const int* x, int* sorted, int* sums, TAIL) { sort_kernel<<<1, 128>>>(x, sorted, sums); return cudaGetLastError(); }
extern "C" int warps(const int* x, int* out, TAIL) { warp_kernel<<<1, 64>>>(x, out); return cudaGetLastError(); }
static void count(cudaStream_t, cudaError_t status, void* data) { *static_cast<int*>(data) += status == cudaSuccess; }
extern "C" int counted(const int* x, int* out, TAIL) {
  int launches = 0;
  if (cudaSetDeviceFlags(cudaDeviceScheduleAuto) != cudaSuccess || cudaProfilerStart() != cudaSuccess) return 1;
  warp_kernel<<<1, 64>>>(x, out);
  if (cudaStreamAddCallback(nullptr, count, &launches, 0) != cudaSuccess || cudaStreamSynchronize(nullptr) != cudaSuccess) return 2;
  return cudaProfilerStop() == cudaSuccess && launches == 1 ? 0 : 3;
}
extern "C" int grid(const float* x, float* part, float* out, int64_t n, TAIL) {
  int count = int(n);
  void* arguments[] = {&x, &part, &out, &count};
  return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_kernel), dim3(6), dim3(32), arguments, 0, nullptr);
}
