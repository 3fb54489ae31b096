#include "products.h"

#include <algorithm>

#include "dataflow.h"
#include "ops.h"

namespace gates_cpu {

void watch_products(Program& program) {
    std::vector<bool> held(program.register_bytes + 1, false);
    const std::uint32_t first = static_cast<std::uint32_t>(program.constants.size());
    for (const Op& op : program.ops) {
        if (is_product(op)) for (const std::uint32_t slot : op.extra->slots) held[slot] = slot >= first;
    }
    for (bool more = true; more;) {  // moves hand values on before their product has ended
        more = false;
        for (const Op& op : program.ops) {
            if (!is_move(op) || op.a < first || held[op.a] == held[op.d]) continue;
            held[op.a] = held[op.d] = more = true;
        }
    }
    for (std::uint32_t slot = first; slot < program.register_bytes; slot += 4) {
        if (held[slot]) program.product_slots.push_back(slot);
    }
    if (program.product_slots.size() > 0xffff) throw Unsupported("not supported: wgmma with more than 65535 registers");
    const auto numbers = [&](const std::vector<std::uint32_t>& slots) {
        std::vector<std::uint16_t> made;
        for (const std::uint32_t slot : slots) {
            const auto found = std::lower_bound(program.product_slots.begin(), program.product_slots.end(), slot);
            made.push_back(static_cast<std::uint16_t>(found - program.product_slots.begin()));
        }
        return made;
    };
    program.watched_at.assign(program.ops.size(), 0);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        Op& op = program.ops[i];
        if (is_product(op)) continue;
        std::vector<std::uint32_t> reads, writes;
        slots_of(op, [&](std::uint32_t slot) { return slot < held.size() && held[slot]; }, reads, writes);
        if (reads.empty() && writes.empty()) continue;
        op.watched = true;
        program.watched_at[i] = static_cast<std::uint32_t>(program.watched.size());
        program.watched.push_back({numbers(reads), numbers(writes)});
    }
}

void Products::begin(const Program& program) {
    *this = {};
    program_ = &program;
    owned_.resize(program.product_slots.size());
    feeding_.assign(program.product_slots.size(), 0);
    unfenced_.assign(program.product_slots.size(), -1);
}

std::uint16_t Products::number(std::uint32_t slot) const {
    const auto found = std::lower_bound(program_->product_slots.begin(), program_->product_slots.end(), slot);
    return static_cast<std::uint16_t>(found - program_->product_slots.begin());
}

bool Products::has_another_name(std::size_t at) const {
    for (std::size_t i = 0; i < owned_.size(); ++i) {
        if (i != at && owned_[i].d == owned_[at].d && owned_[i].reg == owned_[at].reg) return true;
    }
    return false;
}

// The register's product has not ended: that is said, and all end now, so that what follows is as the writer meant it.
void Products::use(Warp& warp, const Op& op) {
    warp.cta->launch->report(&warp, op.place, static_cast<unsigned>(__builtin_ctz(warp.exec)), "cpu.wgmma_register_in_use",
                             "uses a register of a wgmma product that may still run: wgmma.commit_group and a wgmma.wait_group that covers the product have to come first",
                             running_.front().op->place);
    finish(warp, kNowhere);
}

void Products::touch(Warp& warp, const Op& op) {
    const std::int32_t index = static_cast<std::int32_t>(&op - program_->ops.data());
    const Watched& watched = program_->watched[program_->watched_at[static_cast<std::size_t>(index)]];
    if (is_move(op) && warp.exec == kAllLanes) {  // the value gets one more name
        const std::size_t to = watched.writes.front();
        const bool of_one = !watched.reads.empty();
        const Owned from = of_one ? owned_[watched.reads.front()] : Owned{};
        if (owned_[to].d != nullptr && (owned_[to].d != from.d || owned_[to].reg != from.reg) && !has_another_name(to)) use(warp, op);
        else owned_[to] = from;
        unfenced_[to] = of_one ? unfenced_[watched.reads.front()] : -1;
        return;
    }
    if (!running_.empty()) {
        bool used = false;
        for (const std::uint16_t at : watched.reads) used |= owned_[at].d != nullptr;
        for (const std::uint16_t at : watched.writes) used |= owned_[at].d != nullptr || feeding_[at] != 0;
        if (used) use(warp, op);
    }
    for (const std::uint16_t at : watched.writes) unfenced_[at] = index;
}

void Products::check_fence(Warp& warp, const Op& op, std::uint32_t slot, bool& said) {
    if (slot < program_->constants.size()) return;
    std::int32_t& writer = unfenced_[number(slot)];
    if (writer >= 0 && !said) {
        said = true;
        warp.cta->launch->report(&warp, op.place, 0, "cpu.wgmma_not_fenced",
                                 "a wgmma product takes a register that was written after the last wgmma.fence: one has to lie between",
                                 program_->ops[static_cast<std::size_t>(writer)].place);
    }
    writer = -1;
}

std::shared_ptr<Accumulators> Products::take(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    if (!fenced_) {
        warp.cta->launch->report(&warp, op.place, 0, "cpu.wgmma_not_fenced", "no wgmma.fence comes before the warp's first wgmma product");
        fenced_ = true;
    }
    bool said = false;
    for (const std::uint32_t slot : extra.slots) check_fence(warp, op, slot, said);
    const unsigned count = extra.count;
    const std::shared_ptr<Accumulators> first = owned_[number(extra.slots[0])].d;
    bool chained = first != nullptr && first->half == extra.flags[5] && first->values.size() == 16u * static_cast<unsigned>(extra.n), any = false;
    for (unsigned reg = 0; reg < count; ++reg) {
        const Owned& owned = owned_[number(extra.slots[reg])];
        any |= owned.d != nullptr;
        chained = chained && owned.d == first && owned.reg == reg;
    }
    for (std::size_t i = count; i < extra.slots.size(); ++i) any |= extra.slots[i] >= program_->constants.size() && owned_[number(extra.slots[i])].d != nullptr;
    if (chained) return first;
    if (any) use(warp, op);
    auto made = std::make_shared<Accumulators>();
    made->half = extra.flags[5];
    made->values.resize(16u * static_cast<unsigned>(extra.n));
    for (unsigned reg = 0; reg < count; ++reg) {
        const std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[reg]);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (made->half) {
                made->values[accumulator_at(2 * reg, lane, extra.n)] = half_to_float(static_cast<std::uint16_t>(lanes[lane]));
                made->values[accumulator_at(2 * reg + 1, lane, extra.n)] = half_to_float(static_cast<std::uint16_t>(lanes[lane] >> 16));
            } else {
                made->values[accumulator_at(reg, lane, extra.n)] = float_of(lanes[lane]);
            }
        }
        owned_[number(extra.slots[reg])] = {made, static_cast<std::uint16_t>(reg)};
    }
    return made;
}

void Products::add(Warp& warp, Product product) {
    const Op& op = *product.op;
    ++product.d->users;
    product.group = committed_;
    for (std::size_t i = op.extra->count; i < op.extra->slots.size(); ++i) {
        if (op.extra->slots[i] >= program_->constants.size()) ++feeding_[number(op.extra->slots[i])];
    }
    ++issued_;
    last_ = static_cast<std::int32_t>(&op - program_->ops.data());
    calls_ = (calls_ ^ static_cast<std::uint64_t>(last_) ^ warp.lanes<std::uint64_t>(op.b)[0]) * 0x100000001b3ull;
    running_.push_back(std::move(product));
}

void Products::fence() {
    std::fill(unfenced_.begin(), unfenced_.end(), -1);
    fenced_ = true;
}

bool Products::wait(Warp& warp, const Op&, unsigned kept) {
    const std::uint32_t before = committed_ > kept ? committed_ - kept : 0;
    if (running_.empty() || running_.front().group >= before) return true;
    if (!released_) return false;
    released_ = false;
    finish(warp, before);
    return true;
}

void Products::finish(Warp& warp, std::uint32_t before) {
    while (!running_.empty() && running_.front().group < before) {
        const Product product = std::move(running_.front());
        running_.pop_front();
        multiply(warp, product);
        for (std::size_t i = product.op->extra->count; i < product.op->extra->slots.size(); ++i) {
            if (product.op->extra->slots[i] >= program_->constants.size()) --feeding_[number(product.op->extra->slots[i])];
        }
        if (--product.d->users == 0) deliver(warp, product.d);
    }
}

void Products::deliver(Warp& warp, const std::shared_ptr<Accumulators>& d) {
    const int n = static_cast<int>(d->values.size() / 16);
    for (std::size_t i = 0; i < owned_.size(); ++i) {
        if (owned_[i].d != d) continue;
        const unsigned reg = owned_[i].reg;
        std::uint32_t* const lanes = warp.lanes<std::uint32_t>(program_->product_slots[i]);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = !d->half ? bits_of(d->values[accumulator_at(reg, lane, n)])
                                   : float_to_half(d->values[accumulator_at(2 * reg, lane, n)]) |
                                         static_cast<std::uint32_t>(float_to_half(d->values[accumulator_at(2 * reg + 1, lane, n)])) << 16;
        }
        owned_[i] = {};
    }
}

void Products::end(Warp& warp) {
    if (running_.empty()) return;
    warp.cta->launch->report(&warp, running_.front().op->place, 0, "cpu.wgmma_not_awaited", "the warp ends, and nothing has waited for this wgmma product");
    running_.clear();
}

}  // namespace gates_cpu
