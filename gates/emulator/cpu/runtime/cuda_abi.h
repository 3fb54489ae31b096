// The C ABI of the CUDA runtime, as far as programs are compiled against it. Numbers are those of CUDA 13.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device.h"

#define GATES_CUDA extern "C" __attribute__((visibility("default")))

namespace gates_cpu {

struct Dim3 {
    std::uint32_t x, y, z;
};
using Stream = void*;  // all streams are one, in order
using EventHandle = void*;

}  // namespace gates_cpu
