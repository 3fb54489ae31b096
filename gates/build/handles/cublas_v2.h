// torch's ATen/cuda/CUDAContext.h needs the names of cuBLAS's handles and nothing else. Found only where cuBLAS's own header is not installed.
#pragma once

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <driver_types.h>
#include <library_types.h>

typedef struct cublasContext* cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
