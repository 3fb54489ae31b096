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
constexpr size_t kRedZone = 256;
constexpr size_t kArenaBytes = 4 << 20;
constexpr unsigned char kRedZonePattern = 0xFD;

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
    uint64_t launch = 0;  // for which `address` was given out
    char* address = nullptr;
    constexpr SharedSlot(const char* name_, const char* file_, int line_) : name(name_), file(file_), line(line_) {}
};

struct Region {
    char* begin;
    size_t bytes;
    const char* name;
};

struct Arena {
    char* memory = nullptr;
    char* next = nullptr;  // start of free space, right after a red zone
    uint64_t launch = 0;
    size_t static_bytes = 0, dynamic_bytes = 0, opt_in_bytes = 0;
    char* dynamic = nullptr;
    std::vector<Region> regions;
};

inline Arena arena;

inline bool sanitized() { return __asan_poison_memory_region != nullptr; }

GATES_EMULATOR_COLD inline char* add_region(const char* name, size_t bytes, size_t alignment) {
    uintptr_t start = reinterpret_cast<uintptr_t>(arena.next);
    const size_t twice = 2 * alignment;
    start = (start + twice - 1) / twice * twice;
    // AddressSanitizer can't fence off less than 8 bytes.
    if (alignment >= 8 && alignment < 128) start += alignment;
    else if (alignment < 8) start += 8;
    char* begin = reinterpret_cast<char*>(start);
    if (begin + bytes + kRedZone > arena.memory + kArenaBytes) {
        fprintf(stderr, "gates emulator: shared memory arena exhausted by %s (%zu bytes)\n", name, bytes);
        abort();
    }
    if (sanitized()) {
        unpoison(begin, bytes);
    } else {
        memset(arena.next, kRedZonePattern, static_cast<size_t>(begin - arena.next));
        memset(begin + bytes, kRedZonePattern, kRedZone);
    }
    fill_poison(begin, bytes);
    arena.regions.push_back({begin, bytes, name});
    arena.next = begin + bytes + kRedZone;
    return begin;
}

GATES_EMULATOR_COLD inline void open_arena(size_t dynamic_bytes, size_t opt_in_bytes) {
    if (!arena.memory) {
        void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) abort();
        arena.memory = static_cast<char*>(memory);
    }
    if (sanitized()) poison(arena.memory, kArenaBytes);
    arena.next = arena.memory + kRedZone;
    arena.regions.clear();
    ++arena.launch;
    arena.static_bytes = 0;
    arena.dynamic_bytes = dynamic_bytes;
    arena.opt_in_bytes = opt_in_bytes;
    if (!sanitized()) memset(arena.memory, kRedZonePattern, kRedZone);
    arena.dynamic = add_region("dynamic shared memory", dynamic_bytes, 128);
}

// Before each block.
inline void poison_arena() {
    for (const Region& region : arena.regions) fill_poison(region.begin, region.bytes);
}

// After each block: a write past a variable has changed the pattern around it.
GATES_EMULATOR_COLD inline void check_red_zones() {
    if (sanitized()) return;
    for (const Region& region : arena.regions) {
        char* end = region.begin + region.bytes;
        size_t after = 0, before = 0;
        while (after < kRedZone && static_cast<unsigned char>(end[after]) == kRedZonePattern) ++after;
        while (before < 8 && static_cast<unsigned char>(region.begin[-1 - static_cast<long>(before)]) == kRedZonePattern) ++before;
        if (after == kRedZone && before == 8) continue;
        add_finding("shared_out_of_bounds", block.kernel, "",
                    format("a write outside %s (%zu bytes): %zu bytes %s", region.name, region.bytes,
                           after < kRedZone ? after : before + 1, after < kRedZone ? "past its end" : "before its start"));
        report.sticky_error = cudaErrorIllegalAddress;
        block.aborted = true;
        return;
    }
}

inline bool in_arena(const void* address) {
    const char* p = static_cast<const char*>(address);
    return p >= arena.memory && p < arena.memory + kArenaBytes;
}

inline bool in_one_region(const void* address, size_t bytes) {
    const char* p = static_cast<const char*>(address);
    for (const Region& region : arena.regions)
        if (p >= region.begin && p + bytes <= region.begin + region.bytes) return true;
    return false;
}

// Static + dynamic bytes against what a block may have; an empty text if they fit.
GATES_EMULATOR_COLD inline std::string shared_excess(size_t static_bytes, size_t dynamic_bytes, size_t opt_in_bytes) {
    if (static_bytes <= kDefaultSharedBytes && static_bytes + dynamic_bytes <= settings.shared_limit_bytes &&
        (opt_in_bytes ? dynamic_bytes <= opt_in_bytes : static_bytes + dynamic_bytes <= kDefaultSharedBytes))
        return "";
    std::string text = format("%zu static + %zu dynamic bytes of shared memory asked, ", static_bytes, dynamic_bytes);
    if (static_bytes > kDefaultSharedBytes) return text + format("static is limited to %zu", kDefaultSharedBytes);
    if (static_bytes + dynamic_bytes > settings.shared_limit_bytes)
        return text + format("the device's limit is %zu", settings.shared_limit_bytes);
    if (opt_in_bytes) return text + format("limit %zu, as set with cudaFuncSetAttribute", opt_in_bytes);
    return text + format("limit %zu without cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
                         kDefaultSharedBytes);
}

GATES_EMULATOR_COLD inline void allocate_static(SharedSlot& slot, size_t bytes, size_t alignment) {
    arena.static_bytes = (arena.static_bytes + alignment - 1) / alignment * alignment + bytes;
    const std::string excess = shared_excess(arena.static_bytes, arena.dynamic_bytes, arena.opt_in_bytes);
    if (!excess.empty()) fatal(cudaErrorInvalidValue, "invalid_launch", slot.file, slot.line, "%s", excess.c_str());
    slot.address = add_region(slot.name, bytes, alignment);
    slot.launch = arena.launch;
}

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
