// Row softmax, one warp a row: neighbouring lanes read neighbouring columns, and shuffles bring maximum and sum together.
#include "../launcher.cuh"

constexpr int kRows = 4;  // rows, and warps, a CTA

__global__ void softmax_kernel(const float* x, float* out, int64_t rows, int64_t columns) {
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t(blockIdx.x) * kRows + threadIdx.x / 32;
  if (row >= rows) return;  // the same for all lanes of a warp
  const float* in = x + row * columns;
  float largest = -INFINITY;
  for (int64_t i = lane; i < columns; i += 32) largest = fmaxf(largest, in[i]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  float sum = 0.0f;
  for (int64_t i = lane; i < columns; i += 32) sum += expf(in[i] - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int64_t i = lane; i < columns; i += 32) out[row * columns + i] = expf(in[i] - largest) / sum;
}

extern "C" int softmax_launch(const float* x, float* out, int64_t rows, int64_t columns, void* stream, char* error, int64_t error_bytes) {
  if (rows < 1 || columns < 1) return refuse(error, error_bytes, "R and C must be at least 1");
  softmax_kernel<<<unsigned((rows + kRows - 1) / kRows), 32 * kRows, 0, static_cast<cudaStream_t>(stream)>>>(x, out, rows, columns);
  return launched(error, error_bytes);
}
