#include "dataflow.h"

#include <algorithm>

namespace gates_cpu {

bool only_decides(const Program& program, std::int32_t op) {
    std::vector<bool> follows(program.register_bytes + 1, false);
    const auto of_it = [&](std::uint32_t slot) { return slot < follows.size() && follows[slot]; };
    const auto all = [](std::uint32_t) { return true; };
    std::vector<std::uint32_t> reads, writes;
    slots_of(program.ops[static_cast<std::size_t>(op)], all, reads, writes);
    for (const std::uint32_t slot : writes) follows[slot] = true;
    for (bool more = true; more;) {
        more = false;
        for (const Op& next : program.ops) {
            reads.clear();
            writes.clear();
            slots_of(next, all, reads, writes);
            const bool guarded = next.guard != kNowhere && of_it(next.guard), taken = std::any_of(reads.begin(), reads.end(), of_it);
            if (!guarded && !taken) continue;
            const bool swaps = next.extra != nullptr && next.extra->flags[kCompares];
            if (swaps && !of_it(next.a)) continue;  // what it returns is right
            const bool accesses = next.extra != nullptr && next.extra->bytes != 0;
            if (accesses && (taken || !next.fills)) return false;
            if (taken && writes.empty()) return false;
            for (const std::uint32_t slot : writes) {
                more |= !follows[slot];
                follows[slot] = true;
            }
        }
    }
    return true;
}

}  // namespace gates_cpu
