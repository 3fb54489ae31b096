// __pipeline_memcpy_async and its commit and wait. A copy lands at the latest moment that CUDA allows, at the wait of
// the thread that issued it, and until then its destination holds poison; in shuffled order about half of the copies,
// chosen by the seed, land at the earliest moment instead, when they are issued.
#pragma once
#pragma GCC system_header

#include <stdint.h>

#include "cuda_runtime.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

void issue_copy(void* destination, const void* source, size_t bytes, size_t zero_bytes, const char* file, int line);
void wait_for_groups(size_t prior);

}  // namespace gates_emulator

inline void __pipeline_memcpy_async(void* dst_shared, const void* src_global, size_t size_and_align, size_t zfill = 0,
                                    GATES_EMULATOR_SITE) {
    gates_emulator::issue_copy(dst_shared, src_global, size_and_align, zfill, file, line);
}
inline void __pipeline_commit() { ++gates_emulator::block.current->committed; }
inline void __pipeline_wait_prior(size_t prior) { gates_emulator::wait_for_groups(prior); }

#pragma GCC visibility pop
