// What the lanes of a warp do together: shuffles, votes, matches, reductions.
#include "ops.h"

namespace gates_cpu {
namespace {

std::uint32_t members(Warp& warp, std::uint32_t slot) { return warp.lanes<std::uint32_t>(slot)[__builtin_ctz(warp.exec)]; }

// True if the lanes that op.extra->slots[0] names are here; says what is wrong with the mask.
bool gathered(Warp& warp, const Op& op) {
    const std::uint32_t mask = members(warp, op.extra->slots[0]);
    if ((mask & warp.exec) != warp.exec) {
        // Lanes of another call: each group of one mask runs by itself.
        const std::uint32_t* const masks = warp.lanes<std::uint32_t>(op.extra->slots[0]);
        std::uint32_t same = 0;
        for (unsigned i = 0; i < kLanes; ++i) same |= static_cast<std::uint32_t>((warp.exec >> i & 1) != 0 && masks[i] == mask) << i;
        if (same == warp.exec || (mask & same) != same) {
            warp.cta->launch->report(&warp, op.place, static_cast<unsigned>(__builtin_ctz(warp.exec)), "cpu.sync_mask",
                                     "the mask of a warp's exchange leaves out lanes that run it");
            return true;
        }
        const std::uint32_t here = warp.pc - 1, rest = warp.exec & ~same;
        warp.exec = rest;
        warp.part(rest, here);
        warp.exec = same;
        return warp.together(op, mask);
    }
    return warp.together(op, mask);
}

// shfl.sync.MODE.b32 d[|p], a, b, c, mask
template <int mode> void shuffle(Warp& warp, const Op& op) {
    if (!gathered(warp, op)) return;
    const std::uint32_t *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    std::uint32_t from[kLanes];
    std::memcpy(from, warp.lanes<std::uint32_t>(op.a), sizeof from);
    alignas(64) std::int32_t others[kLanes], holds[kLanes];
    for (int me = 0; me < static_cast<int>(kLanes); ++me) {
        const int by = static_cast<int>(b[me] & 31), clamp = static_cast<int>(c[me] & 31), segments = static_cast<int>(c[me] >> 8 & 31);
        const int least = me & segments, most = least | (clamp & ~segments);
        const int other = mode == 0 ? me - by : mode == 1 ? me + by : mode == 2 ? me ^ by : least | (by & ~segments);  // up, down, bfly, idx
        const bool held = mode == 0 ? other >= most : other <= most;
        others[me] = held ? other : me;
        holds[me] = -static_cast<int>(held);
    }
    const std::uint32_t valid = lane_bits(holds);
    if (warp.exec != kAllLanes) {
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (!(warp.exec >> lane & 1) || (warp.exec >> others[lane] & 1)) continue;
            warp.cta->launch->report(&warp, op.place, lane, "cpu.shuffle_inactive", "a shuffle reads lane " + std::to_string(others[lane]) + ", which does not take part");
            from[others[lane]] = kAllLanes;
        }
    }
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return from[others[i]]; });
    if (op.d2 != kNowhere) set_predicate(warp, op.d2, valid);
}

void shuffle_decode(Decoder& decoder, Modifiers& modifiers) {
    if (!modifiers.take("sync")) decoder.unsupported("without .sync");
    const std::string mode = modifiers.take_one_of({"up", "down", "bfly", "idx"});
    modifiers.take_type();
    const std::uint32_t a = decoder.source(1, Type::B32), b = decoder.source(2, Type::B32), c = decoder.source(3, Type::B32), mask = decoder.source(4, Type::B32),
                        d = decoder.destination(0, Type::B32);
    Op& op = decoder.emit(mode == "up" ? shuffle<0> : mode == "down" ? shuffle<1> : mode == "bfly" ? shuffle<2> : shuffle<3>);
    op.d = d;
    op.d2 = decoder.second_destination(decoder.operand(0));
    op.a = a;
    op.b = b;
    op.c = c;
    decoder.extra(op).slots = {mask};
}

// vote.sync.MODE d, [!]a, mask: op.mode 0 all, 1 any, 2 uni, 3 ballot
void vote(Warp& warp, const Op& op) {
    if (!gathered(warp, op)) return;
    const std::uint32_t held = (op.extra->flags[0] ? ~warp.mask_at(op.a) : warp.mask_at(op.a)) & warp.exec;
    if (op.mode == 3) {
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned) { return held; });
        return;
    }
    const bool result = op.mode == 0 ? held == warp.exec : op.mode == 1 ? held != 0 : held == 0 || held == warp.exec;
    set_predicate(warp, op.d, result ? kAllLanes : 0);
}

void vote_decode(Decoder& decoder, Modifiers& modifiers) {
    if (!modifiers.take("sync")) decoder.unsupported("without .sync");
    const std::string mode = modifiers.take_one_of({"all", "any", "uni", "ballot"});
    modifiers.take_any();
    bool negated = false;
    const std::uint32_t a = decoder.predicate(decoder.operand(1), negated), mask = decoder.source(2, Type::B32);
    Op& op = decoder.emit(vote);
    op.d = decoder.raw(decoder.operand(0));
    op.a = a;
    op.mode = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
    Extra& extra = decoder.extra(op);
    extra.slots = {mask};
    extra.flags[0] = negated;
}

template <class S> void match(Warp& warp, const Op& op) {
    if (!gathered(warp, op)) return;
    const S* const a = warp.lanes<S>(op.a);
    std::uint32_t found[kLanes] = {};
    for (unsigned i = 0; i < kLanes; ++i) {
        for (unsigned j = 0; j < kLanes; ++j) found[i] |= static_cast<std::uint32_t>((warp.exec >> j & 1) != 0 && a[i] == a[j]) << j;
    }
    if (op.mode == 0) {
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return found[i]; });
        return;
    }
    const bool all = found[__builtin_ctz(warp.exec)] == warp.exec;
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned) { return all ? warp.exec : 0; });
    if (op.d2 != kNowhere) set_predicate(warp, op.d2, all ? kAllLanes : 0);
}

void match_decode(Decoder& decoder, Modifiers& modifiers) {
    const bool all = modifiers.take_one_of({"any", "all"}) == "all";
    modifiers.take("sync");
    const Type type = modifiers.take_type();
    const std::uint32_t a = decoder.source(1, type), mask = decoder.source(2, Type::B32), d = decoder.destination(0, Type::B32);
    Op& op = decoder.emit(bytes_of(type) == 8 ? match<std::uint64_t> : match<std::uint32_t>);
    op.d = d;
    op.d2 = decoder.second_destination(decoder.operand(0));
    op.a = a;
    op.mode = all;
    decoder.extra(op).slots = {mask};
}

void reduce(Warp& warp, const Op& op) {
    if (!gathered(warp, op)) return;
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    std::uint32_t result = a[__builtin_ctz(warp.exec)];
    bool first = true;
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        if (first) { first = false; continue; }
        const std::int32_t x = static_cast<std::int32_t>(result), y = static_cast<std::int32_t>(a[i]);
        switch (op.mode) {
            case 0: result += a[i]; break;
            case 1: result = op.extra->flags[0] ? static_cast<std::uint32_t>(std::min(x, y)) : std::min(result, a[i]); break;
            case 2: result = op.extra->flags[0] ? static_cast<std::uint32_t>(std::max(x, y)) : std::max(result, a[i]); break;
            case 3: result &= a[i]; break;
            case 4: result |= a[i]; break;
            default: result ^= a[i]; break;
        }
    }
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned) { return result; });
}

void reduce_decode(Decoder& decoder, Modifiers& modifiers) {
    modifiers.take("sync");
    const char* const names[] = {"add", "min", "max", "and", "or", "xor"};
    std::uint8_t mode = 0;
    for (std::uint8_t i = 0; i < 6; ++i) if (modifiers.take(names[i])) mode = i;
    const Type type = modifiers.take_type();
    if (type == Type::F32) decoder.unsupported();
    const std::uint32_t a = decoder.source(1, type), mask = decoder.source(2, Type::B32), d = decoder.destination(0, type);
    Op& op = decoder.emit(reduce);
    op.d = d;
    op.a = a;
    op.mode = mode;
    Extra& extra = decoder.extra(op);
    extra.slots = {mask};
    extra.flags[0] = is_signed(type);
}

// elect.sync d|p, mask: the lowest lane
void elect(Warp& warp, const Op& op) {
    if (!gathered(warp, op)) return;
    const unsigned leader = static_cast<unsigned>(__builtin_ctz(warp.exec));
    if (op.d != kNowhere) each_lane<std::uint32_t>(warp, op.d, [&](unsigned) { return leader; });
    if (op.d2 != kNowhere) set_predicate(warp, op.d2, 1u << leader);
}

const OpcodeTable table = {
    {"shfl", shuffle_decode},
    {"vote", vote_decode},
    {"match", match_decode},
    {"redux", reduce_decode},
    {"elect", [](Decoder& d, Modifiers& m) {
         m.take("sync");
         const std::uint32_t mask = d.source(1, Type::B32);
         Op& op = d.emit(elect);
         op.d = d.operand(0).kind == Operand::Register ? d.raw(d.operand(0)) : kNowhere;
         op.d2 = d.second_destination(d.operand(0));
         d.extra(op).slots = {mask};
     }},
    {"activemask", [](Decoder& d, Modifiers& m) {
         m.take_type();
         const std::uint32_t to = d.destination(0, Type::B32);
         Op& op = d.emit([](Warp& warp, const Op& self) { each_lane<std::uint32_t>(warp, self.d, [&](unsigned) { return warp.exec; }); });
         op.d = to;
     }},
};

}  // namespace
}  // namespace gates_cpu
