// Memory of both sides, pools, captured streams, function pointers: the mode says which mistake is made, 0 none.
#include <cuda_runtime.h>

#include <cstdint>

#define TAIL void*, char* error, int64_t bytes
#define TRY(call) \
  if (const cudaError_t failed = (call)) return int(failed)

__global__ void add_kernel(const float* x, float* out, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + by;  // adds
}

// Managed memory is written by the host, and read by it after the kernel. 1: the kernel goes past its end; 2: the host reads it when it is freed.
extern "C" int managed(float* out, int64_t mode, TAIL) {
  float *x = nullptr, *sums = nullptr;
  TRY(cudaMallocManaged(&x, 64 * sizeof(float)));
  TRY(cudaMallocManaged(&sums, 64 * sizeof(float)));
  for (int i = 0; i < 64; ++i) x[i] = float(i);
  add_kernel<<<1, 128>>>(x, sums, mode == 1 ? 65 : 64, 1.0f);
  TRY(cudaDeviceSynchronize());
  for (int i = 0; i < 64; ++i) x[i] = 2 * sums[i];
  TRY(cudaMemcpy(out, x, 64 * sizeof(float), cudaMemcpyDefault));
  TRY(cudaFree(x));
  if (mode == 2) sums[0] = x[0];
  return cudaFree(sums);
}

// The same by pinned memory of the host, which kernels reach, too. 1: it is freed as if it were the device's.
extern "C" int mapped(float* out, int64_t mode, TAIL) {
  float *host = nullptr, *x = nullptr;
  TRY(cudaHostAlloc(&host, 64 * sizeof(float), cudaHostAllocMapped));
  for (int i = 0; i < 64; ++i) host[i] = float(i);
  TRY(cudaHostGetDevicePointer(reinterpret_cast<void**>(&x), host, 0));
  add_kernel<<<1, 64>>>(x, x, 64, 1.0f);
  TRY(cudaStreamSynchronize(nullptr));
  TRY(cudaMemcpy(out, host, 64 * sizeof(float), cudaMemcpyHostToDevice));
  int local = 0;
  if (cudaHostGetDevicePointer(reinterpret_cast<void**>(&x), &local, 0) == cudaSuccess) return 1;
  cudaGetLastError();
  return mode == 1 ? cudaFree(host) : cudaFreeHost(host);
}

// Scratch memory of a pool. 1: it is freed before the kernel that reads it; 2: never.
extern "C" int pooled(const float* x, float* out, int64_t mode, TAIL) {
  cudaStream_t stream;
  cudaMemPool_t pool;
  uint64_t kept = ~0ull;
  float* scratch = nullptr;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
  TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  TRY(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&scratch), 64 * sizeof(float), pool, stream));
  add_kernel<<<1, 64, 0, stream>>>(x, scratch, 64, 1.0f);
  if (mode == 1) TRY(cudaFreeAsync(scratch, stream));
  add_kernel<<<1, 64, 0, stream>>>(scratch, out, 64, 1.0f);
  if (mode == 0) TRY(cudaFreeAsync(scratch, stream));
  TRY(cudaStreamSynchronize(stream));
  return cudaStreamDestroy(stream);
}

// A graph adds 1 and then 2, on two streams that an event orders, and is launched twice. 1: its second kernel goes past the end; 2: the
// second stream is not joined; 3: the host waits for the stream; 4: it allocates memory meanwhile; 5: a launch goes to the default stream;
// 6: the capture is left open; 7: the graph is never launched; 8: memory of a pool.
extern "C" int captured(const float* x, float* out, float* scratch, int64_t mode, TAIL) {
  cudaStream_t stream, other;
  cudaEvent_t forked, joined;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  void* more = nullptr;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaStreamCreate(&other));
  TRY(cudaEventCreate(&forked));
  TRY(cudaEventCreate(&joined));
  TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  TRY(cudaMemsetAsync(scratch, 0, 64 * sizeof(float), stream));
  add_kernel<<<1, 64, 0, stream>>>(x, scratch, 64, 1.0f);
  TRY(cudaEventRecord(forked, stream));
  TRY(cudaStreamWaitEvent(other, forked, 0));
  add_kernel<<<1, 128, 0, mode == 5 ? nullptr : other>>>(scratch, scratch, mode == 1 ? 65 : 64, 2.0f);
  if (mode == 3) TRY(cudaStreamSynchronize(stream));
  if (mode == 4) TRY(cudaMalloc(&more, 256));
  if (mode == 8) TRY(cudaMallocAsync(&more, 256, stream));
  TRY(cudaEventRecord(joined, other));
  if (mode != 2) TRY(cudaStreamWaitEvent(stream, joined, 0));
  TRY(cudaMemcpyAsync(out, scratch, 64 * sizeof(float), cudaMemcpyDeviceToDevice, stream));
  cudaStreamCaptureStatus status;
  TRY(cudaStreamIsCapturing(other, &status));
  if (mode == 0 && status != cudaStreamCaptureStatusActive) return 1;
  if (mode == 6) return 0;
  TRY(cudaStreamEndCapture(stream, &graph));
  TRY(cudaGraphInstantiate(&made, graph, 0));
  TRY(cudaGraphDestroy(graph));
  for (int turn = 0; turn < 2 && mode != 7; ++turn) TRY(cudaGraphLaunch(made, stream));
  TRY(cudaStreamSynchronize(stream));
  TRY(cudaGraphExecDestroy(made));
  TRY(cudaStreamDestroy(other));
  return cudaStreamDestroy(stream);
}

using Function = float (*)(float);
__device__ float twice(float x) { return 2 * x; }
__device__ float square(float x) { return x * x; }
__device__ Function functions[3] = {twice, square, nullptr};
struct Shape {
  __device__ virtual float area(float side) const = 0;
};
struct Square : Shape {
  __device__ float area(float side) const override { return side * side; }
};
struct Triangle : Shape {
  float share;
  __device__ explicit Triangle(float share) : share(share) {}
  __device__ float area(float side) const override { return share * side * side; }
};
__global__ void called_kernel(const float* x, float* out, Function given, int which) {
  const Square square;
  const Triangle triangle(0.5f);
  const Shape* const shape = threadIdx.x % 2 ? static_cast<const Shape*>(&square) : &triangle;
  const Function own = functions[threadIdx.x % 4 == 3 ? which : 0];
  const float v = x[threadIdx.x];
  out[threadIdx.x] = own(v) + given(v) + shape->area(v);  // calls
}
static float of_the_host(float x) { return x; }
// which: of `functions`; 3: a function of the host is given.
extern "C" int called(const float* x, float* out, int64_t which, TAIL) {
  Function given;
  TRY(cudaMemcpyFromSymbol(&given, functions, sizeof given, sizeof given));
  called_kernel<<<1, 64>>>(x, out, which == 3 ? of_the_host : given, which == 3 ? 1 : int(which));
  return cudaGetLastError();
}

__global__ void sum_kernel(const float* x, const float* by, float* out) { out[threadIdx.x] = x[threadIdx.x] + by[threadIdx.x]; }

static void counted(void* calls) { ++*static_cast<int*>(calls); }

// A graph of nodes: a set, a copy, a graph within, two kernels, a function of the host. 1: the second kernel does not wait for the first;
// 2: two nodes wait for each other; 3: a node of another graph is waited for; 4: the first kernel gets another step before the second launch.
extern "C" int nodes(const float* x, float* out, float* scratch, int64_t mode, TAIL) {
  cudaGraph_t graph, inner, other;
  cudaGraphExec_t made;
  cudaGraphNode_t set, copied, within, first, second, told, empty;
  int length = 64, calls = 0;
  float one = 1, three = 3, *ones = scratch + 64;
  TRY(cudaGraphCreate(&graph, 0));
  TRY(cudaGraphCreate(&inner, 0));
  TRY(cudaGraphCreate(&other, 0));
  int bits;
  static_assert(sizeof bits == sizeof one);
  __builtin_memcpy(&bits, &one, sizeof bits);
  cudaMemsetParams fill{};
  fill.dst = ones, fill.value = unsigned(bits), fill.elementSize = 4, fill.width = 64, fill.height = 1;
  TRY(cudaGraphAddMemsetNode(&set, inner, nullptr, 0, &fill));
  TRY(cudaGraphAddChildGraphNode(&within, graph, nullptr, 0, inner));
  TRY(cudaGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, scratch, x, 64 * sizeof(float), cudaMemcpyDeviceToDevice));
  void* given[] = {&scratch, &scratch, &length, &one};
  void* sums[] = {&scratch, &ones, &out};
  cudaKernelNodeParams add{}, sum{};
  add.func = reinterpret_cast<void*>(add_kernel), add.gridDim = dim3(1), add.blockDim = dim3(64), add.kernelParams = given;
  sum.func = reinterpret_cast<void*>(sum_kernel), sum.gridDim = dim3(1), sum.blockDim = dim3(64), sum.kernelParams = sums;
  TRY(cudaGraphAddKernelNode(&first, graph, &copied, 1, &add));
  one = 100;  // the node keeps the arguments
  TRY(cudaGraphAddKernelNode(&second, graph, &within, 1, &sum));
  TRY(cudaGraphAddEmptyNode(&empty, mode == 3 ? other : graph, nullptr, 0));
  if (mode != 1) TRY(cudaGraphAddDependencies(graph, &first, &second, nullptr, 1));
  if (mode == 2) TRY(cudaGraphAddDependencies(graph, &second, &first, nullptr, 1));
  cudaHostNodeParams host{counted, &calls};
  const cudaGraphNode_t before[] = {second, empty};
  TRY(cudaGraphAddHostNode(&told, graph, before, 2, &host));
  TRY(cudaGraphInstantiate(&made, graph, 0));
  TRY(cudaGraphLaunch(made, nullptr));
  given[3] = &three;
  if (mode == 4) TRY(cudaGraphExecKernelNodeSetParams(made, first, &add));
  if (mode != 1) TRY(cudaGraphLaunch(made, nullptr));  // the scratch of the last launch would do for 1
  TRY(cudaGraphExecDestroy(made));
  TRY(cudaGraphDestroy(graph));
  return calls == (mode == 1 ? 1 : 2) ? 0 : -1;
}
