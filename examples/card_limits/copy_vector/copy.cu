// out = x, floats. 16 bytes a thread: neighbouring threads, neighbouring bytes, and addresses that go up with time.
#include "../../../kernels/cuda/launcher.cuh"

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) copy_kernel(const float* x, float* out, std::int64_t n) {
    const std::int64_t first = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x);
    if (first + 4 <= n) {
        __stcs(reinterpret_cast<float4*>(out + first), __ldcs(reinterpret_cast<const float4*>(x + first)));
    } else {
        for (std::int64_t i = first; i < n; ++i) out[i] = x[i];
    }
}

}  // namespace

// Enqueues one launch on `stream` and returns without waiting: 0, or 1 with a message in `error`.
extern "C" int copy_launch(const float* x, float* out, std::int64_t n, void* stream, char* error, std::int64_t error_bytes) {
    const launcher::Refusal refusal{error, error_bytes};
    if (const int refused = launcher::check_pointers(refusal, {{"x", x}, {"out", out}}, 16)) return refused;
    if (const int refused = launcher::check_extents(refusal, {{"N", n}}, launcher::kMaxGrid)) return refused;
    return launcher::launch(refusal, copy_kernel, static_cast<unsigned>((n + 4 * kThreads - 1) / (4 * kThreads)), kThreads, 0, stream, x, out, n);
}
