// As cublas_v2.h beside it.
#pragma once

#include <library_types.h>

typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;
