// What the judge asks and sets: `gates_cpu_*`.
#include <cstring>
#include <string>

#include "access.h"
#include "cuda_abi.h"
#include "findings.h"
#include "memory.h"
#include "streams.h"
#include "system_calls.h"

using namespace gates_cpu;

// 0, or 1 if there is no such key. Times in ms.
GATES_CUDA int gates_cpu_configure(const char* key, std::int64_t value) {
    Device& device = Device::get();
    const std::string name = key;
    if (name == "threads") device.threads = static_cast<unsigned>(value < 1 ? 1 : value);
    else if (name == "time_limit_ms") device.time_limit_s = static_cast<double>(value) / 1000;
    else if (name == "seed") device.seed = static_cast<std::uint64_t>(value);
    else if (name == "races") checks.races = value != 0;
    else if (name == "approximations") checks.approximations = static_cast<std::uint64_t>(value);
    else if (name == "uninitialised") checks.uninitialised = value != 0;
    else if (name == "poison") DeviceMemory::get().poison(static_cast<std::uint8_t>(value));
    else if (name == "capability") device.limits.capability = static_cast<int>(value);
    else if (name == "multiprocessors") device.limits.multiprocessors = static_cast<int>(value);
    else if (name == "shared_optin") device.limits.shared_optin = static_cast<int>(value);
    else if (name == "shared_per_multiprocessor") device.limits.shared_per_multiprocessor = static_cast<int>(value);
    else if (name == "threads_per_multiprocessor") device.limits.threads_per_multiprocessor = static_cast<int>(value);
    else if (name == "blocks_per_multiprocessor") device.limits.blocks_per_multiprocessor = static_cast<int>(value);
    else if (name == "launches_only") device.launches_only = value != 0;
    else return 1;
    return 0;
}

// Text lives until the next call of the same function.
GATES_CUDA const char* gates_cpu_findings() {
    static std::string text;
    text = findings_json();
    return text.c_str();
}
GATES_CUDA const char* gates_cpu_launches() {
    static std::string text;
    text = Device::get().launches_json();
    return text.c_str();
}
// Blocks of device memory that are allocated and were not made by the judge: their number and bytes.
GATES_CUDA const char* gates_cpu_allocations() {
    static std::string text;
    text = "[";
    for (const DeviceMemory::Block& block : DeviceMemory::get().live()) {
        text += (text.size() > 1 ? ", {\"address\": " : "{\"address\": ") + std::to_string(block.address) + ", \"bytes\": " + std::to_string(block.bytes) + "}";
    }
    text += "]";
    return text.c_str();
}
// Kernels that write there are a finding. 0, or 1 if it is no device memory.
GATES_CUDA int gates_cpu_protect(std::uint64_t address, std::uint64_t bytes) {
    if (!DeviceMemory::get().allocated(address, bytes)) return 1;
    DeviceMemory::get().protect(address, bytes);
    return 0;
}
// The bytes count as unwritten again, and hold `pattern`. 0, or 1 if it is no device memory.
GATES_CUDA int gates_cpu_forget(std::uint64_t address, std::uint64_t bytes, int pattern) {
    DeviceMemory& memory = DeviceMemory::get();
    if (!memory.allocated(address, bytes)) return 1;
    std::memset(memory.bytes(address), pattern, bytes);
    std::memset(memory.shadow(address), kAllocated | kWritable, bytes);
    return 0;
}
GATES_CUDA void gates_cpu_reset() { Device::get().reset(); }
GATES_CUDA std::uint64_t gates_cpu_executed() { return Device::get().executed; }
GATES_CUDA double gates_cpu_executed_s() { return Device::get().executed_s; }
GATES_CUDA std::uint64_t gates_cpu_launches_left_out() { return Device::get().launches_left_out; }
GATES_CUDA std::uint64_t gates_cpu_printed_lines() { return printed_lines(); }

// A launcher is called on `stream` with memory of the caller's: `count` addresses and sizes. Streams are judged until it has returned.
GATES_CUDA void gates_cpu_begin_call(void* stream, const std::uint64_t* given, std::uint64_t count) {
    std::vector<Given> ranges;
    for (std::uint64_t i = 0; i < count; ++i) ranges.push_back({given[2 * i], given[2 * i + 1]});
    begin_call(stream, std::move(ranges));
}
GATES_CUDA void gates_cpu_end_call() { end_call(); }

// PTX without a fat binary: a module, and launches of its kernels by name. Null, or 1, if it can't be used; findings say why.
GATES_CUDA void* gates_cpu_load(const char* ptx) {
    LoadedModule* const module = Device::get().add_module(ptx, {});
    module->alone = true;
    return module;
}
GATES_CUDA int gates_cpu_launch(void* module, const char* kernel, const std::uint32_t* grid, const std::uint32_t* block, std::uint64_t shared, void** arguments,
                                std::uint64_t count) {
    Kernel made;
    made.module = static_cast<LoadedModule*>(module);
    made.name = kernel;
    Device& device = Device::get();
    try {
        if (made.module->ready() && made.module->program(made.name).parameters.size() != count) return device.set_error(kInvalidValue);
    } catch (const std::exception&) {  // said by the launch
    }
    made.dynamic_shared_limit = device.limits.shared_optin;
    return device.launch(&made, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, arguments, shared, false, {0, 0, 0});
}
GATES_CUDA void gates_cpu_unload(void* module) { Device::get().remove_module(static_cast<LoadedModule*>(module)); }
