// SGEMM in tiles: a CTA has 32 x 32 elements of C, a thread 4 x 4 of them in registers; tiles of A and B pass through shared memory,
// so that each element of A and B is read from global memory n / 32 times instead of n times.
#include <cuda_runtime.h>

constexpr int kTile = 32;               // rows and columns of C, and depth of a step
constexpr int kEach = 4;                // rows and columns of C a thread
constexpr int kSide = kTile / kEach;    // threads along a side
constexpr int kThreads = kSide * kSide;

__global__ void sgemm_kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile + 1];  // one column more, so that a column's elements lie in different banks
  __shared__ float b_tile[kTile][kTile];
  const int thread = threadIdx.y * kSide + threadIdx.x;
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  float sums[kEach][kEach] = {};
  for (int k0 = 0; k0 < n; k0 += kTile) {
    for (int i = thread; i < kTile * kTile; i += kThreads) {
      const int row = i / kTile, column = i % kTile;
      a_tile[row][column] = row0 + row < n && k0 + column < n ? a[(row0 + row) * n + k0 + column] : 0.0f;
      b_tile[row][column] = k0 + row < n && column0 + column < n ? b[(k0 + row) * n + column0 + column] : 0.0f;
    }
    __syncthreads();  // the tiles are whole
#pragma unroll 8
    for (int k = 0; k < kTile; ++k) {
      float of_a[kEach], of_b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) of_a[i] = a_tile[threadIdx.y + kSide * i][k], of_b[i] = b_tile[k][threadIdx.x + kSide * i];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] += of_a[i] * of_b[j];
    }
    __syncthreads();  // everybody is done with the tiles
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int row = row0 + threadIdx.y + kSide * i, column = column0 + threadIdx.x + kSide * j;
      if (row < n && column < n) c[row * n + column] = sums[i][j];
    }
}

void sgemm_launch(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned tiles = unsigned((n + kTile - 1) / kTile);
  sgemm_kernel<<<dim3(tiles, tiles), dim3(kSide, kSide), 0, stream>>>(a, b, c, n);
}
