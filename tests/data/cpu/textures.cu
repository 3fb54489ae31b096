// Texture objects of linear memory, of rows with a pitch and of arrays. Launchers return the runtime's error.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define TAIL void*, char*, int64_t
#define TRY(call) \
  if (const cudaError_t failed = (call)) return int(failed)

__global__ void elements_kernel(cudaTextureObject_t floats, cudaTextureObject_t pairs, cudaTextureObject_t bytes, float* out) {
  const int i = threadIdx.x;
  const float2 pair = tex1Dfetch<float2>(pairs, i / 2);
  out[i] = tex1Dfetch<float>(floats, i) + (i % 2 == 0 ? pair.x : pair.y);
  out[32 + i] = tex1Dfetch<signed char>(bytes, i);  // reads bytes
  out[64 + i] = tex1Dfetch<float>(floats, i - 1);   // zero before the first
}
static cudaError_t linear(cudaTextureObject_t* made, void* at, cudaChannelFormatDesc format, size_t bytes, cudaTextureFilterMode filter = cudaFilterModePoint) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = at, resource.res.linear.desc = format, resource.res.linear.sizeInBytes = bytes;
  cudaTextureDesc sampling{};
  sampling.filterMode = filter;
  return cudaCreateTextureObject(made, &resource, &sampling, nullptr);
}
// 1: an object is used that is destroyed.
extern "C" int elements(float* x, signed char* bytes, float* out, int64_t mode, TAIL) {
  cudaTextureObject_t floats, pairs, small;
  TRY(linear(&floats, x, cudaCreateChannelDesc<float>(), 32 * 4));
  TRY(linear(&pairs, x, cudaCreateChannelDesc<float2>(), 32 * 4));
  TRY(linear(&small, bytes, cudaCreateChannelDesc<signed char>(), 32));
  if (mode == 1) TRY(cudaDestroyTextureObject(small));
  elements_kernel<<<1, 32>>>(floats, pairs, small, out);
  TRY(cudaDeviceSynchronize());
  TRY(cudaDestroyTextureObject(floats));
  TRY(cudaDestroyTextureObject(pairs));
  return cudaDestroyTextureObject(small);
}

__global__ void rows_kernel(cudaTextureObject_t image, float* out, float scale, float move) {
  const float x = (threadIdx.x + 0.5f + move) * (scale == 0 ? 1 : scale), y = (threadIdx.y + 0.5f) * (scale == 0 ? 1 : 0.25f);
  out[threadIdx.y * 8 + threadIdx.x] = tex2D<float>(image, x, y);
}
// An image of 4 rows of 8 floats, read `move` elements further to the right. `kind` 0: by its pitch, 1: an array of halves, normalised coordinates.
// `filter`: interpolates, which is not supported.
extern "C" int image(const float* x, const __half* halves, float* out, int64_t kind, int64_t outside, int64_t move, int64_t filter, TAIL) {
  cudaResourceDesc resource{};
  cudaArray_t array = nullptr;
  float* rows = nullptr;
  size_t pitch = 0;
  if (kind == 0) {
    TRY(cudaMallocPitch(&rows, &pitch, 8 * sizeof(float), 4));
    TRY(cudaMemcpy2D(rows, pitch, x, 8 * sizeof(float), 8 * sizeof(float), 4, cudaMemcpyDeviceToDevice));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = rows, resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = 8, resource.res.pitch2D.height = 4, resource.res.pitch2D.pitchInBytes = pitch;
  } else {
    const cudaChannelFormatDesc format = cudaCreateChannelDescHalf();
    TRY(cudaMallocArray(&array, &format, 8, 4));
    TRY(cudaMemcpy2DToArray(array, 0, 0, halves, 8 * sizeof(__half), 8 * sizeof(__half), 4, cudaMemcpyDeviceToDevice));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
  }
  cudaTextureDesc sampling{};
  sampling.addressMode[0] = sampling.addressMode[1] = cudaTextureAddressMode(outside);
  sampling.normalizedCoords = int(kind);
  sampling.filterMode = filter != 0 ? cudaFilterModeLinear : cudaFilterModePoint;
  cudaTextureObject_t made;
  TRY(cudaCreateTextureObject(&made, &resource, &sampling, nullptr));
  rows_kernel<<<1, dim3(8, 4)>>>(made, out, kind == 1 ? 0.125f : 0.0f, float(move));
  TRY(cudaDeviceSynchronize());
  TRY(cudaDestroyTextureObject(made));
  TRY(cudaFreeArray(array));
  return cudaFree(rows);
}
