// What a run goes by and what it leaves behind: settings, findings, the sticky error.
//
// What these headers only declare is compiled once, in gates/emulator/runtime/, and linked into each library. The two must agree
// whatever a task defines: no declaration depends on its macros, and none has a type of the C++ library in it.
#pragma once
#pragma GCC system_header

#include "types.h"

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorMisalignedAddress = 716,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701,
    cudaErrorLaunchFailure = 719,
    cudaErrorAssert = 710,
    cudaErrorUnknown = 999,
};
typedef cudaError cudaError_t;

#pragma GCC visibility push(hidden)
namespace gates_emulator {

enum Order { kForward = 0, kReversed = 1, kShuffled = 2 };

struct Settings {
    int order = kForward;
    u_int64_t seed = 0;
    int poison = 0xFF;                      // the byte that unwritten memory holds, or kRandomPoison
    size_t shared_limit_bytes = 99 * 1024;  // what cudaFuncSetAttribute can raise a block to; sm_89's to begin with
    int compute_capability = 89;            // that the device says it has
    bool launches_only = false;             // launches are recorded, but their blocks don't run
};

extern Settings settings;

#ifdef GATES_EMULATOR_SHARED_LIMIT  // of the task's smallest chip
inline const bool shared_limit_set = (settings.shared_limit_bytes = GATES_EMULATOR_SHARED_LIMIT, true);
#endif

constexpr int kRandomPoison = 256;

void fill_random(void* address, size_t bytes);

// What memory holds before it is written. 0xFF is NaN in every float format; random bytes follow from the seed.
inline void fill_poison(void* address, size_t bytes) {
    if (settings.poison == kRandomPoison) fill_random(address, bytes);
    else memset(address, settings.poison, bytes);
}

#define GATES_EMULATOR_COLD __attribute__((cold, noinline))

// A finding about the running kernel; `file` may be null. The same fault in a thousand threads is one finding.
GATES_EMULATOR_COLD __attribute__((format(printf, 4, 5))) void add_finding(const char* kind, const char* file, int line, const char* pattern, ...);

}  // namespace gates_emulator
#pragma GCC visibility pop
