// Row sums (out[row] = sum of x[row, 0..127] * a + y[row]) with one launcher a planted fault, for the emulator.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

constexpr int kColumns = 128;

enum Fault { kNone, kNoBarrier, kTailWrite, kTailRead, kSharedOverrun, kDivergent, kUnwrittenFlag, kOrderMatters };

template <int kFault>
__global__ void row_sum(const float* x, const float* y, float* out, int64_t rows, float a) {
  __shared__ float part[kColumns];
  __shared__ int flag[kColumns];  // half of it is never written
  if (threadIdx.x < kColumns / 2) flag[threadIdx.x] = 1;
  const int row = blockIdx.x;
  const int column = threadIdx.x;
  part[column + (kFault == kSharedOverrun ? 1 : 0)] = a * x[int64_t(row) * kColumns + column];
  for (int width = kColumns / 2; width > 0; width /= 2) {
    if (kFault != kNoBarrier) {
      if (kFault != kDivergent || column < 48) __syncthreads();
    }
    if (column < width) part[column] += part[column + width];
  }
  if (kFault == kUnwrittenFlag && flag[kColumns - 1] == 0) part[0] = 7.0f;
  if (kFault == kOrderMatters) {
    __syncthreads();
    if (column % 32 == 0) flag[0] = column;  // one of four warps is the last
    __syncthreads();
    if (column == 0) part[0] += 1e-3f * flag[0];
  }
  if (column == 0) {
    const int64_t from = kFault == kTailRead ? row + 1 : row;
    const int64_t to = kFault == kTailWrite && row == rows - 1 ? row + 1 : row;
    out[row] = part[0] + y[row] + (kFault == kTailRead ? 1e-30f * y[from] : 0.0f);
    if (to != row) out[to] = 0.0f;
  }
}

template <int kFault>
static int launch(const float* x, const float* y, float* out, int64_t rows, float a, void* stream, char* error,
                  int64_t error_bytes, int threads = kColumns, bool checked = true) {
  row_sum<kFault><<<unsigned(rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, rows, a);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess || !checked) return 0;
  std::snprintf(error, size_t(error_bytes), "%s", cudaGetErrorString(status));
  return 1;
}

#define ENTRY(name, ...)                                                                                        \
  extern "C" int name(const float* x, const float* y, float* out, int64_t rows, float a, void* stream, char* error, \
                      int64_t error_bytes) {                                                                    \
    return __VA_ARGS__;                                                                                         \
  }
#define ALL x, y, out, rows, a, stream, error, error_bytes

ENTRY(honest, launch<kNone>(ALL))
ENTRY(no_barrier, launch<kNoBarrier>(ALL))
ENTRY(tail_write, launch<kTailWrite>(ALL))
ENTRY(tail_read, launch<kTailRead>(ALL))
ENTRY(unwritten_flag, launch<kUnwrittenFlag>(ALL))
ENTRY(order_matters, launch<kOrderMatters>(ALL))
ENTRY(shared_overrun, launch<kSharedOverrun>(ALL))
ENTRY(divergent_barrier, launch<kDivergent>(ALL))
ENTRY(too_many_threads, launch<kNone>(ALL, 2048))
ENTRY(too_many_threads_swallowed, launch<kNone>(ALL, 2048, false))

// For a device only: the emulator knows one stream, and an access of no buffer ends its process.
#ifdef __CUDACC__
ENTRY(wrong_stream, ((void)stream, launch<kNone>(x, y, out, rows, a, nullptr, error, error_bytes)))

__global__ void write_nowhere(float* out) { out[int64_t(1) << 40] = 1.0f; }

static int illegal_access(float* out, void* stream) {
  write_nowhere<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(out);
  return 0;
}
ENTRY(illegal_in_wide, rows > 5 ? illegal_access(out, stream) : launch<kNone>(ALL))
#endif
