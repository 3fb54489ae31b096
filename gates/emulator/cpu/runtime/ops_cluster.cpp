// barrier.cluster, and addresses in the shared memory of other CTAs: mapa, getctarank.
#include "cluster.h"
#include "ops.h"

namespace gates_cpu {
namespace {

void arrive(Warp& warp, const Op& op) { warp.cta->cluster->arrive(warp, op, op.mode == 0); }
void wait(Warp& warp, const Op& op) { warp.cta->cluster->wait(warp, op); }

// op.b: the rank. The address of the same place in that CTA's shared memory, within the window or generic.
template <class S> void map_address(Warp& warp, const Op& op) {
    const S* const a = warp.lanes<S>(op.a);
    const std::uint32_t* const rank = warp.lanes<std::uint32_t>(op.b);
    each_lane<S>(warp, op.d, [&](unsigned i) {
        const S kept = a[i] & ~static_cast<S>(0xff000000u);
        return static_cast<S>(kept | static_cast<S>((rank[i] < 0xff ? rank[i] + 1 : 0xffu) << kRankShift));
    });
}

template <class S> void rank_of(Warp& warp, const Op& op) {
    const S* const a = warp.lanes<S>(op.a);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const std::uint32_t rank = static_cast<std::uint32_t>(a[i]) >> kRankShift;
        return rank == 0 ? warp.cta->rank : rank - 1;
    });
}

// mapa{.shared::cluster}.u32 d, a, b   getctarank{.shared::cluster}.u32 d, a
void of_address(Decoder& decoder, Modifiers& modifiers) {
    const bool maps = decoder.instruction().opcode.front() == "mapa", in_window = modifiers.take("shared::cluster");
    const Type type = modifiers.take_type();
    const bool wide = maps ? bytes_of(type) == 8 : !in_window;
    if (!in_window && !wide) decoder.unsupported("32-bit generic addresses");
    const std::uint32_t a = decoder.source(1, wide ? Type::B64 : Type::B32), b = maps ? decoder.source(2, Type::U32) : kNowhere,
                        d = decoder.destination(0, maps && wide ? Type::B64 : Type::B32);
    const Handler handlers[2][2] = {{rank_of<std::uint32_t>, rank_of<std::uint64_t>}, {map_address<std::uint32_t>, map_address<std::uint64_t>}};
    Op& op = decoder.emit(handlers[maps][wide]);
    op.d = d;
    op.a = a;
    op.b = b;
}

const OpcodeTable table = {{"mapa", of_address}, {"getctarank", of_address}};

}  // namespace

// barrier.cluster.arrive{.release, .relaxed}{.aligned}   barrier.cluster.wait{.acquire}{.aligned}
void cluster_barrier(Decoder& decoder, Modifiers& modifiers) {
    const bool arrives = modifiers.take_one_of({"arrive", "wait"}) == "arrive";
    const bool relaxed = modifiers.take_one_of({"release", "relaxed", "acquire"}) == "relaxed";
    modifiers.take("aligned");
    decoder.emit(arrives ? arrive : wait).mode = relaxed;
}

}  // namespace gates_cpu
