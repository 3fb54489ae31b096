// Row softmax, one thread a row: three passes over the row, and a warp's accesses lie C floats apart.
#include "../launcher.cuh"

constexpr int kThreads = 64;

__global__ void softmax_kernel(const float* x, float* out, int64_t rows, int64_t columns) {
  const int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  const float* in = x + row * columns;
  float largest = in[0];
  for (int64_t i = 1; i < columns; ++i) largest = fmaxf(largest, in[i]);
  float sum = 0.0f;
  for (int64_t i = 0; i < columns; ++i) sum += expf(in[i] - largest);
  for (int64_t i = 0; i < columns; ++i) out[row * columns + i] = expf(in[i] - largest) / sum;
}

extern "C" int softmax_launch(const float* x, float* out, int64_t rows, int64_t columns, void* stream, char* error, int64_t error_bytes) {
  if (rows < 1 || columns < 1) return refuse(error, error_bytes, "R and C must be at least 1");
  softmax_kernel<<<unsigned((rows + kThreads - 1) / kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, out, rows, columns);
  return launched(error, error_bytes);
}
