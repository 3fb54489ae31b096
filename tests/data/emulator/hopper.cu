// mbarrier, TMA, wgmma and setmaxnreg through the wrappers of kernels/cuda: what they give, and what is found wrong.
#include "../../../kernels/cuda/tma.cuh"
#include "../../../kernels/cuda/wgmma.cuh"

#include <cuda_fp16.h>

enum Fault {
    kNone, kWrongParity, kTooManyBytes, kTooFewBytes, kNotFenced, kNotInitialised, kMisaligned, kOutside, kArrivesTwice, kNeverWaits,
    kNoFence, kNoWait, kOverwritesShared, kWritesAccumulators, kReadsEarly, kHalfWarpgroup, kOtherDescriptor, kOtherOrder, kBaseOffset,
    kThreeWarps, kUnevenRegisters, kTooManyRegisters, kOddRegisters
};

// Two boxes of `rows` rows at (column, row) and (column, row + rows), as they lie in shared memory, to `out`.
__global__ void load(const __grid_constant__ tma::TensorMap map, unsigned char* out, int rows, int column, int row, int head, int fault) {
    __shared__ __align__(1024) unsigned char boxes[2][16 * 128];
    __shared__ mbarrier::Barrier barrier;
    unsigned char* const to = boxes[0] + (fault == kMisaligned ? 128 : fault == kOutside ? 3072 : 0);
    if (threadIdx.x == 0) {
        if (fault != kNotInitialised) mbarrier::init(&barrier, 1);
        if (fault != kNotFenced) shared_memory::fence_async();
        mbarrier::arrive_expecting(&barrier, 2 * rows * 128 + (fault == kTooManyBytes) * 16 - (fault == kTooFewBytes) * rows * 128);
        tma::load(to, map, &barrier, column, row, head);
        tma::load(boxes[1], map, &barrier, column, row + rows, head);
        if (fault == kArrivesTwice) mbarrier::arrive(&barrier);
    }
    __syncthreads();
    if (fault == kNeverWaits) return;
    mbarrier::wait(&barrier, fault == kWrongParity);
    for (int i = threadIdx.x; i < rows * 128; i += blockDim.x) {
        out[i] = boxes[0][i];
        out[rows * 128 + i] = boxes[1][i];
    }
}

// A ring of one slot: the producer, thread 32, sends the numbers 1 to `count`, the others add them up.
__global__ void ring(int* out, int count, int fault) {
    __shared__ int slot;
    __shared__ mbarrier::Barrier full, empty;
    if (threadIdx.x == 0) {
        mbarrier::init(&full, 1);
        mbarrier::init(&empty, 32);
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int i = 0; i < count; ++i) {
            mbarrier::wait(&empty, (i % 2 ^ 1) ^ (fault == kWrongParity));
            slot = i + 1;
            mbarrier::arrive(&full);
        }
    } else if (threadIdx.x < 32) {
        int sum = 0;
        for (int i = 0; i < count; ++i) {
            mbarrier::wait(&full, i % 2);
            sum += slot;
            mbarrier::arrive(&empty);
        }
        out[threadIdx.x] = sum;
    }
}

// Two chained products: D = A·B, then D += A·B. `a` and `b`: images of shared memory, of 8 KiB each; or `a`: registers.
template <int kN, bool kTransposed, bool kRegisters>
__global__ void multiply(const unsigned* a, const unsigned* b, float* d, unsigned a_leading, unsigned a_stride, int a_swizzle,
                         unsigned b_leading, unsigned b_stride, int b_swizzle, int fault) {
    __shared__ __align__(1024) unsigned a_image[2048], b_image[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) {
        if (!kRegisters) a_image[i] = a[i];
        b_image[i] = b[i];
    }
    shared_memory::fence_async();
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (fault == kHalfWarpgroup && warp >= 2) return;
    unsigned own[4] = {};
    float sums[kN / 2];
    for (int i = 0; i < kN / 2; ++i) sums[i] = kRegisters ? 0.0f : 1.0f;  // 1: not to be added to
    for (int i = 0; kRegisters && i < 4; ++i) own[i] = a[threadIdx.x * 4 + i];
    std::uint64_t a_matrix = wgmma::descriptor(a_image, a_leading, a_stride, static_cast<wgmma::Swizzle>(a_swizzle));
    std::uint64_t b_matrix = wgmma::descriptor(b_image, b_leading, b_stride, static_cast<wgmma::Swizzle>(b_swizzle));
    if (fault == kOtherDescriptor && warp == 3) b_matrix = wgmma::advance(b_matrix, 1024);
    if (fault == kBaseOffset) b_matrix |= std::uint64_t(1) << 49;
    if (fault != kNoFence) wgmma::fence(sums, own);
    if constexpr (kRegisters) {
        wgmma::multiply<kN, kTransposed>(sums, own, b_matrix);
        wgmma::multiply<kN, kTransposed>(sums, own, b_matrix);
    } else {
        wgmma::multiply<kN, kTransposed>(sums, a_matrix, b_matrix, fault == kOtherOrder && warp == 1);
        wgmma::multiply<kN, kTransposed>(sums, a_matrix, b_matrix, true);
    }
    wgmma::commit();
    if (fault == kOverwritesShared) b_image[threadIdx.x] = 0;
    if (fault == kWritesAccumulators) sums[3] *= 2.0f;
    if (fault == kReadsEarly) {
        for (int i = 0; i < kN / 2; ++i) d[threadIdx.x * (kN / 2) + i] = sums[i];
    }
    if (fault == kNoWait) return;
    wgmma::wait<0>(sums);
    if (fault == kReadsEarly) return;
    for (int i = 0; i < kN / 2; ++i) d[threadIdx.x * (kN / 2) + i] = sums[i];
}

// Warpgroup 0 gives registers back, 1 takes some.
__global__ void registers(int fault) {
    if (threadIdx.x < 128) {
        if (fault != kUnevenRegisters || threadIdx.x < 96) wgmma::give_registers<24>();
    } else if (fault == kTooManyRegisters) {
        wgmma::take_registers<256>();
    } else {
        wgmma::take_registers<240>();
    }
}

extern "C" int load_launch(const void* tensor, void* out, int width, int length, int heads, int rows, int column, int row, int head, int fault) {
    char message[256];
    tma::TensorMap map;
    if (tma::make_map({message, sizeof message}, map, "tensor", tensor, width, length, heads, static_cast<unsigned>(rows))) return -1;
    load<<<1, 64>>>(map, static_cast<unsigned char*>(out), rows, column, row, head, fault);
    return cudaGetLastError();
}

extern "C" int ring_launch(void* out, int count, int fault) {
    ring<<<1, 64>>>(static_cast<int*>(out), count, fault);
    return cudaGetLastError();
}

extern "C" int multiply_launch(const void* a, const void* b, void* d, int columns, int transposed, int in_registers, int a_leading, int a_stride,
                               int a_swizzle, int b_leading, int b_stride, int b_swizzle, int fault) {
    const auto run = [&](auto kernel) {
        kernel<<<1, fault == kThreeWarps ? 96 : 128>>>(static_cast<const unsigned*>(a), static_cast<const unsigned*>(b), static_cast<float*>(d),
                           static_cast<unsigned>(a_leading), static_cast<unsigned>(a_stride), a_swizzle, static_cast<unsigned>(b_leading),
                           static_cast<unsigned>(b_stride), b_swizzle, fault);
    };
    if (in_registers) columns == 64 ? run(multiply<64, true, true>) : run(multiply<128, true, true>);
    else if (transposed) columns == 64 ? run(multiply<64, true, false>) : run(multiply<128, true, false>);
    else columns == 64 ? run(multiply<64, false, false>) : run(multiply<128, false, false>);
    return cudaGetLastError();
}

extern "C" int registers_launch(int threads, int fault) {
    registers<<<1, threads>>>(fault);
    return cudaGetLastError();
}
