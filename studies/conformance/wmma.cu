// Tensor-core products: every shape, layout and accumulator. Matrices lie in tiles of 32 lines, kLine elements apart.
#include <cuda_fp16.h>
#include <mma.h>

#include "conformance.cuh"

using namespace nvcuda;

constexpr int kLine = 40, kTile = 32 * kLine;

// in: a tile of A, of B (half) and of C; out: D as rows and as columns (block 0 and 1), C being read the same way.
template <int m, int n, int k, typename C, typename D, typename LayoutA, typename LayoutB>
__global__ void product(const __half* in, D* out) {
    const wmma::layout_t layout = blockIdx.x == 0 ? wmma::mem_row_major : wmma::mem_col_major;
    wmma::fragment<wmma::matrix_a, m, n, k, __half, LayoutA> a;
    wmma::fragment<wmma::matrix_b, m, n, k, __half, LayoutB> b;
    wmma::fragment<wmma::accumulator, m, n, k, C> c;
    wmma::fragment<wmma::accumulator, m, n, k, D> d;
    wmma::load_matrix_sync(a, in, kLine);
    wmma::load_matrix_sync(b, in + kTile, kLine);
    wmma::load_matrix_sync(c, reinterpret_cast<const C*>(in + 2 * kTile), kLine, layout);
    wmma::mma_sync(d, a, b, c);
    wmma::store_matrix_sync(out + blockIdx.x * kTile, d, kLine, layout);
}

template <int m, int n, int k, typename C, typename D>
int all_layouts(const void* in, void* out, void* stream) {
    const __half* matrices = static_cast<const __half*>(in);
    D* tiles = static_cast<D*>(out);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    product<m, n, k, C, D, wmma::row_major, wmma::row_major><<<2, 32, 0, on>>>(matrices, tiles);
    product<m, n, k, C, D, wmma::row_major, wmma::col_major><<<2, 32, 0, on>>>(matrices, tiles + 2 * kTile);
    product<m, n, k, C, D, wmma::col_major, wmma::row_major><<<2, 32, 0, on>>>(matrices, tiles + 4 * kTile);
    product<m, n, k, C, D, wmma::col_major, wmma::col_major><<<2, 32, 0, on>>>(matrices, tiles + 6 * kTile);
    return cudaGetLastError();
}

LAUNCHER(wmma_float_16x16x16) { return all_layouts<16, 16, 16, float, float>(in, out, stream); }
LAUNCHER(wmma_float_32x8x16) { return all_layouts<32, 8, 16, float, float>(in, out, stream); }
LAUNCHER(wmma_float_8x32x16) { return all_layouts<8, 32, 16, float, float>(in, out, stream); }
LAUNCHER(wmma_half_16x16x16) { return all_layouts<16, 16, 16, __half, __half>(in, out, stream); }
LAUNCHER(wmma_half_32x8x16) { return all_layouts<32, 8, 16, __half, __half>(in, out, stream); }
LAUNCHER(wmma_half_8x32x16) { return all_layouts<8, 32, 16, __half, __half>(in, out, stream); }

LAUNCHER(wmma_half_to_float) {
    product<16, 16, 16, __half, float, wmma::row_major, wmma::row_major>
        <<<2, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const __half*>(in), static_cast<float*>(out));
    return cudaGetLastError();
}
LAUNCHER(wmma_float_to_half) {
    product<16, 16, 16, float, __half, wmma::row_major, wmma::row_major>
        <<<2, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const __half*>(in), static_cast<__half*>(out));
    return cudaGetLastError();
}

// A chain of products whose accumulator is filled, changed element by element, and used again.
__global__ void chained(const __half* in, float* out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::fill_fragment(d, 3.0f);
    for (int step = 0; step < 2; ++step) {
        wmma::load_matrix_sync(a, in + 16 * step, kLine);
        wmma::load_matrix_sync(b, in + kTile + 16 * step, kLine);
        wmma::mma_sync(d, a, b, d);
        for (int i = 0; i < d.num_elements; ++i) d.x[i] = d.x[i] * 2.0f + 1.0f;
    }
    wmma::store_matrix_sync(out, d, kLine, wmma::mem_row_major);
}
LAUNCHER(wmma_chained) {
    chained<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const __half*>(in), static_cast<float*>(out));
    return cudaGetLastError();
}
