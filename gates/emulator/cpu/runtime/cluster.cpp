#include "cluster.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "access.h"
#include "races.h"

namespace gates_cpu {

void Cluster::start(Launch& owner, std::uint64_t number) {
    launch_ = &owner;
    phase_ = 0;
    const std::uint32_t *size = owner.cluster, *grid = owner.grid;
    const std::uint32_t count = size[0] * size[1] * size[2];
    if (checks.races && !races_) races_ = std::make_shared<Races>();
    if (!checks.races) races_ = nullptr;
    ctas.resize(count);
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
        const std::uint32_t wide = grid[0] / size[0], high = grid[1] / size[1];
        const std::uint64_t x = number % wide * size[0] + rank % size[0];
        const std::uint64_t y = number / wide % high * size[1] + rank / size[0] % size[1];
        const std::uint64_t z = number / wide / high * size[2] + rank / size[0] / size[1];
        if (!ctas[rank]) ctas[rank] = std::make_unique<Cta>();
        Cta& cta = *ctas[rank];
        cta.cluster = this;
        cta.rank = rank;
        cta.races = races_;
        cta.start(owner, x + grid[0] * (y + grid[1] * z));
        numbers.push_back(static_cast<std::uint32_t>(cta.number));
    }
    if (races_) races_->begin(ctas[0]->shared_limit, static_cast<unsigned>(ctas[0]->warps.size()), std::move(numbers));
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0u);
    if (owner.seed != 0) std::shuffle(order_.begin(), order_.end(), std::mt19937_64(owner.seed * 31 + number));
}

bool Cluster::run(std::uint64_t operations) {
    for (;;) {
        bool living = false, spun = false, ran = false;
        for (const unsigned rank : order_) {
            const Cta::Progress progress = ctas[rank]->turn(operations);
            if (launch_->ended.load(std::memory_order_relaxed)) break;
            living |= progress != Cta::Progress::Ended;
            spun |= progress == Cta::Progress::Spinning;
            ran |= ctas[rank]->ran;
        }
        if (!living || launch_->ended.load(std::memory_order_relaxed)) {
            return true;
        }
        if (spun) return false;
        if (ran && !alone()) continue;
        if (std::any_of(order_.begin(), order_.end(), [this](unsigned rank) { return ctas[rank]->advance_asynchronous(); })) continue;
        Cta& first = **std::find_if(ctas.begin(), ctas.end(), [](const auto& cta) { return cta->alive != 0; });
        first.stuck();
    }
}

void Cluster::arrive(Warp& warp, const Op& op, bool releases) {
    if (((warp.cluster_arrived[0] | warp.cluster_arrived[1]) & warp.exec) != 0) {
        return warp.cta->report_here(warp, op, "cpu.cluster_barrier", "a thread arrives twice at the barrier of the cluster; barrier.cluster.wait comes between");
    }
    warp.cluster_arrived[phase_ & 1] |= warp.exec;
    if (races_) races_->arrive_at_cluster(warp, phase_ & 1, releases);
    check();
}

void Cluster::wait(Warp& warp, const Op& op) {
    if ((warp.exec & ~(warp.cluster_arrived[0] | warp.cluster_arrived[1])) != 0) {
        return warp.cta->report_here(warp, op, "cpu.cluster_barrier", "a thread waits at the barrier of the cluster where it has not arrived");
    }
    const std::uint32_t early = warp.exec & warp.cluster_arrived[phase_ & 1], before = ~phase_ & 1;
    if ((warp.exec & warp.cluster_arrived[before]) != 0) {
        warp.cluster_arrived[before] &= ~warp.exec;
        if (races_) races_->leave_cluster(warp, warp.exec & ~warp.cluster_arrived[phase_ & 1], before);
    }
    if (early == 0) return;
    warp.exec = early;
    warp.wait(Wait::Cluster, 0, warp.pc);
}

// The phase ends when all threads that live have arrived.
void Cluster::check() {
    const std::uint32_t now = phase_ & 1;
    bool any = false;
    for (const auto& cta : ctas) {
        for (const Warp& warp : cta->warps) {
            if ((warp.alive & ~warp.cluster_arrived[now]) != 0) return;
            any |= warp.cluster_arrived[now] != 0;
        }
    }
    if (!any) return;
    ++phase_;
    if (races_) races_->cluster_passed(now);
    for (const auto& cta : ctas) {
        for (Warp& warp : cta->warps) {
            const std::uint32_t released = warp.release(Wait::Cluster, 0);
            warp.cluster_arrived[now] &= ~released;
            if (released != 0 && races_) races_->leave_cluster(warp, released, now);
        }
    }
}

void Cluster::left(const Cta& cta) {
    if (alone()) return;
    if (cta.alive == 0 && races_) races_->cta_ended(cta);
    check();
}

}  // namespace gates_cpu
