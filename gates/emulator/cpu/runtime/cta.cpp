#include "cta.h"

#include <algorithm>
#include <cstring>

#include "cluster.h"
#include "copies.h"
#include "device.h"
#include "hopper.h"
#include "products.h"
#include "races.h"

namespace gates_cpu {
namespace {

constexpr unsigned kPolls = 16;  // after so many reads with a barrier each, what a CTA waits for is likely another CTA's to do

constexpr std::uint8_t kPoison = 0xff;  // a NaN in every float format, a large negative integer

std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// A header of the toolkit, or a function of Triton's language.
bool of_a_library(const std::string& path) {
    const auto has = [&path](const char* part) { return path.find(part) != std::string::npos; };
    return (has("/include/") && (has("cuda") || has("nvidia") || has("cccl"))) || has("/triton/language/");
}

}  // namespace

std::string Launch::where(std::int32_t place) const {
    const std::string fallback;
    std::string innermost;
    for (std::int32_t at = place; at >= 0;) {
        const Place& found = program->places[static_cast<std::size_t>(at)];
        const auto file = program->module->files.find(found.file);
        if (file != program->module->files.end() && found.line > 0) {
            const std::string text = file->second + ":" + std::to_string(found.line);
            if (!of_a_library(file->second)) return text;
            if (innermost.empty()) innermost = text;
        }
        at = found.inlined_at;
    }
    return innermost;
}

bool Launch::inlined_from(std::int32_t place, const char* path) const {
    for (std::int32_t at = place; at >= 0; at = program->places[static_cast<std::size_t>(at)].inlined_at) {
        const auto file = program->module->files.find(program->places[static_cast<std::size_t>(at)].file);
        if (file != program->module->files.end() && file->second.find(path) != std::string::npos) return true;
    }
    return false;
}

Finding Launch::finding(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message, std::int32_t other) const {
    Finding finding;
    finding.code = code;
    finding.message = message;
    finding.kernel = program->name;
    finding.where = where(place);
    if (other >= 0) finding.other = where(other);
    if (warp != nullptr) {
        for (int i = 0; i < 3; ++i) {
            finding.block[i] = warp->cta->id[i];
            finding.thread[i] = warp->thread[i][lane];
        }
    }
    return finding;
}

void Launch::report(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message, std::int32_t other) {
    add_finding(finding(warp, place, lane, code, message, other));
}

void Launch::fault(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message) {
    report(warp, place, lane, code, message);
    int none = 0;
    error.compare_exchange_strong(none, code == "cpu.misaligned" ? kMisalignedAddress : code == "cpu.wrong_space" ? kInvalidAddressSpace : code == "cpu.assertion" ? kAssert
                                        : code == "cpu.trap" ? kLaunchFailure : code == "cpu.deadlock" ? kLaunchTimeout : kIllegalAddress);
}

Cta::Cta() = default;
Cta::~Cta() = default;

void Cta::start(Launch& owner, std::uint64_t linear) {
    launch = &owner;
    number = linear;
    const Program& program = *owner.program;
    id[0] = static_cast<std::uint32_t>(linear % owner.grid[0]);
    id[1] = static_cast<std::uint32_t>(linear / owner.grid[0] % owner.grid[1]);
    id[2] = static_cast<std::uint32_t>(linear / owner.grid[0] / owner.grid[1]);
    const unsigned threads = owner.threads(), count = (threads + kLanes - 1) / kLanes;
    shared_limit = program.dynamic_shared_at + owner.dynamic_shared;
    shared.assign(shared_limit + 64, kPoison);
    shared_shadow.assign(shared_limit + 64, 0);
    std::fill(shared.begin() + program.shared_from, shared.begin() + kSharedStart, std::uint8_t(0));
    std::fill(shared_shadow.begin() + program.shared_from, shared_shadow.begin() + kSharedStart, kInitialised);
    const std::size_t file_bytes = (program.register_bytes + 127) / 64 * 64;
    if (files.size() < file_bytes * count + 64) files.resize(file_bytes * count + 64);
    std::uint8_t* const first = files.data() + (64 - reinterpret_cast<std::uintptr_t>(files.data()) % 64) % 64;
    const std::size_t local_bytes = std::size_t(program.local_bytes) * kLanes;
    local.assign(local_bytes * 2 * count, 0);
    if (warps.size() != count) warps = std::vector<Warp>(count);
    copies.clear();
    tensors.clear();
    settled_ = polled = false;
    if (!program.products || products.size() != count) products.clear();
    const std::uint32_t most_registers = static_cast<std::uint32_t>(Device::get().limits.registers) / (count * kLanes) / 8 * 8;
    for (unsigned w = 0; w < count; ++w) {
        Warp& warp = warps[w];
        warp.cta = this;
        warp.program = &program;
        warp.index = w;
        warp.rank = rank * count + w;
        warp.file = first + w * file_bytes;
        std::memcpy(warp.file, program.constants.data(), program.constants.size());
        std::memset(warp.file + program.constants.size(), kPoison, program.register_bytes - program.constants.size());
        warp.local = local.data() + w * 2 * local_bytes;
        std::memset(warp.local, kPoison, local_bytes);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            const unsigned thread = w * kLanes + lane;
            warp.thread[0][lane] = thread % owner.block[0];
            warp.thread[1][lane] = thread / owner.block[0] % owner.block[1];
            warp.thread[2][lane] = thread / owner.block[0] / owner.block[1];
        }
        warp.start(threads - w * kLanes);
        copies.push_back(std::make_unique<CopyGroup>());
        warp.registers = program.launch_registers != 0 ? program.launch_registers : std::min(most_registers, 256u);
        if (program.products) {
            if (products.size() == w) products.push_back(std::make_unique<Products>());
            products[w]->begin(program);
        }
        warp.products = program.products ? products[w].get() : nullptr;
    }
    alive = threads;
    for (Barrier& barrier : barriers) barrier = {};
    order_.resize(count);
    for (unsigned w = 0; w < count; ++w) order_[w] = w;
    if (owner.seed != 0) {
        std::sort(order_.begin(), order_.end(), [&](unsigned a, unsigned b) {
            return mixed(owner.seed * 64 + a + linear * 977) < mixed(owner.seed * 64 + b + linear * 977);
        });
    }
}

Cta::Progress Cta::turn(std::uint64_t operations) {
    ran = false;
    polls_ = 0;
    if (settled_) return Progress::Ended;
    for (;;) {
        bool now = false, living = false, spun = false;
        for (const unsigned w : order_) {
            Warp& warp = warps[w];
            if (warp.done() || launch->ended.load(std::memory_order_relaxed)) continue;
            living = true;
            const std::uint64_t before = warp.executed;
            warp.run(operations);
            now |= warp.executed != before;
            spun |= warp.spinning;
        }
        ran |= now;
        if (launch->ended.load(std::memory_order_relaxed)) return Progress::Ended;
        if (!living) {
            settled_ = true;
            for (Warp& warp : warps) {
                launch->executed += warp.executed;
                warp.executed = 0;
            }
            if (!products.empty()) compare_products();
            return Progress::Ended;
        }
        if (std::chrono::steady_clock::now() > launch->deadline) {
            if (!launch->ended.exchange(true)) report_time_limit();
            return Progress::Ended;
        }
        if (spun || polls_ >= kPolls) {
            finish_products();
            return Progress::Spinning;
        }
        if (!now) return Progress::Waiting;
    }
}

void Cta::report_time_limit() {
    for (const Warp& warp : warps) {
        if (warp.done()) continue;
        const std::uint32_t at = warp.active != 0 || warp.group_count() == 0 ? warp.pc : warp.groups()[0].pc;
        const std::uint32_t lanes = warp.active != 0 || warp.group_count() == 0 ? warp.alive : warp.groups()[0].mask;
        launch->report(&warp, launch->program->ops[std::min<std::size_t>(at, launch->program->ops.size() - 1)].place, static_cast<unsigned>(__builtin_ctz(lanes)), "cpu.time_limit",
                       "the kernel ran longer than its time limit; this thread was here");
        return;
    }
}

// Nothing can run: copies that somebody waits for land now.
bool Cta::land_awaited() {
    bool any = false;
    for (Warp& warp : warps) {
        for (unsigned i = 0; i < warp.group_count(); ++i) {
            if (warp.groups()[i].wait == Wait::Condition) any |= land_copies(*this, warp.groups()[i].which);
        }
    }
    return any;
}

// Nothing can run: a warp that waits for its products gets them, one at a time and the seed's choice, so that all others are as far as they can be.
bool Cta::finish_products() {
    for (std::size_t i = 0; i < order_.size() && !products.empty(); ++i) {
        Warp& warp = warps[order_[(i + barriers_passed * launch->seed) % order_.size()]];
        if (warp.release(Wait::Products, 0) == 0) continue;
        warp.products->release();
        return true;
    }
    return false;
}

// Copies and products end as late as the program allows, and in the order that the seed gives.
bool Cta::advance_asynchronous() {
    if (launch->seed % 2 != 0) return finish_products() || land_awaited();
    return land_awaited() || finish_products();
}

// The four warps of a warpgroup issue the same products.
void Cta::compare_products() {
    for (std::size_t w = 0; w < products.size(); ++w) {
        const std::size_t first = w / 4 * 4, last = first + 3;
        const Products& own = *products[w];
        if (own.issued() == 0 || (last < products.size() && own.calls() == products[first]->calls() && products[first]->issued() == own.issued() && products[last]->issued() == own.issued())) continue;
        launch->report(&warps[w], launch->program->ops[static_cast<std::size_t>(own.last())].place, 0, "cpu.warpgroup_divergence",
                       last < products.size() ? "the warps of this warpgroup issue different wgmma products" : "wgmma in a warpgroup of fewer than four warps");
        return;
    }
}

void Cta::stuck() {
    std::string who;
    Warp* first = nullptr;
    std::int32_t place = -1;
    for (Warp& warp : warps) {
        for (unsigned i = 0; i < warp.group_count(); ++i) {
            const Group& group = warp.groups()[i];
            const std::int32_t at = launch->program->ops[group.pc - (group.wait == Wait::Barrier || group.wait == Wait::Cluster)].place;
            if (first == nullptr) {
                first = &warp;
                place = at;
            }
            if (who.size() < 600) {
                const std::string what = group.wait == Wait::Barrier ? "barrier " + std::to_string(group.which)
                                         : group.wait == Wait::Lanes ? "other lanes"
                                         : group.wait == Wait::Registers ? std::to_string(group.which) + " registers per thread (setmaxnreg), more than the other warps leave"
                                         : group.wait == Wait::Cluster ? "the barrier of the cluster"
                                         : "an mbarrier";
                who += "; " + std::to_string(__builtin_popcount(group.mask)) + " threads of warp " + std::to_string(warp.index) + " wait for " +
                       what + " at " + launch->where(at);
            }
        }
    }
    launch->fault(first, place, 0, "cpu.deadlock", "nothing can end these waits" + who);
    launch->ended = true;
}

void Cta::report_here(Warp& warp, const Op& op, const std::string& code, const std::string& message) {
    launch->fault(&warp, op.place, static_cast<unsigned>(__builtin_ctz(warp.exec)), code, message);
    launch->ended = true;
    warp.stop = true;
}

void Cta::arrive(Warp& warp, const Op& op, unsigned which, std::uint32_t expected, bool waits, std::uint32_t predicate) {
    if (which >= 16) return report_here(warp, op, "cpu.barrier_number", "barrier " + std::to_string(which) + "; a CTA has 0 to 15");
    Barrier& barrier = barriers[which];
    for (unsigned i = 0; i < warp.group_count(); ++i) {
        const Group& group = warp.groups()[i];
        if (group.wait == Wait::Barrier && group.which == which && group.pc != warp.pc) {
            launch->report(&warp, op.place, static_cast<unsigned>(__builtin_ctz(warp.exec)), "cpu.barrier_divergence",
                           "threads of one warp wait for barrier " + std::to_string(which) + " at different places",
                           launch->program->ops[group.pc - 1].place);
        }
    }
    barrier.expected = expected;
    // A warp counts whole where its count is given, also the last one, and with threads that have ended.
    barrier.arrived += expected != 0 && warp.exec == warp.alive ? kLanes : static_cast<std::uint32_t>(__builtin_popcount(warp.exec));
    barrier.ones += static_cast<std::uint32_t>(__builtin_popcount(predicate & warp.exec));
    barrier.all += static_cast<std::uint32_t>(__builtin_popcount(warp.exec));
    if (races) races->arrive(warp, which);
    if (waits) warp.wait(Wait::Barrier, which, warp.pc);
    check(which);
}

void Cta::check(unsigned which) {
    const Barrier& barrier = barriers[which];
    if (barrier.all == 0) return;
    if (barrier.arrived >= (barrier.expected != 0 ? barrier.expected : alive)) complete(which);
}

void Cta::complete(unsigned which) {
    const Barrier done = barriers[which];
    barriers[which] = {};
    ++barriers_passed;
    polls_ += polled;
    polled = false;
    for (Warp& warp : warps) {
        for (unsigned i = 0; i < warp.group_count(); ++i) {
            const Group& group = warp.groups()[i];
            if (group.wait != Wait::Barrier || group.which != which) continue;
            const Op& op = launch->program->ops[group.pc - 1];
            if (op.d == kNowhere) continue;
            if (op.mode == 0) {
                for (unsigned lane = 0; lane < kLanes; ++lane) {
                    if (group.mask >> lane & 1) warp.lanes<std::uint32_t>(op.d)[lane] = done.ones;
                }
            } else {
                const bool holds = op.mode == 1 ? done.ones == done.all : done.ones != 0;
                std::uint32_t& mask = warp.mask_at(op.d);
                mask = holds ? mask | group.mask : mask & ~group.mask;
            }
        }
        const std::uint32_t released = warp.release(Wait::Barrier, which);
        if (released != 0 && races) races->leave(warp, released, which);
    }
    if (races) races->passed(*this, which, done.all >= alive);
}

void Cta::left(Warp& warp) {
    if (warp.products != nullptr && warp.done()) warp.products->end(warp);
    if (!copies[warp.index]->stores.empty()) end_stores(warp);
    alive = 0;
    for (const Warp& warp : warps) alive += static_cast<std::uint32_t>(__builtin_popcount(warp.alive));
    for (unsigned which = 0; which < 16; ++which) {
        if (barriers[which].all != 0 && barriers[which].expected == 0) check(which);
    }
    cluster->left(*this);
}

}  // namespace gates_cpu
