// Swizzles of shared memory, as the copy engine writes and wgmma reads them.
//
// A swizzle of 2^bits chunks of 16 bytes XORs address bits 4 to 3 + bits with bits 7 to 6 + bits (CUTLASS's Swizzle<bits, 4, 3>,
// by which the PTX ISA defines the canonical layouts). It goes by the address itself: that is why tiles must be aligned.
#pragma once
#pragma GCC system_header

#include "mbarrier.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

// As numbered in wgmma's matrix descriptors.
enum SwizzleMode { kSwizzleNone = 0, kSwizzle128 = 1, kSwizzle64 = 2, kSwizzle32 = 3 };

constexpr unsigned swizzle_bits(unsigned mode) { return mode == kSwizzleNone ? 0 : 4 - mode; }

constexpr unsigned swizzled(unsigned address, unsigned mode) {
    return address ^ ((address >> 7 & ((1u << swizzle_bits(mode)) - 1)) << 4);
}

inline char* at_shared_address(unsigned address) { return arena.memory + address; }

}  // namespace gates_emulator
#pragma GCC visibility pop
