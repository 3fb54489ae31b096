#include "device.h"

#include <algorithm>
#include <cstring>

#include "capture.h"
#include "cluster.h"
#include "memory.h"
#include "streams.h"
#include "system_calls.h"

namespace gates_cpu {
namespace {

constexpr std::uint64_t kWorkspaceBytes = 64;

struct Named { int error; const char *name, *text; };
constexpr Named kErrors[] = {
    {kSuccess, "cudaSuccess", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {kMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {kInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {kInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {kInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {kInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kNoKernelImage, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {kInvalidPtx, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {kIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {kNotReady, "cudaErrorNotReady", "device not ready"},
    {kIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {kLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {kAssert, "cudaErrorAssert", "device-side assert triggered"},
    {kMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {kInvalidAddressSpace, "cudaErrorInvalidAddressSpace", "operation not supported on global/shared address space"},
    {kCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {kLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {kStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {kStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {kStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {kStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {kInvalidClusterSize, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {kNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {kNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

void note(const std::string& code, const std::string& message, const std::string& kernel) {
    Finding finding;
    finding.code = code;
    finding.message = message;
    finding.kernel = kernel;
    add_finding(finding);
}

std::string extent(const std::uint32_t (&v)[3]) { return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")"; }

std::uint64_t little_bits(const Variable& variable, const Variable::Initial& value, const std::map<std::string, std::uint64_t>& addresses) {
    if (value.symbol.empty()) return value.bits;
    const auto found = addresses.find(value.symbol);
    if (found == addresses.end()) throw Unsupported("not supported: " + variable.name + " begins as the address of " + value.symbol);
    return found->second + value.bits;
}

}  // namespace

const char* error_name(int error) {
    for (const Named& known : kErrors) if (known.error == error) return known.name;
    return "unrecognized error code";
}
const char* error_text(int error) {
    for (const Named& known : kErrors) if (known.error == error) return known.text;
    return "unrecognized error code";
}

int resident(const Limits& limits, const Program& program, int threads, std::size_t dynamic_shared) {
    if (threads < 1 || threads > 1024) return 0;
    const std::size_t shared = program.shared_bytes + dynamic_shared + 1024;
    const int by_threads = limits.threads_per_multiprocessor / ((threads + 31) / 32 * 32);
    const int by_shared = static_cast<int>(std::size_t(limits.shared_per_multiprocessor) / shared);
    return std::min({by_threads, by_shared, limits.blocks_per_multiprocessor});
}

bool given_all(const Program& program, void** arguments) {
    const std::size_t count = program.parameters.size();
    return count == 0 || (arguments != nullptr && std::all_of(arguments, arguments + count, [](const void* at) { return at != nullptr; }));
}

bool LoadedModule::ready() {
    if (module || !problem.empty()) return problem.empty();
    try {
        auto parsed = std::make_unique<Module>(parse(text));
        DeviceMemory& memory = DeviceMemory::get();
        for (const Variable& variable : parsed->variables) {
            if (variable.space != Space::Global && variable.space != Space::Const) continue;
            if (variable.external) throw Unsupported("not supported: the variable " + variable.name + " of another file");
            const std::uint64_t bytes = std::max<std::uint64_t>(variable.bytes(), 1);
            const std::uint64_t address = variable.managed ? memory.allocate_for_both(bytes, true, variable.name) : memory.allocate(bytes, variable.name);
            if (address == 0) throw Unsupported("out of memory for the variable " + variable.name);
            variables[variable.name] = address;
            std::memset(memory.bytes(address), 0, variable.bytes());
            memory.mark_initialised(address, variable.bytes());
        }
        std::map<std::string, std::uint64_t> addresses = variables;
        for (const auto& [name, function] : parsed->functions) addresses[name] = parsed->function_address(name);
        for (const Variable& variable : parsed->variables) {
            const auto placed = variables.find(variable.name);
            if (placed == variables.end()) continue;
            const unsigned bytes = bytes_of(variable.type);
            for (std::size_t i = 0; i < variable.initial.size() && i < variable.count; ++i) {
                const std::uint64_t bits = little_bits(variable, variable.initial[i], addresses);
                std::memcpy(memory.bytes(placed->second) + i * bytes, &bits, bytes);
            }
        }
        module = std::move(parsed);
    } catch (const std::exception& error) {
        problem = error.what();
    }
    return problem.empty();
}

Program& LoadedModule::program(const std::string& kernel, bool shifted) {
    std::unique_ptr<Program>& known = programs[{kernel, shifted}];
    if (!known) {
        known = Decoder(*module, variables).decode(kernel, shifted);
    }
    return *known;
}

Device& Device::get() {
    static Device* device = new Device;  // outlives every library's destructors
    return *device;
}

LoadedModule* Device::add_module(std::string text, std::string problem) {
    modules_.push_back(std::make_unique<LoadedModule>());
    modules_.back()->text = std::move(text);
    modules_.back()->problem = std::move(problem);
    return modules_.back().get();
}

void Device::remove_module(LoadedModule* module) {
    for (auto at = kernels_.begin(); at != kernels_.end();) at = at->second.module == module ? kernels_.erase(at) : std::next(at);
    for (auto at = symbols_.begin(); at != symbols_.end();) at = at->second.module == module ? symbols_.erase(at) : std::next(at);
    for (auto at = managed_.begin(); at != managed_.end();) at = at->second.module == module ? managed_.erase(at) : std::next(at);
    for (const auto& [name, address] : module->variables) DeviceMemory::get().release(address);
    modules_.erase(std::remove_if(modules_.begin(), modules_.end(), [&](const auto& held) { return held.get() == module; }), modules_.end());
}

void Device::add_kernel(const void* host, LoadedModule* module, const std::string& name) {
    Kernel kernel;
    kernel.module = module;
    kernel.name = name;
    kernels_[host] = kernel;
}

void Device::add_variable(const void* host, LoadedModule* module, const std::string& name, std::size_t bytes) { symbols_[host] = {module, name, bytes}; }

void Device::add_managed(void** pointer, LoadedModule* module, const std::string& name, std::size_t bytes) { managed_[pointer] = {module, name, bytes}; }

void Device::place_managed(LoadedModule* module) {
    const bool ready = module->ready();
    for (const auto& [pointer, symbol] : managed_) {
        if (symbol.module != module) continue;
        const auto placed = module->variables.find(symbol.name);
        // Without usable PTX the host still gets memory: a launch says what is wrong.
        const std::uint64_t address = ready && placed != module->variables.end() ? placed->second : DeviceMemory::get().allocate_for_both(symbol.bytes, true, symbol.name);
        *pointer = reinterpret_cast<void*>(address);
        symbols_[*pointer] = symbol;
    }
}

Kernel* Device::kernel(const void* host) {
    const auto found = kernels_.find(host);
    return found == kernels_.end() ? nullptr : &found->second;
}

std::uint64_t Device::variable(const void* host, std::size_t& bytes) {
    const auto found = symbols_.find(host);
    if (found == symbols_.end() || !found->second.module->ready()) return 0;
    const auto placed = found->second.module->variables.find(found->second.name);
    bytes = found->second.bytes;
    return placed == found->second.module->variables.end() ? 0 : placed->second;
}

int Device::set_error(int error) {
    if (error != kSuccess && !sticky_) error_ = error;
    return error;
}

int Device::last_error(bool clear) {
    const int error = error_;
    if (clear && !sticky_) error_ = kSuccess;
    return error;
}

int Device::refuse(Record record, int error, const std::string& why) {
    record.error = why;
    records_.push_back(std::move(record));
    return set_error(error);
}

int Device::launch(Kernel* kernel, const std::uint32_t (&grid)[3], const std::uint32_t (&block)[3], void** arguments, std::size_t shared, bool cooperative,
                   const std::uint32_t (&asked_cluster)[3]) {
    if (sticky_) return error_;
    if (kernel == nullptr) return set_error(kInvalidDeviceFunction);
    Record record{kernel->name, "", {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared};
    record.opt_in = kernel->opt_in;
    const std::uint64_t count = std::uint64_t(block[0]) * block[1] * block[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535) {
        return refuse(record, kInvalidConfiguration, "a grid of " + extent(grid) + "; the limit is (2147483647, 65535, 65535), and none is 0");
    }
    if (count == 0 || count > 1024 || block[0] > 1024 || block[1] > 1024 || block[2] > 64) {
        return refuse(record, kInvalidConfiguration, "a block of " + extent(block) + ", " + std::to_string(count) + " threads; the limit is (1024, 1024, 64) and 1024 threads");
    }
    if (!kernel->module->ready()) {
        note("cpu.unsupported", kernel->module->problem, kernel->name);
        return set_error(kNotSupported);
    }
    Program* program = nullptr;
    try {
        program = &kernel->module->program(kernel->name, seed % 2 != 0 && !kernel->module->alone);
    } catch (const std::exception& why) {
        note("cpu.unsupported", why.what(), kernel->name);
        return set_error(kNotSupported);
    }
    if (!given_all(*program, arguments)) return refuse(record, kInvalidValue, "an argument's address is null; the kernel takes " + std::to_string(program->parameters.size()));
    record.static_shared = program->shared_bytes;
    record.max_threads = program->bounded ? program->max_threads : 0;
    const bool said = program->cluster[0] != 0, asked_for = asked_cluster[0] != 0;
    std::uint32_t cluster[3];
    for (int i = 0; i < 3; ++i) cluster[i] = std::max(asked_for ? asked_cluster[i] : program->cluster[i], 1u);
    if (said && asked_for && !std::equal(cluster, cluster + 3, program->cluster)) {
        return refuse(record, kInvalidClusterSize, "clusters of " + extent(cluster) + "; the kernel takes " + extent(program->cluster) + " alone");
    }
    const std::uint64_t most_ctas = kernel->large_clusters ? kMostCtasOfCluster : kPortableCtasOfCluster;
    if (std::uint64_t(cluster[0]) * cluster[1] * cluster[2] > most_ctas) {
        return refuse(record, kInvalidClusterSize, "clusters of " + extent(cluster) + "; the limit is " + std::to_string(most_ctas) + " blocks");
    }
    for (int i = 0; i < 3; ++i) {
        if (program->required[i] != 0 && program->required[i] != block[i]) return refuse(record, kInvalidValue, "a block of " + extent(block) + "; the kernel takes " + extent(program->required) + " alone");
        if (grid[i] % cluster[i] != 0) return refuse(record, kInvalidConfiguration, "a grid of " + extent(grid) + " is no multiple of its clusters of " + extent(cluster));
    }
    if (count > program->max_threads) {
        return refuse(record, kInvalidValue, "a block of " + extent(block) + ", " + std::to_string(count) + " threads; __launch_bounds__ allows " + std::to_string(program->max_threads));
    }
    const std::size_t both = program->shared_bytes + shared, most = std::size_t(std::max(limits.shared_optin, limits.shared_per_block));
    const std::string asked = std::to_string(program->shared_bytes) + " static and " + std::to_string(shared) + " dynamic bytes of shared memory";
    if (both > most) return refuse(record, kInvalidValue, asked + "; the chip has " + std::to_string(most) + " for a block");
    if (shared > std::size_t(std::max(kernel->dynamic_shared_limit, 0))) {
        return refuse(record, kInvalidValue, asked + "; cudaFuncSetAttribute allows " + std::to_string(kernel->dynamic_shared_limit));
    }
    if (both > std::size_t(limits.shared_per_block) && kernel->dynamic_shared_limit <= limits.shared_per_block && shared > 0) {
        return refuse(record, kInvalidValue, asked + "; more than " + std::to_string(limits.shared_per_block) + " in all take cudaFuncSetAttribute first");
    }
    if (launches_only) {
        if (read_back_) ++launches_left_out;
        else records_.push_back(std::move(record));
        return kSuccess;
    }
    Launch launch;
    launch.program = program;
    launch.seed = seed;
    for (int i = 0; i < 3; ++i) {
        launch.grid[i] = grid[i];
        launch.block[i] = block[i];
        launch.cluster[i] = cluster[i];
    }
    launch.dynamic_shared = static_cast<std::uint32_t>(shared);
    launch.cooperative = cooperative;
    launch.parameters.resize(program->parameter_bytes + 8);
    for (std::size_t i = 0; i < program->parameters.size(); ++i) {
        const auto [offset, bytes] = program->parameters[i];
        std::memcpy(launch.parameters.data() + offset, arguments[i], bytes);
    }
    for (std::size_t at = 0; at + 8 <= program->parameter_bytes; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, launch.parameters.data() + at, sizeof word);
        if (DeviceMemory::get().holds(word)) touched(word, kernel->name);
    }
    kernel_runs();
    const auto begin = std::chrono::steady_clock::now();
    launch.deadline = begin + std::chrono::milliseconds(static_cast<long>(time_limit_s * 1000));
    DeviceMemory& memory = DeviceMemory::get();
    if (cooperative) {
        launch.workspace = memory.allocate(kWorkspaceBytes, "the workspace of a cooperative launch");
        if (launch.workspace == 0) return set_error(kMemoryAllocation);
        std::memset(memory.bytes(launch.workspace), 0, kWorkspaceBytes);
        memory.mark_initialised(launch.workspace, kWorkspaceBytes);
    }
    try {
        execute(launch, this->threads);
    } catch (const std::exception& why) {  // out of memory, most likely
        note("cpu.unsupported", std::string("the kernel can't be executed here: ") + why.what(), kernel->name);
        launch.ended = true;
        launch.error = kIllegalAddress;
    }
    if (cooperative) memory.release(launch.workspace);
    executed_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    executed += launch.executed;
    record.operations = launch.executed;
    records_.push_back(std::move(record));
    if (printed_lines() > kMostPrintedLines) {
        note("cpu.printf_flood", "threads called printf more than " + std::to_string(kMostPrintedLines) + " times; the text of the others is left out", kernel->name);
    }
    if (launch.error != 0 || launch.ended) {
        sticky_ = true;
        error_ = launch.error != 0 ? launch.error.load() : kLaunchTimeout;
    }
    return kSuccess;  // as on a device, the error is seen by what follows
}

std::string Device::launches_json() const {
    std::string text = "[";
    const auto triple = [](const std::uint32_t (&v)[3]) { return "[" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + "]"; };
    for (const Record& record : records_) {
        if (text.size() > 1) text += ", ";
        text += "{\"kernel\": " + json_text(record.kernel) + ", \"grid\": " + triple(record.grid) + ", \"block\": " + triple(record.block) +
                ", \"static_smem_bytes\": " + std::to_string(record.static_shared) + ", \"dynamic_smem_bytes\": " + std::to_string(record.dynamic_shared) +
                ", \"opt_in_smem_bytes\": " + std::to_string(record.opt_in) + ", \"max_threads\": " + std::to_string(record.max_threads) +
                ", \"error\": " + json_text(record.error) + ", \"warp_instructions\": " + std::to_string(record.operations) + "}";
    }
    return text + "]";
}

void Device::reset() {
    records_.clear();
    error_ = kSuccess;
    sticky_ = read_back_ = false;
    launches_left_out = 0;
    executed = 0;
    executed_s = 0;
    forget_capture();
    clear_findings();
    forget_printed_lines();
}

}  // namespace gates_cpu
