// What nvcc's own code calls at start-up: fat binaries, kernels and variables make themselves known.
#include <cstring>

#include "cuda_abi.h"

using namespace gates_cpu;

namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1, kImageMagic = 0xba55ed50;
constexpr std::uint64_t kCompressed = 0x2000 | 0x8000;  // flags of an entry

struct Wrapper {
    std::uint32_t magic, version;
    const std::uint8_t* data;
    const void* more;
};

template <class T> T at(const std::uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// The PTX for the lowest architecture in a fat binary.
void find_ptx(const std::uint8_t* image, std::string& text, std::string& problem) {
    if (at<std::uint32_t>(image) != kImageMagic) {
        problem = "a fat binary of a format that is not known";
        return;
    }
    const std::uint8_t* entry = image + at<std::uint16_t>(image + 6);
    const std::uint8_t* const end = entry + at<std::uint64_t>(image + 8);
    std::uint32_t lowest = ~0u;
    problem = "the fat binary holds no PTX; compile with -gencode arch=compute_XX,code=compute_XX";
    while (entry + 64 <= end) {
        const std::uint16_t kind = at<std::uint16_t>(entry);
        const std::uint32_t header = at<std::uint32_t>(entry + 4), arch = at<std::uint32_t>(entry + 28);
        const std::uint64_t bytes = at<std::uint64_t>(entry + 8), flags = at<std::uint64_t>(entry + 40);
        if (header == 0 || entry + header + bytes > end) break;
        if (kind == 1 && arch < lowest) {
            if ((flags & kCompressed) != 0) {
                problem = "the PTX in the fat binary is compressed; compile with -no-compress";
            } else {
                text.assign(reinterpret_cast<const char*>(entry + header), bytes);
                text.resize(std::strlen(text.c_str()));
                problem.clear();
                lowest = arch;
            }
        }
        entry += header + bytes;
    }
}

}  // namespace

GATES_CUDA void** __cudaRegisterFatBinary(void* given) {
    const Wrapper wrapper = at<Wrapper>(static_cast<const std::uint8_t*>(given));
    std::string text, problem;
    if (wrapper.magic != kWrapperMagic) problem = "a fat binary of a format that is not known";
    else find_ptx(wrapper.data, text, problem);
    return reinterpret_cast<void**>(Device::get().add_module(std::move(text), std::move(problem)));
}
GATES_CUDA void __cudaRegisterFatBinaryEnd(void**) {}
GATES_CUDA void __cudaUnregisterFatBinary(void** module) { Device::get().remove_module(reinterpret_cast<LoadedModule*>(module)); }
GATES_CUDA char __cudaInitModule(void** module) {
    Device::get().place_managed(reinterpret_cast<LoadedModule*>(module));
    return 1;
}

GATES_CUDA void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
    Device::get().add_kernel(host, reinterpret_cast<LoadedModule*>(module), name);
}
GATES_CUDA void __cudaRegisterManagedVar(void** module, void** pointer, char*, const char* name, int, std::size_t bytes, int, int) {
    Device::get().add_managed(pointer, reinterpret_cast<LoadedModule*>(module), name, bytes);
}
GATES_CUDA void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, std::size_t bytes, int, int) {
    Device::get().add_variable(host, reinterpret_cast<LoadedModule*>(module), name, bytes);
}
