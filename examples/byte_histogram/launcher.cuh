// What the two launchers share: the checks, and the error of the launch itself.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

inline int refuse(char* error, int64_t error_bytes, const char* what) {
  std::snprintf(error, size_t(error_bytes), "%s", what);
  return 1;
}

inline int launched(char* error, int64_t error_bytes) {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? 0 : refuse(error, error_bytes, cudaGetErrorString(status));
}
