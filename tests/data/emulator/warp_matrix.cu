// ldmatrix, mma.sync and E4M3 through the wrappers of kernels/cuda: what they give, and what is found wrong.
#include "../../../kernels/cuda/fp8.cuh"
#include "../../../kernels/cuda/warp_matrix.cuh"

enum Fault { kNone, kNoBarrier, kMisaligned, kGlobal, kHalfWarp, kOutside };

// Four 8x8 matrices, row by row, through shared memory; out: four registers a lane.
template <bool kTransposed>
__global__ void load(const __half* in, unsigned* out, int fault) {
    __shared__ __align__(16) __half rows[32 * 8 + 8];
    const int lane = threadIdx.x;
    for (int i = 0; i < 8; ++i) rows[(31 - lane) * 8 + i] = in[(31 - lane) * 8 + i];  // not the row that the lane gives
    if (fault != kNoBarrier) __syncwarp();
    if (fault == kHalfWarp && lane >= 16) return;
    const __half* row = rows + lane * 8;
    if (fault == kMisaligned) row += 1;
    if (fault == kGlobal) row = in + lane * 8;
    if (fault == kOutside) row += 33 * 8;
    unsigned registers[4];
    warp_matrix::load_matrices<kTransposed>(registers, row);
    for (int i = 0; i < 4; ++i) out[lane * 4 + i] = registers[i];
}

// Registers as they are: a 4, b 2, c 4 a lane.
__global__ void multiply(const unsigned* a, const unsigned* b, float* c, int fault) {
    const int lane = threadIdx.x;
    if (fault == kHalfWarp && lane >= 16) return;
    const unsigned own[4] = {a[lane * 4], a[lane * 4 + 1], a[lane * 4 + 2], a[lane * 4 + 3]};
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = c[lane * 4 + i];
    warp_matrix::multiply_add(sums, own, b[lane * 2], b[lane * 2 + 1]);
    for (int i = 0; i < 4; ++i) c[lane * 4 + i] = sums[i];
}

// Four bytes a thread to four halves.
__global__ void decode(const unsigned* in, uint2* out) {
    unsigned low, high;
    fp8::decode(in[threadIdx.x], low, high);
    out[threadIdx.x] = make_uint2(low, high);
}

extern "C" int decode_launch(const void* in, void* out, int threads) {
    decode<<<1, threads>>>(static_cast<const unsigned*>(in), static_cast<uint2*>(out));
    return cudaGetLastError();
}

extern "C" int load_launch(const void* in, void* out, int transposed, int fault) {
    const __half* const matrices = static_cast<const __half*>(in);
    if (transposed) load<true><<<1, 32>>>(matrices, static_cast<unsigned*>(out), fault);
    else load<false><<<1, 32>>>(matrices, static_cast<unsigned*>(out), fault);
    return cudaGetLastError();
}

extern "C" int multiply_launch(const void* a, const void* b, void* c, int fault) {
    multiply<<<1, 32>>>(static_cast<const unsigned*>(a), static_cast<const unsigned*>(b), static_cast<float*>(c), fault);
    return cudaGetLastError();
}
