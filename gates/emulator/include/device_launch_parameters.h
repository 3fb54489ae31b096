// ThreadIdx and its kin, as Visual Studio's template includes them.
#pragma once
#pragma GCC system_header

#include "cuda_runtime.h"
