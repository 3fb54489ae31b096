// out = x, floats. A thread has four loads of 16 bytes on their way before it stores the first; neighbouring threads, neighbouring bytes.
#include "../../../kernels/common/launcher.cuh"

namespace {

constexpr int kThreads = 256, kLoads = 4, kFloats = 4;  // of 16 bytes
constexpr std::int64_t kOfCta = kThreads * kLoads * kFloats;

__global__ void __launch_bounds__(kThreads) copy_kernel(const float* x, float* out, std::int64_t n) {
    const std::int64_t first = blockIdx.x * kOfCta + threadIdx.x * kFloats;
    if ((blockIdx.x + 1) * kOfCta <= n) {
        float4 values[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) values[i] = __ldcs(reinterpret_cast<const float4*>(x + first + i * kThreads * kFloats));
#pragma unroll
        for (int i = 0; i < kLoads; ++i) __stcs(reinterpret_cast<float4*>(out + first + i * kThreads * kFloats), values[i]);
    } else {
        for (std::int64_t i = blockIdx.x * kOfCta + threadIdx.x; i < n; i += kThreads) out[i] = x[i];
    }
}

}  // namespace

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int copy_launch(const float* x, float* out, std::int64_t n, void* stream, char* error, std::int64_t error_bytes) {
    const launcher::Refusal refusal{error, error_bytes};
    if (const int refused = launcher::check_pointers(refusal, {{"x", x}, {"out", out}}, 16)) return refused;
    if (const int refused = launcher::check_extents(refusal, {{"N", n}}, launcher::kMaxGrid)) return refused;
    return launcher::launch(refusal, copy_kernel, static_cast<unsigned>((n + kOfCta - 1) / kOfCta), kThreads, 0, stream, x, out, n);
}
