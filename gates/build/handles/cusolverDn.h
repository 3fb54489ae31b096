// As cublas_v2.h beside it.
#pragma once

#include <cublas_v2.h>
#include <cusolver_common.h>

typedef struct cusolverDnContext* cusolverDnHandle_t;
