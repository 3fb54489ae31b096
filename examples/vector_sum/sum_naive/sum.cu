// A sum in two kernels: every thread adds up a contiguous piece, then one thread adds up the 1024 pieces in order.
#include "../launcher.cuh"

constexpr int kThreads = 128, kPieces = 1024;

__device__ float piece_sums[kPieces];

__global__ void pieces_kernel(const float* x, int64_t n) {
  const int64_t piece = int64_t(blockIdx.x) * kThreads + threadIdx.x, each = (n + kPieces - 1) / kPieces;
  float sum = 0.0f;
  for (int64_t i = piece * each; i < min(n, (piece + 1) * each); ++i) sum += x[i];
  piece_sums[piece] = sum;
}

__global__ void join_kernel(float* out) {
  float groups[4] = {};  // four chains of 256, so that the last sum is short
  for (int piece = 0; piece < kPieces; ++piece) groups[piece / 256] += piece_sums[piece];
  out[0] = (groups[0] + groups[1]) + (groups[2] + groups[3]);
}

extern "C" int sum_launch(const float* x, float* out, int64_t n, void* stream, char* error, int64_t error_bytes) {
  if (n < 1) return refuse(error, error_bytes, "N must be at least 1");
  pieces_kernel<<<kPieces / kThreads, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, n);
  join_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(out);
  return launched(error, error_bytes);
}
