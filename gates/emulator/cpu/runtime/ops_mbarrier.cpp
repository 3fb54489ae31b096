// mbarrier: a barrier in eight bytes of shared memory, which counts arrivals and bytes.
#include "access.h"
#include "copies.h"
#include "hopper.h"
#include "races.h"

namespace gates_cpu {
namespace {

// As this device keeps it. The lowest bits are the phase's parity, so that a state tells which phase it is of.
struct State {
    std::uint64_t phase : 1, expected : 20, pending : 20, bytes : 21, valid : 2;  // bytes: expected and not copied, biased
};
static_assert(sizeof(State) == 8);
constexpr std::uint64_t kBias = 1u << 20, kValid = 2;

struct Found {
    Cta* owner;
    std::uint32_t address;   // in the owner's shared memory
    State* state;            // null after a finding
    std::uint32_t place() const { return owner->races->place(*owner, address); }
};

Found find(Warp& warp, const Op& op, unsigned lane, bool fresh = false) {
    const std::uint64_t given = address_of(warp, op, lane);
    std::uint32_t address = static_cast<std::uint32_t>((given & kWindowBits) == kSharedWindow ? given - kSharedWindow : given);
    Cta* const owner = shared_cta(warp, op, lane, address);
    if (owner == nullptr) return {};
    Cta& cta = *owner;
    if (address < kSharedStart || address + 8 > cta.shared_limit || address % 8 != 0) {
        cta.launch->fault(&warp, op.place, lane, "cpu.bad_mbarrier", "an mbarrier lies outside of shared memory or is not aligned to 8 bytes");
        return {};
    }
    State* const state = reinterpret_cast<State*>(cta.shared.data() + address);
    if (!fresh && !is_mbarrier(cta, address)) {
        cta.launch->fault(&warp, op.place, lane, "cpu.bad_mbarrier", "an mbarrier is used that was not initialised, or was overwritten");
        return {};
    }
    return {owner, address, state};
}

void settle(Cta& cta, State& state, std::uint32_t address) {
    if (state.pending != 0 || state.bytes != kBias) return;
    state.phase ^= 1;
    state.pending = state.expected;
    for (Warp& warp : cta.warps) warp.release(Wait::Condition, address);
}

void initialise(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::uint32_t count = warp.lanes<std::uint32_t>(op.b)[lane];
        const Found found = find(warp, op, lane, true);
        if (found.state == nullptr) continue;
        *found.state = {0, count, count, kBias, kValid};
        std::memset(found.owner->shared_shadow.data() + found.address, kInitialised, 8);
        if (warp.cta->races) warp.cta->races->barrier_made(warp, lane, op, found.place());
    }
}

void invalidate(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        if (State* const state = find(warp, op, lane).state) state->valid = 0;
    }
}

// op.b: arrivals; op.c: bytes that are expected; either may be left out. mode: 1 expects alone, 2 drops out.
void arrive(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const Found found = find(warp, op, lane);
        State* const state = found.state;
        if (state == nullptr) continue;
        const std::uint64_t token = state->phase;
        const std::uint32_t count = op.mode == 1 ? 0 : op.b == kNowhere ? 1 : warp.lanes<std::uint32_t>(op.b)[lane];
        if (op.c != kNowhere) state->bytes += warp.lanes<std::uint32_t>(op.c)[lane];
        if (count > state->pending) {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.mbarrier_arrivals", "more threads arrive at an mbarrier than it counts");
            continue;
        }
        state->pending -= count;
        if (op.mode == 2) state->expected -= count;
        if (op.d != kNowhere) warp.lanes<std::uint64_t>(op.d)[lane] = token;
        if (warp.cta->races) warp.cta->races->release_at(warp, warp.exec, found.place());
        settle(*found.owner, *state, found.address);
    }
}

// The executing lanes' copies (cp.async) so far: each lane arrives when they have landed. mode: 1 as one of those that the barrier counts.
void arrive_with_copies(Warp& warp, const Op& op) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const Found found = find(warp, op, lane);
        if (found.state == nullptr) continue;
        if (found.owner != warp.cta) {
            warp.cta->launch->fault(&warp, op.place, lane, "cpu.bad_mbarrier", "asynchronous copies arrive at the mbarrier of another block");
            continue;
        }
        found.state->pending += op.mode == 0;
        if (op.mode == 1 && found.state->pending == 0) {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.mbarrier_arrivals", "more threads arrive at an mbarrier than it counts");
            continue;
        }
        copies.arrivals.push_back({lane, found.address, copies.started});
        if (warp.cta->races) warp.cta->races->release_at(warp, warp.exec, found.place());
    }
}

// op.b: the state or the parity. mode: 1 parity, 2 may wait.
void test(Warp& warp, const Op& op) {
    std::uint32_t ended = 0;
    std::uint32_t waits_for = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const Found found = find(warp, op, lane);
        const State* const state = found.state;
        if (state == nullptr) {
            ended |= 1u << lane;
            continue;
        }
        const std::uint64_t awaited = (op.mode & 1) != 0 ? warp.lanes<std::uint32_t>(op.b)[lane] & 1 : warp.lanes<std::uint64_t>(op.b)[lane] & 1;
        if (state->phase == awaited) land_copies(*found.owner, found.address);
        if (state->phase != awaited) {
            ended |= 1u << lane;
            if (warp.cta->races) warp.cta->races->acquire_at(warp, found.place());
        } else {
            waits_for = found.address;
        }
    }
    if (ended == 0 && (op.mode & 2) != 0) {  // until the phase ends; then it is tried again
        const std::uint32_t exec = warp.exec;
        if (exec != warp.active) warp.part(warp.active & ~exec, warp.pc);
        warp.wait(Wait::Condition, waits_for, warp.pc - 1);
        return;
    }
    set_predicate(warp, op.d, ended);
}

void address_and_order(Modifiers& modifiers, Extra& extra) {
    modifiers.take_one_of({"release", "acquire", "relaxed"});
    modifiers.take_one_of({"cta", "cluster"});
    extra.flags[kOfCluster] = modifiers.take("shared::cluster");
    modifiers.take_one_of({"shared::cta", "shared"});
    modifiers.take("b64");
    extra.space = Space::Shared;
}

void mbarrier(Decoder& decoder, Modifiers& modifiers) {
    Extra extra;
    const auto finish = [&](Op& op, std::size_t address) {
        decoder.address(decoder.operand(address), op, extra);
        decoder.extra(op) = extra;
    };
    if (modifiers.take("init")) {
        address_and_order(modifiers, extra);
        const std::uint32_t count = decoder.source(1, Type::U32);
        Op& op = decoder.emit(initialise);
        op.b = count;
        return finish(op, 0);
    }
    if (modifiers.take("inval")) {
        address_and_order(modifiers, extra);
        return finish(decoder.emit(invalidate), 0);
    }
    const bool arrives = modifiers.take("arrive"), drops = modifiers.take("arrive_drop"), expects = modifiers.take("expect_tx");
    if (arrives || drops || expects) {
        modifiers.take("noComplete");
        address_and_order(modifiers, extra);
        const bool alone = !arrives && !drops;
        const std::size_t first = alone || decoder.operand(0).kind == Operand::Address ? 0 : 1;
        const std::uint32_t last = decoder.operands() > first + 1 ? decoder.source(first + 1, Type::U32) : kNowhere;
        const std::uint32_t d = first == 1 && decoder.operand(0).kind == Operand::Register ? decoder.raw(decoder.operand(0)) : kNowhere;
        Op& op = decoder.emit(arrive);
        op.d = d;
        (expects ? op.c : op.b) = last;
        op.mode = alone ? 1 : drops ? 2 : 0;
        return finish(op, first);
    }
    const bool may_wait = modifiers.take("try_wait");
    if (!may_wait && !modifiers.take("test_wait")) decoder.unsupported();
    const bool parity = modifiers.take("parity");
    address_and_order(modifiers, extra);
    const std::uint32_t state = decoder.source(2, parity ? Type::U32 : Type::B64);
    Op& op = decoder.emit(test);
    op.d = decoder.raw(decoder.operand(0));
    op.b = state;
    op.mode = static_cast<std::uint8_t>((parity ? 1 : 0) | (may_wait ? 2 : 0));
    finish(op, 1);
}

const OpcodeTable table = {{"mbarrier", mbarrier}};

}  // namespace

void complete_arrival(Cta& cta, std::uint32_t address) {
    State& state = *reinterpret_cast<State*>(cta.shared.data() + address);
    if (state.pending > 0) --state.pending;
    settle(cta, state, address);
}

void arrival_of_copies(Decoder& decoder, Modifiers& modifiers) {
    if (!modifiers.take("arrive")) decoder.unsupported();
    Extra extra;
    const bool counted = modifiers.take("noinc");
    address_and_order(modifiers, extra);
    Op& op = decoder.emit(arrive_with_copies);
    op.mode = counted;
    decoder.address(decoder.operand(0), op, extra);
    decoder.extra(op) = extra;
}

bool is_mbarrier(const Cta& cta, std::uint32_t address) {
    if (address < kSharedStart || address + 8 > cta.shared_limit || address % 8 != 0) return false;
    return reinterpret_cast<const State*>(cta.shared.data() + address)->valid == kValid && (cta.shared_shadow[address] & kInitialised) != 0;
}

void complete_bytes(Cta& cta, std::uint32_t address, std::uint32_t bytes) {
    State& state = *reinterpret_cast<State*>(cta.shared.data() + address);
    state.bytes -= bytes;
    settle(cta, state, address);
}

}  // namespace gates_cpu
