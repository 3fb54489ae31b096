// Warp intrinsics, with all lanes and with masks.
#include "conformance.cuh"

// in: a value a lane; out: [width 1 to 32][kind][distance][lane]. count: which type.
template <typename T>
__global__ void shuffles(const T* in, T* out) {
    const int lane = threadIdx.x;
    const int by[8] = {0, 1, 2, 3, 8, 15, 16, 31};
    const T mine = in[lane];
    for (int log = 0; log < 6; ++log) {
        const int width = 1 << log;
        for (int i = 0; i < 8; ++i) {
            T* row = out + (log * 8 + i) * 5 * 32 + lane;
            row[0 * 32] = __shfl_sync(0xffffffffu, mine, by[i], width);
            row[1 * 32] = __shfl_up_sync(0xffffffffu, mine, static_cast<unsigned>(by[i]), width);
            row[2 * 32] = __shfl_down_sync(0xffffffffu, mine, static_cast<unsigned>(by[i]), width);
            row[3 * 32] = __shfl_xor_sync(0xffffffffu, mine, by[i], width);
            row[4 * 32] = __shfl_sync(0xffffffffu, mine, lane * 7 - by[i], width);  // another lane for each, also past the width
        }
    }
}
LAUNCHER(shuffle_int) { return shuffles<int><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out)), cudaGetLastError(); }
LAUNCHER(shuffle_float) { return shuffles<float><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const float*>(in), static_cast<float*>(out)), cudaGetLastError(); }
LAUNCHER(shuffle_double) { return shuffles<double><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const double*>(in), static_cast<double*>(out)), cudaGetLastError(); }
LAUNCHER(shuffle_long) { return shuffles<long long><<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const long long*>(in), static_cast<long long*>(out)), cudaGetLastError(); }

// Parts of a warp, each with its own mask, in different branches.
__global__ void masked_shuffles(const int* in, int* out) {
    const int lane = threadIdx.x;
    const int mine = in[lane];
    if (lane < 16) {
        out[lane] = __shfl_down_sync(0x0000ffffu, mine, 3, 16);
    } else {
        out[lane] = __shfl_up_sync(0xffff0000u, mine, 5, 16);
    }
    if (lane % 2 == 0) {
        out[32 + lane] = __shfl_xor_sync(0x55555555u, mine, 6);
    } else {
        out[32 + lane] = __shfl_sync(0xaaaaaaaau, mine, 2 * (lane % 16) + 1);
    }
    out[64 + lane] = lane == 0 || lane == 31 ? __shfl_sync(0x80000001u, mine, 31 - lane) : -7;
}
LAUNCHER(shuffle_masked) {
    masked_shuffles<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out));
    return cudaGetLastError();
}

// in: [pattern][lane]; out: [pattern][result][lane] with all lanes, then with the lanes whose number is no multiple of 3.
__device__ void vote(unsigned mask, int value, unsigned* out) {
    out[0 * 32] = __ballot_sync(mask, value);
    out[1 * 32] = __any_sync(mask, value) != 0;
    out[2 * 32] = __all_sync(mask, value) != 0;
    out[3 * 32] = __match_any_sync(mask, value);
    int all_equal = 5;
    out[4 * 32] = __match_all_sync(mask, value, &all_equal);
    out[5 * 32] = static_cast<unsigned>(all_equal != 0);
    out[6 * 32] = __reduce_add_sync(mask, static_cast<unsigned>(value));
    out[7 * 32] = __reduce_min_sync(mask, static_cast<unsigned>(value));
    out[8 * 32] = __reduce_max_sync(mask, static_cast<unsigned>(value));
    out[9 * 32] = __reduce_and_sync(mask, static_cast<unsigned>(value));
    out[10 * 32] = __reduce_or_sync(mask, static_cast<unsigned>(value));
    out[11 * 32] = __reduce_xor_sync(mask, static_cast<unsigned>(value));
    out[12 * 32] = static_cast<unsigned>(__reduce_add_sync(mask, value));
    out[13 * 32] = static_cast<unsigned>(__reduce_min_sync(mask, value));
    out[14 * 32] = static_cast<unsigned>(__reduce_max_sync(mask, value));
}
__global__ void votes(const int* in, unsigned* out) {
    const int lane = threadIdx.x;
    const int value = in[blockIdx.x * 32 + lane];
    unsigned* row = out + blockIdx.x * 30 * 32 + lane;
    vote(0xffffffffu, value, row);
    unsigned mask = 0;
    for (int i = 0; i < 32; ++i) mask |= i % 3 ? 1u << i : 0;
    for (int i = 0; i < 15; ++i) row[(15 + i) * 32] = 0;
    if (lane % 3) vote(mask, value, row + 15 * 32);
}
LAUNCHER(vote_and_reduce) {
    votes<<<static_cast<unsigned>(count / 32), 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<unsigned*>(out));
    return cudaGetLastError();
}
__global__ void long_matches(const long long* in, unsigned* out) {
    int all_equal = 5;
    out[threadIdx.x] = __match_any_sync(0xffffffffu, in[threadIdx.x]);
    out[32 + threadIdx.x] = __match_all_sync(0xffffffffu, in[0], &all_equal);
    out[64 + threadIdx.x] = static_cast<unsigned>(all_equal != 0);
}
LAUNCHER(match_long) {
    long_matches<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const long long*>(in), static_cast<unsigned*>(out));
    return cudaGetLastError();
}

// __syncwarp makes what a lane wrote to shared memory visible to the others; __activemask where no lane can have returned.
__global__ void exchange(const int* in, int* out) {
    __shared__ int row[64];
    const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
    for (int step = 0; step < 5; ++step) {
        row[threadIdx.x] = in[threadIdx.x] + step;
        __syncwarp();
        out[step * 64 + threadIdx.x] = row[first + (lane + (1 << step)) % 32] + static_cast<int>(threadIdx.x / warpSize);
        __syncwarp();
    }
    out[5 * 64 + threadIdx.x] = static_cast<int>(__activemask());
    __syncwarp();
}
LAUNCHER(warp_exchange) {
    exchange<<<1, 64, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(in), static_cast<int*>(out));
    return cudaGetLastError();
}
