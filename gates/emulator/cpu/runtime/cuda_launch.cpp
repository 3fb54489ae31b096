// Launches, and what can be asked and set about kernels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cluster.h"
#include "streams.h"
#include "works.h"

using namespace gates_cpu;

namespace {

struct Configuration {
    Dim3 grid, block;
    std::size_t shared;
    Stream stream;
};
thread_local std::vector<Configuration> configurations;


struct FunctionAttributes {  // cudaFuncAttributes
    std::size_t shared, constant, local;
    int max_threads, registers, ptx, binary, cache_mode, max_dynamic_shared, carveout, cluster_set, cluster[3], scheduling, nonportable, reserved[16];
};

struct LaunchAttribute {  // cudaLaunchAttribute: 64 bytes of value after the number
    std::uint32_t id, padding;
    union {
        std::uint32_t dim[3];
        int flag;
        char bytes[64];
    };
};
struct LaunchConfig {  // cudaLaunchConfig_t
    Dim3 grid, block;
    std::size_t shared;
    Stream stream;
    LaunchAttribute* attributes;
    unsigned count;
};
constexpr std::uint32_t kCooperative = 2, kClusterDimension = 4, kProgrammaticSerialization = 6;

// 0: as the kernel says.
Dim3 cluster_of(const LaunchConfig& config) {
    Dim3 cluster = {0, 0, 0};
    for (unsigned i = 0; i < config.count; ++i) {
        const LaunchAttribute& attribute = config.attributes[i];
        if (attribute.id == kClusterDimension) cluster = {attribute.dim[0], attribute.dim[1], attribute.dim[2]};
    }
    return cluster;
}

void report_early_begin(const Kernel& kernel) {
    Finding finding;
    finding.code = "cpu.race_global";
    finding.message = "the kernel may begin before the one before it in its stream has ended (cudaLaunchAttributeProgrammaticStreamSerialization), and it never calls cudaGridDependencySynchronize";
    finding.kernel = kernel.name;
    add_finding(finding);
}

// The kernel's program, or null with the runtime's error set.
Program* program_of(Kernel* kernel) {
    Device& device = Device::get();
    if (kernel == nullptr) {
        device.set_error(kInvalidDeviceFunction);
        return nullptr;
    }
    std::string problem = kernel->module->problem;
    try {
        if (kernel->module->ready()) return &kernel->module->program(kernel->name);
        problem = kernel->module->problem;
    } catch (const std::exception& why) {
        problem = why.what();
    }
    Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = problem;
    finding.kernel = kernel->name;
    add_finding(finding);
    device.set_error(kNotSupported);
    return nullptr;
}

int launch(Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, Stream stream, bool cooperative = false, Dim3 cluster = {0, 0, 0}) {
    const auto now = [=](void** given) {
        return Device::get().launch(kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, given, shared, cooperative, {cluster.x, cluster.y, cluster.z});
    };
    if (!keeps(stream)) return in_order(stream, [&] { return now(arguments); });
    Work made;
    const int error = launching(kernel, grid, block, arguments, shared, cooperative, cluster, made);
    return error != kSuccess ? error : in_order(stream, made);
}

}  // namespace

namespace gates_cpu {

int launching(Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, bool cooperative, Dim3 cluster, Work& made) {
    const Program* program = program_of(kernel);
    if (program == nullptr) return Device::get().last_error(false);
    if (!given_all(*program, arguments)) return Device::get().set_error(kInvalidValue);
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < program->parameters.size(); ++i) kept.emplace_back(static_cast<const char*>(arguments[i]), program->parameters[i].second);
    made = [=]() mutable {
        std::vector<void*> pointers;
        for (std::string& argument : kept) pointers.push_back(argument.data());
        return Device::get().launch(kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, pointers.data(), shared, cooperative, {cluster.x, cluster.y, cluster.z});
    };
    return kSuccess;
}

}  // namespace gates_cpu

GATES_CUDA unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, Stream stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
GATES_CUDA int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared, Stream* stream) {
    if (configurations.empty()) return kInvalidConfiguration;
    const Configuration given = configurations.back();
    configurations.pop_back();
    *grid = given.grid;
    *block = given.block;
    *shared = given.shared;
    *stream = given.stream;
    return kSuccess;
}
GATES_CUDA int __cudaGetKernel(Kernel** kernel, const void* host) {
    *kernel = Device::get().kernel(host);
    return *kernel != nullptr ? kSuccess : kInvalidDeviceFunction;
}
GATES_CUDA int __cudaLaunchKernel(Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, Stream stream) {
    return launch(kernel, grid, block, arguments, shared, stream);
}
GATES_CUDA int __cudaLaunchKernel_ptsz(Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, Stream stream) {
    return launch(kernel, grid, block, arguments, shared, stream);
}
GATES_CUDA int cudaLaunchKernel(const void* host, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, Stream stream) {
    // A cudaKernel_t may stand in for the function.
    Kernel* kernel = Device::get().kernel(host);
    return launch(kernel, grid, block, arguments, shared, stream);
}
GATES_CUDA int cudaLaunchCooperativeKernel(const void* host, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, Stream stream) {
    Device& device = Device::get();
    Kernel* kernel = device.kernel(host);
    const Program* program = program_of(kernel);
    if (program == nullptr) return device.last_error(false);
    const std::uint64_t together = std::uint64_t(device.limits.multiprocessors) * static_cast<unsigned>(resident(device.limits, *program, static_cast<int>(block.x * block.y * block.z), shared));
    if (std::uint64_t(grid.x) * grid.y * grid.z > together) return device.set_error(kCooperativeLaunchTooLarge);
    return launch(kernel, grid, block, arguments, shared, stream, true);
}
GATES_CUDA int cudaLaunchKernelExC(const LaunchConfig* config, const void* host, void** arguments) {
    const auto asked = [config](std::uint32_t id) {
        return std::any_of(config->attributes, config->attributes + config->count, [id](const LaunchAttribute& one) { return one.id == id && one.flag != 0; });
    };
    const bool cooperative = asked(kCooperative);
    Kernel* const kernel = Device::get().kernel(host);
    if (kernel != nullptr && asked(kProgrammaticSerialization) && Device::get().limits.capability >= 90) {  // older chips begin none early
        const Program* const program = program_of(kernel);
        if (program == nullptr) return Device::get().last_error(false);
        if (!program->awaits_grid && (keeps(config->stream) || after_kernel(config->stream))) report_early_begin(*kernel);
    }
    return launch(kernel, config->grid, config->block, arguments, config->shared, config->stream, cooperative, cluster_of(*config));
}

GATES_CUDA int cudaFuncSetAttribute(const void* host, int attribute, int value) {
    Device& device = Device::get();
    Kernel* kernel = device.kernel(host);
    const Program* program = program_of(kernel);
    if (program == nullptr) return device.last_error(false);
    if (attribute == 8) {  // cudaFuncAttributeMaxDynamicSharedMemorySize
        if (value < 0 || static_cast<std::int64_t>(value) + program->shared_bytes > device.limits.shared_optin) return device.set_error(kInvalidValue);
        kernel->dynamic_shared_limit = value;
        kernel->opt_in = value;
    }
    if (attribute == 14) kernel->large_clusters = value != 0;  // cudaFuncAttributeNonPortableClusterSizeAllowed
    return kSuccess;
}
GATES_CUDA int cudaFuncSetCacheConfig(const void*, int) { return kSuccess; }
GATES_CUDA int cudaFuncGetAttributes(FunctionAttributes* attributes, const void* host) {
    Kernel* kernel = Device::get().kernel(host);
    const Program* program = program_of(kernel);
    if (program == nullptr) return Device::get().last_error(false);
    const Limits& limits = Device::get().limits;
    *attributes = {};
    attributes->shared = program->shared_bytes;
    attributes->local = program->local_bytes;
    attributes->max_threads = static_cast<int>(program->max_threads);
    attributes->registers = limits.registers / 1024;
    std::sscanf(kernel->module->module->target.c_str(), "sm_%d", &attributes->ptx);
    attributes->binary = limits.capability;
    attributes->max_dynamic_shared = kernel->dynamic_shared_limit;
    return kSuccess;
}

GATES_CUDA int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads, std::size_t shared, unsigned) {
    Device& device = Device::get();
    const Program* program = program_of(device.kernel(host));
    if (program == nullptr) return device.last_error(false);
    *blocks = resident(device.limits, *program, threads, shared);
    return kSuccess;
}
GATES_CUDA int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads, std::size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}
GATES_CUDA int cudaOccupancyMaxActiveClusters(int* clusters, const void* host, const LaunchConfig* config) {
    Device& device = Device::get();
    const Program* program = program_of(device.kernel(host));
    if (program == nullptr) return device.last_error(false);
    const Dim3 block = config->block, cluster = cluster_of(*config);
    const unsigned size = std::max(cluster.x * cluster.y * cluster.z, 1u);
    *clusters = device.limits.multiprocessors * resident(device.limits, *program, static_cast<int>(block.x * block.y * block.z), config->shared) / static_cast<int>(size);
    return kSuccess;
}
GATES_CUDA int cudaOccupancyMaxPotentialClusterSize(int* size, const void* host, const LaunchConfig*) {
    Device& device = Device::get();
    const Kernel* kernel = device.kernel(host);
    if (kernel == nullptr) return device.set_error(kInvalidDeviceFunction);
    *size = static_cast<int>(kernel->large_clusters ? kMostCtasOfCluster : kPortableCtasOfCluster);
    return kSuccess;
}
GATES_CUDA int cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* host, int blocks, int) {
    Device& device = Device::get();
    const Program* program = program_of(device.kernel(host));
    if (program == nullptr) return device.last_error(false);
    const long left = device.limits.shared_per_multiprocessor / std::max(blocks, 1) - 1024 - static_cast<long>(program->shared_bytes);
    *bytes = static_cast<std::size_t>(std::max(left, 0L));
    return kSuccess;
}
