// dlopen and dlsym of a launcher, linked by --wrap: it finds nothing, since it could reach what the judge reads. NVTX, which CUB calls,
// looks for a profiler once and does without.
#include <string>

#include "cuda_abi.h"
#include "findings.h"

namespace {

void refuse(const char* function, const char* name) {
    gates_cpu::Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = std::string("not supported: ") + function + "(\"" + (name != nullptr ? name : "") + "\") of a launcher, which could reach the emulator's records, which are evidence";
    gates_cpu::add_finding(finding);
}

}  // namespace

GATES_CUDA void* __wrap_dlopen(const char* name, int) {
    refuse("dlopen", name);
    return nullptr;
}

GATES_CUDA void* __wrap_dlsym(void*, const char* name) {
    if (std::string(name) != "InitializeInjectionNvtx2Preinject") refuse("dlsym", name);
    return nullptr;
}
