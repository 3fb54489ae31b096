// torch includes these for the names of their handles.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <cusparse.h>

namespace at {
namespace cuda {
cublasHandle_t getCurrentCUDABlasHandle();
cublasLtHandle_t getCurrentCUDABlasLtHandle();
cusparseHandle_t getCurrentCUDASparseHandle();
cusolverDnHandle_t getCurrentCUDASolverDnHandle();
cudaStream_t getCurrentCUDAStream();
}  // namespace cuda
}  // namespace at
