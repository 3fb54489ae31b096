// Row softmax, one warp a row, the row in registers: all loads are in flight at once, 16 bytes a lane where C is a multiple of four,
// and each element is read, and its exponential taken, once.
#include "../launcher.cuh"

#include <cmath>

constexpr int kRows = 4;         // rows, and warps, a CTA
constexpr int kMostColumns = 1024;
constexpr int kHeld = kMostColumns / 32;  // floats of the row in each lane

__global__ void softmax_kernel(const float* x, float* out, int64_t rows, int64_t columns) {
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t(blockIdx.x) * kRows + threadIdx.x / 32;
  if (row >= rows) return;  // the same for all lanes of a warp
  const float* in = x + row * columns;
  float* to = out + row * columns;
  const bool by_four = columns % 4 == 0;  // then every row begins at a multiple of 16 bytes
  float held[kHeld / 4][4];               // lane l has columns 128 i + 4 l to 128 i + 4 l + 3
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kHeld / 4; ++i) {
    const int64_t first = 128 * i + 4 * lane;
    if (by_four && first < columns) {
      const float4 four = *reinterpret_cast<const float4*>(in + first);
      held[i][0] = four.x, held[i][1] = four.y, held[i][2] = four.z, held[i][3] = four.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) held[i][j] = first + j < columns ? in[first + j] : -INFINITY;
    }
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) largest = fmaxf(largest, held[i / 4][i % 4]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    held[i / 4][i % 4] = expf(held[i / 4][i % 4] - largest);  // 0 beyond the row's end
    sum += held[i / 4][i % 4];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
#pragma unroll
  for (int i = 0; i < kHeld / 4; ++i) {
    const int64_t first = 128 * i + 4 * lane;
    if (by_four && first < columns) {
      *reinterpret_cast<float4*>(to + first) = make_float4(held[i][0] / sum, held[i][1] / sum, held[i][2] / sum, held[i][3] / sum);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (first + j < columns) to[first + j] = held[i][j] / sum;
    }
  }
}

extern "C" int softmax_launch(const float* x, float* out, int64_t rows, int64_t columns, void* stream, char* error, int64_t error_bytes) {
  if (rows < 1 || columns < 1) return refuse(error, error_bytes, "R and C must be at least 1");
  if (columns > kMostColumns) return refuse(error, error_bytes, "C must be at most 1024: a row is held in a warp's registers");
  const unsigned blocks = unsigned((rows + kRows - 1) / kRows);
  softmax_kernel<<<blocks, 32 * kRows, 0, static_cast<cudaStream_t>(stream)>>>(x, out, rows, columns);
  return launched(error, error_bytes);
}
