// Before torch's own of this name, which declares all 2,500 operators. What of it a source names is included by its command
// (torch_headers.py); what does not compile with this header is compiled with torch's own (compile_step.py).
#pragma once
#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS
#endif

#include <ATen/Config.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

namespace torch {
using namespace at;

using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;

constexpr auto kUInt8 = at::kByte, kU8 = at::kByte;
constexpr auto kInt8 = at::kChar, kI8 = at::kChar;
constexpr auto kInt16 = at::kShort, kI16 = at::kShort;
constexpr auto kInt32 = at::kInt, kI32 = at::kInt;
constexpr auto kInt64 = at::kLong, kI64 = at::kLong;
constexpr auto kFloat16 = at::kHalf, kF16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat, kF32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble, kF64 = at::kDouble;
}  // namespace torch
