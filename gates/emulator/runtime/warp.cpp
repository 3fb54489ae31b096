// Meetings of a warp's lanes.
#include "gates_emulator/warp.h"

namespace gates_emulator {

inline void finish_meeting(Warp& warp, unsigned slot) {
    Meeting& meeting = warp.meeting[slot];
    if (meeting.combine) meeting.combine(warp, meeting.arrived);
    warp.meetings &= ~(1u << slot);
    reorder_lanes(warp);
    make_ready(static_cast<unsigned>(&warp - block.warps), meeting.arrived);
}

inline unsigned find_meeting(Warp& warp, unsigned mask, const char* what, const char* file, int line,
                             void (*combine)(Warp&, unsigned)) {
    for (unsigned rest = warp.meetings; rest; rest &= rest - 1) {
        const unsigned slot = __builtin_ctz(rest);
        const Meeting& meeting = warp.meeting[slot];
        if (meeting.mask != mask) continue;
        if (meeting.what != what && strcmp(meeting.what, what) != 0)
            fatal(cudaErrorLaunchFailure, "warp_divergence", file, line,
                  "%s while other lanes of the warp wait in %s at %s:%d", what, meeting.what, meeting.file, meeting.line);
        if (!same_place(meeting.file, meeting.line, file, line))
            fatal(cudaErrorLaunchFailure, "warp_divergence", file, line,
                  "%s here while other lanes of the warp wait in theirs at %s:%d", what, meeting.file, meeting.line);
        return slot;
    }
    const unsigned slot = __builtin_ctz(~warp.meetings);
    warp.meetings |= 1u << slot;
    warp.meeting[slot] = {mask, 0, what, file, line, combine};
    return slot;
}

uint64_t meet(unsigned mask, const char* what, uint64_t value, uint64_t operand, void (*combine)(Warp&, unsigned), const char* file,
              int line) {
    Thread& self = *block.current;
    Warp& warp = block.warps[self.warp];
    const unsigned bit = 1u << self.lane;
    if (!(mask & bit))
        fatal(cudaErrorLaunchFailure, "warp_mask", file, line,
              "%s: the calling lane is not in its own mask 0x%08x", what, mask);
    const unsigned slot = find_meeting(warp, mask, what, file, line, combine);
    Meeting& meeting = warp.meeting[slot];
    warp.value[self.lane] = value;
    warp.operand[self.lane] = operand;
    meeting.arrived |= bit;
    wait_in(what, file, line);
    if (meeting.arrived == (mask & ~warp.exited)) finish_meeting(warp, slot);
    give_way();
    return warp.result[self.lane];
}

unsigned active_lanes(const char* file, int line) {
    Thread& self = *block.current;
    block.warps[self.warp].asking |= 1u << self.lane;
    wait_in("__activemask", file, line);
    give_way();
    return static_cast<unsigned>(block.warps[self.warp].result[self.lane]);
}

// A lane has returned: meetings that waited only for it can take place.
inline void release_meetings(Warp& warp) {
    for (unsigned rest = warp.meetings; rest; rest &= rest - 1) {
        const unsigned slot = __builtin_ctz(rest);
        const Meeting& meeting = warp.meeting[slot];
        if (meeting.arrived == (meeting.mask & ~warp.exited)) finish_meeting(warp, slot);
    }
}

void combine_ballot(Warp& warp, unsigned lanes) {
    unsigned votes = 0;
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        if (warp.value[__builtin_ctz(rest)]) votes |= rest & -rest;
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        warp.result[__builtin_ctz(rest)] = static_cast<uint64_t>(lanes) << 32 | votes;
}

void combine_match(Warp& warp, unsigned lanes) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        const unsigned lane = __builtin_ctz(rest);
        unsigned same = 0;
        for (unsigned others = lanes; others; others &= others - 1)
            if (warp.value[__builtin_ctz(others)] == warp.value[lane]) same |= others & -others;
        warp.result[lane] = static_cast<uint64_t>(lanes) << 32 | same;
    }
}

}  // namespace gates_emulator
