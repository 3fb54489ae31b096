// SGEMM, one thread an element of C: each reads a row of A and a column of B from global memory.
#include <cuda_runtime.h>

constexpr int kSide = 16;

__global__ void sgemm_kernel(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * kSide + threadIdx.y, column = blockIdx.x * kSide + threadIdx.x;
  if (row >= n || column >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

void sgemm_launch(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned tiles = unsigned((n + kSide - 1) / kSide);
  sgemm_kernel<<<dim3(tiles, tiles), dim3(kSide, kSide), 0, stream>>>(a, b, c, n);
}
