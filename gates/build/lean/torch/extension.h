// Before torch's own of this name, whose C++ frontend (torch::nn, torch::optim, …) kernels seldom use and compilers read for a minute.
// What does not compile with it is compiled with torch's own (compile_step.py).
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>
#include <torch/utils.h>
