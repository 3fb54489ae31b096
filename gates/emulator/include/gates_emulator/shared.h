// The block's shared memory: one arena, poisoned (fill_poison: NaN to begin with) before each block.
//
//   [red zone] static variable [red zone] static variable [red zone] …   [red zone] dynamic part [red zone]
//
// Red zones are poisoned for AddressSanitizer where it is loaded; else they hold a pattern that is checked
// when the block ends. A static variable has the alignment that it declares and no more, so that code which
// needs more than it asked for is found out. The dynamic part is 128-byte aligned.
#pragma once
#pragma GCC system_header

#include "block.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

constexpr size_t kDefaultSharedBytes = 48 * 1024;

// A __global__ function: one for each instantiation of a template.
struct KernelEntry {
    const char* name;
    const char* function;  // __PRETTY_FUNCTION__
    const char* file;
    int line;
    unsigned max_threads;  // of __launch_bounds__, or 0
    size_t opt_in_bytes = 0;
    constexpr KernelEntry(const char* name_, const char* function_, const char* file_, int line_, unsigned max_threads_ = 0)
        : name(name_), function(function_), file(file_), line(line_), max_threads(max_threads_) {}
};

// A __shared__ declaration.
struct SharedSlot {
    const char* name;
    const char* file;
    int line;
    u_int64_t launch = 0;  // for which `address` was given out
    char* address = nullptr;
    constexpr SharedSlot(const char* name_, const char* file_, int line_) : name(name_), file(file_), line(line_) {}
};

struct Arena {
    char* memory = nullptr;   // aligned to a page
    char* dynamic = nullptr;
    u_int64_t launch = 0;
};

extern Arena arena;

bool in_arena(const void* address);
// Whether all of them lie in one shared variable.
bool in_one_region(const void* address, size_t bytes);

GATES_EMULATOR_COLD void allocate_static(SharedSlot& slot, size_t bytes, size_t alignment);

template <typename T>
inline T& shared_variable(SharedSlot& slot) {
    if (__builtin_expect(slot.launch != arena.launch, 0)) allocate_static(slot, sizeof(T), alignof(T));
    return *reinterpret_cast<T*>(slot.address);
}

template <typename T>
inline T& dynamic_shared() {
    return *reinterpret_cast<T*>(arena.dynamic);
}

}  // namespace gates_emulator
#pragma GCC visibility pop
