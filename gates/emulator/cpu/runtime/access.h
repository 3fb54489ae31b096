// Addresses of lanes to bytes of this machine, with every rule of memory checked.
#pragma once

#include "cta.h"

namespace gates_cpu {

enum class Use : std::uint8_t { Read, Write, Atomic };
enum class Atomic : std::uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor, Exch, Cas };

// Updates `bytes` of elements at `at` with those at `with`, each at once. Sums of f32 in global memory flush subnormals.
void update(std::uint8_t* at, const std::uint8_t* with, unsigned bytes, Atomic what, Type type, bool global);

// Where the lane's `bytes` at `address` of `space` lie; null after a finding. A read of bytes that nobody wrote is a finding, too,
// and hands back the bytes as they are.
std::uint8_t* resolve(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Space space, Use use, unsigned alignment = 0);

// The lane's address: op.a plus op.imm.
inline std::uint64_t address_of(Warp& warp, const Op& op, unsigned lane) {
    const std::uint64_t base = op.extra->wide_address ? warp.lanes<std::uint64_t>(op.a)[lane] : warp.lanes<std::uint32_t>(op.a)[lane];
    return base + static_cast<std::uint64_t>(op.imm);
}

// Whose shared memory `address` names, which becomes an offset in it; null after a finding.
Cta* shared_cta(Warp& warp, const Op& op, unsigned lane, std::uint32_t& address);
std::uint8_t* shared_bytes(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, Use use, unsigned alignment = 0);

// What to add to a finding about an address in dynamic shared memory that is not aligned to `needed`; empty if its declaration asks for that.
std::string as_declared(const Warp& warp, std::uint32_t address, unsigned needed);

// 16 bytes of shared memory that an engine of its own reads: bounds and initialisation are checked, no race is noted.
const std::uint8_t* readable_chunk(Warp& warp, const Op& op, std::uint32_t address);

// The quick way for a whole warp: where the bytes of all executing lanes lie, if all are in shared or all in global memory and
// nothing is wrong; else false, and nothing was noted. Other lanes get the place of one that executes.
bool lane_places(Warp& warp, const Op& op, unsigned bytes, Use use, std::uint8_t* (&places)[kLanes]);

// Quicker still, for loads of `words` 32-bit words by all 32 lanes with races off: true if they were loaded.
bool load_words(Warp& warp, const Op& op, unsigned words);

// The bytes there, if they are shared or global memory and something wrote them; else null. Checks and notes nothing.
const std::uint8_t* written_bytes(const Warp& warp, Space space, std::uint64_t address, unsigned bytes);

struct Checks {  // of the whole device
    bool uninitialised = true, races = true;
    std::uint64_t approximations = 0;  // a seed of their errors; 0: as exact as this machine's
};
extern Checks checks;

}  // namespace gates_cpu
