// Allocation, copies, sets, symbols.
#include <algorithm>
#include <cstring>

#include "capture.h"
#include "handles.h"
#include "memory.h"
#include "streams.h"
#include "works.h"

using namespace gates_cpu;

namespace {

enum Kind : int { kHostToHost = 0, kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3, kDefault = 4 };

int refuse(const std::string& message, int error = kInvalidValue) {
    Finding finding;
    finding.code = "cpu.bad_copy";
    finding.message = message;
    add_finding(finding);
    return Device::get().set_error(error);
}

int copy(void* to, const void* from, std::size_t bytes, int kind) {
    if (bytes == 0) return kSuccess;
    Device& device = Device::get();
    if (device.lost()) return device.last_error(false);
    DeviceMemory& memory = DeviceMemory::get();
    const std::uint64_t target = reinterpret_cast<std::uint64_t>(to), source = reinterpret_cast<std::uint64_t>(from);
    const bool to_device = memory.holds(target), from_device = memory.holds(source);
    if (kind < 0 || kind > kDefault) return device.set_error(kInvalidMemcpyDirection);
    if (to == nullptr || from == nullptr) return refuse(std::string("cudaMemcpy: the ") + (to == nullptr ? "target" : "source") + " is null");
    const auto fits = [&](std::uint64_t address, bool on_device, bool named) { return on_device == named || (on_device && memory.host_may_touch(address)); };
    if (kind != kDefault && (!fits(target, to_device, kind == kHostToDevice || kind == kDeviceToDevice) || !fits(source, from_device, kind == kDeviceToHost || kind == kDeviceToDevice))) {
        return refuse("cudaMemcpy: the direction does not fit its pointers");
    }
    if (to_device && !memory.allocated(target, bytes)) return refuse("cudaMemcpy writes " + std::to_string(bytes) + " bytes past the end of device memory that is allocated");
    if (from_device && !memory.allocated(source, bytes)) return refuse("cudaMemcpy reads " + std::to_string(bytes) + " bytes past the end of device memory that is allocated");
    if (from_device && !to_device) device.results_are_read();
    if (to_device) touched(target, {});
    if (from_device) touched(source, {});
    std::memmove(to_device ? memory.bytes(target) : to, from_device ? memory.bytes(source) : from, bytes);
    if (to_device && from_device && !memory.host_may_touch(target)) {
        std::memmove(memory.shadow(target), memory.shadow(source), bytes);
        for (std::size_t i = 0; i < bytes; ++i) memory.shadow(target)[i] |= kWritable;
    }
    else if (to_device) memory.mark_initialised(target, bytes);
    return kSuccess;
}

int awaited(int error) {  // of work on the default stream for which the host waits
    host_waits(nullptr);
    return error;
}

int fill(void* to, int value, std::size_t bytes) {
    if (bytes == 0) return kSuccess;
    DeviceMemory& memory = DeviceMemory::get();
    const std::uint64_t target = reinterpret_cast<std::uint64_t>(to);
    if (!memory.allocated(target, bytes)) return refuse("cudaMemset sets " + std::to_string(bytes) + " bytes past the end of device memory that is allocated");
    touched(target, {});
    std::memset(memory.bytes(target), value, bytes);
    memory.mark_initialised(target, bytes);
    return kSuccess;
}

using Pool = void*;
struct MadePool {};
Pool default_pool() {
    static const Pool made = Handles<MadePool>::get().add({});
    return made;
}
int to_pool(Pool pool) { return Handles<MadePool>::get().find(pool) ? kSuccess : Device::get().set_error(kInvalidValue); }

struct Location {  // cudaMemLocation
    int type, id;
};

enum class Sort { Device, Managed, Host };
int allocate(void** pointer, std::size_t bytes, Sort sort = Sort::Device) {
    if (pointer == nullptr) return Device::get().set_error(kInvalidValue);
    *pointer = nullptr;
    if (const int error = at_once()) return error;
    if (bytes == 0) return kSuccess;
    DeviceMemory& memory = DeviceMemory::get();
    if (bytes > (sort == Sort::Host ? memory.room_on_host() : memory.room())) return Device::get().set_error(kMemoryAllocation);
    const std::uint64_t address = sort == Sort::Device ? memory.allocate(bytes) : memory.allocate_for_both(bytes, sort == Sort::Managed);
    if (address == 0) return Device::get().set_error(kMemoryAllocation);
    *pointer = reinterpret_cast<void*>(address);
    return kSuccess;
}

int release(void* pointer) {
    if (const int error = at_once()) return error;
    DeviceMemory& memory = DeviceMemory::get();
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
    if (pointer == nullptr || (!memory.pinned(address) && memory.release(address))) return kSuccess;
    Finding finding;
    finding.code = "cpu.bad_free";
    finding.message = "cudaFree of a pointer that cudaMalloc did not give, or that was freed before";
    add_finding(finding);
    return Device::get().set_error(kInvalidValue);
}

int rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, int kind) {
    for (std::size_t row = 0; row < height && width != 0; ++row) {
        if (const int error = copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind)) return error;
    }
    return kSuccess;
}

// The address of a symbol's bytes; null with the error set.
char* symbol(const void* host, std::size_t offset, std::size_t bytes) {
    std::size_t size = 0;
    const std::uint64_t address = Device::get().variable(host, size);
    if (address == 0 || offset > size || bytes > size - offset) {
        Device::get().set_error(address == 0 ? kInvalidSymbol : kInvalidValue);
        return nullptr;
    }
    return reinterpret_cast<char*>(address + offset);
}

}  // namespace

namespace gates_cpu {

Work copying(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, int kind) {
    return [=] { return rows(to, to_pitch, from, from_pitch, width, height, kind); };
}

Work filling(void* to, std::size_t pitch, std::uint32_t value, unsigned element_bytes, std::size_t width, std::size_t height) {
    std::vector<std::uint8_t> row(width * element_bytes);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::uint8_t>(value >> 8 * (i % element_bytes));
    return [=] { return rows(to, pitch, row.data(), 0, row.size(), height, kHostToDevice); };
}

}  // namespace gates_cpu

GATES_CUDA int cudaMalloc(void** pointer, std::size_t bytes) { return allocate(pointer, bytes); }
GATES_CUDA int cudaMallocAsync(void** pointer, std::size_t bytes, Stream stream) {
    if (const int error = to_stream(stream)) return error;
    return keeps(stream) ? no_node("cudaMallocAsync") : allocate(pointer, bytes);
}
GATES_CUDA int cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, Pool pool, Stream stream) {
    if (const int error = to_pool(pool)) return error;
    return cudaMallocAsync(pointer, bytes, stream);
}
GATES_CUDA int cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) { return allocate(pointer, bytes, Sort::Managed); }
GATES_CUDA int cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
    std::size_t bytes = 0;
    *pointer = nullptr;
    if (width > SIZE_MAX - 511) return Device::get().set_error(kMemoryAllocation);
    *pitch = (width + 511) / 512 * 512;
    if (__builtin_mul_overflow(*pitch, height, &bytes)) return Device::get().set_error(kMemoryAllocation);
    return allocate(pointer, bytes);
}
GATES_CUDA int cudaFree(void* pointer) {
    host_waits_for_all();
    return release(pointer);
}
GATES_CUDA int cudaFreeAsync(void* pointer, Stream stream) {
    if (const int error = to_stream(stream)) return error;
    return keeps(stream) ? no_node("cudaFreeAsync") : release(pointer);
}

// Pools: what is freed is given back at once, and what they keep or share is not asked.
GATES_CUDA int cudaDeviceGetDefaultMemPool(Pool* pool, int) { *pool = default_pool(); return kSuccess; }
GATES_CUDA int cudaDeviceGetMemPool(Pool* pool, int) { *pool = default_pool(); return kSuccess; }
GATES_CUDA int cudaDeviceSetMemPool(int, Pool pool) { return to_pool(pool); }
GATES_CUDA int cudaMemPoolCreate(Pool* pool, const void*) { *pool = Handles<MadePool>::get().add({}); return kSuccess; }
GATES_CUDA int cudaMemPoolDestroy(Pool pool) { return pool != default_pool() && Handles<MadePool>::get().remove(pool) ? kSuccess : Device::get().set_error(kInvalidValue); }
GATES_CUDA int cudaMemPoolTrimTo(Pool pool, std::size_t) { return to_pool(pool); }
GATES_CUDA int cudaMemPoolSetAttribute(Pool pool, int, void*) { return to_pool(pool); }
GATES_CUDA int cudaMemPrefetchAsync(const void*, std::size_t, Location, unsigned, Stream) { return kSuccess; }
GATES_CUDA int cudaMemAdvise(const void*, std::size_t, int, Location) { return kSuccess; }
GATES_CUDA int cudaMallocHost(void** pointer, std::size_t bytes) { return allocate(pointer, bytes, Sort::Host); }
GATES_CUDA int cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
GATES_CUDA int cudaHostGetDevicePointer(void** pointer, void* host, unsigned) {
    DeviceMemory& memory = DeviceMemory::get();
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(host);
    *pointer = memory.holds(address) && memory.host_may_touch(address) ? host : nullptr;
    return *pointer != nullptr ? kSuccess : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaFreeHost(void* pointer) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
    return pointer == nullptr || (DeviceMemory::get().pinned(address) && DeviceMemory::get().release(address)) ? kSuccess : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
    return awaited(in_order(nullptr, [=] { return copy(to, from, bytes, kind); }));
}
GATES_CUDA int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Stream stream) {
    return in_order(stream, [=] { return copy(to, from, bytes, kind); });
}
GATES_CUDA int cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, int kind) {
    return awaited(in_order(nullptr, [=] { return rows(to, to_pitch, from, from_pitch, width, height, kind); }));
}
GATES_CUDA int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, int kind, Stream stream) {
    return in_order(stream, [=] { return rows(to, to_pitch, from, from_pitch, width, height, kind); });
}
GATES_CUDA int cudaMemset(void* to, int value, std::size_t bytes) {
    return in_order(nullptr, [=] { return fill(to, value, bytes); });
}
GATES_CUDA int cudaMemsetAsync(void* to, int value, std::size_t bytes, Stream stream) {
    return in_order(stream, [=] { return fill(to, value, bytes); });
}
GATES_CUDA int cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
    if (width > pitch && height > 1) return Device::get().set_error(kInvalidValue);
    return in_order(nullptr, [=] {
        for (std::size_t row = 0; row < height && width != 0; ++row) {
            if (const int error = fill(static_cast<char*>(to) + row * pitch, value, width)) return error;
        }
        return int(kSuccess);
    });
}
GATES_CUDA int cudaMemcpyToSymbolAsync(const void* host, const void* from, std::size_t bytes, std::size_t offset, int kind, Stream stream) {
    char* const to = symbol(host, offset, bytes);
    return to == nullptr ? Device::get().last_error(false) : cudaMemcpyAsync(to, from, bytes, kind, stream);
}
GATES_CUDA int cudaMemcpyToSymbol(const void* host, const void* from, std::size_t bytes, std::size_t offset, int kind) {
    return cudaMemcpyToSymbolAsync(host, from, bytes, offset, kind, nullptr);
}
GATES_CUDA int cudaMemcpyFromSymbolAsync(void* to, const void* host, std::size_t bytes, std::size_t offset, int kind, Stream stream) {
    const char* const from = symbol(host, offset, bytes);
    return from == nullptr ? Device::get().last_error(false) : cudaMemcpyAsync(to, from, bytes, kind, stream);
}
GATES_CUDA int cudaMemcpyFromSymbol(void* to, const void* host, std::size_t bytes, std::size_t offset, int kind) {
    return awaited(cudaMemcpyFromSymbolAsync(to, host, bytes, offset, kind, nullptr));
}
GATES_CUDA int cudaGetSymbolAddress(void** pointer, const void* host) {
    *pointer = symbol(host, 0, 0);
    return *pointer != nullptr ? kSuccess : Device::get().last_error(false);
}
GATES_CUDA int cudaGetSymbolSize(std::size_t* bytes, const void* host) {
    return Device::get().variable(host, *bytes) != 0 ? kSuccess : Device::get().set_error(kInvalidSymbol);
}
GATES_CUDA int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    const DeviceMemory& memory = DeviceMemory::get();
    *total = memory.capacity();
    *free = memory.room();
    return kSuccess;
}
