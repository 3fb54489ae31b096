// Products of matrices of doubles by one warp, by wmma and by mma.sync.
#include <mma.h>

#include <cstdint>

using namespace nvcuda;

#define TAIL void*, char*, int64_t

// Mode 1: B begins a row too late, so that the load goes past its end.
__global__ void wmma_kernel(const double* a, const double* b, const double* c, double* d, int mode) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::load_matrix_sync(fa, a, 4);
  wmma::load_matrix_sync(fb, b + (mode == 1 ? 4 : 0), 4);  // the second factor
  wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
}

// A of 16 x k by rows, B of k x 8 by columns, C and D of 16 x 8 by rows: the fragments of the PTX ISA.
template <int k> __global__ void mma_kernel(const double* a, const double* b, const double* c, double* d) {
  const int group = threadIdx.x / 4, quarter = threadIdx.x % 4;
  double fa[k / 2], fb[k / 4], f[4];
  for (int i = 0; i < k / 2; ++i) fa[i] = a[(group + 8 * (i % 2)) * k + quarter + 4 * (i / 2)];
  for (int i = 0; i < k / 4; ++i) fb[i] = b[group * k + quarter + 4 * i];
  for (int i = 0; i < 4; ++i) f[i] = c[(group + 8 * (i / 2)) * 8 + 2 * quarter + i % 2];
  if constexpr (k == 4) {
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(f[0]), "+d"(f[1]), "+d"(f[2]), "+d"(f[3]) : "d"(fa[0]), "d"(fa[1]), "d"(fb[0]));
  } else {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(f[0]), "+d"(f[1]), "+d"(f[2]), "+d"(f[3]) : "d"(fa[0]), "d"(fa[1]), "d"(fa[2]), "d"(fa[3]), "d"(fb[0]), "d"(fb[1]));
  }
  for (int i = 0; i < 4; ++i) d[(group + 8 * (i / 2)) * 8 + 2 * quarter + i % 2] = f[i];
}

extern "C" int by_wmma(const double* a, const double* b, const double* c, double* d, int64_t mode, TAIL) {
  wmma_kernel<<<1, 32>>>(a, b, c, d, int(mode));
  return cudaDeviceSynchronize();
}
extern "C" int by_mma(const double* a, const double* b, const double* c, double* d, int64_t k, TAIL) {
  if (k == 4) mma_kernel<4><<<1, 32>>>(a, b, c, d);
  else mma_kernel<8><<<1, 32>>>(a, b, c, d);
  return cudaDeviceSynchronize();
}
