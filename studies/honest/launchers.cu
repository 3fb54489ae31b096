// Honest launchers of out = a x + y in the forms that people write. The comment above an entry says which form it is.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#define ENTRY(name) \
  extern "C" int name(const float* x, const float* y, float* out, int64_t n, float a, void* stream, char* error, int64_t error_bytes)
#define STREAM static_cast<cudaStream_t>(stream)

static int told(char* error, int64_t error_bytes) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}
static unsigned blocks(int64_t n, int64_t per_block) { return unsigned((n + per_block - 1) / per_block); }

__global__ void plain(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}

#define BLOCK_SIZE(size)                                                             \
  ENTRY(block_##size) {                                                              \
    plain<<<blocks(n, size), size, 0, STREAM>>>(x, y, out, n, a);                     \
    return told(error, error_bytes);                                                 \
  }
// blocks of 32 threads
BLOCK_SIZE(32)
// blocks of 64 threads
BLOCK_SIZE(64)
// blocks of 96 threads
BLOCK_SIZE(96)
// blocks of 256 threads
BLOCK_SIZE(256)
// blocks of 512 threads
BLOCK_SIZE(512)
// blocks of 1024 threads
BLOCK_SIZE(1024)

__global__ void strided(const float* x, const float* y, float* out, int64_t n, float a) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) out[i] = a * x[i] + y[i];
}
// a grid-stride loop over a fixed grid
ENTRY(grid_stride) {
  strided<<<4, 64, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}
// a grid-stride loop whose grid depends on the size
ENTRY(grid_stride_capped) {
  strided<<<std::min(blocks(n, 128), 132u), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}
// one block for everything
ENTRY(one_block) {
  strided<<<1, 256, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void by_four(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = 4 * (int64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i + 4 <= n) {
    const float4 u = *reinterpret_cast<const float4*>(x + i), v = *reinterpret_cast<const float4*>(y + i);
    *reinterpret_cast<float4*>(out + i) = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
  } else {
    for (int64_t k = i; k < n; ++k) out[k] = a * x[k] + y[k];
  }
}
// loads of four floats, and a tail
ENTRY(vector_four) {
  by_four<<<blocks(n, 512), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void by_two(const float2* x, const float2* y, float2* out, int64_t pairs, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < pairs) out[i] = make_float2(a * x[i].x + y[i].x, a * x[i].y + y[i].y);
}
__global__ void last(const float* x, const float* y, float* out, int64_t n, float a) {
  if (threadIdx.x == 0) out[n - 1] = a * x[n - 1] + y[n - 1];
}
// loads of two floats, and a second launch for an odd element
ENTRY(vector_two) {
  if (n > 1) by_two<<<blocks(n / 2, 128), 128, 0, STREAM>>>((const float2*)x, (const float2*)y, (float2*)out, n / 2, a);
  if (n % 2) last<<<1, 32, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

template <int PER_THREAD>
__global__ void unrolled(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, int64_t n, float a) {
  const int64_t first = int64_t(blockIdx.x) * blockDim.x * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int k = 0; k < PER_THREAD; ++k) {
    const int64_t i = first + int64_t(k) * blockDim.x;
    if (i < n) out[i] = a * x[i] + y[i];
  }
}
// a template with four elements a thread
ENTRY(template_four) {
  unrolled<4><<<blocks(n, 512), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}
// a template with eight elements a thread, chosen at run time
ENTRY(template_by_size) {
  if (n > 1000) unrolled<8><<<blocks(n, 1024), 128, 0, STREAM>>>(x, y, out, n, a);
  else unrolled<1><<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

struct Line {
  float a;
  __device__ float operator()(float u, float v) const { return a * u + v; }
};
template <class F>
__global__ void applied(const float* x, const float* y, float* out, int64_t n, F f) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(x[i], y[i]);
}
// a functor as the kernel's argument
ENTRY(functor) {
  applied<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, Line{a});
  return told(error, error_bytes);
}

__global__ void inner_lambda(const float* x, const float* y, float* out, int64_t n, float a) {
  const auto f = [=](float u, float v) { return a * u + v; };
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(x[i], y[i]);
}
// a lambda inside the kernel
ENTRY(lambda) {
  inner_lambda<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void scaled(const float* x, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i];
}
__global__ void added(const float* y, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] += y[i];
}
// two launches, the second on what the first wrote
ENTRY(two_launches) {
  scaled<<<blocks(n, 128), 128, 0, STREAM>>>(x, out, n, a);
  added<<<blocks(n, 128), 128, 0, STREAM>>>(y, out, n);
  return told(error, error_bytes);
}
// a launch for each piece of 100 elements
ENTRY(pieces) {
  const int64_t piece = n / 4 + 1;
  for (int64_t at = 0; at < n; at += piece) {
    const int64_t count = std::min(piece, n - at);
    plain<<<blocks(count, 128), 128, 0, STREAM>>>(x + at, y + at, out + at, count, a);
  }
  return told(error, error_bytes);
}
// a copy between device buffers, then work on the copy
ENTRY(copy_then_add) {
  cudaMemcpyAsync(out, y, size_t(n) * sizeof(float), cudaMemcpyDeviceToDevice, STREAM);
  unrolled<1><<<blocks(n, 128), 128, 0, STREAM>>>(x, out, out, n, a);
  return told(error, error_bytes);
}

__global__ void accumulated(const float* x, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out + i, a * x[i]);
}
// zeros by cudaMemsetAsync, then two atomic additions an element, which no order changes
ENTRY(memset_and_atomics) {
  cudaMemsetAsync(out, 0, size_t(n) * sizeof(float), STREAM);
  accumulated<<<blocks(n, 128), 128, 0, STREAM>>>(x, out, n, a);
  accumulated<<<blocks(n, 128), 128, 0, STREAM>>>(y, out, n, 1.0f);
  return told(error, error_bytes);
}

__global__ void staged(const float* x, const float* y, float* out, int64_t n, float a) {
  __shared__ float tile[2][128];
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  tile[0][threadIdx.x] = i < n ? x[i] : 0.0f;
  tile[1][threadIdx.x] = i < n ? y[i] : 0.0f;
  __syncthreads();
  const int from = 127 - int(threadIdx.x);
  const int64_t to = int64_t(blockIdx.x) * blockDim.x + from;
  if (to < n) out[to] = a * tile[0][from] + tile[1][from];
}
// a tile in static shared memory, read back in another order
ENTRY(shared_tile) {
  staged<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void staged_dynamically(const float* x, const float* y, float* out, int64_t n, float a) {
  extern __shared__ float room[];
  const int64_t first = int64_t(blockIdx.x) * blockDim.x;
  for (int k = threadIdx.x; k < int(blockDim.x) && first + k < n; k += blockDim.x) room[k] = a * x[first + k];
  __syncthreads();
  const int64_t i = first + threadIdx.x;
  if (i < n) out[i] = room[threadIdx.x] + y[i];
}
// dynamic shared memory by the launch
ENTRY(dynamic_shared) {
  staged_dynamically<<<blocks(n, 64), 64, 64 * sizeof(float), STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__constant__ float factors[4] = {1.0f, 0.5f, 0.25f, 0.125f};
__global__ void from_constants(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * factors[0] * x[i] + y[i];
}
// a factor in constant memory
ENTRY(constant_memory) {
  from_constants<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void fused(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __fmaf_rn(a, __ldg(x + i), __ldg(y + i));
}
// __ldg and a fused multiply-add
ENTRY(intrinsics) {
  fused<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void in_double(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = float(double(a) * double(x[i]) + double(y[i]));
}
// double arithmetic, rounded once
ENTRY(doubles) {
  in_double<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void two_dimensional(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = (int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a * x[i] + y[i];
}
// a grid and blocks of two dimensions
ENTRY(dimensions) {
  const unsigned count = blocks(n, 128);
  two_dimensional<<<dim3(2, (count + 1) / 2), dim3(16, 8), 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void shuffled(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float value = i < n ? a * x[i] : 0.0f;
  value = __shfl_xor_sync(0xffffffffu, value, 1);
  value = __shfl_xor_sync(0xffffffffu, value, 1);
  if (i < n) out[i] = value + y[i];
}
// values that cross a warp and come back
ENTRY(warp_shuffle) {
  shuffled<<<blocks(n, 64), 64, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void backwards(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = n - 1 - (int64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i >= 0) out[i] = a * x[i] + y[i];
}
// from the last element to the first
ENTRY(reversed) {
  backwards<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__device__ float scratch[1 << 20];
__global__ void into_scratch(const float* x, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) scratch[i] = a * x[i];
}
__global__ void from_scratch(const float* y, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = scratch[i] + y[i];
}
// a workspace in a device variable, written anew in each call
ENTRY(device_variable) {
  if (n > (1 << 20)) return std::snprintf(error, size_t(error_bytes), "n is above 2^20"), 1;
  into_scratch<<<blocks(n, 128), 128, 0, STREAM>>>(x, n, a);
  from_scratch<<<blocks(n, 128), 128, 0, STREAM>>>(y, out, n);
  return told(error, error_bytes);
}

__global__ void through(const float* x, float* room, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) room[i] = a * x[i];
}
__global__ void out_of(const float* room, const float* y, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = room[i] + y[i];
}
// a workspace that is kept from call to call and grows with the size
ENTRY(kept_workspace) {
  static float* room = nullptr;
  static int64_t size = 0;
  if (n > size) {
    if (room != nullptr) cudaFree(room);
    if (cudaMalloc(reinterpret_cast<void**>(&room), size_t(n) * sizeof(float)) != cudaSuccess) return std::snprintf(error, size_t(error_bytes), "no memory"), 1;
    size = n;
  }
  through<<<blocks(n, 128), 128, 0, STREAM>>>(x, room, n, a);
  out_of<<<blocks(n, 128), 128, 0, STREAM>>>(room, y, out, n);
  return told(error, error_bytes);
}

__global__ void counted_down(const float* x, const float* y, float* out, int n, float a) {
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  while (i < n) {
    out[i] = a * x[i] + y[i];
    i += int(gridDim.x * blockDim.x);
  }
}
// 32-bit indices where the size fits, checked by the launcher
ENTRY(small_indices) {
  if (n > 0x7fffffff) return std::snprintf(error, size_t(error_bytes), "n is above 2^31 - 1"), 1;
  counted_down<<<blocks(n, 256), 128, 0, STREAM>>>(x, y, out, int(n), a);
  return told(error, error_bytes);
}

__global__ __launch_bounds__(128, 4) void bounded(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = y[i];
  value += a * x[i];
  out[i] = value;
}
// launch bounds and an early return
ENTRY(launch_bounds) {
  bounded<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

enum class Op { kAdd, kNone };
template <Op OP>
__device__ __forceinline__ float joined(float u, float v) {
  if constexpr (OP == Op::kAdd) return u + v;
  return u;
}
template <typename T, Op OP>
__global__ void typed(const T* x, const T* y, T* out, int64_t n, T a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = joined<OP>(a * x[i], y[i]);
}
// a template over a type and an enumeration
ENTRY(typed_template) {
  typed<float, Op::kAdd><<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void voted(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool inside = i < n;
  if (__any_sync(0xffffffffu, inside) && inside) out[i] = a * x[i] + y[i];
}
// a vote of the warp before the work
ENTRY(warp_vote) {
  voted<<<blocks(n, 128), 128, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}

__global__ void looped(const float* x, const float* y, float* out, int64_t n, float a) {
  const int64_t begin = n * blockIdx.x / gridDim.x, end = n * (blockIdx.x + 1) / gridDim.x;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) out[i] = a * x[i] + y[i];
}
// a range of elements a block
ENTRY(ranges) {
  looped<<<7, 96, 0, STREAM>>>(x, y, out, n, a);
  return told(error, error_bytes);
}
