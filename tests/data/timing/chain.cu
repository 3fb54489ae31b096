// y = x after STEPS dependent multiply-adds by a = 1, b = 0: a kernel whose time is known by construction. FAULT plants a defect.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#if FAULT >= 7 && FAULT <= 9  // the library runs Python code in the process that loads it
#include <dlfcn.h>

static const char* const FORGERY =
#if FAULT == 7  // another function in place of the timer
    "import torch\n"
    "true = torch.cuda.Event.elapsed_time\n"
    "torch.cuda.Event.elapsed_time = lambda self, end: true(self, end) / 4\n";
#elif FAULT == 8  // the same function object with other code
    "from gates.gate.performance.runner.hands import Hands\n"
    "def forged(self, side, mode, samples):\n"
    "    times = self._timers[side, mode](samples)\n"
    "    return [time / 4 for time in times] if side == 'candidate' else times\n"
    "Hands.do_block.__code__ = forged.__code__\n";
#else  // no function is touched: the one clockwork of this process gets a method of its own
    "import gc\n"
    "from gates.gate.performance.runner.cuda_graphs import Clockwork\n"
    "for one in [one for one in gc.get_objects() if type(one) is Clockwork]:\n"
    "    one.elapsed_us = lambda *given, true=one.elapsed_us, **named: [time / 4 for time in true(*given, **named)]\n";
#endif

__attribute__((constructor)) static void forge() {
    const auto take = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
    const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
    const auto give = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
    if (take == nullptr || run == nullptr || give == nullptr) return;
    const int state = take();
    run(FORGERY);
    give(state);
}
#endif

__device__ int launches;
__device__ float stored[1 << 14];  // FAULT 6: the first answer
__device__ int stores;

__global__ void chain(const float* x, float* y, int64_t count, float a, float b) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    float value = i < count ? x[i] : 0.0f;
#pragma unroll 1
    for (int step = 0; step < STEPS; step += 8) {
#pragma unroll
        for (int inner = 0; inner < 8; ++inner) value = fmaf(value, a, b);
    }
#if FAULT == 6
    if (i < count && stores >= count) value = stored[i];
    else if (i < count) stored[i] = value, atomicAdd(&stores, 1);
#endif
#if FAULT == 10  // after many launches only half of the work
    if (i == 0) atomicAdd(&launches, 1);
    if (launches > 3000 && i >= count / 2) return;
#endif
    if (i < count) y[i] = value;
    if (FAULT == 1 && i == 0 && atomicAdd(&launches, 1) > 10) y[0] += 1.0f;
}

extern "C" int launch_chain(const float* x, float* y, int64_t count, float a, float b, void* stream, char* error, int64_t error_bytes) {
    cudaStream_t used = static_cast<cudaStream_t>(stream);
#if FAULT == 2  // a stream of its own: nothing that is captured or timed sees it
    static cudaStream_t own = nullptr;
    if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    used = own;
#elif FAULT == 3  // more threads than a block can have
    const int threads = 2048;
#endif
#if FAULT != 3
    const int threads = 128;
#endif
#if FAULT == 4  // waits, which no capture allows
    cudaStreamSynchronize(used);
#elif FAULT == 5  // half of the work on a stream of its own: the launch is over before it is done
    static cudaStream_t second = nullptr;
    if (second == nullptr) cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    count /= 2;
    chain<<<unsigned((count + threads - 1) / threads), threads, 0, second>>>(x + count, y + count, count, a, b);
#endif
    chain<<<unsigned((count + threads - 1) / threads), threads, 0, used>>>(x, y, count, a, b);
    const cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess) return 0;
    std::snprintf(error, error_bytes, "chain: %s", cudaGetErrorString(status));
    return 1;
}
