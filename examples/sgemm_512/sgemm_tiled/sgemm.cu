// SGEMM in tiles: a CTA has 32 x 32 elements of C, a thread 2 x 4 of them in registers; tiles of A and B pass through shared memory,
// so that each element of A and B is read from global memory n / 32 times instead of n times. The next tiles are on their way,
// into registers, while these are multiplied.
#include <cuda_runtime.h>

constexpr int kTile = 32;                       // rows and columns of C, and depth of a step
constexpr int kRows = 2, kColumns = 4;          // of a thread
constexpr int kWidth = kTile / kColumns, kHeight = kTile / kRows;  // threads
constexpr int kThreads = kWidth * kHeight;
constexpr int kLoads = kTile * kTile / kThreads;  // elements of each tile that a thread loads

__global__ void sgemm_kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile + 1];  // one column more, so that a column's elements lie in different banks
  __shared__ float b_tile[kTile][kTile];
  const int thread = threadIdx.y * kWidth + threadIdx.x;
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  const int row = thread / kTile, column = thread % kTile;  // of the first element that this thread loads; the others lie kStep rows on
  constexpr int kStep = kThreads / kTile;
  float next_a[kLoads], next_b[kLoads];
  const auto load = [&](int k0) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int r = row + i * kStep;
      next_a[i] = row0 + r < n && k0 + column < n ? a[(row0 + r) * n + k0 + column] : 0.0f;
      next_b[i] = k0 + r < n && column0 + column < n ? b[(k0 + r) * n + column0 + column] : 0.0f;
    }
  };
  float sums[kRows][kColumns] = {};
  load(0);
  for (int k0 = 0; k0 < n; k0 += kTile) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) a_tile[row + i * kStep][column] = next_a[i], b_tile[row + i * kStep][column] = next_b[i];
    __syncthreads();  // the tiles are whole
    if (k0 + kTile < n) load(k0 + kTile);
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      float of_a[kRows], of_b[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) of_a[i] = a_tile[threadIdx.y + kHeight * i][k];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) of_b[j] = b_tile[k][threadIdx.x + kWidth * j];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += of_a[i] * of_b[j];
    }
    __syncthreads();  // everybody is done with the tiles
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int r = row0 + threadIdx.y + kHeight * i, q = column0 + threadIdx.x + kWidth * j;
      if (r < n && q < n) c[r * n + q] = sums[i][j];
    }
}

void sgemm_launch(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned tiles = unsigned((n + kTile - 1) / kTile);
  sgemm_kernel<<<dim3(tiles, tiles), dim3(kWidth, kHeight), 0, stream>>>(a, b, c, n);
}
