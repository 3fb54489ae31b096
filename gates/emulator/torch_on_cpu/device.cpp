// Linked with a torch extension that runs on the CPU device: torch's tensors lie in the device's memory, and what a CPU build of torch
// lacks of c10 and ATen answers for device 0 with the default stream.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <cstring>
#include <new>

extern "C" const int gates_cpu_host_shares_memory = 1;

namespace {

class DeviceMemory final : public c10::Allocator {
  public:
    c10::DataPtr allocate(std::size_t bytes) override {
        void* made = nullptr;
        if (bytes != 0 && cudaMalloc(&made, bytes) != cudaSuccess) throw std::bad_alloc();
        return {made, made, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  private:
    static void release(void* pointer) { cudaFree(pointer); }
};

DeviceMemory memory;

c10::cuda::CUDAStream default_stream() {
    return c10::cuda::CUDAStream(c10::cuda::CUDAStream::UNCHECKED, c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CUDA, 0)));
}

}  // namespace

// From now on torch makes its tensors where kernels can reach them.
extern "C" void gates_torch_share_memory() { c10::SetCPUAllocator(&memory, 255); }

namespace c10::cuda {

namespace CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator{nullptr};
}

DeviceIndex device_count() noexcept { return 1; }
DeviceIndex device_count_ensure_non_zero() { return 1; }
DeviceIndex current_device() { return 0; }
void set_device(DeviceIndex, const bool) {}
void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
void warn_or_error_on_sync() {}
cudaError_t GetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t GetDevice(DeviceIndex* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t SetDevice(DeviceIndex, const bool) { return cudaSuccess; }
cudaError_t MaybeSetDevice(DeviceIndex) { return cudaSuccess; }
DeviceIndex ExchangeDevice(DeviceIndex) { return 0; }
DeviceIndex MaybeExchangeDevice(DeviceIndex) { return 0; }
void SetTargetDevice() {}

cudaStream_t CUDAStream::stream() const { return nullptr; }
bool CUDAStream::query() const { return true; }
void CUDAStream::synchronize() const { device_synchronize(); }
CUDAStream getStreamFromPool(const bool, DeviceIndex) { return default_stream(); }
CUDAStream getStreamFromPool(const int, DeviceIndex) { return default_stream(); }
CUDAStream getDefaultCUDAStream(DeviceIndex) { return default_stream(); }
CUDAStream getCurrentCUDAStream(DeviceIndex) { return default_stream(); }
void setCurrentCUDAStream(CUDAStream) {}

void c10_cuda_check_implementation(const int32_t error, const char*, const char*, const uint32_t, const bool) {
    if (error != cudaSuccess) TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)));
}

}  // namespace c10::cuda

namespace at::cuda {

cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
    static cudaDeviceProp properties = [] {
        cudaDeviceProp found;
        C10_CUDA_CHECK(cudaGetDeviceProperties(&found, 0));
        return found;
    }();
    return &properties;
}
cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
int warp_size() { return 32; }

}  // namespace at::cuda
