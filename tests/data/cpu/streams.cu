// Launchers whose work is on several streams, or that read what work on a stream writes. The mode says which wait is left out, 0 none.
#include <cuda_runtime.h>

#include <cstdint>

#define TAIL void *given, char*, int64_t
#define STREAM static_cast<cudaStream_t>(given)

__global__ void add_kernel(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * 64ll + threadIdx.x;
  if (i < n) out[i] = x[i] + 1;
}
static void add(const float* x, float* out, int64_t n, cudaStream_t stream) { add_kernel<<<unsigned((n + 63) / 64), 64, 0, stream>>>(x, out, n); }

struct Side {
  cudaStream_t stream;
  cudaEvent_t event;
  explicit Side(unsigned flags) { cudaStreamCreateWithFlags(&stream, flags), cudaEventCreate(&event); }
  ~Side() { cudaEventDestroy(event), cudaStreamDestroy(stream); }
  void after(cudaStream_t other) { cudaEventRecord(event, other), cudaStreamWaitEvent(stream, event, 0); }
  void before(cudaStream_t other) { cudaEventRecord(event, stream), cudaStreamWaitEvent(other, event, 0); }
};

// 1: the side does not wait for the caller; 2: the caller does not wait for the side.
extern "C" int halves(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  Side side(cudaStreamNonBlocking);
  if (mode != 1) side.after(STREAM);
  add(x, out, n / 2, STREAM);
  add(x + n / 2, out + n / 2, n - n / 2, side.stream);
  if (mode != 2) side.before(STREAM);
  return cudaGetLastError();
}
// The default stream, between two waits of the host.
extern "C" int by_default(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  if (mode != 1) cudaStreamSynchronize(STREAM);
  add(x, out, n, nullptr);
  if (mode != 2) cudaDeviceSynchronize();
  return cudaGetLastError();
}
// A graph, captured on a side stream and launched on the caller's, or there.
extern "C" int graph(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  Side side(cudaStreamNonBlocking);
  cudaGraph_t made;
  cudaGraphExec_t executable;
  cudaStreamBeginCapture(side.stream, cudaStreamCaptureModeThreadLocal);
  add(x, out, n, side.stream);
  cudaStreamEndCapture(side.stream, &made);
  cudaGraphInstantiate(&executable, made, 0);
  cudaGraphLaunch(executable, mode == 0 ? STREAM : side.stream);
  cudaGraphExecDestroy(executable), cudaGraphDestroy(made);
  return cudaGetLastError();
}
// Memory of the launcher's own may be set on any stream before the caller's stream waits for that. 1: the input is copied there.
extern "C" int scratch(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  Side side(cudaStreamNonBlocking);
  float* own = nullptr;
  cudaMalloc(&own, size_t(4 * n));
  cudaMemsetAsync(own, 0, size_t(4 * n), side.stream);
  if (mode == 1) cudaMemcpyAsync(own, x, size_t(4 * n), cudaMemcpyDeviceToDevice, side.stream);
  side.before(STREAM);
  if (mode == 0) cudaMemcpyAsync(own, x, size_t(4 * n), cudaMemcpyDeviceToDevice, STREAM);
  add(own, out, n, STREAM);
  cudaFree(own);
  return cudaGetLastError();
}
// The second kernel may begin before the first has ended, and waits for it. 1: it does not. 2: a set comes between, 3: a wait of the host.
template <bool kWaits> __global__ void after_kernel(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * 64ll + threadIdx.x;
  if (kWaits) cudaGridDependencySynchronize();
  if (i < n) out[i] = x[i];
}
extern "C" int overlapping(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  float* own = nullptr;
  cudaMalloc(&own, size_t(4 * n));
  add(x, own, n, STREAM);
  if (mode == 2) cudaMemsetAsync(out, 0, size_t(4 * n), STREAM);
  if (mode == 3) cudaStreamSynchronize(STREAM);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned((n + 63) / 64)), config.blockDim = dim3(64), config.stream = STREAM, config.attrs = &early, config.numAttrs = 1;
  const cudaError_t failed = cudaLaunchKernelEx(&config, mode != 0 ? after_kernel<false> : after_kernel<true>, static_cast<const float*>(own), out, n);
  cudaFree(own);
  return failed;
}
// A blocking stream waits for the default stream and it for that one, by themselves.
extern "C" int blocking(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  Side side(mode == 0 ? cudaStreamDefault : cudaStreamNonBlocking);
  add(x, out, n, side.stream);
  return cudaGetLastError();
}

__managed__ float seen;
__global__ void see_kernel(const float* x, float* to) { *to = x[1]; }
static float look(const float* at) { return *at; }  // the host

// 1: the host does not wait for the kernel.
extern "C" int managed(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  seen = 0;
  see_kernel<<<1, 1, 0, STREAM>>>(x, &seen);
  add(x, out, n, STREAM);
  if (mode != 1) cudaStreamSynchronize(STREAM);
  return look(&seen) != 2;
}
// One block of pinned memory has places for two copies: the host may write one while a copy to the other is under way. 1: to that one.
extern "C" int places(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  float* own = nullptr;
  cudaMallocHost(&own, 8192);
  cudaMemcpyAsync(own, x, 4, cudaMemcpyDeviceToHost, STREAM);
  own[mode == 1 ? 0 : 16] = 5;
  add(x, out, n, STREAM);
  cudaStreamSynchronize(STREAM);
  return cudaFreeHost(own);
}
// The same for a copy to pinned memory, which an event tells of; a function of the host is in the stream's order.
static void count(void* pinned) { static_cast<float*>(pinned)[1] = look(static_cast<float*>(pinned)); }
extern "C" int pinned(const float* x, float* out, int64_t n, int64_t mode, TAIL) {
  float* own = nullptr;
  cudaMallocHost(&own, 8);
  own[0] = own[1] = 0;
  cudaEvent_t event;
  cudaEventCreate(&event);
  cudaMemcpyAsync(own, x + 1, 4, cudaMemcpyDeviceToHost, STREAM);
  if (mode == 0) cudaLaunchHostFunc(STREAM, count, own);
  add(x, out, n, STREAM);
  cudaEventRecord(event, STREAM);
  if (mode != 1) cudaEventSynchronize(event);
  const int failed = look(own) != 2;
  cudaEventDestroy(event), cudaFreeHost(own);
  return failed;
}
