// Launchers of the conformance items. All have one signature: `in` holds the item's input, `out` its output, `count` is
// the number of input elements, or which part of the item to run. The code of the launch is returned.
#pragma once

#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(const void* in, void* out, long long count, void* stream)

// `name`: for input element x, out[i * columns + c] is the c-th of the values.
#define ELEMENTWISE(name, In, Out, columns, ...)                                                            \
    __global__ void name##_kernel(const In* in, Out* out, long long count) {                                \
        const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;                  \
        if (i >= count) return;                                                                             \
        const In x = in[i];                                                                                 \
        const Out values[columns] = {__VA_ARGS__};                                                          \
        for (int c = 0; c < columns; ++c) out[i * columns + c] = values[c];                                 \
    }                                                                                                       \
    LAUNCHER(name) {                                                                                        \
        name##_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, static_cast<cudaStream_t>(stream)>>>( \
            static_cast<const In*>(in), static_cast<Out*>(out), count);                                     \
        return cudaGetLastError();                                                                          \
    }
