// Included before the source of a torch extension that runs on the CPU device: what asks for a CUDA tensor gets one of the CPU.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace c10::cuda {
struct NoGuard {  // there is one device
    template <typename... Devices>
    explicit NoGuard(const Devices&...) {}
};
namespace CUDACachingAllocator {
inline void no_record(const c10::DataPtr&, CUDAStream) {}  // memory is given back when nothing runs
}
}  // namespace c10::cuda

#define is_cuda() is_cpu()
#define kCUDA kCPU
#define CUDAGuard NoGuard
#define OptionalCUDAGuard NoGuard
#define record_stream(stream) is_cpu()
#define recordStream no_record
