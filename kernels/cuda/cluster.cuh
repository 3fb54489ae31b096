// Clusters of CTAs along x, which run side by side and read each other's shared memory: their launch, and functions for the device.
// CUDA C++ Programming Guide, "Thread Block Clusters". sm_90.
#pragma once

#include <cooperative_groups.h>

#include "launcher.cuh"

namespace cluster {

// This CTA's number in its cluster.
__device__ __forceinline__ unsigned rank() { return cooperative_groups::this_cluster().block_rank(); }

// All threads of the cluster that have not ended: what they wrote to shared memory before is seen by all after.
__device__ __forceinline__ void sync() { cooperative_groups::this_cluster().sync(); }

// The same place of CTA `rank`'s shared memory. It stays until all have come to a `sync` after the last access.
template <typename Value>
__device__ __forceinline__ const Value* of_rank(const Value* place, unsigned rank) {
    return cooperative_groups::this_cluster().map_shared_rank(place, rank);
}

// A launch of `ctas` CTAs in clusters of `size`; `attribute` is kept as long as the configuration.
inline cudaLaunchConfig_t configuration(cudaLaunchAttribute& attribute, unsigned ctas, unsigned size, int threads, int bytes, void* stream) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = size;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = ctas;
    config.blockDim = threads;
    config.dynamicSmemBytes = bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    return config;
}

// How many clusters of `size` CTAs the device runs at a time; 0 where it has none of that size.
template <typename... Parameters>
int most_active(void (*kernel)(Parameters...), unsigned size, int threads, int bytes) {
    cudaLaunchAttribute attribute{};
    const cudaLaunchConfig_t config = configuration(attribute, size, size, threads, bytes, nullptr);
    int clusters = 0;
    const bool known = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess &&
                       cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess;
    if (!known) cudaGetLastError();
    return known ? clusters : 0;
}

// launcher::launch in clusters of `size` CTAs, at most 8, of which `ctas` is a multiple.
template <typename... Parameters, typename... Arguments>
int launch(const launcher::Refusal& refusal, void (*kernel)(Parameters...), unsigned ctas, unsigned size, int threads, int bytes, void* stream,
           const Arguments&... arguments) {
    cudaLaunchAttribute attribute{};
    const cudaLaunchConfig_t config = configuration(attribute, ctas, size, threads, bytes, stream);
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status == cudaSuccess) status = cudaLaunchKernelEx(&config, kernel, arguments...);
    if (status == cudaSuccess) return 0;
    cudaGetLastError();
    return refusal.refuse("launch of %u CTAs in clusters of %u, of %d threads with %d bytes of shared memory, failed: %s", ctas, size, threads,
                          bytes, cudaGetErrorString(status));
}

}  // namespace cluster
