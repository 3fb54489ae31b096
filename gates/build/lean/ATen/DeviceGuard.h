// Before torch's own of this name, which every operator's header includes, and which takes compilers as long as all else of an operator:
// it reads the types of TorchScript for the device of a list of tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

namespace at {

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::make_optional(tensor.device()) : std::nullopt;
}

inline std::optional<Device> device_of(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? device_of(*tensor) : std::nullopt;
}

}  // namespace at
