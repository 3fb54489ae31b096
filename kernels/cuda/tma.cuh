// Copies of boxes of a tensor by the copy engine (TMA): the tensor map that a launcher makes, the load and the store.
//
// A tensor of half, bfloat16 or bytes with three or four dimensions, inner one first. A box is 128 bytes along the inner one, and lies in
// shared memory row after row with the 128-byte swizzle: bits 4 to 6 of the address, which chunk of 16 bytes, are XORed with bits 7 to 9,
// which row of 8. A box of 64 bytes has the 64-byte swizzle: bits 4 and 5 are XORed with bits 7 and 8. CUDA C++ Programming Guide, "Using TMA to transfer multi-dimensional arrays"; CUDA driver
// API, cuTensorMapEncodeTiled; PTX ISA, cp.async.bulk.tensor. sm_90.
#pragma once

#include <array>
#include <type_traits>

#include <cuda_fp16.h>

#include "launcher.cuh"
#include "mbarrier.cuh"

#include <cuda.h>  // types alone: nothing of the driver is linked

namespace tma {

using TensorMap = CUtensorMap;
using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's cuTensorMapEncodeTiled; null if it has none.
inline Encode encode_function() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

template <int kRank>
using Sizes = std::array<cuuint64_t, kRank>;  // by dimension, inner one first

// The map of a tensor of Element, half, bfloat16 or a byte, in boxes of kBoxBytes x `box_rows` rows; dimension 1 counts rows. `strides`: in bytes; the inner
// one is not read. What lies outside of the extents is zeros in a box. 0, or 1 with a message that names the tensor.
template <typename Element, int kRank, int kBoxBytes = 128>
int make_map(const launcher::Refusal& refusal, TensorMap& map, const char* name, const void* tensor, const Sizes<kRank>& extents,
             const Sizes<kRank>& strides, unsigned box_rows) {
    static const Encode encode = encode_function();
    if (encode == nullptr) return refusal.refuse("%s: the driver has no cuTensorMapEncodeTiled", name);
    static_assert(kBoxBytes == 64 || kBoxBytes == 128, "a box is 64 or 128 bytes wide");
    constexpr auto kType = sizeof(Element) == 1              ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                           : std::is_same_v<Element, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    constexpr auto kSwizzle = kBoxBytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    const cuuint32_t box[] = {kBoxBytes / sizeof(Element), box_rows, 1, 1}, steps[] = {1, 1, 1, 1};
    const int status = encode(&map, kType, kRank, const_cast<void*>(tensor), extents.data(), strides.data() + 1, box, steps,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, kSwizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != 0) return refusal.refuse("%s: the driver refused its tensor map with error %d", name, status);
    return 0;
}

// The map of `heads` matrices of `rows` rows of `width` elements each, in boxes of `box_rows` rows of one head. Rows past
// the end of a head are zeros in a box, never the next head's. 0, or 1 with a message that names the tensor.
template <typename Element = __half, int kBoxBytes = 128>
int make_map(const launcher::Refusal& refusal, TensorMap& map, const char* name, const void* tensor, std::int64_t width,
                    std::int64_t rows, std::int64_t heads, unsigned box_rows) {
    const Sizes<3> extents = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(heads)};
    const cuuint64_t row = extents[0] * sizeof(Element);
    return make_map<Element, 3, kBoxBytes>(refusal, map, name, tensor, extents, {0, row, row * extents[1]}, box_rows);
}

// Has the map brought to where the copy engine reads it. It is a __grid_constant__ parameter of the kernel.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// One thread: the box at (column, row) of `head` to `to`, aligned to 1024 bytes. Its whole size in bytes, zeros included,
// is counted by `barrier`, whose phase can't end before.
__device__ __forceinline__ void load(void* to, const TensorMap& map, mbarrier::Barrier* barrier, int column, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(shared_memory::address(to)), "l"(&map), "r"(shared_memory::address(barrier)), "r"(column), "r"(row), "r"(head) : "memory");
}

// The same of head `head` of batch `batch` of a map with four dimensions.
__device__ __forceinline__ void load(void* to, const TensorMap& map, mbarrier::Barrier* barrier, int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(shared_memory::address(to)), "l"(&map), "r"(shared_memory::address(barrier)), "r"(column), "r"(row), "r"(head),
                   "r"(batch) : "memory");
}

// One thread: as `load`, to the same place of each CTA of the cluster whose bit is set in `ctas`. Each CTA's own `barrier` counts
// what arrives there.
__device__ __forceinline__ void load_to_all(void* to, const TensorMap& map, mbarrier::Barrier* barrier, int column, int row, int head,
                                            std::uint16_t ctas) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5}], [%2], %6;"
                 ::"r"(shared_memory::address(to)), "l"(&map), "r"(shared_memory::address(barrier)), "r"(column), "r"(row), "r"(head),
                   "h"(ctas) : "memory");
}

// One thread: the box at `from`, aligned to 1024 bytes, to (column, row) of `head`; rows past the end of the head are left out.
// What was written to it was fenced (shared_memory::fence_async) by its writers, and a barrier came after.
__device__ __forceinline__ void store(const TensorMap& map, const void* from, int column, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(&map), "r"(shared_memory::address(from)), "r"(column), "r"(row), "r"(head) : "memory");
}

// The same to head `head` of batch `batch` of a map with four dimensions.
__device__ __forceinline__ void store(const TensorMap& map, const void* from, int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(&map), "r"(shared_memory::address(from)), "r"(column), "r"(row), "r"(head), "r"(batch) : "memory");
}

// The thread's stores since the last commit are a group.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// The thread's stores have read shared memory, which may be written again.
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

}  // namespace tma
