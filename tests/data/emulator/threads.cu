// Barriers, warp intrinsics, launches: the kernels of test_emulator_threads.py.
#include <cuda_runtime.h>

#include "tile.cuh"

__global__ void indices(int* out) {
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

// Sum of a block in shared memory. MISSING_BARRIER leaves out the barrier inside the tree.
template <int kThreads, bool kBarrier>
__global__ void __launch_bounds__(kThreads, 2) reduce(const float* in, float* out) {
    __shared__ float partial[kThreads];
    partial[threadIdx.x] = in[blockIdx.x * kThreads + threadIdx.x];
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        if (kBarrier) __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

__global__ void reverse(float* data, int late_barrier) {
    __shared__ float tile[Tile::kSize];
    tile[threadIdx.x] = data[threadIdx.x];
    if (late_barrier == 0) __syncthreads();
    data[threadIdx.x] = tile[Tile::kSize - 1 - threadIdx.x];
}

__global__ void shuffles(const int* in, int* out, int width) {
    const int lane = threadIdx.x, v = in[lane];
    out[lane] = __shfl_sync(0xffffffff, v, lane + 3, width);
    out[32 + lane] = __shfl_up_sync(0xffffffff, v, 2u, width);
    out[64 + lane] = __shfl_down_sync(0xffffffff, v, 2, width);
    out[96 + lane] = __shfl_xor_sync(0xffffffff, v, 5, width);
}

__global__ void half_mask(double* out) {
    const unsigned lane = threadIdx.x;
    double v = lane + 0.25;
    if (lane < 16) v = __shfl_sync(0x0000ffffu, v, 15);
    else v = __shfl_xor_sync(0xffff0000u, v, 1);
    out[lane] = v;
}

__global__ void absent_source(float* out) {
    out[threadIdx.x] = 0;
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1.0f, 20);
}

__global__ void votes(int* out) {
    const int lane = threadIdx.x;
    out[lane] = __ballot_sync(0xffffffff, lane % 3 == 0);
    out[32 + lane] = __any_sync(0xffffffff, lane == 7) * 10 + __all_sync(0xffffffff, lane < 31);
    out[64 + lane] = __match_any_sync(0xffffffff, lane / 8);
    out[96 + lane] = __reduce_add_sync(0xffffffff, lane);
    out[128 + lane] = __activemask();
    __syncwarp();
}

__global__ void branches(int* out) {  // 40 threads: aggregation by branch, as histograms and filters do it
    const int lane = threadIdx.x % 32;
    if (threadIdx.x % 3 == 0) return;
    int* mine = out + (threadIdx.x / 32) * 64;
    if (lane % 3 == 1) {
        const unsigned active = __activemask();
        mine[lane] = active;
        mine[32 + lane] = __ballot_sync(active, lane > 10);
    } else {
        mine[lane] = __activemask();
        mine[32 + lane] = __reduce_add_sync(__activemask(), 1);
    }
}

__global__ void counts(int* out) {
    const int many = __syncthreads_count(threadIdx.x % 4 == 0);
    const int all = __syncthreads_and(threadIdx.x < 1000), any = __syncthreads_or(threadIdx.x == 77);
    if (threadIdx.x == 5) out[0] = many, out[1] = all, out[2] = any;
}

__global__ void atomics(int* out, float* sum) {
    atomicAdd(&out[0], 1);
    atomicMax(&out[1], static_cast<int>(threadIdx.x));
    atomicMin(&out[2], -static_cast<int>(threadIdx.x));
    atomicCAS(&out[3], 0, static_cast<int>(threadIdx.x) + 1);
    atomicAdd(sum, 0.5f);
}

__global__ void first_writer(int* out) { atomicCAS(&out[blockIdx.x], 0, static_cast<int>(threadIdx.x) + 1); }

__global__ void early_return(float* out) {
    if (threadIdx.x >= 96) return;
    __syncthreads();  // line: exited
    out[threadIdx.x] = 1;
}

__global__ void two_barriers(float* out) {
    if (threadIdx.x < 64) {
        __syncthreads();
    } else {
        __syncthreads();  // line: other barrier
    }
    out[threadIdx.x] = 1;
}

__global__ void lost_lanes(float* out) {
    if (threadIdx.x < 16) __syncwarp();  // line: syncwarp
    else __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void not_in_mask(float* out) { out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1.0f, 0); }

__global__ void traps(float* out) {
    if (threadIdx.x == 40) __trap();
    out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 1; }

namespace nested {
template <typename T, int kFactor>
static __global__ void scale(const T* in, T* out, T offset) {
    out[threadIdx.x] = in[threadIdx.x] * kFactor + offset;
}
}  // namespace nested

template <typename T>
__global__ void deduced(T* out) { out[threadIdx.x] = sizeof(T); }

#define LAUNCH extern "C" int
static int counter = 0;
static float* counted(float* p) { return ++counter, p; }

LAUNCH run_indices(int* out) { indices<<<dim3(2, 3, 2), dim3(4, 2, 3)>>>(out); return cudaGetLastError(); }
LAUNCH run_reduce(const float* in, float* out, int blocks, int barrier) {
    if (barrier) reduce<256, true><<<blocks, 256>>>(in, out);
    else reduce<256, (256 > 255) == false><<<blocks, 256>>>(in, out);
    return cudaGetLastError();
}
LAUNCH run_reverse(float* data, int late) { reverse<<<1, Tile::kSize>>>(data, late); return cudaGetLastError(); }
LAUNCH run_shuffles(const int* in, int* out, int width) { shuffles<<<1, 32>>>(in, out, width); return cudaGetLastError(); }
LAUNCH run_half_mask(double* out) { half_mask<<<1, 32>>>(out); return cudaGetLastError(); }
LAUNCH run_absent_source(float* out) { absent_source<<<1, 32>>>(out); return cudaGetLastError(); }
LAUNCH run_votes(int* out) { votes<<<1, 32>>>(out); return cudaGetLastError(); }
LAUNCH run_branches(int* out) { branches<<<1, 40>>>(out); return cudaGetLastError(); }
LAUNCH run_counts(int* out) { counts<<<1, 100>>>(out); return cudaGetLastError(); }
LAUNCH run_atomics(int* out, float* sum) { atomics<<<2, 50>>>(out, sum); return cudaGetLastError(); }
LAUNCH run_first_writer(int* out, int blocks) { first_writer<<<blocks, 96>>>(out); return cudaGetLastError(); }
LAUNCH run_early_return(float* out) { early_return<<<1, 128>>>(out); return cudaGetLastError(); }
LAUNCH run_two_barriers(float* out) { two_barriers<<<1, 128>>>(out); return cudaGetLastError(); }
LAUNCH run_lost_lanes(float* out) { lost_lanes<<<1, 32>>>(out); return cudaGetLastError(); }
LAUNCH run_not_in_mask(float* out) { not_in_mask<<<1, 32>>>(out); return cudaGetLastError(); }
LAUNCH run_traps(float* out) { traps<<<1, 64>>>(out); return cudaGetLastError(); }
LAUNCH run_bounded(float* out, int threads) { bounded<<<1, threads>>>(out); return cudaGetLastError(); }
LAUNCH run_sized(float* out, unsigned x, unsigned y, unsigned grid) {
    reverse<<<grid, dim3(x, y)>>>(out, 0);
    const int peeked = cudaPeekAtLastError(), got = cudaGetLastError();
    return peeked == got && cudaGetLastError() == cudaSuccess ? got : -1;
}
LAUNCH run_scale(const float* in, float* out) {
    const auto kernel = nested::scale<float, 3>;
    kernel<<<1, 32, 0, nullptr>>>(in, counted(out), 1.0f);
    ::nested::scale<float, 2>
        <<<1, 32>>>(in, out + 32, 0.5f);
    deduced<<<1, 32>>>(out + 64);
    return counter;
}
LAUNCH last_error() { return cudaGetLastError(); }
