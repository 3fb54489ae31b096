// Which registers operations read and write, and where values go.
#pragma once

#include <cstdint>
#include <vector>

#include "program.h"

namespace gates_cpu {

// Slots that the operation writes and reads, of those that `known` has.
template <class Known> void slots_of(const Op& op, Known known, std::vector<std::uint32_t>& reads, std::vector<std::uint32_t>& writes) {
    for (const std::uint32_t slot : {op.d, op.d2}) {
        if (slot != kNowhere && known(slot)) writes.push_back(slot);
    }
    for (const std::uint32_t slot : {op.a, op.b, op.c}) {
        if (slot != kNowhere && known(slot)) reads.push_back(slot);
    }
    if (op.extra == nullptr || op.extra->kind == kOffsets) return;
    for (const std::uint32_t slot : op.extra->slots) {
        if (slot != kNowhere && known(slot)) (op.fills ? writes : reads).push_back(slot);
    }
}

// Whether what the load `op` reads decides branches alone, and what is compared and swapped: no address and no stored value hangs on it.
bool only_decides(const Program& program, std::int32_t op);

}  // namespace gates_cpu
