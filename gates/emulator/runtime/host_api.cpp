// The CUDA runtime API. "Device" memory is malloc's, by exact size, so that AddressSanitizer sees its ends; there is little
// of it, so that a kernel which takes all of it does not take the machine's.
#include <malloc.h>

#include <algorithm>

#include "gates_emulator/host_api.h"

namespace gates_emulator {
constexpr size_t kDeviceBytes = size_t(1) << 30;
size_t device_bytes_in_use = 0;
}  // namespace gates_emulator

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
        case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
        case cudaErrorInvalidAddressSpace: return "cudaErrorInvalidAddressSpace";
        case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
        case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
        case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
        case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
        case cudaErrorAssert: return "cudaErrorAssert";
        default: return "cudaErrorUnknown";
    }
}
const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorInvalidDeviceFunction: return "invalid device function";
        case cudaErrorInvalidAddressSpace: return "operation not supported on global/shared address space";
        case cudaErrorMisalignedAddress: return "misaligned address";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorAssert: return "device-side assert triggered";
        default: return "unknown error";
    }
}

cudaError_t cudaPeekAtLastError() {
    using gates_emulator::report;
    return report.sticky_error != cudaSuccess ? report.sticky_error : report.last_error;
}
cudaError_t cudaGetLastError() {
    const cudaError_t error = cudaPeekAtLastError();
    gates_emulator::report.last_error = cudaSuccess;
    return error;
}

namespace gates_emulator {
cudaError_t failed(cudaError_t error) {
    report.last_error = error;
    return error;
}

// The kernel behind a function pointer, asked of itself: enter() returns before any parameter is touched.
KernelEntry* entry_of(const void* function) {
    probing = true;
    probed = nullptr;
    reinterpret_cast<void (*)()>(const_cast<void*>(function))();
    probing = false;
    return probed;
}
}  // namespace gates_emulator

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    using namespace gates_emulator;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (!function) return failed(cudaErrorInvalidDeviceFunction);
    KernelEntry* entry = entry_of(function);
    if (!entry) return failed(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<size_t>(value) > settings.shared_limit_bytes)
        return failed(cudaErrorInvalidValue);
    entry->opt_in_bytes = static_cast<size_t>(value);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : gates_emulator::failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    using namespace gates_emulator;
    if (device != 0) return failed(cudaErrorInvalidDevice);
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = kMaxThreads; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = kDefaultSharedBytes; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
        case cudaDevAttrMultiProcessorCount: *value = 58; break;
        case cudaDevAttrComputeCapabilityMajor: *value = settings.compute_capability / 10; break;
        case cudaDevAttrComputeCapabilityMinor: *value = settings.compute_capability % 10; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(settings.shared_limit_bytes) + 1024; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(settings.shared_limit_bytes); break;
        default: return failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    using namespace gates_emulator;
    if (device != 0) return failed(cudaErrorInvalidDevice);
    *properties = cudaDeviceProp{"gates emulator (limits of sm_89)", kDeviceBytes, kDefaultSharedBytes,
                                 settings.shared_limit_bytes, settings.shared_limit_bytes + 1024, 65536, 32, 1024,
                                 {1024, 1024, 64}, {2147483647, 65535, 65535},
                                 settings.compute_capability / 10, settings.compute_capability % 10, 58, 48 << 20};
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
    using namespace gates_emulator;
    *address = nullptr;
    if (bytes > kDeviceBytes - device_bytes_in_use || !(*address = malloc(bytes ? bytes : 1))) return failed(cudaErrorMemoryAllocation);
    device_bytes_in_use += std::min(malloc_usable_size(*address), kDeviceBytes - device_bytes_in_use);
    fill_poison(*address, bytes);  // nothing promises zeros
    return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
    if (address) gates_emulator::device_bytes_in_use -= std::min(malloc_usable_size(address), gates_emulator::device_bytes_in_use);
    return free(address), cudaSuccess;
}

namespace gates_emulator {
// What the host does after it has read what no block has written is not what it would do.
void copied(cudaMemcpyKind kind) {
    report.read_back |= settings.launches_only && !report.launches.empty() && (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDefault);
}
}  // namespace gates_emulator

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return gates_emulator::copied(kind), memcpy(to, from, bytes), cudaPeekAtLastError();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) { return cudaMemcpy(to, from, bytes, kind); }
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return memset(to, value, bytes), cudaPeekAtLastError(); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }
