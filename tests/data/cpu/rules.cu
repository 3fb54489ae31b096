// One kernel for each rule of memory and of barriers that the CPU device holds, beside an honest neighbour (mode 0).
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

__global__ void bounds_kernel(const float* x, float* out, int n, int past) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + past) out[i] = x[i];
}

__global__ void alignment_kernel(const float* x, float* out, int shift) {
  const float4 v = *reinterpret_cast<const float4*>(x + shift + 4 * threadIdx.x);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

__global__ void shared_kernel(const float* x, float* out, int mode) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  if (mode != 1) __syncthreads();  // left out: a race
  if (mode == 2 && threadIdx.x == 3) tile[64] = 1.0f;  // past the end
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void warp_kernel(const float* x, float* out, int mode) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  if (mode == 0) __syncwarp();  // left out: a race between lanes
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void fill_kernel(float* out, int mode) {
  __shared__ float tile[32];
  if (threadIdx.x < 16 || mode == 0) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // half of it is never written
}

__global__ void early_return_kernel(const float* x, float* out, int n) {
  __shared__ float tile[64];
  if (threadIdx.x >= n) return;  // legal before a barrier: threads that have ended do not count
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

__global__ void skip_kernel(const float* x, float* out, int mode) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  if (mode == 0 || threadIdx.x < 48) __syncthreads();  // half of a warp skips it
  if (mode == 1 && threadIdx.x >= 48) return;
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// Tiles are taken from a counter. Lanes whose loop's turn has less to do are at the next turn's barrier first.
__global__ void tiles_kernel(const float* x, float* out, int* next, int n) {
  __shared__ int tile;
  float sum = 0;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    if (tile * 64 >= n) break;
    const int i = tile * 64 + threadIdx.x;
    if (i < n) for (int turn = 0; turn <= int(threadIdx.x) % 3; ++turn) sum += x[i] / (threadIdx.x % 3 + 1);
  }
  atomicAdd(out, sum);
}

__global__ void deadlock_kernel(float* out, int mode) {
  if (mode == 1 && threadIdx.x >= 32) {
    asm volatile("bar.sync 1;");
  } else if (mode == 1) {
    asm volatile("bar.sync 2;");
  }
  out[threadIdx.x] = 2.0f;
}

__global__ void endless_kernel(volatile int* out, int mode) {
  while (mode == 1 && out[0] == 0) {
  }
  out[0] = 7;
}

__global__ void sum_kernel(const float* x, float* out, int mode) {
  if (mode == 0) atomicAdd(out, x[blockIdx.x]);
  else *out += x[blockIdx.x];  // blocks update one place
}

__device__ unsigned arrived;
__global__ void last_block_kernel(const float* x, float* part, float* out, int mode) {
  part[blockIdx.x] = x[blockIdx.x];
  if (mode == 0) __threadfence();  // left out: the last block may read what is not there yet
  if (atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1) {
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += part[b];  // of all blocks
    *out = sum;
  }
}

__global__ void in_place_kernel(float* x, float* out) {
  out[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = 0.0f;  // an input
}

// Lanes of one warp wait for another lane of it: independent thread scheduling gives that an end.
__global__ void lock_kernel(int* lock, int* count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *reinterpret_cast<volatile int*>(count) = *reinterpret_cast<volatile int*>(count) + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

__device__ int table[4] = {3, 1, 4, 1};
__constant__ float factor = 0.5f;
__device__ __noinline__ float halved(float v) { return v * factor; }
__global__ void symbols_kernel(float* out) { out[threadIdx.x] = halved(float(table[threadIdx.x])); }

__global__ void print_kernel(int lines) {
  for (int i = 0; i < lines; ++i) printf("line %d of %s: %5.2f %lld\n", i, "many", 1.5, 1ll << 40);
}

static int launched(char* error, int64_t bytes) {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) std::snprintf(error, size_t(bytes), "%s", cudaGetErrorString(status));
  return status == cudaSuccess ? 0 : 1;
}

#define TAIL void*, char* error, int64_t bytes
extern "C" int bounds(const float* x, float* out, int64_t n, int64_t past, TAIL) {
  bounds_kernel<<<unsigned((n + 127) / 64), 64>>>(x, out, int(n), int(past));
  return launched(error, bytes);
}
extern "C" int alignment(const float* x, float* out, int64_t shift, TAIL) {
  alignment_kernel<<<1, 32>>>(x, out, int(shift));
  return launched(error, bytes);
}
extern "C" int shared(const float* x, float* out, int64_t mode, TAIL) {
  shared_kernel<<<2, 64>>>(x, out, int(mode));
  return launched(error, bytes);
}
extern "C" int warp(const float* x, float* out, int64_t mode, TAIL) {
  warp_kernel<<<1, 32>>>(x, out, int(mode));
  return launched(error, bytes);
}
extern "C" int fill(float* out, int64_t mode, TAIL) {
  fill_kernel<<<1, 32>>>(out, int(mode));
  return launched(error, bytes);
}
extern "C" int early_return(const float* x, float* out, int64_t n, TAIL) {
  early_return_kernel<<<1, 64>>>(x, out, int(n));
  return launched(error, bytes);
}
extern "C" int skip(const float* x, float* out, int64_t mode, TAIL) {
  skip_kernel<<<1, 64>>>(x, out, int(mode));
  return launched(error, bytes);
}
extern "C" int tiles(const float* x, float* out, int* next, int64_t n, TAIL) {
  tiles_kernel<<<2, 64>>>(x, out, next, int(n));
  return launched(error, bytes);
}
extern "C" int deadlock(float* out, int64_t mode, TAIL) {
  deadlock_kernel<<<1, 64>>>(out, int(mode));
  return launched(error, bytes);
}
extern "C" int endless(int* out, int64_t mode, TAIL) {
  endless_kernel<<<1, 1>>>(out, int(mode));
  return launched(error, bytes);
}
extern "C" int sum(const float* x, float* out, int64_t mode, TAIL) {
  sum_kernel<<<4, 1>>>(x, out, int(mode));
  return launched(error, bytes);
}
extern "C" int last_block(const float* x, float* part, float* out, int64_t mode, TAIL) {
  last_block_kernel<<<4, 1>>>(x, part, out, int(mode));
  return launched(error, bytes);
}
extern "C" int in_place(float* x, float* out, TAIL) {
  in_place_kernel<<<1, 32>>>(x, out);
  return launched(error, bytes);
}
extern "C" int leak(TAIL) {
  void* held = nullptr;
  cudaMalloc(&held, 4096);
  return launched(error, bytes);
}
extern "C" int lock(int* held, int* count, TAIL) {
  lock_kernel<<<3, 64>>>(held, count);
  return launched(error, bytes);
}
extern "C" int symbols(float* out, TAIL) {
  const int first = 8;
  cudaMemcpyToSymbol(table, &first, sizeof first);
  symbols_kernel<<<1, 4>>>(out);
  return launched(error, bytes);
}
extern "C" int print(int64_t lines, TAIL) {
  print_kernel<<<1, 2>>>(int(lines));
  return launched(error, bytes);
}
extern "C" int bad_block(float* out, int64_t threads, TAIL) {
  fill_kernel<<<1, unsigned(threads)>>>(out, 0);
  return launched(error, bytes);
}
extern "C" int host_reads(const float* x, TAIL) { return x[0] == 0.0f ? launched(error, bytes) : 1; }

// All threads add to one place: by the usual loop around compare and swap, or by a plain read that nothing orders.
__global__ void swap_kernel(int* total, int* seen, int mode) {
  int known = *total;  // a guess
  while (mode == 0) {
    const int before = atomicCAS(total, known, known + 1);  // right or not
    if (before == known) break;
    known = before;
  }
  if (mode == 1) atomicAdd(total, 1);
  seen[blockIdx.x * blockDim.x + threadIdx.x] = known;
}
extern "C" int swap(int* total, int* seen, int64_t mode, TAIL) { swap_kernel<<<2, 64>>>(total, seen, int(mode)); return cudaGetLastError(); }
