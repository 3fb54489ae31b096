// Functions of the driver that programs ask the runtime for by name.
#include <cstring>

#include "cuda_abi.h"
#include "hopper.h"

using namespace gates_cpu;

namespace {

constexpr int kDriverInvalidValue = 1;

int encode_tiled(void* made, int type, std::uint32_t rank, void* address, const std::uint64_t* extents, const std::uint64_t* strides,
                 const std::uint32_t* box, const std::uint32_t* steps, int interleave, int swizzle, int, int fill) {
    static constexpr Type types[] = {Type::U8, Type::U16, Type::U32, Type::S32, Type::U64, Type::S64, Type::F16, Type::F32, Type::F64, Type::BF16, Type::F32, Type::F32, Type::F32};
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(address);
    if (reinterpret_cast<std::uintptr_t>(made) % 64 != 0 || rank < 1 || rank > 5 || type < 0 || type > 12 || start % 16 != 0 || interleave != 0 || swizzle < 0 || swizzle > 3) return kDriverInvalidValue;
    TensorMap map = {};
    map.magic = kTensorMapMagic;
    map.rank = static_cast<std::uint8_t>(rank);
    map.type = types[type];
    map.swizzle = static_cast<std::uint8_t>(swizzle);
    map.fill_nan = static_cast<std::uint8_t>(fill);
    map.address = start;
    for (std::uint32_t i = 0; i < rank; ++i) {
        if (extents[i] == 0 || extents[i] > (std::uint64_t(1) << 32) || box[i] == 0 || box[i] > 256 || steps[i] == 0 || steps[i] > 8) return kDriverInvalidValue;
        map.extents[i] = static_cast<std::uint32_t>(extents[i]);
        map.box[i] = static_cast<std::uint16_t>(box[i]);
        map.steps[i] = static_cast<std::uint16_t>(steps[i]);
        if (i == 0) continue;
        if (strides[i - 1] % 16 != 0 || strides[i - 1] >= (std::uint64_t(1) << 40)) return kDriverInvalidValue;
        map.strides[i - 1] = strides[i - 1];
    }
    const std::uint32_t inner = box[0] * bytes_of(map.type);
    if (inner % 16 != 0 || (swizzle != 0 && inner > (16u << swizzle)) || steps[0] != 1 || fill != 0) return kDriverInvalidValue;
    std::memcpy(made, &map, sizeof map);
    return 0;
}

}  // namespace

GATES_CUDA int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long, int* found) {
    const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
    *function = known ? reinterpret_cast<void*>(encode_tiled) : nullptr;
    if (found != nullptr) *found = known ? 0 : 1;  // cudaDriverEntryPointSymbolNotFound
    return known ? kSuccess : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, int* found) {
    return cudaGetDriverEntryPointByVersion(name, function, 12000, flags, found);
}
