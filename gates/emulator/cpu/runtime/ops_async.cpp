// Asynchronous copies of single threads (cp.async).
#include <algorithm>

#include "access.h"
#include "copies.h"
#include "hopper.h"

namespace gates_cpu {
namespace {

constexpr std::uint8_t kOnItsWay = 16;  // the shadow of bytes that a copy has been asked for

// Copies land in any order, so two of them may not be on their way to one place, unless they bring the same bytes there.
void report_overlap(Warp& warp, const Op& op, unsigned lane, std::uint32_t to, std::uint64_t from) {
    std::int32_t other = -1;
    for (const auto& copies : warp.cta->copies) {
        for (const Copy& copy : copies->pending) {
            const bool same = copy.from != 0 && from != 0 && copy.from - copy.to == from - to;
            if (!same && copy.to < to + op.extra->bytes && to < copy.to + copy.bytes) other = copy.place;
        }
    }
    if (other < 0) return;
    warp.cta->launch->report(&warp, op.place, lane, "cpu.race_shared",
                             "copies to byte " + std::to_string(to - kSharedStart) + " of shared memory, where another asynchronous copy may not have landed", other);
}

void land(Warp& warp, const Copy& copy) {
    std::uint8_t* const to = warp.cta->shared.data() + copy.to;
    std::memset(to, 0, copy.bytes);
    if (copy.filled != 0) std::memcpy(to, reinterpret_cast<const void*>(copy.from), copy.filled);
    std::memset(warp.cta->shared_shadow.data() + copy.to, kInitialised, copy.bytes);
}

// The executing lanes' copies of groups that are older than the newest `kept` ones.
void wait(Warp& warp, const Op& op) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    std::vector<Copy> left;
    for (const Copy& copy : copies.pending) {
        const bool here = warp.exec >> copy.lane & 1;
        const bool committed = op.mode == 1 || copy.group < copies.group[copy.lane];
        const std::uint32_t newer = copies.group[copy.lane] - copy.group;
        if (here && committed && (op.mode == 1 || newer > static_cast<std::uint32_t>(op.imm))) land(warp, copy);
        else left.push_back(copy);
    }
    copies.pending = std::move(left);
}

void commit(Warp& warp, const Op&) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    for (unsigned i = 0; i < kLanes; ++i) copies.group[i] += warp.exec >> i & 1;
}

// op.a, op.imm: the shared address; op.b: the global one; op.c: bytes to take; op.d2: a predicate that ignores the source.
void start(Warp& warp, const Op& op) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        const std::uint32_t to = static_cast<std::uint32_t>(address_of(warp, op, i));
        std::uint32_t taken = op.c == kNowhere ? op.extra->bytes : warp.lanes<std::uint32_t>(op.c)[i];
        if (op.d2 != kNowhere && (warp.mask_at(op.d2) >> i & 1) != 0) taken = 0;
        if (taken > op.extra->bytes) {
            warp.cta->launch->report(&warp, op.place, i, "cpu.copy_size", "an asynchronous copy takes more bytes than its size");
            continue;
        }
        const std::uint64_t from = warp.lanes<std::uint64_t>(op.b)[i] + static_cast<std::uint64_t>(op.extra->k);
        const std::uint8_t* source = nullptr;
        if (from % op.extra->bytes != 0) {
            warp.cta->launch->fault(&warp, op.place, i, "cpu.misaligned", "an asynchronous copy reads from an address that is no multiple of its size");
            continue;
        }
        if (taken != 0) {
            for (std::uint32_t done = 0; done < taken;) {  // pieces that a partial size keeps aligned
                const std::uint32_t piece = taken - done >= 16 ? 16 : taken - done >= 8 ? 8 : taken - done >= 4 ? 4 : 1;
                const std::uint8_t* const at = resolve(warp, op, i, from + done, piece, Space::Generic, Use::Read);
                if (at == nullptr) break;
                if (done == 0) source = at;
                done += piece;
            }
            if (source == nullptr) continue;
        }
        std::uint8_t* const shadow = warp.cta->shared_shadow.data() + std::min(to, warp.cta->shared_limit);  // it has room for one copy behind
        if (checks.races && std::find(shadow, shadow + op.extra->bytes, kOnItsWay) != shadow + op.extra->bytes) report_overlap(warp, op, i, to, reinterpret_cast<std::uint64_t>(source));
        std::uint8_t* const target = shared_bytes(warp, op, i, to, op.extra->bytes, Use::Write);
        if (target == nullptr) continue;
        std::memset(target, 0xff, op.extra->bytes);  // until it lands, nobody may read it
        std::memset(shadow, kOnItsWay, op.extra->bytes);
        copies.pending.push_back({i, to, reinterpret_cast<std::uint64_t>(source), op.extra->bytes, taken, copies.group[i], copies.started++, op.place});
    }
}

void copy(Decoder& decoder, Modifiers& modifiers) {
    const bool reduces = modifiers.take("reduce");
    if (!modifiers.take("async")) decoder.unsupported();
    if (modifiers.take("bulk")) return bulk_copy(decoder, modifiers, reduces);
    if (modifiers.take("commit_group")) {
        decoder.emit(commit);
        return;
    }
    if (modifiers.take("wait_group") || modifiers.take("wait_all")) {
        Op& op = decoder.emit(wait);
        op.mode = decoder.operands() == 0;
        op.imm = op.mode != 0 ? 0 : static_cast<std::int64_t>(decoder.operand(0).bits);
        return;
    }
    if (modifiers.take("mbarrier")) return arrival_of_copies(decoder, modifiers);
    modifiers.take_one_of({"ca", "cg"});
    modifiers.take_one_of({"shared", "shared::cta"});
    if (!modifiers.take("global")) decoder.unsupported("from another space than global");
    modifiers.take("L2::cache_hint");
    modifiers.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
    Extra access;
    access.space = Space::Shared;
    access.bytes = static_cast<unsigned>(decoder.operand(2).bits);
    if (access.bytes != 4 && access.bytes != 8 && access.bytes != 16) decoder.unsupported("a size of " + std::to_string(access.bytes));
    const Operand& from = decoder.operand(1).parts.front();
    const std::uint32_t b = decoder.source(from, Type::B64);
    access.k = from.kind == Operand::Register ? static_cast<int>(from.bits) : 0;
    std::uint32_t c = kNowhere, ignored = kNowhere;
    if (decoder.operands() > 3) {
        const Operand& last = decoder.operand(3);
        if (last.kind == Operand::Register && decoder.register_type(last.reg) == Type::Pred) {
            if (last.negated) decoder.unsupported("a negated predicate");
            ignored = decoder.raw(last);
        } else {
            c = decoder.source(last, Type::B32);
        }
    }
    Op& op = decoder.emit(start);
    decoder.address(decoder.operand(0), op, access);
    op.b = b;
    op.c = c;
    op.d2 = ignored;
    decoder.extra(op) = access;
}

const OpcodeTable table = {{"cp", copy}};

}  // namespace

bool land_arrivals(Cta& cta, std::uint32_t address) {
    bool any = false;
    for (Warp& warp : cta.warps) {
        CopyGroup& copies = *cta.copies[warp.index];
        const auto counted = [&](const Arrival& arrival) { return arrival.barrier == address; };
        std::vector<Arrival> landing;
        std::copy_if(copies.arrivals.begin(), copies.arrivals.end(), std::back_inserter(landing), counted);
        copies.arrivals.erase(std::remove_if(copies.arrivals.begin(), copies.arrivals.end(), counted), copies.arrivals.end());
        for (const Arrival& arrival : landing) {
            const auto before = [&](const Copy& copy) { return copy.lane == arrival.lane && copy.number < arrival.number; };
            for (const Copy& copy : copies.pending) if (before(copy)) land(warp, copy);
            copies.pending.erase(std::remove_if(copies.pending.begin(), copies.pending.end(), before), copies.pending.end());
            complete_arrival(cta, address);
        }
        any |= !landing.empty();
    }
    return any;
}

}  // namespace gates_cpu
