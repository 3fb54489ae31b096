// __pipeline_memcpy_async and its commit and wait. A copy lands at the latest moment that CUDA allows, at the wait of
// the thread that issued it, and until then its destination holds poison; in shuffled order about half of the copies,
// chosen by the seed, land at the earliest moment instead, when they are issued.
#pragma once
#pragma GCC system_header

#include "cuda_runtime.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

// Read through volatile: the source must be readable when the copy is issued, so that a bad address is reported there.
inline void touch(const char* source, unsigned bytes) {
    const volatile char* p = source;
    for (unsigned i = 0; i < bytes; ++i) (void)p[i];
}

inline void land(AsyncCopy& copy) {
    if (copy.landed) return;
    const unsigned from_source = copy.bytes - copy.zero_bytes;
    memcpy(copy.destination, copy.source, from_source);
    memset(copy.destination + from_source, 0, copy.zero_bytes);
    copy.landed = true;
}

__attribute__((noinline)) inline void issue_copy(void* destination, const void* source, size_t bytes, size_t zero_bytes, const char* file, int line) {
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
    const char* const stack = self.fiber.bottom;
    const bool local = source >= stack && source < stack + self.fiber.bytes;
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
    self.copies.push_back(copy);
}

// All but the newest `prior` committed groups; copies that are not committed are not waited for.
__attribute__((noinline)) inline void wait_for_groups(size_t prior) {
    Thread& self = *block.current;
    const unsigned groups = self.committed > prior ? self.committed - static_cast<unsigned>(prior) : 0;
    size_t count = 0;
    while (count < self.copies.size() && self.copies[count].group < groups) land(self.copies[count++]);
    self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<long>(count));
}

}  // namespace gates_emulator

inline void __pipeline_memcpy_async(void* dst_shared, const void* src_global, size_t size_and_align, size_t zfill = 0,
                                    GATES_EMULATOR_SITE) {
    gates_emulator::issue_copy(dst_shared, src_global, size_and_align, zfill, file, line);
}
inline void __pipeline_commit() { ++gates_emulator::block.current->committed; }
inline void __pipeline_wait_prior(size_t prior) { gates_emulator::wait_for_groups(prior); }

#pragma GCC visibility pop
