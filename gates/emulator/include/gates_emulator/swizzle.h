// Swizzles of shared memory, as the copy engine writes and wgmma reads them, and wgmma's matrix descriptors.
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

// A matrix descriptor of the PTX ISA ("Matrix descriptor format"), taken apart. Offsets in bytes.
struct MatrixDescriptor {
    unsigned start, leading, stride, base, swizzle;
    bool reserved;  // a bit that must be 0 is not

    explicit MatrixDescriptor(u_int64_t bits)
        : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
          base(bits >> 49 & 7), swizzle(static_cast<unsigned>(bits >> 62)), reserved(bits & 0x3ff1c000c000c000ULL) {}

    // Address of a chunk of 8 halves: elements 8 * chunk to 8 * chunk + 7 of row `row` along the contiguous dimension, which is
    // K where `k_major` and M or N else. PTX ISA, "Canonical layouts".
    unsigned chunk(unsigned row, unsigned chunk, bool k_major) const {
        const unsigned width = 1u << swizzle_bits(swizzle);  // chunks of a row of an atom
        unsigned address = start + row % 8 * width * 16;
        if (k_major) {
            address += row / 8 * stride + chunk * (swizzle == kSwizzleNone ? leading : 16);
        } else if (swizzle == kSwizzleNone) {
            address += row / 8 * leading + chunk * stride;
        } else {
            address += row / 8 * stride + chunk / width * leading + chunk % width * 16;
        }
        return swizzled(address & 0x3ffff, swizzle);
    }
};

}  // namespace gates_emulator
#pragma GCC visibility pop
