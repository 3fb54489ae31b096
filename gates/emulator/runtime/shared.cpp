// The arena of shared memory: room for its variables, red zones around them, and the check of these.
#include <sys/mman.h>

#include "gates_emulator/shared.h"

namespace gates_emulator {

constexpr size_t kRedZone = 256;
constexpr size_t kArenaBytes = 4 << 20;
constexpr unsigned char kRedZonePattern = 0xFD;

struct Region {
    char* begin;
    size_t bytes;
    const char* name;
};

Arena arena;

struct Layout {
    char* next = nullptr;  // start of free space, right after a red zone
    size_t static_bytes = 0, dynamic_bytes = 0, opt_in_bytes = 0;
    std::vector<Region> regions;
};

Layout layout;  // of the arena

bool sanitized() { return __asan_poison_memory_region != nullptr; }

GATES_EMULATOR_COLD char* add_region(const char* name, size_t bytes, size_t alignment) {
    uintptr_t start = reinterpret_cast<uintptr_t>(layout.next);
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
        memset(layout.next, kRedZonePattern, static_cast<size_t>(begin - layout.next));
        memset(begin + bytes, kRedZonePattern, kRedZone);
    }
    fill_poison(begin, bytes);
    layout.regions.push_back({begin, bytes, name});
    layout.next = begin + bytes + kRedZone;
    return begin;
}

GATES_EMULATOR_COLD void open_arena(size_t dynamic_bytes, size_t opt_in_bytes) {
    if (!arena.memory) {
        void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) abort();
        arena.memory = static_cast<char*>(memory);
    }
    if (sanitized()) poison(arena.memory, kArenaBytes);
    layout.next = arena.memory + kRedZone;
    layout.regions.clear();
    ++arena.launch;
    layout.static_bytes = 0;
    layout.dynamic_bytes = dynamic_bytes;
    layout.opt_in_bytes = opt_in_bytes;
    if (!sanitized()) memset(arena.memory, kRedZonePattern, kRedZone);
    arena.dynamic = add_region("dynamic shared memory", dynamic_bytes, 128);
}

// Before each block.
void poison_arena() {
    for (const Region& region : layout.regions) fill_poison(region.begin, region.bytes);
}

// After each block: a write past a variable has changed the pattern around it.
GATES_EMULATOR_COLD void check_red_zones() {
    if (sanitized()) return;
    for (const Region& region : layout.regions) {
        char* end = region.begin + region.bytes;
        size_t after = 0, before = 0;
        while (after < kRedZone && static_cast<unsigned char>(end[after]) == kRedZonePattern) ++after;
        while (before < 8 && static_cast<unsigned char>(region.begin[-1 - static_cast<long>(before)]) == kRedZonePattern) ++before;
        if (after == kRedZone && before == 8) continue;
        add_finding("shared_out_of_bounds", nullptr, 0, "a write outside %s (%zu bytes): %zu bytes %s", region.name, region.bytes,
                    after < kRedZone ? after : before + 1, after < kRedZone ? "past its end" : "before its start");
        report.sticky_error = cudaErrorIllegalAddress;
        block.aborted = true;
        return;
    }
}

bool in_arena(const void* address) {
    const char* p = static_cast<const char*>(address);
    return p >= arena.memory && p < arena.memory + kArenaBytes;
}

bool in_one_region(const void* address, size_t bytes) {
    const char* p = static_cast<const char*>(address);
    for (const Region& region : layout.regions)
        if (p >= region.begin && p + bytes <= region.begin + region.bytes) return true;
    return false;
}

// Static + dynamic bytes against what a block may have; an empty text if they fit.
GATES_EMULATOR_COLD std::string shared_excess(size_t static_bytes, size_t dynamic_bytes, size_t opt_in_bytes) {
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

void allocate_static(SharedSlot& slot, size_t bytes, size_t alignment) {
    layout.static_bytes = (layout.static_bytes + alignment - 1) / alignment * alignment + bytes;
    const std::string excess = shared_excess(layout.static_bytes, layout.dynamic_bytes, layout.opt_in_bytes);
    if (!excess.empty()) fatal(cudaErrorInvalidValue, "invalid_launch", slot.file, slot.line, "%s", excess.c_str());
    slot.address = add_region(slot.name, bytes, alignment);
    slot.launch = arena.launch;
}

}  // namespace gates_emulator
