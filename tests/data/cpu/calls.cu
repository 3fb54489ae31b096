// Functions that call themselves, managed variables, tiles of several warps, swaps of 128 bits. Launchers with a mode make a mistake by it.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

#define TAIL void*, char* error, int64_t bytes

static int launched(char* error, int64_t bytes) {
  const cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaSuccess) std::snprintf(error, size_t(bytes), "%s", cudaGetErrorString(status));
  return status != cudaSuccess;
}

// Lanes are at different depths, and each level has two calls.
__device__ __noinline__ int fibonacci(int n) {
  if (n < 2) return n;
  const int first = fibonacci(n - 1);
  return first + fibonacci(n - 2);
}

// Each level has a variable of its own, to which deeper ones have a pointer; a printf stands in it, too.
struct Link {
  const Link* up;
  int value;
};
__device__ __noinline__ int walk(const Link* up, int n) {
  const Link me{up, n};
  if (n == 1000) printf("%d\n", n);
  if (n > 0) return walk(&me, n - 1);
  int sum = 0;
  for (const Link* link = &me; link != nullptr; link = link->up) sum += link->value;
  return sum;
}

__device__ int odd_sum(const int* x, int n);
__device__ __noinline__ int even_sum(const int* x, int n) { return n < 2 ? n * x[0] : odd_sum(x, n / 2) + odd_sum(x + n / 2, n - n / 2); }
__device__ __noinline__ int odd_sum(const int* x, int n) { return n < 2 ? n * x[0] : even_sum(x, n / 2) + even_sum(x + n / 2, n - n / 2); }

// A tree of virtual functions, which may call one another.
struct Node {
  __device__ virtual int value() const = 0;
};
struct Leaf : Node {
  int own;
  __device__ explicit Leaf(int given) : own(given) {}
  __device__ int value() const override { return own; }
};
struct Sum : Node {
  const Node *a, *b;
  __device__ Sum(const Node* left, const Node* right) : a(left), b(right) {}
  __device__ int value() const override { return a->value() + b->value(); }
};

__global__ void recursion_kernel(const int* x, int* out) {
  const int i = int(threadIdx.x);
  const Leaf leaf(i);
  const Sum two(&leaf, &leaf), four(&two, &two), five(&four, &leaf);
  out[4 * i] = fibonacci(i % 11);
  out[4 * i + 1] = walk(nullptr, i % 7);
  out[4 * i + 2] = odd_sum(x, i + 1);
  out[4 * i + 3] = five.value();
}
extern "C" int recursion(const int* x, int* out, TAIL) {
  recursion_kernel<<<1, 48>>>(x, out);
  return launched(error, bytes);
}

__device__ __noinline__ int down(int n, int least) {
  return n == least ? 0 : 1 + down(n - 1, least) * n;  // calls itself
}
__global__ void depth_kernel(int* out, int depth) { out[0] = down(depth, 0); }
extern "C" int depth(int* out, int64_t levels, int64_t stack, TAIL) {
  cudaDeviceSetLimit(cudaLimitStackSize, size_t(stack));
  size_t told = 0;
  cudaDeviceGetLimit(&told, cudaLimitStackSize);
  if (told != size_t(stack)) return 2;
  depth_kernel<<<1, 1>>>(out, int(levels));
  return launched(error, bytes);
}

// Parameters of several sizes, by address and by name, in the same places of the calls.
struct Four {
  float a, b, c, d;
};
using Weigh = float (*)(const float*, Four);
__device__ __noinline__ float weigh(const float* x, Four by) { return x[0] * by.a + x[1] * by.b + x[2] * by.c + x[3] * by.d; }
__device__ __noinline__ float last(const float*, Four by) { return by.d; }
__device__ __noinline__ double halve(int, double value) { return value / 2; }
__device__ __noinline__ bool find(const float* x, float* found) {
  *found = x[3];
  return x[0] < x[3];
}
__device__ Weigh ways[] = {weigh, last};
__global__ void sizes_kernel(const float* x, float* out) {
  const int i = int(threadIdx.x);
  float found = 0.0f;
  const Four by{1.0f, 2.0f, 3.0f, float(i)};
  out[4 * i] = ways[i % 2](x, by);
  out[4 * i + 1] = find(x, &found) ? found : -1.0f;
  out[4 * i + 2] = float(halve(i, i));
  out[4 * i + 3] = weigh(x, by);
}
extern "C" int sizes(const float* x, float* out, TAIL) {
  cudaFuncAttributes told{};
  if (cudaFuncGetAttributes(&told, sizes_kernel) != cudaSuccess || told.ptxVersion != 90) return 2;
  sizes_kernel<<<1, 32>>>(x, out);
  return launched(error, bytes);
}

struct State {
  int seen, step;
};
__managed__ State state = {5, 3};
__managed__ int counts[4];
__global__ void managed_kernel(int* out) {
  out[threadIdx.x] = state.step * int(threadIdx.x);
  atomicAdd(&counts[threadIdx.x % 4], 1);
  if (threadIdx.x == 0) state.seen += 1;
}
extern "C" int managed(int* out, TAIL) {
  cudaDeviceProp chip{};
  cudaGetDeviceProperties(&chip, 0);
  if (!chip.managedMemory || !chip.concurrentManagedAccess || !chip.memoryPoolsSupported || !chip.clusterLaunch) return 6;
  if (state.step != 3) return 2;
  for (int& count : counts) count = 0;
  const int before = state.seen;
  managed_kernel<<<1, 32>>>(out);
  const int failed = launched(error, bytes);
  for (const int count : counts) if (count != 8) return 3;
  void* place = nullptr;
  if (cudaGetSymbolAddress(&place, state) != cudaSuccess || place != &state) return 4;
  return state.seen == before + 1 ? failed : 5;
}

__global__ void tiles_kernel(const int* x, int* out, int mode) {
  __shared__ cg::block_tile_memory<128> memory;
  __shared__ int moved[128];
  const auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
  const int sum = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
  const bool any = tile.any(x[threadIdx.x] < 0);
  moved[threadIdx.x] = sum + (any ? 1000 : 0);
  if (mode == 0) tile.sync();
  out[threadIdx.x] = moved[threadIdx.x ^ 32];  // of another warp
}
extern "C" int tiles(const int* x, int* out, int64_t mode, TAIL) {
  tiles_kernel<<<1, 128>>>(x, out, int(mode));
  return launched(error, bytes);
}

struct __align__(16) Pair {
  long long a, b;
};
__global__ void pairs_kernel(Pair* cell) {
  Pair seen{0, 0};
  for (;;) {
    const Pair got = atomicCAS(cell, seen, Pair{seen.a + threadIdx.x, seen.b - 1});
    if (got.a == seen.a && got.b == seen.b) break;
    seen = got;
  }
  if (threadIdx.x == 0) atomicExch(cell + 1, Pair{3, 4});
}
extern "C" int pairs(Pair* cells, TAIL) {
  pairs_kernel<<<2, 32>>>(cells);
  return launched(error, bytes);
}

__global__ void bytes_kernel(const unsigned* x, unsigned* out) {
  const unsigned a = x[threadIdx.x], b = x[threadIdx.x + 32];
  out[3 * threadIdx.x] = __vabsdiffu4(a, b);
  out[3 * threadIdx.x + 1] = __vsadu4(a, b);
  out[3 * threadIdx.x + 2] = __vsadu2(a, b);
}
extern "C" int differences(const unsigned* x, unsigned* out, TAIL) {
  bytes_kernel<<<1, 32>>>(x, out);
  return launched(error, bytes);
}
