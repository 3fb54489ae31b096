// Branches, calls, ends, barriers, fences, special registers.
#include <algorithm>

#include "ops.h"

#include "device.h"
#include "races.h"

namespace gates_cpu {
namespace {

void branch(Warp& warp, const Op& op) { warp.jump(warp.exec, static_cast<std::uint32_t>(op.imm)); }

void trap(Warp& warp, const Op& op) { warp.cta->report_here(warp, op, "cpu.trap", "the kernel ran a trap"); }

void nothing(Warp&, const Op&) {}

unsigned uniform(Warp& warp, std::uint32_t slot) { return warp.lanes<std::uint32_t>(slot)[__builtin_ctz(warp.exec)]; }

bool always(const Op& op) { return op.guard == kNowhere; }

// Whether lanes at `place` skipped the barrier before `after`: those in it come to `place` too, without going back, and more than an end is there.
bool skipped(const Program& program, std::uint32_t after, std::uint32_t place) {
    if (place < after) return false;
    std::vector<bool> reached(place - after + 1, false);
    reached[0] = true;
    for (std::uint32_t at = after; at < place; ++at) {
        const Op& op = program.ops[at];
        if (!reached[at - after]) continue;
        const bool jumps = op.run == branch || op.run == jump_always;
        if (jumps && op.imm > std::int64_t(at) && op.imm <= std::int64_t(place)) reached[static_cast<std::size_t>(op.imm) - after] = true;
        if (!always(op) || (!jumps && op.run != end_lanes)) reached[at + 1 - after] = true;
    }
    return reached.back() && !(program.ops[place].run == end_lanes && always(program.ops[place]));
}

// Whether these lanes' last barrier was this one, or one that follows it: the others are a turn of the loop ahead of them.
bool behind(const Warp& warp, std::uint32_t lanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((lanes >> lane & 1) && !((warp.onward >> lane & 1) && warp.last_barrier[lane] >= warp.pc)) return false;
    }
    return true;
}

// op.a: the barrier; op.b: the count, if any; op.c: the predicate of a reduction. extra->kind: 1 arrive only; extra->flags[1]: warps arrive whole.
void barrier(Warp& warp, const Op& op) {
    for (unsigned i = 0; op.extra->flags[1] && warp.exec != warp.alive && i < warp.group_count(); ++i) {
        const Group& group = warp.groups()[i];
        if (group.wait != Wait::None || behind(warp, group.mask) || !skipped(*warp.program, warp.pc, group.pc)) continue;
        warp.cta->launch->report(&warp, op.place, static_cast<unsigned>(__builtin_ctz(group.mask)), "cpu.barrier_divergence",
                                 "this thread skips a barrier that others of its warp wait for", warp.program->ops[group.pc].place);
        break;
    }
    warp.onward |= warp.exec;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (warp.exec >> lane & 1) warp.last_barrier[lane] = warp.pc;
    }
    warp.latest_barrier = std::max(warp.latest_barrier, warp.pc);
    std::uint32_t predicate = 0;
    if (op.c != kNowhere) predicate = op.extra->flags[0] ? ~warp.mask_at(op.c) : warp.mask_at(op.c);
    warp.cta->arrive(warp, op, uniform(warp, op.a), op.b == kNowhere ? 0 : uniform(warp, op.b), op.extra->kind == 0, predicate);
}

// bar.sync a[, b]   barrier.cta.red.popc.aligned.u32 d, a[, b], c   bar.warp.sync mask
void bar(Decoder& decoder, Modifiers& modifiers) {
    if (modifiers.take("warp")) {
        modifiers.take("sync");
        const std::uint32_t a = decoder.source(0, Type::U32);
        Op& op = decoder.emit([](Warp& warp, const Op& self) {
            if (warp.together(self, uniform(warp, self.a)) && warp.cta->races) warp.cta->races->lanes_met(warp);
        });
        op.a = a;
        op.mode = 1;
        return;
    }
    if (modifiers.take("cluster")) return cluster_barrier(decoder, modifiers);
    modifiers.take("cta");
    const bool whole_warps = modifiers.take("aligned") || decoder.instruction().opcode[0] == "bar";
    const std::string what = modifiers.take_one_of({"sync", "arrive", "red"});
    const std::string reduction = what == "red" ? modifiers.take_one_of({"popc", "and", "or"}) : "";
    modifiers.take_type();
    std::size_t at = reduction.empty() ? 0 : 1;
    const std::uint32_t a = decoder.source(at++, Type::U32);
    const std::size_t last = decoder.operands() - (reduction.empty() ? 0 : 1);
    const std::uint32_t b = at < last ? decoder.source(at, Type::U32) : kNowhere;
    bool negated = false;
    const std::uint32_t c = reduction.empty() ? kNowhere : decoder.predicate(decoder.operand(decoder.operands() - 1), negated);
    std::uint32_t d = kNowhere;
    if (reduction == "popc") d = decoder.raw(decoder.operand(0));
    else if (!reduction.empty()) d = decoder.raw(decoder.operand(0));
    Op& op = decoder.emit(barrier);
    op.a = a;
    op.b = b;
    op.c = c;
    op.d = d;
    op.mode = reduction == "and" ? 1 : reduction == "or" ? 2 : 0;
    Extra& extra = decoder.extra(op);
    extra.kind = what == "arrive";
    extra.flags[0] = negated;
    extra.flags[1] = whole_warps;
}

void fence_of_cta(Warp& warp, const Op&) {
    if (warp.cta->races) warp.cta->races->fence(warp, nullptr);
}

void fence_of_device(Warp& warp, const Op&) {
    if (warp.cta->races) warp.cta->races->fence(warp, warp.cta->launch->global_races.get());
}

template <bool kShared, bool kGlobal> void fence_of_proxy(Warp& warp, const Op&) {
    if (warp.cta->races) warp.cta->races->proxy_fence(warp, kShared, kGlobal);
}

void fence_of_barriers(Warp& warp, const Op&) {
    if (warp.cta->races) warp.cta->races->barriers_fenced(warp);
}

// The words after fence.proxy: from threads' stores to the asynchronous proxy, of all memory or of one space. Others order nothing that is watched.
Handler proxy_handler(Modifiers& modifiers) {
    if (modifiers.take("async::generic")) return modifiers.take("release") ? fence_of_proxy<true, false> : nothing;
    if (!modifiers.take("async")) return nothing;
    if (modifiers.take("global")) return fence_of_proxy<false, true>;
    return modifiers.take_one_of({"shared::cta", "shared::cluster"}).empty() ? fence_of_proxy<true, true> : fence_of_proxy<true, false>;
}

void fence(Decoder& decoder, Modifiers& modifiers) {
    const bool named = modifiers.take("proxy");
    if (named && modifiers.take("tensormap::generic")) return tensormap_fence(decoder, modifiers);
    const Handler handler = named ? proxy_handler(modifiers) : modifiers.take("mbarrier_init") ? fence_of_barriers : modifiers.take("cta") ? fence_of_cta : fence_of_device;
    while (!modifiers.empty()) modifiers.take_any();
    decoder.emit(handler);
}

// setmaxnreg: op.imm registers a thread. More are there once other warps have given some back.
void set_registers(Warp& warp, const Op& op) {
    if (!warp.together(op, kAllLanes)) return;
    Cta& cta = *warp.cta;
    const std::uint32_t wanted = static_cast<std::uint32_t>(op.imm);
    std::uint64_t others = 0;
    for (const Warp& other : cta.warps) others += &other == &warp ? 0 : other.registers;
    if (wanted > warp.registers && (others + wanted) * kLanes > static_cast<unsigned>(Device::get().limits.registers)) {
        warp.wait(Wait::Registers, wanted, warp.pc - 1);
        return;
    }
    const bool gives = wanted < warp.registers;
    warp.registers = wanted;
    if (!gives) return;
    for (Warp& other : cta.warps) {
        for (unsigned i = 0; i < other.group_count(); ++i) {
            if (other.groups()[i].wait == Wait::Registers) other.release(Wait::Registers, other.groups()[i].which);
        }
    }
}

void registers(Decoder& decoder, Modifiers& modifiers) {
    while (!modifiers.empty()) modifiers.take_any();
    const std::int64_t count = static_cast<std::int64_t>(decoder.operand(0).bits);
    if (count < 24 || count > 256 || count % 8 != 0) decoder.unsupported("registers are a multiple of 8 from 24 to 256");
    decoder.emit(set_registers).imm = count;
}

struct Named {
    const char* name;
    int which;
};
constexpr Named kSpecial[] = {
    {"%tid", 0}, {"%ntid", 3}, {"%ctaid", 6}, {"%nctaid", 9}, {"%laneid", 12}, {"%warpid", 13}, {"%nwarpid", 14}, {"%smid", 15}, {"%nsmid", 16},
    {"%gridid", 17}, {"%lanemask_eq", 18}, {"%lanemask_le", 19}, {"%lanemask_lt", 20}, {"%lanemask_ge", 21}, {"%lanemask_gt", 22},
    {"%clock", 23}, {"%clock64", 23}, {"%globaltimer", 24}, {"%globaltimer_lo", 24}, {"%dynamic_smem_size", 25}, {"%total_smem_size", 26},
    {"%reserved_smem_offset_1", 46},
    {"%cluster_ctaid", 27}, {"%cluster_nctaid", 30}, {"%clusterid", 33}, {"%nclusterid", 36}, {"%cluster_ctarank", 39}, {"%cluster_nctarank", 40},
    {"%clock_hi", 42}, {"%globaltimer_hi", 43}, {"%aggr_smem_size", 26}, {"%envreg1", 44}, {"%envreg2", 45},
};

std::uint64_t special_value(const Warp& warp, int which, unsigned lane) {
    const Cta& cta = *warp.cta;
    const Launch& launch = *cta.launch;
    if (which < 3) return warp.thread[which][lane];
    if (which < 6) return launch.block[which - 3];
    if (which < 9) return cta.id[which - 6];
    if (which < 12) return launch.grid[which - 9];
    const std::uint32_t bit = 1u << lane;
    if (which >= 27 && which < 30) return cta.id[which - 27] % launch.cluster[which - 27];
    if (which >= 30 && which < 33) return launch.cluster[which - 30];
    if (which >= 33 && which < 36) return cta.id[which - 33] / launch.cluster[which - 33];
    if (which >= 36 && which < 39) return launch.grid[which - 36] / launch.cluster[which - 36];
    switch (which) {
        case 12: return lane;
        case 13: return warp.index;
        case 14: return cta.warps.size();
        case 15: return cta.number % 132;
        case 16: return 132;
        case 17: return 1;
        case 18: return bit;
        case 19: return bit | (bit - 1);
        case 20: return bit - 1;
        case 21: return ~(bit - 1);
        case 22: return ~(bit | (bit - 1));
        case 23: return 0x10000 + warp.executed;
        case 24: return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        case 25: return launch.dynamic_shared;
        case 26: return cta.shared_limit - kSharedStart;
        case 39: return cta.rank;
        case 40: return launch.cluster_size();
        case 44: return launch.workspace >> 32;
        case 45: return launch.workspace & 0xffffffffu;
        case 46: return kReservedStart;
        default: return 0;
    }
}

template <class S> void special(Warp& warp, const Op& op) {
    const int which = static_cast<int>(op.imm);
    if (which < 3) {
        const std::uint32_t* const from = warp.thread[which];
        each_lane<S>(warp, op.d, [&](unsigned i) { return static_cast<S>(from[i]); });
    } else if (which == 12 || (which >= 18 && which <= 22)) {
        each_lane<S>(warp, op.d, [&](unsigned i) { return static_cast<S>(special_value(warp, which, i)); });
    } else {
        const S value = static_cast<S>(special_value(warp, which, 0));
        each_lane<S>(warp, op.d, [&](unsigned) { return value; });
    }
}

const OpcodeTable table = {
    {"bra", [](Decoder& d, Modifiers& m) {
         m.take("uni");
         d.branch(branch, d.operand(0).name);
     }},
    {"ret", [](Decoder& d, Modifiers& m) { m.take("uni"); d.leave(); }},
    {"exit", [](Decoder& d, Modifiers&) { d.emit(end_lanes); }},
    {"call", [](Decoder& d, Modifiers& m) { m.take("uni"); d.call(); }},
    {"trap", [](Decoder& d, Modifiers&) { d.emit(trap); }},
    {"brkpt", [](Decoder& d, Modifiers&) { d.emit(nothing); }},
    {"bar", bar},
    {"barrier", bar},
    {"membar", fence},
    {"fence", fence},
    {"nanosleep", [](Decoder& d, Modifiers& m) { m.take_type(); d.emit([](Warp& warp, const Op&) { warp.stop = warp.spinning = true; }); }},
    {"setmaxnreg", registers},
    {"griddepcontrol", [](Decoder& d, Modifiers& m) {
         d.program().awaits_grid |= m.take_any() == "wait";
         d.emit(nothing);
     }},
    {"pmevent", [](Decoder& d, Modifiers& m) { m.take("mask"); d.emit(nothing); }},
};

}  // namespace

void end_lanes(Warp& warp, const Op&) { warp.leave(warp.exec); }
void jump_always(Warp& warp, const Op& op) { warp.jump(warp.exec, static_cast<std::uint32_t>(op.imm)); }

void jump_unless_equal(Warp& warp, const Op& op) {
    const std::uint64_t *const a = warp.lanes<std::uint64_t>(op.a), *const b = warp.lanes<std::uint64_t>(op.b);
    std::uint32_t others = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) others |= static_cast<std::uint32_t>(a[lane] != b[lane]) << lane;
    if ((others & warp.exec) != 0) warp.jump(others & warp.exec, static_cast<std::uint32_t>(op.imm));
}

void call_of_no_function(Warp& warp, const Op& op) {
    const bool null = warp.lanes<std::uint64_t>(op.a)[__builtin_ctz(warp.exec)] < 65536;
    warp.cta->report_here(warp, op, null ? "cpu.null_address" : "cpu.not_device_memory",
                          null ? "calls a null function pointer" : "calls a function pointer that names no function of the device with these parameters: one of the host?");
}

void special_register(Decoder& decoder, const std::string& name, Type type, std::uint32_t destination) {
    std::string base = name;
    int axis = 0;
    if (base.size() > 2 && base[base.size() - 2] == '.') {
        axis = base.back() - 'x';
        base.resize(base.size() - 2);
        if (axis < 0 || axis > 2) decoder.unsupported(name);
    }
    for (const Named& known : kSpecial) {
        if (base != known.name) continue;
        Op& op = decoder.emit(bytes_of(type) == 8 ? special<std::uint64_t> : special<std::uint32_t>);
        op.d = destination;
        op.imm = known.which + axis;
        if (known.which == 46) decoder.program().shared_from = kReservedStart;
        return;
    }
    decoder.unsupported("the register " + name);
}

}  // namespace gates_cpu
