// Honest launchers of row sums, out[r] = sum of x[r, c], in the forms that people write.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#define ENTRY(name) extern "C" int name(const float* x, float* out, int64_t rows, int64_t columns, void* stream, char* error, int64_t error_bytes)
#define STREAM static_cast<cudaStream_t>(stream)

static int told(char* error, int64_t error_bytes) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}

__global__ void by_thread(const float* x, float* out, int64_t rows, int64_t columns) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int64_t c = 0; c < columns; ++c) sum += x[row * columns + c];
  out[row] = sum;
}
// a thread a row
ENTRY(rows_by_thread) {
  by_thread<<<unsigned((rows + 63) / 64), 64, 0, STREAM>>>(x, out, rows, columns);
  return told(error, error_bytes);
}

__inline__ __device__ float warp_sum(float value) {
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
  return value;
}

__global__ void by_warp(const float* x, float* out, int64_t rows, int64_t columns) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x % 32; c < columns; c += 32) sum += x[row * columns + c];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) out[row] = sum;
}
// a warp a row, by shuffles
ENTRY(rows_by_warp) {
  by_warp<<<unsigned((rows + 3) / 4), 128, 0, STREAM>>>(x, out, rows, columns);
  return told(error, error_bytes);
}

__global__ void by_tree(const float* x, float* out, int64_t columns) {
  __shared__ float part[128];
  const float* row = x + int64_t(blockIdx.x) * columns;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned apart = blockDim.x / 2; apart > 0; apart /= 2) {
    if (threadIdx.x < apart) part[threadIdx.x] += part[threadIdx.x + apart];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
// a block a row, by a tree in shared memory
ENTRY(rows_by_tree) {
  by_tree<<<unsigned(rows), 128, 0, STREAM>>>(x, out, columns);
  return told(error, error_bytes);
}

__global__ void by_two_levels(const float* x, float* out, int64_t columns) {
  __shared__ float part[32];
  const float* row = x + int64_t(blockIdx.x) * columns;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}
// a block a row, warps first and then their sums
ENTRY(rows_by_two_levels) {
  by_two_levels<<<unsigned(rows), 256, 0, STREAM>>>(x, out, columns);
  return told(error, error_bytes);
}

__global__ void by_down_shuffles(const float* x, float* out, int64_t columns) {
  const float* row = x + int64_t(blockIdx.x) * columns;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < columns; c += 32) sum += row[c];
  for (int apart = 16; apart > 0; apart >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, apart);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
// blocks of one warp, by shuffles downwards
ENTRY(rows_by_down_shuffles) {
  by_down_shuffles<<<unsigned(rows), 32, 0, STREAM>>>(x, out, columns);
  return told(error, error_bytes);
}

__global__ void compensated(const float* x, float* out, int64_t rows, int64_t columns) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f, lost = 0.0f;
  for (int64_t c = 0; c < columns; ++c) {
    const float value = x[row * columns + c] - lost, next = sum + value;
    lost = (next - sum) - value;
    sum = next;
  }
  out[row] = sum;
}
// a compensated sum
ENTRY(rows_compensated) {
  compensated<<<unsigned((rows + 31) / 32), 32, 0, STREAM>>>(x, out, rows, columns);
  return told(error, error_bytes);
}

__global__ void in_double(const float* x, float* out, int64_t columns) {
  __shared__ double part[64];
  const float* row = x + int64_t(blockIdx.x) * columns;
  double sum = 0.0;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned k = 1; k < blockDim.x; ++k) sum += part[k];
    out[blockIdx.x] = float(sum);
  }
}
// a sum in double
ENTRY(rows_in_double) {
  in_double<<<unsigned(rows), 64, 0, STREAM>>>(x, out, columns);
  return told(error, error_bytes);
}

__global__ void pieces(const float* x, float* room, int64_t columns, int parts) {
  const float* row = x + int64_t(blockIdx.y) * columns;
  const int64_t begin = columns * blockIdx.x / parts, end = columns * (blockIdx.x + 1) / parts;
  float sum = 0.0f;
  for (int64_t c = begin + threadIdx.x; c < end; c += 32) sum += row[c];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) room[blockIdx.y * parts + blockIdx.x] = sum;
}
__global__ void join(const float* room, float* out, int64_t rows, int parts) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = 0; k < parts; ++k) sum += room[row * parts + k];
  out[row] = sum;
}
// two launches with a workspace between them, kept and grown by size
ENTRY(rows_in_two_launches) {
  static float* room = nullptr;
  static int64_t size = 0;
  const int parts = 3;
  if (rows * parts > size) {
    if (room != nullptr) cudaFree(room);
    size = rows * parts;
    if (cudaMalloc(reinterpret_cast<void**>(&room), size_t(size) * sizeof(float)) != cudaSuccess) return std::snprintf(error, size_t(error_bytes), "no memory"), 1;
  }
  pieces<<<dim3(parts, unsigned(rows)), 32, 0, STREAM>>>(x, room, columns, parts);
  join<<<unsigned((rows + 63) / 64), 64, 0, STREAM>>>(room, out, rows, parts);
  return told(error, error_bytes);
}

__global__ void unrolled(const float* __restrict__ x, float* __restrict__ out, int64_t columns) {
  const float* row = x + int64_t(blockIdx.x) * columns;
  float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
  int64_t i = threadIdx.x;
  for (; i + 96 < columns; i += 128) a += row[i], b += row[i + 32], c += row[i + 64], d += row[i + 96];
  for (; i < columns; i += 32) a += row[i];
  const float sum = warp_sum((a + b) + (c + d));
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
// four sums a thread
ENTRY(rows_unrolled) {
  unrolled<<<unsigned(rows), 32, 0, STREAM>>>(x, out, columns);
  return told(error, error_bytes);
}
