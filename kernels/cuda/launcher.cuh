// What launchers with a C ABI share: a refusal that names the argument.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

namespace launcher {

// The caller's buffer for a message. A launcher returns 0, or 1 after `refuse`.
struct Refusal {
    char* text;
    std::int64_t bytes;

    int refuse(const char* format, ...) const {
        if (text != nullptr && bytes > 0) {
            va_list arguments;
            va_start(arguments, format);
            std::vsnprintf(text, static_cast<std::size_t>(bytes), format, arguments);
            va_end(arguments);
        }
        return 1;
    }
};

struct Pointer {
    const char* name;
    const void* address;
};

struct Extent {
    const char* name;
    std::int64_t size;
};

// An attribute of the current device; 0 if it can't be read.
inline int device_attribute(cudaDeviceAttr attribute) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return 0;
    return value;
}

constexpr std::int64_t kMaxGrid = 2147483647;  // CTAs along x, on every chip

// 0 if every pointer is aligned to `alignment` bytes and not null.
template <int count>
int check_pointers(const Refusal& refusal, const Pointer (&pointers)[count], unsigned alignment) {
    for (const Pointer& pointer : pointers) {
        if (pointer.address == nullptr) return refusal.refuse("%s: null pointer", pointer.name);
        if (reinterpret_cast<std::uintptr_t>(pointer.address) % alignment != 0) {
            return refusal.refuse("%s: address %p is not aligned to %u bytes", pointer.name, pointer.address, alignment);
        }
    }
    return 0;
}

// 0 if every extent lies between 1 and `most`.
template <int count>
int check_extents(const Refusal& refusal, const Extent (&extents)[count], std::int64_t most) {
    for (const Extent& extent : extents) {
        if (extent.size < 1 || extent.size > most) {
            return refusal.refuse("%s: %lld, must be from 1 to %lld", extent.name, static_cast<long long>(extent.size),
                                  static_cast<long long>(most));
        }
    }
    return 0;
}

// One launch with `bytes` of dynamic shared memory on `stream`: 0, or 1 with a message.
template <typename... Parameters, typename... Arguments>
int launch(const Refusal& refusal, void (*kernel)(Parameters...), dim3 grid, int threads, int bytes, void* stream,
           Arguments... arguments) {
    // More than 48 KiB of dynamic shared memory is granted only on request.
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess) {
        return refusal.refuse("shared memory: the device refused %d bytes a CTA: %s", bytes, cudaGetErrorString(status));
    }
    kernel<<<grid, threads, bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
    status = cudaGetLastError();
    if (status != cudaSuccess) {
        return refusal.refuse("launch of %u x %u CTAs of %d threads with %d bytes of shared memory failed: %s", grid.x, grid.y,
                              threads, bytes, cudaGetErrorString(status));
    }
    return 0;
}

}  // namespace launcher
