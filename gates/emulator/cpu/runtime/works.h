// What streams and graphs do, made once and done later.
#pragma once

#include "capture.h"

namespace gates_cpu {

// A launch, with the arguments as they are now. Returns the runtime's error.
int launching(Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, bool cooperative, Dim3 cluster, Work& made);
Work copying(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, int kind);
Work filling(void* to, std::size_t pitch, std::uint32_t value, unsigned element_bytes, std::size_t width, std::size_t height);

}  // namespace gates_cpu
