// Arrays and texture objects. Points are read as they are: no filter, no conversion.
#include "texture.h"

#include <cstring>
#include <optional>

#include "findings.h"
#include "handles.h"
#include "memory.h"
#include "works.h"

using namespace gates_cpu;

namespace {

struct Array {
    std::uint64_t address = 0;
    std::size_t width = 0, height = 1, pitch = 0;
    Channels channels = {};
};

struct Resource {  // cudaResourceDesc
    int kind, padding;
    const void* pointer;
    Channels channels;
    int more;
    std::size_t width, height, pitch;
};
enum { kArray = 0, kLinear = 2, kPitched = 3 };
struct Sampling {  // cudaTextureDesc
    int outside[3], filter, read, srgb;
    float border[4];
    int normalised;
};

int unsupported(const std::string& what) {
    Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = "not supported: " + what;
    add_finding(finding);
    return Device::get().set_error(kNotSupported);
}

bool known(const Channels& channels) {
    for (unsigned i = 0; i < channels.count(); ++i) if (channels.bits[i] != channels.bits[0]) return false;
    const int bits = channels.bits[0];
    return channels.kind == kFloat ? bits == 16 || bits == 32 : (channels.kind == kSigned || channels.kind == kUnsigned) && (bits == 8 || bits == 16 || bits == 32);
}

int copy_to(void* array, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind, Stream stream) {
    const auto to = Handles<Array>::get().find(array);
    if (!to || x + width > to->width * to->channels.bytes() || y + height > to->height) return Device::get().set_error(kInvalidValue);
    const int across = kind == 0 || kind == 1 ? 1 : kind == 4 ? 4 : 3;  // the array is the device's
    return in_order(stream, copying(reinterpret_cast<void*>(to->address + y * to->pitch + x), to->pitch, from, pitch, width, height, across));
}

}  // namespace

GATES_CUDA Channels cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {{x, y, z, w}, kind}; }
GATES_CUDA int cudaMallocArray(void** array, const Channels* channels, std::size_t width, std::size_t height, unsigned) {
    if (!known(*channels)) return unsupported("an array of this format");
    Array made{0, width, height == 0 ? 1 : height, (width * channels->bytes() + 31) / 32 * 32, *channels};
    made.address = DeviceMemory::get().allocate(made.pitch * made.height);
    if (made.address == 0) return Device::get().set_error(kMemoryAllocation);
    *array = Handles<Array>::get().add(made);
    return kSuccess;
}
GATES_CUDA int cudaFreeArray(void* array) {
    const auto made = Handles<Array>::get().find(array);
    if (!made) return array == nullptr ? kSuccess : Device::get().set_error(kInvalidValue);
    DeviceMemory::get().release(made->address);
    Handles<Array>::get().remove(array);
    return kSuccess;
}
GATES_CUDA int cudaMemcpy2DToArrayAsync(void* array, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind, Stream stream) {
    return copy_to(array, x, y, from, pitch, width, height, kind, stream);
}
GATES_CUDA int cudaMemcpy2DToArray(void* array, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind) {
    return copy_to(array, x, y, from, pitch, width, height, kind, nullptr);
}

GATES_CUDA int cudaCreateTextureObject(void** made, const Resource* resource, const Sampling* sampling, const void* view) {
    Texture texture;
    texture.channels = resource->channels;
    texture.address = reinterpret_cast<std::uint64_t>(resource->pointer);
    if (resource->kind == kArray) {
        const auto array = Handles<Array>::get().find(resource->pointer);
        if (!array) return Device::get().set_error(kInvalidValue);
        texture = {array->address, array->width, array->height, array->pitch, array->channels};
    } else if (resource->kind == kLinear) {
        texture.linear = true;
        texture.width = texture.channels.bytes() == 0 ? 0 : resource->width / texture.channels.bytes();
    } else if (resource->kind == kPitched) {
        texture.width = resource->width;
        texture.height = resource->height;
        texture.pitch = resource->pitch;
    } else {
        return unsupported("a texture of mipmaps");
    }
    if (!known(texture.channels)) return unsupported("a texture of this format");
    if (sampling->filter != 0 && !texture.linear) return unsupported("textures that interpolate (cudaFilterModeLinear)");
    if (sampling->read != 0 || sampling->srgb != 0 || view != nullptr) return unsupported("textures that convert what they read");
    for (const int i : {0, 1}) texture.outside[i] = sampling->outside[i];
    texture.normalised = sampling->normalised != 0;
    *made = Handles<Texture>::get().add(texture);
    return kSuccess;
}
GATES_CUDA int cudaDestroyTextureObject(const void* texture) { return Handles<Texture>::get().remove(texture) ? kSuccess : Device::get().set_error(kInvalidValue); }
