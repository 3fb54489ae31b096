// A cluster: CTAs that run together, reach one another's shared memory and meet at a barrier. A launch without clusters has clusters of one.
#pragma once

#include "cta.h"

namespace gates_cpu {

// A shared address of 32 bits holds the rank of its CTA in the cluster, plus one, above the offset; 0 there is the CTA's own.
constexpr unsigned kRankShift = 24;
constexpr std::uint32_t kOffsetBits = (1u << kRankShift) - 1;
constexpr unsigned kMostCtasOfCluster = 16, kPortableCtasOfCluster = 8;

struct Cluster {
    std::vector<std::unique_ptr<Cta>> ctas;    // by rank

    void start(Launch& launch, std::uint64_t number);
    bool run(std::uint64_t operations);        // true: all have ended
    Cta* at(std::uint32_t rank) const { return rank < ctas.size() ? ctas[rank].get() : nullptr; }
    // Of barrier.cluster, the executing lanes.
    void arrive(Warp& warp, const Op& op, bool releases);
    void wait(Warp& warp, const Op& op);
    void left(const Cta& cta);                 // some of its threads have ended

  private:
    Launch* launch_ = nullptr;
    std::shared_ptr<Races> races_;
    std::uint32_t phase_ = 0;
    std::vector<unsigned> order_;
    void check();
    bool alone() const { return ctas.size() == 1; }
};

// The CTA whose shared memory `address` names, and the offset there: `cta` itself, or another of its cluster; null if there is none.
struct SharedPlace {
    Cta* owner;
    std::uint32_t offset;
};
inline SharedPlace shared_owner(Cta& cta, std::uint32_t address) {
    const std::uint32_t rank = address >> kRankShift;
    return {rank == 0 ? &cta : cta.cluster->at(rank - 1), address & kOffsetBits};
}

}  // namespace gates_cpu
