// Mistakes of a launcher itself. The mode says which is made, 0 none; the launcher returns the runtime's error.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#define TAIL void*, char* error, int64_t bytes
#define TRY(call) \
  if (const cudaError_t failed = (call)) return int(failed)

__global__ void add_kernel(const float* x, float* out, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + by;
}

// 1: no graph is instantiated; 2: none is launched; 3: one is launched that is destroyed; 4: a graph, 5: an executable, is destroyed twice;
// 6: garbage is launched; 7: what a failed capture left is launched.
extern "C" int graph_handles(const float* x, float* out, int64_t mode, TAIL) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made = nullptr;
  void* more = nullptr;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add_kernel<<<1, 64, 0, stream>>>(x, out, 64, 1.0f);
  if (mode == 7) cudaMalloc(&more, 256);
  if (mode == 7) cudaStreamEndCapture(stream, &graph), cudaGraphInstantiate(&made, graph, 0);
  else TRY(cudaStreamEndCapture(stream, &graph));
  if (mode != 7) TRY(cudaGraphInstantiate(&made, mode == 1 ? nullptr : graph, 0));
  if (mode == 3) TRY(cudaGraphExecDestroy(made));
  TRY(cudaGraphLaunch(mode == 2 ? nullptr : mode == 6 ? reinterpret_cast<cudaGraphExec_t>(0x1234) : made, stream));
  TRY(cudaGraphDestroy(graph));
  if (mode == 4) TRY(cudaGraphDestroy(graph));
  TRY(cudaGraphExecDestroy(made));
  if (mode == 5) TRY(cudaGraphExecDestroy(made));
  return cudaStreamDestroy(stream);
}

// 1: a null event is recorded; 2: one is awaited that is destroyed; 3: it is destroyed twice; 4: garbage is measured; 5: a kernel goes to a
// stream that is destroyed; 6: a copy goes to garbage; 7: a stream is destroyed twice; 8: an event is taken for a stream.
extern "C" int stream_handles(const float* x, float* out, int64_t mode, TAIL) {
  cudaStream_t stream;
  cudaEvent_t event;
  float ms = -1;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaEventCreate(&event));
  TRY(cudaEventRecord(mode == 1 ? nullptr : event, stream));
  if (mode == 2) TRY(cudaEventDestroy(event));
  TRY(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
  TRY(cudaEventElapsedTime(&ms, event, mode == 4 ? reinterpret_cast<cudaEvent_t>(0x1234) : event));
  if (mode == 5) TRY(cudaStreamDestroy(stream));
  add_kernel<<<1, 64, 0, stream>>>(x, out, 64, 1.0f);
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(out, out, 4, cudaMemcpyDeviceToDevice, mode == 6 ? reinterpret_cast<cudaStream_t>(0x1234) : cudaStreamLegacy));
  if (mode == 8) TRY(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(event)));
  TRY(cudaEventDestroy(event));
  if (mode == 3) TRY(cudaEventDestroy(event));
  TRY(cudaStreamDestroy(stream));
  return mode == 7 ? cudaStreamDestroy(stream) : 0;
}

// 1: a pool is used that is destroyed; 2: it is destroyed twice; 3: garbage is; 4: the device's own is.
extern "C" int pool_handles(const float* x, float* out, int64_t mode, TAIL) {
  cudaMemPool_t pool, own;
  cudaMemPoolProps properties = {};
  void* scratch = nullptr;
  TRY(cudaMemPoolCreate(&pool, &properties));
  TRY(cudaDeviceGetDefaultMemPool(&own, 0));
  if (mode == 1) TRY(cudaMemPoolDestroy(pool));
  TRY(cudaMallocFromPoolAsync(&scratch, 256, pool, nullptr));
  TRY(cudaFreeAsync(scratch, nullptr));
  TRY(cudaMemPoolDestroy(pool));
  return mode == 0 ? 0 : cudaMemPoolDestroy(mode == 2 ? pool : mode == 3 ? reinterpret_cast<cudaMemPool_t>(0x1234) : own);
}

// 1: there are no arguments; 2: the second's address is null.
extern "C" int arguments(const float* x, float* out, int64_t mode, TAIL) {
  int n = 64;
  float by = 1;
  void* given[] = {&x, mode == 2 ? nullptr : &out, &n, &by};
  return cudaLaunchKernel(reinterpret_cast<void*>(add_kernel), dim3(1), dim3(64), mode == 1 ? nullptr : given, 0, nullptr);
}

// Graphs, each of which launches the one before it twice. The first has one kernel, or nothing.
extern "C" int levels(const float* x, float* out, int64_t count, int64_t empty, TAIL) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made = nullptr;
  TRY(cudaStreamCreate(&stream));
  for (int64_t i = 0; i < count; ++i) {
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int turn = 0; turn < 2 && made != nullptr; ++turn) TRY(cudaGraphLaunch(made, stream));
    if (made == nullptr && empty == 0) add_kernel<<<1, 64, 0, stream>>>(x, out, 64, 1.0f);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&made, graph, 0));
  }
  return cudaGraphLaunch(made, stream);
}

// Memory of both sides: 0 managed, 1 pinned. The host writes it before the kernel reads it, or not.
extern "C" int of_both(float* out, int64_t pinned, int64_t written, TAIL) {
  float* x = nullptr;
  TRY(pinned != 0 ? cudaMallocHost(&x, 64 * sizeof(float)) : cudaMallocManaged(&x, 64 * sizeof(float)));
  if (written != 0) memset(x, 0, 64 * sizeof(float));
  add_kernel<<<1, 64>>>(x, out, 64, 1.0f);
  TRY(cudaDeviceSynchronize());
  return pinned != 0 ? cudaFreeHost(x) : cudaFree(x);
}

// Pins blocks of 16 MiB until there is no more room, gives them back, pins one more. Returns the error of the last; `blocks`: how many there were.
extern "C" int pin_all(int32_t* blocks, TAIL) {
  static void* held[100000];
  int count = 0;
  while (count < 100000 && cudaMallocHost(&held[count], 16 << 20) == cudaSuccess) ++count;
  TRY(cudaMemcpy(blocks, &count, sizeof count, cudaMemcpyHostToDevice));
  if (cudaGetLastError() != cudaErrorMemoryAllocation) return 999;
  for (int i = 0; i < count; ++i) TRY(cudaFreeHost(held[i]));
  TRY(cudaMallocHost(&held[0], 16 << 20));
  return cudaFreeHost(held[0]);
}

// 0: rows of a matrix are set; 1: during a capture; 2: of no width, more rows than can be counted.
extern "C" int set_rows(float* out, int64_t mode, TAIL) {
  cudaStream_t stream;
  TRY(cudaStreamCreate(&stream));
  if (mode == 1) TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  return cudaMemset2D(out, 32, 0, mode == 2 ? 0 : 16, mode == 2 ? ~std::size_t(0) : 8);
}

// 0: rows that fit; 1: a product of 2^70 bytes; 2: a width that can't be rounded up.
extern "C" int pitched(float* out, int64_t mode, TAIL) {
  void* made = out;
  std::size_t pitch = 0;
  const cudaError_t given = cudaMallocPitch(&made, &pitch, mode == 2 ? ~std::size_t(0) : mode == 1 ? std::size_t(1) << 40 : 100, mode == 0 ? 3 : 1 << 30);
  if (mode == 0 && (given != cudaSuccess || pitch != 512)) return 999;
  if (given != cudaSuccess) return made == nullptr ? int(given) : 999;
  return cudaFree(made);
}

// 1: bytes before the variable, by an offset that wraps.
__device__ float symbol[4];
extern "C" int to_symbol(float* out, int64_t mode, TAIL) {
  const float value = 7;
  TRY(cudaMemcpyToSymbol(symbol, &value, 4, mode == 1 ? ~std::size_t(0) - 3 : 4));
  float back[4] = {};
  TRY(cudaMemcpyFromSymbol(back, symbol, sizeof back));
  return cudaMemcpy(out, back, sizeof back, cudaMemcpyHostToDevice);
}

// Null where there must be an address. 1: a copy's source; 2: its target; 3: a function of the host; 4: where to put the address of an allocation.
static void nothing(void*) {}
extern "C" int addresses(const float* x, float* out, int64_t mode, TAIL) {
  float host[64];
  void* made = nullptr;
  TRY(cudaMemcpy(mode == 2 ? nullptr : host, x, sizeof host, cudaMemcpyDeviceToHost));
  TRY(cudaLaunchHostFunc(nullptr, mode == 3 ? nullptr : nothing, nullptr));
  TRY(cudaMalloc(mode == 4 ? nullptr : &made, 256));
  TRY(cudaFree(made));
  add_kernel<<<1, 64>>>(x, out, 64, 1.0f);
  return cudaMemcpy(out, mode == 1 ? nullptr : out, 256, cudaMemcpyDefault);
}
