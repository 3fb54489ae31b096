// WMMA in every shape and layout: the kernels of test_emulator_wmma.py.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

template <int M, int N, int K, typename LayoutA, typename LayoutB, typename Sum>
__global__ void product(const half* a, const half* b, const Sum* c, Sum* d, int lda, int ldb, int ldc, wmma::layout_t layout) {
    wmma::fragment<wmma::matrix_a, M, N, K, half, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, half, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(sum, c, ldc, layout);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = fa.x[i] * half(2.0f);
    wmma::mma_sync(sum, fa, fb, sum);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + Sum(1.0f);
    wmma::store_matrix_sync(d, sum, ldc, layout);
}

__global__ void partial_warp(const half* a, float* d) {
    if (threadIdx.x == 31) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, a, 16);
    wmma::mma_sync(sum, fa, fb, sum);  // line: partial
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}

__global__ void unfilled(const half* a, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;  // never filled
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, a, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}

__global__ void load_only(const half* a, int offset, int ldm) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, a + offset, ldm);  // line: load
}

// Lane 0's rows are written by the other lanes; without __syncwarp they are not there yet.
__global__ void no_syncwarp(float* d, int sync) {
    __shared__ alignas(32) float tile[256];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = i;
    if (sync) __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(sum, tile, 16, wmma::mem_row_major);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}

#define LAUNCH extern "C" int
#define ONE(M, N, LA, LB) product<M, N, 16, wmma::LA, wmma::LB, Sum><<<1, 32>>>(a, b, c, d, lda, ldb, ldc, layout)
template <typename Sum>
int run_product(const half* a, const half* b, const Sum* c, Sum* d, int m, int a_by_row, int b_by_row, int c_by_row, int lda, int ldb, int ldc) {
    const auto layout = c_by_row ? wmma::mem_row_major : wmma::mem_col_major;
    const int which = (m == 16 ? 0 : m == 32 ? 4 : 8) + 2 * a_by_row + b_by_row;
    switch (which) {
        case 0: ONE(16, 16, col_major, col_major); break;
        case 1: ONE(16, 16, col_major, row_major); break;
        case 2: ONE(16, 16, row_major, col_major); break;
        case 3: ONE(16, 16, row_major, row_major); break;
        case 4: ONE(32, 8, col_major, col_major); break;
        case 5: ONE(32, 8, col_major, row_major); break;
        case 6: ONE(32, 8, row_major, col_major); break;
        case 7: ONE(32, 8, row_major, row_major); break;
        case 8: ONE(8, 32, col_major, col_major); break;
        case 9: ONE(8, 32, col_major, row_major); break;
        case 10: ONE(8, 32, row_major, col_major); break;
        default: ONE(8, 32, row_major, row_major); break;
    }
    return cudaGetLastError();
}
LAUNCH run_float(const half* a, const half* b, const float* c, float* d, int m, int ra, int rb, int rc, int lda, int ldb, int ldc) {
    return run_product<float>(a, b, c, d, m, ra, rb, rc, lda, ldb, ldc);
}
LAUNCH run_half(const half* a, const half* b, const half* c, half* d, int m, int ra, int rb, int rc, int lda, int ldb, int ldc) {
    return run_product<half>(a, b, c, d, m, ra, rb, rc, lda, ldb, ldc);
}
LAUNCH run_partial_warp(const half* a, float* d) { partial_warp<<<1, 32>>>(a, d); return cudaGetLastError(); }
LAUNCH run_unfilled(const half* a, float* d) { unfilled<<<1, 32>>>(a, d); return cudaGetLastError(); }
LAUNCH run_load_only(const half* a, int offset, int ldm) { load_only<<<1, 32>>>(a, offset, ldm); return cudaGetLastError(); }
LAUNCH run_no_syncwarp(float* d, int sync) { no_syncwarp<<<1, 32>>>(d, sync); return cudaGetLastError(); }
