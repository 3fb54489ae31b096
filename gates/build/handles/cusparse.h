// As cublas_v2.h beside it.
#pragma once

#include <cuComplex.h>
#include <driver_types.h>
#include <library_types.h>

typedef struct cusparseContext* cusparseHandle_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;

extern "C" const char* cusparseGetErrorString(cusparseStatus_t status);
