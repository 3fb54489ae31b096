// Races in a CTA's shared memory: who touched a byte last, and whether a barrier lies between.
#pragma once

#include <cstdint>
#include <vector>

namespace gates_cpu {

struct Warp;
struct Op;

struct Races {
    struct Touch { std::uint32_t clock = 0; std::int32_t op = -1; std::uint8_t warp = 0, lane = 0; std::uint16_t round = 0; };
    struct Granule { Touch write; Touch read; bool many_readers = false, atomic_write = false; };

    void begin(std::uint32_t bytes, unsigned warps);
    void access(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, bool write, bool atomic);
    void arrive(const Warp& warp, unsigned barrier);
    void leave(const Warp& warp, unsigned barrier);
    void passed(unsigned barrier);
    void lanes_met(const Warp& warp);        // bar.warp.sync

  private:
    unsigned warps_ = 0;
    std::vector<std::vector<std::uint32_t>> clocks_;   // of each warp: what it knows of the others
    std::vector<std::vector<std::uint32_t>> barriers_; // what those that arrived know
    std::vector<std::uint16_t> rounds_;                // bar.warp.sync passed by the warp
    std::vector<Granule> granules_;
    void conflict(Warp& warp, const Op& op, unsigned lane, const Touch& other, bool write, bool other_write, std::uint32_t address);
    bool before(const Touch& touch, const Warp& warp, unsigned lane) const;
};

}  // namespace gates_cpu
