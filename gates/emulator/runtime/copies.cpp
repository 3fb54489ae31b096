// Asynchronous copies of threads: issued, landed, waited for.
#include "cuda_pipeline_primitives.h"

namespace gates_emulator {

struct AsyncCopy {
    char* destination;
    const char* source;
    unsigned bytes, zero_bytes, group;
    bool landed;
    const char* file;
    int line;
};

std::vector<AsyncCopy> copies[kMaxThreads];  // by Thread::linear: issued and not landed, oldest first

// Read through volatile: the source must be readable when the copy is issued, so that a bad address is reported there.
void touch(const char* source, unsigned bytes) {
    const volatile char* p = source;
    for (unsigned i = 0; i < bytes; ++i) (void)p[i];
}

void land(AsyncCopy& copy) {
    if (copy.landed) return;
    const unsigned from_source = copy.bytes - copy.zero_bytes;
    memcpy(copy.destination, copy.source, from_source);
    memset(copy.destination + from_source, 0, copy.zero_bytes);
    copy.landed = true;
}

void issue_copy(void* destination, const void* source, size_t bytes, size_t zero_bytes, const char* file, int line) {
    const char* what = "__pipeline_memcpy_async";
    if (bytes != 4 && bytes != 8 && bytes != 16)
        fatal(cudaErrorLaunchFailure, "bad_copy", file, line,
              "%s of %zu bytes: 4, 8 or 16 are possible", what, bytes);
    if (zero_bytes > bytes)
        fatal(cudaErrorLaunchFailure, "bad_copy", file, line,
              "%s of %zu bytes with zfill %zu", what, bytes, zero_bytes);
    if (reinterpret_cast<uintptr_t>(destination) % bytes || reinterpret_cast<uintptr_t>(source) % bytes)
        fatal(cudaErrorMisalignedAddress, "misaligned_copy", file, line,
              "%s of %zu bytes: its %s is not aligned to them", what, bytes,
              reinterpret_cast<uintptr_t>(destination) % bytes ? "destination" : "source");
    if (!in_arena(destination))
        fatal(cudaErrorInvalidAddressSpace, "bad_copy", file, line,
              "%s to an address that is not in shared memory", what);
    if (!in_one_region(destination, bytes))
        fatal(cudaErrorIllegalAddress, "shared_out_of_bounds", file, line,
              "%s of %zu bytes to outside any shared variable", what, bytes);
    Thread& self = *block.current;
    const Fiber& fiber = fibers[self.linear];
    const bool local = source >= fiber.bottom && source < fiber.bottom + fiber.bytes;
    if (in_arena(source) || local)
        fatal(cudaErrorInvalidAddressSpace, "bad_copy", file, line, "%s from %s memory; the source must be global", what,
              local ? "local" : "shared");
    touch(static_cast<const char*>(source), static_cast<unsigned>(bytes - zero_bytes));
    AsyncCopy copy{static_cast<char*>(destination), static_cast<const char*>(source), static_cast<unsigned>(bytes),
                   static_cast<unsigned>(zero_bytes), self.committed, false, file, line};
    if (settings.order == kShuffled && next_random() >> 63)
        land(copy);
    else
        fill_poison(destination, bytes);
    copies[self.linear].push_back(copy);
}

// All but the newest `prior` committed groups; copies that are not committed are not waited for.
void wait_for_groups(size_t prior) {
    Thread& self = *block.current;
    const unsigned groups = self.committed > prior ? self.committed - static_cast<unsigned>(prior) : 0;
    std::vector<AsyncCopy>& issued = copies[self.linear];
    size_t count = 0;
    while (count < issued.size() && issued[count].group < groups) land(issued[count++]);
    issued.erase(issued.begin(), issued.begin() + static_cast<long>(count));
}

// A thread returns with asynchronous copies under way: harmless on a device only if nobody needed them.
GATES_EMULATOR_COLD void report_open_copies(Thread& thread) {
    const AsyncCopy& copy = copies[thread.linear].front();
    add_finding("copy_never_waited_for", copy.file, copy.line, "a thread returned without %s this asynchronous copy",
                copy.group < thread.committed ? "waiting for" : "committing");
    copies[thread.linear].clear();
}

}  // namespace gates_emulator
