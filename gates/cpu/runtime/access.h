// Addresses of lanes to bytes of this machine, with every rule of memory checked.
#pragma once

#include "cta.h"

namespace gates_cpu {

enum class Use : std::uint8_t { Read, Write, Atomic };

// Where the lane's `bytes` at `address` of `space` lie; null after a finding. A read of bytes that nobody wrote is a finding, too,
// and hands back the bytes as they are.
std::uint8_t* resolve(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Space space, Use use);

// The lane's address: op.a plus op.imm.
inline std::uint64_t address_of(Warp& warp, const Op& op, unsigned lane) {
    const std::uint64_t base = op.extra->wide_address ? warp.lanes<std::uint64_t>(op.a)[lane] : warp.lanes<std::uint32_t>(op.a)[lane];
    return base + static_cast<std::uint64_t>(op.imm);
}

std::uint8_t* shared_bytes(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, Use use);

// How the race detector of global memory is told; does nothing if it is off.
void touch_global(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Use use);

struct Checks {  // of the whole device
    bool uninitialised = true, races = true;
};
extern Checks checks;

}  // namespace gates_cpu
