// The host's side: which launches are refused and with which code, error texts, limits, memory.
#include <string.h>

#include "conformance.cuh"

// Codes and texts are made on the host and copied to `out`.
static int hand_out(void* out, const void* values, size_t bytes, void* stream) {
    const cudaError_t status = cudaMemcpyAsync(out, values, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream));
    return status != cudaSuccess ? status : cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}

__global__ void nothing(int* out) {
    if (out != nullptr) out[0] = 1;
}
__global__ void __launch_bounds__(64) bounded(int* out) {
    if (out != nullptr) out[0] = 1;
}
__global__ void dynamic_only(int* out) {
    extern __shared__ int words[];
    if (out != nullptr) out[0] = words[0];
}
__global__ void with_static(int* out) {
    __shared__ int four[4];
    extern __shared__ int words[];
    four[threadIdx.x % 4] = 1;  // or the compiler does without them
    __syncthreads();
    if (out != nullptr) out[0] = four[blockIdx.x % 4] + words[0];
}
__global__ void opted_in(int* out) {
    extern __shared__ int words[];
    if (out != nullptr) out[0] = words[0];
}

static int code(dim3 grid, dim3 block, size_t bytes) {
    dynamic_only<<<grid, block, bytes>>>(nullptr);
    return cudaGetLastError() != cudaSuccess;
}

// Which are refused; the code is 1 or 9 after the version of the runtime.
LAUNCHER(launch_limits) {
    const int codes[] = {
        code(1, 1, 0), code(1, 1024, 0), code(1, 1025, 0), code(1, dim3(1, 1, 64), 0), code(1, dim3(1, 1, 65), 0),
        code(1, dim3(32, 32, 1), 0), code(1, dim3(32, 32, 2), 0), code(1, dim3(1, 1024, 1), 0), code(1, dim3(1, 1025, 1), 0),
        code(1, dim3(0, 1, 1), 0), code(1, dim3(1, 0, 1), 0), code(dim3(0, 1, 1), 1, 0), code(dim3(1, 1, 0), 1, 0),
        code(dim3(1, 65536, 1), 1, 0), code(dim3(1, 1, 65536), 1, 0), code(dim3(2147483648u, 1, 1), 1, 0), code(dim3(70000, 1, 1), 1, 0),
        code(1, 1, 48 * 1024), code(1, 1, 48 * 1024 + 4), code(1, 1, 64 * 1024), code(1, 32, 16)};
    return hand_out(out, codes, sizeof codes, stream);
}

LAUNCHER(launch_bounds) {
    int codes[2];
    bounded<<<1, 64>>>(nullptr);
    codes[0] = cudaGetLastError();
    bounded<<<1, 65>>>(nullptr);
    codes[1] = cudaGetLastError();
    return hand_out(out, codes, sizeof codes, stream);
}

// A launch refused for 48 KiB of dynamic beside 16 bytes of static shared memory. The code alone is the result: the
// emulator knows of static shared memory only when a thread comes to it, and its error sticks.
LAUNCHER(launch_static_and_dynamic) {
    with_static<<<1, 1, 48 * 1024>>>(nullptr);
    const int code_only = cudaGetLastError();
    return code_only;
}

LAUNCHER(opt_in) {
    int limit = 0, at = 0;
    int codes[13];
    codes[at++] = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    const auto ask = [&](int bytes) { codes[at++] = cudaFuncSetAttribute(opted_in, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), cudaGetLastError(); };
    const auto run = [&](int bytes) {
        opted_in<<<1, 1, static_cast<size_t>(bytes)>>>(nullptr);
        codes[at++] = cudaGetLastError();
    };
    ask(0), run(limit);
    ask(64 * 1024), run(64 * 1024), run(64 * 1024 + 4);
    ask(limit + 4), run(64 * 1024);
    ask(limit), run(limit), run(limit + 4);
    ask(1024), run(48 * 1024);
    return hand_out(out, codes, sizeof codes, stream);
}

LAUNCHER(error_texts) {
    const cudaError_t all[] = {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorInvalidConfiguration,
                               cudaErrorInvalidDevice, cudaErrorInvalidDeviceFunction, cudaErrorInvalidAddressSpace,
                               cudaErrorMisalignedAddress, cudaErrorIllegalAddress, cudaErrorLaunchOutOfResources,
                               cudaErrorLaunchFailure, cudaErrorAssert};
    static char text[12][2][64];
    memset(text, 0, sizeof text);
    for (int i = 0; i < 12; ++i) {
        strncpy(text[i][0], cudaGetErrorName(all[i]), 63);
        strncpy(text[i][1], cudaGetErrorString(all[i]), 63);
    }
    return hand_out(out, text, sizeof text, stream);
}

LAUNCHER(host_calls) {
    int values[20] = {}, device = -1, devices = 0, value = 0, at = 0;
    cudaDeviceProp properties;
    values[at++] = cudaGetDevice(&device);
    values[at++] = cudaSetDevice(device);
    values[at++] = cudaGetDeviceCount(&devices);
    values[at++] = cudaSetDevice(9999);
    values[at++] = cudaPeekAtLastError();
    values[at++] = cudaGetLastError();
    values[at++] = cudaGetLastError();
    const cudaDeviceAttr attributes[] = {cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrWarpSize,
                                         cudaDevAttrMaxRegistersPerBlock};
    for (const cudaDeviceAttr attribute : attributes) {
        cudaDeviceGetAttribute(&value, attribute, device);
        values[at++] = value;
    }
    values[at++] = cudaGetDeviceProperties(&properties, device);
    values[at++] = properties.maxThreadsPerBlock;
    values[at++] = properties.maxThreadsDim[2];
    values[at++] = properties.maxGridSize[1];
    void* room = nullptr;
    values[at++] = cudaMalloc(&room, 4096);
    values[at++] = cudaMemset(room, 0x5a, 4096);
    values[at++] = cudaMemcpy(&value, static_cast<char*>(room) + 4092, sizeof value, cudaMemcpyDeviceToHost);
    values[at++] = value;
    values[at++] = cudaFree(room) + cudaDeviceSynchronize();
    return hand_out(out, values, sizeof values, stream);
}
