// The device's attributes, errors, streams and Handles<Event>::get(). Everything runs at once and in order, so nothing is ever waited for.
#include <atomic>
#include <chrono>
#include <cstring>

#include "capture.h"
#include "handles.h"
#include "memory.h"
#include "streams.h"

using namespace gates_cpu;

GATES_CUDA int cudaDeviceGetAttribute(int* value, int attribute, int);

namespace {

struct Event {
    std::chrono::steady_clock::time_point at;
    bool recorded = false;
};
struct MadeStream {
    bool blocking = true;                                // for the legacy default stream, and by it
};

int no_handle() { return Device::get().set_error(kInvalidResourceHandle); }

int pending() { return Device::get().last_error(false); }

constexpr std::size_t kPropertyBytes = 1008;  // cudaDeviceProp of CUDA 13
int attribute(int which) {
    int value = 0;
    cudaDeviceGetAttribute(&value, which, 0);
    return value;
}

}  // namespace

namespace gates_cpu {

std::uint64_t next_handle() {
    static std::atomic<std::uint64_t> last{0x0500000000000000ull};
    return last += 16;
}

// The first three are the default stream and its names.
bool is_stream(Stream stream) { return reinterpret_cast<std::uint64_t>(stream) < 3 || Handles<MadeStream>::get().find(stream); }
bool syncs_with_legacy(Stream stream) {
    const auto made = Handles<MadeStream>::get().find(stream);
    return !made || made->blocking;
}
int to_stream(Stream stream) { return is_stream(stream) ? kSuccess : no_handle(); }

}  // namespace gates_cpu

GATES_CUDA int cudaGetLastError() { return Device::get().last_error(true); }
GATES_CUDA int cudaPeekAtLastError() { return Device::get().last_error(false); }
GATES_CUDA const char* cudaGetErrorString(int error) { return error_text(error); }
GATES_CUDA const char* cudaGetErrorName(int error) { return error_name(error); }

GATES_CUDA int cudaGetDeviceCount(int* count) { *count = 1; return kSuccess; }
GATES_CUDA int cudaGetDevice(int* device) { *device = 0; return kSuccess; }
GATES_CUDA int cudaSetDevice(int device) { return device == 0 ? kSuccess : Device::get().set_error(kInvalidDevice); }
GATES_CUDA int cudaDeviceSynchronize() {
    const int error = at_once();
    if (error == kSuccess) host_waits_for_all();
    return error != kSuccess ? error : pending();
}
GATES_CUDA int cudaDeviceReset() { return kSuccess; }
GATES_CUDA int cudaRuntimeGetVersion(int* version) { *version = 13000; return kSuccess; }
GATES_CUDA int cudaDriverGetVersion(int* version) { *version = 13000; return kSuccess; }
GATES_CUDA int cudaDeviceSetLimit(int limit, std::size_t value) {
    if (limit == 0) Device::get().stack_bytes = value;
    return kSuccess;
}
GATES_CUDA int cudaDeviceGetLimit(std::size_t* value, int limit) {
    constexpr std::size_t kMebi = 1 << 20;
    if (limit < 0 || limit > 2) return Device::get().set_error(kNotSupported);
    *value = limit == 0 ? Device::get().stack_bytes : limit == 1 ? kMebi : 8 * kMebi;  // of printf's buffer, of malloc's heap
    return kSuccess;
}
GATES_CUDA int cudaDeviceSetCacheConfig(int) { return kSuccess; }
GATES_CUDA int cudaSetDeviceFlags(unsigned) { return kSuccess; }
GATES_CUDA int cudaProfilerStart() { return kSuccess; }
GATES_CUDA int cudaProfilerStop() { return kSuccess; }

GATES_CUDA int cudaDeviceGetAttribute(int* value, int attribute, int) {
    const Limits& limits = Device::get().limits;
    switch (attribute) {
        case 1: case 2: case 3: *value = 1024; break;
        case 4: *value = 64; break;
        case 5: *value = 2147483647; break;
        case 6: case 7: *value = 65535; break;
        case 8: *value = limits.shared_per_block; break;
        case 9: *value = 65536; break;
        case 10: *value = 32; break;
        case 12: case 82: *value = limits.registers; break;
        case 13: *value = 1980000; break;
        case 16: *value = limits.multiprocessors; break;
        case 19: case 31: case 41: case 78: case 83: case 89: case 95: case 115: *value = 1; break;
        case 36: *value = 2619000; break;
        case 37: *value = 5120; break;
        case 38: *value = 52428800; break;
        case 39: *value = limits.threads_per_multiprocessor; break;
        case 75: *value = limits.capability / 10; break;
        case 76: *value = limits.capability % 10; break;
        case 81: *value = limits.shared_per_multiprocessor; break;
        case 97: *value = limits.shared_optin; break;
        case 106: *value = limits.blocks_per_multiprocessor; break;
        case 111: *value = 1024; break;
        case 120: *value = limits.capability >= 90; break;
        default: *value = 0; break;
    }
    return kSuccess;
}

// Fields of cudaDeviceProp by their offsets; what is not set is 0.
GATES_CUDA int cudaGetDeviceProperties(void* properties, int device) {
    if (device != 0) return Device::get().set_error(kInvalidDevice);
    std::uint8_t* const to = static_cast<std::uint8_t*>(properties);
    std::memset(to, 0, kPropertyBytes);
    std::strcpy(reinterpret_cast<char*>(to), "CPU device of Kernel Gates");
    const auto put = [to](std::size_t offset, int value) { std::memcpy(to + offset, &value, 4); };
    const auto put_wide = [to](std::size_t offset, std::uint64_t value) { std::memcpy(to + offset, &value, 8); };
    put_wide(288, DeviceMemory::get().capacity());
    put_wide(296, static_cast<std::uint64_t>(attribute(8)));    // shared memory per block
    put(304, attribute(12));                                    // registers per block
    put(308, attribute(10));                                    // warp
    put_wide(312, 2147483647);                                  // pitch
    for (int i = 0; i < 4; ++i) put(320 + 4 * static_cast<std::size_t>(i), attribute(i == 0 ? 1 : i + 1));  // threads per block, and its sides
    for (int i = 0; i < 3; ++i) put(336 + 4 * static_cast<std::size_t>(i), attribute(5 + i));               // sides of the grid
    put_wide(352, static_cast<std::uint64_t>(attribute(9)));    // constants
    put(360, attribute(75));                                    // capability
    put(364, attribute(76));
    put_wide(368, 512);                                         // alignment of textures
    put(384, attribute(16));                                    // multiprocessors
    put(392, 1);                                                // maps host memory
    put(560, 1);                                                // concurrent kernels
    put(588, 1);                                                // one address space
    put(592, attribute(37));                                    // width of the memory bus
    put(596, attribute(38));                                    // L2
    put(604, attribute(39));                                    // threads per multiprocessor
    put_wide(624, static_cast<std::uint64_t>(attribute(81)));   // shared memory per multiprocessor
    put(608, attribute(78));                                    // priorities of streams
    put(632, attribute(82));                                    // registers per multiprocessor
    put(636, attribute(83));                                    // managed memory
    put(656, attribute(89));                                    // which both sides may use at once
    put(668, 1);                                                // cooperative launches
    put_wide(672, static_cast<std::uint64_t>(attribute(97)));   // shared memory that a block can opt in to
    put(688, attribute(106));                                   // blocks per multiprocessor
    put_wide(696, static_cast<std::uint64_t>(attribute(111)));  // reserved shared memory
    put(720, attribute(115));                                   // memory pools
    put(748, attribute(120));                                   // clusters
    return kSuccess;
}

GATES_CUDA int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = *greatest = 0;
    return kSuccess;
}
GATES_CUDA int cudaLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
    if (function == nullptr) return Device::get().set_error(kInvalidValue);
    return in_order(stream, [=] {
        host_function_begins();
        function(data);
        return int(kSuccess);
    });
}
GATES_CUDA int cudaStreamAddCallback(Stream stream, void (*function)(Stream, int, void*), void* data, unsigned) {
    if (function == nullptr) return Device::get().set_error(kInvalidValue);
    if (const int error = at_once(stream)) return error;
    host_function_begins();
    function(stream, pending(), data);
    return kSuccess;
}
GATES_CUDA int cudaStreamCreate(Stream* stream) { *stream = Handles<MadeStream>::get().add({}); return kSuccess; }
GATES_CUDA int cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
    *stream = Handles<MadeStream>::get().add({(flags & 1) == 0});  // cudaStreamNonBlocking
    return kSuccess;
}
GATES_CUDA int cudaStreamCreateWithPriority(Stream* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
GATES_CUDA int cudaStreamDestroy(Stream stream) { return Handles<MadeStream>::get().remove(stream) ? kSuccess : no_handle(); }
GATES_CUDA int cudaStreamSynchronize(Stream stream) {
    const int error = at_once(stream);
    if (error == kSuccess) host_waits(stream);
    return error != kSuccess ? error : pending();
}
GATES_CUDA int cudaStreamQuery(Stream stream) { return cudaStreamSynchronize(stream); }
GATES_CUDA int cudaStreamWaitEvent(Stream stream, EventHandle event, unsigned) {
    if (!Handles<Event>::get().find(event)) return no_handle();
    if (const int error = to_stream(stream)) return error;
    event_awaited(event, stream);
    stream_waits(stream, event);
    return kSuccess;
}

GATES_CUDA int cudaEventCreate(EventHandle* event) { *event = Handles<Event>::get().add({}); return kSuccess; }
GATES_CUDA int cudaEventCreateWithFlags(EventHandle* event, unsigned) { return cudaEventCreate(event); }
GATES_CUDA int cudaEventDestroy(EventHandle event) { return Handles<Event>::get().remove(event) ? kSuccess : no_handle(); }
GATES_CUDA int cudaEventRecord(EventHandle event, Stream stream) {
    const auto known = Handles<Event>::get().find(event);
    if (!known) return no_handle();
    if (const int error = to_stream(stream)) return error;
    event_recorded(event, stream);
    event_marks(event, stream);
    *known = {std::chrono::steady_clock::now(), true};
    return pending();
}
GATES_CUDA int cudaEventRecordWithFlags(EventHandle event, Stream stream, unsigned) { return cudaEventRecord(event, stream); }
GATES_CUDA int cudaEventSynchronize(EventHandle event) {
    if (!Handles<Event>::get().find(event)) return no_handle();
    if (event_is_captured(event)) return Device::get().set_error(kCapturedEvent);
    host_waits_for_event(event);
    return pending();
}
GATES_CUDA int cudaEventQuery(EventHandle event) { return cudaEventSynchronize(event); }
GATES_CUDA int cudaEventElapsedTime(float* ms, EventHandle begin, EventHandle end) {
    const auto first = Handles<Event>::get().find(begin), last = Handles<Event>::get().find(end);
    if (!first || !last || !first->recorded || !last->recorded) return no_handle();
    *ms = std::chrono::duration<float, std::milli>(last->at - first->at).count();
    return kSuccess;
}
