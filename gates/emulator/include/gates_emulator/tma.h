// Host versions of cuTensorMapEncodeTiled and cp.async.bulk.tensor, for tensors of halves with three dimensions.
#pragma once
#pragma GCC system_header

#include "swizzle.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

// In place of CUtensorMap, of its size and alignment.
struct alignas(64) TensorMap {
    const char* tensor;
    u_int64_t extents[3], strides[2];  // elements, inner one first; bytes, from dimension 1 on
    u_int32_t box[3];
    u_int32_t swizzle, magic;
};
constexpr u_int32_t kTensorMapMagic = 0x7E4504A9;
static_assert(sizeof(TensorMap) == 128, "as CUtensorMap");

// 0, or CUDA_ERROR_INVALID_VALUE where the driver API's requirements on cuTensorMapEncodeTiled are not met.
inline int encode_tensor_map(TensorMap& map, const void* tensor, const u_int64_t (&extents)[3], const u_int64_t (&strides)[2],
                             const u_int32_t (&box)[3], SwizzleMode swizzle) {
    bool right = reinterpret_cast<size_t>(tensor) % 16 == 0 && (swizzle == kSwizzleNone || box[0] * 2 <= 16u << swizzle_bits(swizzle));
    for (u_int64_t extent : extents) right &= extent >= 1 && extent <= u_int64_t(1) << 32;
    for (u_int64_t stride : strides) right &= stride % 16 == 0 && stride < u_int64_t(1) << 40;
    for (u_int32_t rows : box) right &= rows >= 1 && rows <= 256;
    if (!right || box[0] * 2 % 16) return 1;
    map = TensorMap{static_cast<const char*>(tensor), {extents[0], extents[1], extents[2]}, {strides[0], strides[1]},
                    {box[0], box[1], box[2]}, static_cast<u_int32_t>(swizzle), kTensorMapMagic};
    return 0;
}

// The box row by row, elements outside the tensor 0, each chunk of 16 bytes where the swizzle puts it.
inline void land_box(Transfer& transfer) {
    TensorMap map;
    memcpy(&map, transfer.map, sizeof map);
    const unsigned start = shared_address(transfer.destination), row_bytes = map.box[0] * 2;
    char row[512];
    for (unsigned n = 0; n < map.box[1] * map.box[2]; ++n) {
        const int64_t second = transfer.at[1] + static_cast<int64_t>(n % map.box[1]), third = transfer.at[2] + static_cast<int64_t>(n / map.box[1]);
        const bool outside = second < 0 || third < 0 || second >= static_cast<int64_t>(map.extents[1]) || third >= static_cast<int64_t>(map.extents[2]);
        memset(row, 0, row_bytes);
        if (!outside) {
            const char* from = map.tensor + second * static_cast<int64_t>(map.strides[0]) + third * static_cast<int64_t>(map.strides[1]);
            const int64_t first = transfer.at[0] < 0 ? -static_cast<int64_t>(transfer.at[0]) : 0;
            const int64_t left = static_cast<int64_t>(map.extents[0]) - transfer.at[0], last = left < map.box[0] ? left : map.box[0];
            if (first < last) memcpy(row + first * 2, from + (transfer.at[0] + first) * 2, static_cast<size_t>(last - first) * 2);
        }
        for (unsigned byte = 0; byte < row_bytes; byte += 16)
            memcpy(at_shared_address(swizzled(start + n * row_bytes + byte, map.swizzle)), row + byte, 16);
    }
}

__attribute__((noinline)) inline void tma_load(void* destination, const TensorMap& map, const void* barrier, int first, int second,
                                               int third, GATES_EMULATOR_SITE) {
    const char* what = "cp.async.bulk.tensor";
    if (map.magic != kTensorMapMagic || reinterpret_cast<size_t>(&map) % 64)
        fatal(cudaErrorLaunchFailure, "bad_tensor_map", file, line, "%s: this is no tensor map, or not aligned to 64 bytes", what);
    const unsigned bytes = map.box[0] * map.box[1] * map.box[2] * 2, repeats = 128u << swizzle_bits(map.swizzle);
    if (!in_arena(destination))
        fatal(cudaErrorInvalidAddressSpace, "bad_copy", file, line, "%s to an address that is not in shared memory", what);
    if (shared_address(destination) % repeats)
        fatal(cudaErrorMisalignedAddress, "misaligned_copy", file, line, "%s: its destination is not aligned to %u bytes, after which the swizzle repeats", what, repeats);
    if (!in_one_region(destination, bytes))
        fatal(cudaErrorIllegalAddress, "shared_out_of_bounds", file, line, "%s of %u bytes to outside any shared variable", what, bytes);
    if (!barrier_at(barrier, what, file, line).visible)
        fatal(cudaErrorLaunchFailure, "bad_mbarrier", file, line, "%s on a barrier that its maker has not fenced with fence.proxy.async", what);
    Transfer transfer{land_box, {}, static_cast<char*>(destination), {first, second, third}, bytes, barrier, file, line};
    memcpy(transfer.map, &map, sizeof map);
    issue_transfer(transfer);
}

}  // namespace gates_emulator
#pragma GCC visibility pop
