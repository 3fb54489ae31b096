// Before torch's own of this name, whose C++ frontend (torch::nn, torch::optim, …) kernels seldom use and compilers read for a minute.
#pragma once

#include <torch/types.h>
