#include "races.h"

#include <algorithm>

#include "cta.h"

namespace gates_cpu {

void Races::begin(std::uint32_t bytes, unsigned warps) {
    warps_ = warps;
    clocks_.assign(warps, std::vector<std::uint32_t>(warps, 0));
    for (unsigned w = 0; w < warps; ++w) clocks_[w][w] = 1;
    barriers_.assign(16, std::vector<std::uint32_t>(warps, 0));
    rounds_.assign(warps, 0);
    granules_.assign(bytes, {});
}

bool Races::before(const Touch& touch, const Warp& warp, unsigned lane) const {
    if (touch.op < 0 || touch.clock == 0) return true;
    if (touch.warp == warp.index) {
        return touch.lane == lane || touch.round != rounds_[warp.index] || touch.clock < clocks_[warp.index][warp.index];
    }
    return touch.clock <= clocks_[warp.index][touch.warp];
}

void Races::access(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, bool write, bool atomic) {
    const std::int32_t index = static_cast<std::int32_t>(&op - warp.program->ops.data());
    const Touch now{clocks_[warp.index][warp.index], index, static_cast<std::uint8_t>(warp.index), static_cast<std::uint8_t>(lane), rounds_[warp.index]};
    for (std::uint32_t at = address; at < address + bytes; ++at) {
        Granule& granule = granules_[at];
        if (!(atomic && granule.atomic_write) && !before(granule.write, warp, lane)) {
            const bool same_store = write && granule.write.op == index && granule.write.warp == warp.index;  // one instruction's lanes
            if (!same_store) return conflict(warp, op, lane, granule.write, write, true, at);
        }
        if (write) {
            if (!before(granule.read, warp, lane) && !(granule.read.op == index && granule.read.warp == warp.index)) {
                return conflict(warp, op, lane, granule.read, true, false, at);
            }
            granule.write = now;
            granule.atomic_write = atomic;
            granule.read = {};
            granule.many_readers = false;
        } else if (granule.read.op < 0 || before(granule.read, warp, lane)) {
            granule.read = now;  // an ordered earlier reader is dropped: whoever races with it races with this one, or is after it
        }
    }
}

void Races::conflict(Warp& warp, const Op& op, unsigned lane, const Touch& other, bool write, bool other_write, std::uint32_t address) {
    const char* const names[2] = {"reads", "writes"};
    warp.cta->launch->report(&warp, op.place, lane, "cpu.race_shared",
                             std::string(names[write]) + " shared memory at byte " + std::to_string(address - kSharedStart) + ", which thread " +
                                 std::to_string(other.warp * kLanes + other.lane) + " " + names[other_write] + " with no barrier between",
                             warp.program->ops[static_cast<std::size_t>(other.op)].place);
}

void Races::arrive(const Warp& warp, unsigned barrier) {
    std::vector<std::uint32_t>& known = barriers_[barrier];
    for (unsigned w = 0; w < warps_; ++w) known[w] = std::max(known[w], clocks_[warp.index][w]);
    ++clocks_[warp.index][warp.index];
}

void Races::leave(const Warp& warp, unsigned barrier) {
    for (unsigned w = 0; w < warps_; ++w) {
        clocks_[warp.index][w] = std::max(clocks_[warp.index][w], barriers_[barrier][w]);
    }
}

void Races::passed(unsigned barrier) { std::fill(barriers_[barrier].begin(), barriers_[barrier].end(), 0); }

void Races::lanes_met(const Warp& warp) { ++rounds_[warp.index]; }

}  // namespace gates_cpu
