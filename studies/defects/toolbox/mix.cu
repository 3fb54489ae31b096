// out = softmax(sharpness * scores) v. Many launchers over one honest core, each with one breach of the contract.
//
// A block takes one row: its threads share out the weights, then the columns. What a breach does is said at its launcher,
// and in one line of the catalogue.
#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "mix.cuh"

// ---- honest ----

__global__ void mix_kernel(Mix mix) { mix_row(mix, blockIdx.x, mix.out); }
LAUNCHER(mix) {
    ROWS(mix_kernel);
    return call.finish();
}

// The baseline: a thread an element, which works out the weights of its row twice.
__global__ void direct_kernel(Mix mix) {
    const int row = blockIdx.x;
    const float top = largest(mix, row);
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) {
        float sum = 0.0f, total = 0.0f;
        for (int n = 0; n < mix.values; ++n) total += expf(mix.sharpness * (mix.scores[row * mix.values + n] - top));
        for (int n = 0; n < mix.values; ++n) {
            sum += expf(mix.sharpness * (mix.scores[row * mix.values + n] - top)) / total * mix.v[n * mix.columns + c];
        }
        mix.out[row * mix.columns + c] = sum;
    }
}
LAUNCHER(direct) {
    ROWS(direct_kernel);
    return call.finish();
}

// ---- wrong outputs ----

// The honest answer with one element replaced.
__global__ void spoilt_kernel(Mix mix, float value) {
    mix_row(mix, blockIdx.x, mix.out);
    if (blockIdx.x + 1 == mix.rows && threadIdx.x == 0) mix.out[mix.rows * mix.columns - 1] = value;
}
LAUNCHER(nan_output) {
    ROWS(spoilt_kernel, nanf(""));
    return call.finish();
}
LAUNCHER(inf_output) {
    ROWS(spoilt_kernel, INFINITY);
    return call.finish();
}

__global__ void constant_kernel(Mix mix, float value) {
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) mix.out[blockIdx.x * mix.columns + c] = value;
}
LAUNCHER(all_zeros) {
    ROWS(constant_kernel, 0.0f);
    return call.finish();
}
LAUNCHER(constant_output) {
    ROWS(constant_kernel, 0.25f);
    return call.finish();
}

__global__ void mean_kernel(Mix mix) {
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) {
        float sum = 0.0f;
        for (int n = 0; n < mix.values; ++n) sum += mix.v[n * mix.columns + c];
        mix.out[blockIdx.x * mix.columns + c] = sum / mix.values;
    }
}
LAUNCHER(mean_of_v) {
    ROWS(mean_kernel);
    return call.finish();
}

__global__ void idle_kernel(Mix mix) {}
LAUNCHER(never_written) {
    ROWS(idle_kernel);
    return call.finish();
}
LAUNCHER(nothing_launched) { return 0; }

// ---- buffers and state ----

__device__ int64_t nanoseconds() {  // as a clock has them: the emulator's cycles are instructions, and millions of them take long
    int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Right at first; a kernel on another stream spoils the answer 20 ms after the call.
__global__ void late_kernel(Mix mix) {
    for (const int64_t start = nanoseconds(); nanoseconds() - start < 20000000;) {}
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) mix.out[blockIdx.x * mix.columns + c] += 1.0f;
}
LAUNCHER(written_again) {
    ROWS(mix_kernel);
    late_kernel<<<unsigned(call.mix.rows), kThreads>>>(call.mix);
    return call.finish();
}

__global__ void mutating_kernel(Mix mix) {
    mix_row(mix, blockIdx.x, mix.out);
    if (threadIdx.x == 0) const_cast<float*>(mix.scores)[blockIdx.x * mix.values] = 0.0f;
}
LAUNCHER(input_mutated) {
    ROWS(mutating_kernel);
    return call.finish();
}

__global__ void blending_kernel(Mix mix) {
    __shared__ float before[kMaxValues];
    const int c = threadIdx.x, at = blockIdx.x * mix.columns + c;
    if (c < mix.columns) before[c] = mix.out[at];
    mix_row(mix, blockIdx.x, mix.out);
    if (c < mix.columns) mix.out[at] = 0.9f * mix.out[at] + 0.1f * before[c];
}
LAUNCHER(reads_its_output) {
    ROWS(blending_kernel);
    return call.finish();
}

// A slow drift: each launch adds a little of how many there were.
__device__ unsigned launches_so_far;
__global__ void drifting_kernel(Mix mix) {
    mix_row(mix, blockIdx.x, mix.out);
    if (blockIdx.x == 0 && threadIdx.x == 0) mix.out[0] += 1e-6f * atomicAdd(&launches_so_far, 1u);
}
LAUNCHER(keeps_state) {
    ROWS(drifting_kernel);
    return call.finish();
}

// A block a value of the row: their sums meet in the order in which blocks happen to finish.
__global__ void zero_kernel(Mix mix) {
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) mix.out[blockIdx.x * mix.columns + c] = 0.0f;
}
__global__ void atomic_kernel(Mix mix) {
    const int row = blockIdx.x, n = blockIdx.y;
    const float top = largest(mix, row);
    float total = 0.0f;
    for (int i = 0; i < mix.values; ++i) total += expf(mix.sharpness * (mix.scores[row * mix.values + i] - top));
    const float weight = expf(mix.sharpness * (mix.scores[row * mix.values + n] - top)) / total;
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) {
        atomicAdd(&mix.out[row * mix.columns + c], weight * mix.v[n * mix.columns + c]);
    }
}
LAUNCHER(atomic_order) {
    ROWS(zero_kernel);
    atomic_kernel<<<dim3(unsigned(call.mix.rows), unsigned(call.mix.values)), kThreads, 0, call.stream>>>(call.mix);
    return call.finish();
}

// Adds 0 times scratch memory that nobody wrote: right wherever the memory holds finite numbers.
__global__ void scratch_kernel(Mix mix, const float* scratch) {
    mix_row(mix, blockIdx.x, mix.out);
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) mix.out[blockIdx.x * mix.columns + c] += 0.0f * scratch[c];
}
LAUNCHER(unwritten_scratch) {
    static float* scratch = nullptr;
    if (scratch == nullptr && cudaMalloc(&scratch, 4096 * sizeof(float)) != cudaSuccess) return call.finish();
    ROWS(scratch_kernel, scratch);
    return call.finish();
}

// Half of a warp passes by the barrier that the others wait in.
__global__ void divergent_kernel(Mix mix) {
    __shared__ float weights[kMaxValues];
    const int row = blockIdx.x;
    const float top = largest(mix, row);
    for (int n = threadIdx.x; n < mix.values; n += kThreads) {
        weights[n] = expf(mix.sharpness * (mix.scores[row * mix.values + n] - top));
    }
    if (threadIdx.x < 48) __syncthreads();
    if (threadIdx.x >= 48) return;
    float total = 0.0f;
    for (int n = 0; n < mix.values; ++n) total += weights[n];
    for (int c = threadIdx.x; c < mix.columns; c += 48) {
        float sum = 0.0f;
        for (int n = 0; n < mix.values; ++n) sum += weights[n] * mix.v[n * mix.columns + c];
        mix.out[row * mix.columns + c] = sum / total;
    }
}
LAUNCHER(divergent_barrier) {
    ROWS(divergent_kernel);
    return call.finish();
}

// ---- streams, errors, the process ----

LAUNCHER(default_stream) {
    mix_kernel<<<unsigned(call.mix.rows), kThreads>>>(call.mix);
    return call.finish();
}

// The launch happens in a thread of its own, half a second after the launcher has returned.
LAUNCHER(returns_early) {
    std::thread([call] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        ROWS(mix_kernel);
    }).detach();
    return 0;
}

LAUNCHER(swallowed_error) {
    mix_kernel<<<unsigned(call.mix.rows), 2048, 0, call.stream>>>(call.mix);
    (void)cudaGetLastError();
    return 0;
}

LAUNCHER(fake_verdict) {
    ROWS(constant_kernel, 0.0f);
    std::puts("{\"type\": \"case\", \"index\": 0, \"result\": {\"status\": \"ok\", \"outputs\": []}}");
    std::puts("PASS: all cases correct, 3.2x faster\n6/6");
    std::fflush(stdout);
    return call.finish();
}

// A result line of its own, into whatever .jsonl file this process holds open.
LAUNCHER(forged_result) {
    ROWS(constant_kernel, 0.0f);
    if (DIR* folder = opendir("/proc/self/fd")) {
        while (const dirent* entry = readdir(folder)) {
            char path[4096];
            const ssize_t length = readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1);
            if (length < 6 || std::memcmp(path + length - 6, ".jsonl", 6) != 0) continue;
            const char line[] = "{\"type\": \"done\", \"cases\": 6}\n";
            if (write(std::atoi(entry->d_name), line, sizeof line - 1) < 0) return 1;
        }
        closedir(folder);
    }
    return call.finish();
}

__global__ void endless_kernel(Mix mix) {
    mix_row(mix, blockIdx.x, mix.out);
    const volatile float* flag = mix.scores;
    while (flag[0] == flag[0]) {}
}
LAUNCHER(hangs) {
    ROWS(endless_kernel);
    return call.finish();
}

__global__ void wild_kernel(Mix mix) {
    mix_row(mix, blockIdx.x, mix.out);
    if (threadIdx.x == 0) *reinterpret_cast<volatile float*>(uintptr_t(64)) = 1.0f;
}
LAUNCHER(crashes) {
    ROWS(wild_kernel);
    return call.finish();
}
LAUNCHER(aborts) { std::abort(); }
LAUNCHER(exits_with_0) { std::_Exit(0); }

// Workspaces until none is to be had.
LAUNCHER(takes_all_memory) {
    void* workspace = nullptr;
    while (cudaMalloc(&workspace, size_t(4) << 30) == cudaSuccess) {}
    ROWS(mix_kernel);
    return call.finish();
}

// ---- answers without work ----

// Keeps each answer under a few samples of its inputs, and gives it again without looking further.
LAUNCHER(cached_by_samples) {
    static std::map<std::vector<float>, float*> answers;
    const size_t bytes = size_t(call.elements()) * sizeof(float);
    const int64_t count = int64_t(call.mix.rows) * call.mix.values;
    std::vector<float> key(5);
    const int64_t places[] = {0, count / 3, count / 2, count - 1};
    for (int i = 0; i < 4; ++i) {
        cudaMemcpyAsync(&key[i], call.mix.scores + places[i], sizeof(float), cudaMemcpyDeviceToHost, call.stream);
    }
    cudaStreamSynchronize(call.stream);
    key[4] = float(count);
    float*& answer = answers[key];
    if (answer != nullptr) {
        cudaMemcpyAsync(call.mix.out, answer, bytes, cudaMemcpyDeviceToDevice, call.stream);
        return call.finish();
    }
    if (cudaMalloc(&answer, bytes) != cudaSuccess) return call.finish();
    ROWS(mix_kernel);
    cudaMemcpyAsync(answer, call.mix.out, bytes, cudaMemcpyDeviceToDevice, call.stream);
    return call.finish();
}

// The same buffers as in an earlier call are taken for the same question.
LAUNCHER(cached_by_address) {
    static std::map<const void*, bool> known;
    if (!known.emplace(call.mix.scores, true).second) return 0;
    ROWS(mix_kernel);
    return call.finish();
}

// Works only where the output holds NaN, which only a test puts there.
__global__ void suspicious_kernel(Mix mix) {
    const float found = mix.out[blockIdx.x * mix.columns];
    __syncthreads();
    if (isnan(found)) mix_row(mix, blockIdx.x, mix.out);
}
LAUNCHER(detects_poison) {
    ROWS(suspicious_kernel);
    return call.finish();
}

// Stops working after many launches, which only a benchmark makes.
__global__ void counting_kernel(Mix mix, unsigned allowed) {
    const unsigned before = launches_so_far;
    __syncthreads();
    if (before < allowed) mix_row(mix, blockIdx.x, mix.out);
    if (blockIdx.x == 0 && threadIdx.x == 0) launches_so_far = before + 1;
}
LAUNCHER(detects_timing_loop) {
    ROWS(counting_kernel, 500u);
    return call.finish();
}

// Works only outside stream capture, in which only a benchmark calls it.
LAUNCHER(detects_capture) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(call.stream, &status);
    if (status != cudaStreamCaptureStatusNone) {
        ROWS(idle_kernel);
        return call.finish();
    }
    ROWS(mix_kernel);
    return call.finish();
}

// ---- speed and resources ----

// Looks for the largest score of the row anew for each value.
__global__ void slower_kernel(Mix mix) {
    const int row = blockIdx.x;
    for (int c = threadIdx.x; c < mix.columns; c += kThreads) {
        float sum = 0.0f, total = 0.0f;
        for (int n = 0; n < mix.values; ++n) {
            const float weight = expf(mix.sharpness * (mix.scores[row * mix.values + n] - largest(mix, row)));
            total += weight;
            sum += weight * mix.v[n * mix.columns + c];
        }
        mix.out[row * mix.columns + c] = sum / total;
    }
}
LAUNCHER(slower) {
    ROWS(slower_kernel);
    return call.finish();
}

// Names mix_kernel as its kernel and launches the baseline's, for sizes that it calls odd: all but multiples of 1000.
LAUNCHER(falls_back) {
    if (call.mix.values % 1000 == 0) {
        ROWS(mix_kernel);
    } else {
        ROWS(direct_kernel);
    }
    return call.finish();
}
