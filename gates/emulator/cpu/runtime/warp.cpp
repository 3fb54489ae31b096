#include "warp.h"

#include "cta.h"
#include "products.h"

namespace gates_cpu {

void Warp::start(unsigned threads) {
    alive = threads >= kLanes ? kAllLanes : (1u << threads) - 1;
    active = began = alive;
    pc = 0;
    count_ = 0;
    limit_ = kNowhere;
    calls.clear();
    cluster_arrived[0] = cluster_arrived[1] = 0;
    onward = latest_barrier = 0;
    stop = spinning = rotated_ = has_runnable_ = false;
}

template <bool watching> std::uint64_t Warp::execute(std::uint64_t operations) {
    const Op* const ops = program->ops.data();
    std::uint64_t done_here = 0;
    while (active != 0 && done_here < operations) {
        ++done_here;
        const Op& op = ops[pc++];
        exec = active;
        if (op.guard != kNowhere) exec &= op.guard_negated ? ~mask_at(op.guard) : mask_at(op.guard);
        if (exec != 0) {
            if (watching && op.watched) products->touch(*this, op);
            op.run(*this, op);
            if (stop) break;
        }
        if (pc >= limit_) meet();
    }
    return done_here;
}

void Warp::run(std::uint64_t operations) {
    stop = spinning = false;
    if (active == 0) choose();
    executed += products != nullptr ? execute<true>(operations) : execute<false>(operations);
    if ((!stop || spinning) && active != 0) {
        spinning = true;
        if (count_ > 0) rotate();
    }
}

void Warp::put(std::uint32_t at, std::uint32_t mask, Wait wait, std::uint32_t which) {
    for (unsigned i = 0; i < count_; ++i) {
        Group& group = groups_[i];
        if (group.pc == at && group.wait == wait && group.which == which) {
            group.mask |= mask;
            return;
        }
    }
    groups_[count_++] = {at, mask, wait, which};
}

void Warp::settle() {
    limit_ = kNowhere;
    has_runnable_ = false;
    for (unsigned i = 0; i < count_; ++i) {
        const Group& group = groups_[i];
        if (group.wait != Wait::None && group.wait != Wait::Lanes) continue;
        has_runnable_ |= group.wait == Wait::None;
        if (group.pc >= pc && group.pc < limit_) limit_ = group.pc;
    }
}

void Warp::meet() {
    for (unsigned i = 0; i < count_;) {
        const Group& group = groups_[i];
        if (group.pc == pc && (group.wait == Wait::None || group.wait == Wait::Lanes)) {
            active |= group.mask;
            drop(i);
        } else {
            ++i;
        }
    }
    if (!rotated_) {
        unsigned lowest = count_;
        for (unsigned i = 0; i < count_; ++i) {
            if (groups_[i].wait == Wait::None && groups_[i].pc < (lowest < count_ ? groups_[lowest].pc : pc)) lowest = i;
        }
        if (lowest < count_) {
            const Group chosen = groups_[lowest];
            drop(lowest);
            put(pc, active);
            pc = chosen.pc;
            active = chosen.mask;
            return meet();
        }
    }
    settle();
}

void Warp::choose() {
    unsigned lowest = count_;
    for (unsigned i = 0; i < count_; ++i) {
        if (groups_[i].wait == Wait::None && (lowest == count_ || groups_[i].pc < groups_[lowest].pc)) lowest = i;
    }
    rotated_ = false;
    if (lowest == count_) {
        // Lanes that wait for one another: those whose partners have all come, or ended, go on.
        for (unsigned i = 0; i < count_; ++i) {
            if (groups_[i].wait != Wait::Lanes) continue;
            std::uint32_t here = 0;
            for (unsigned j = 0; j < count_; ++j) {
                if (groups_[j].wait == Wait::Lanes && groups_[j].which == groups_[i].which) here |= groups_[j].mask;
            }
            if ((groups_[i].which & alive & ~here) == 0) {
                lowest = i;
                break;
            }
        }
    }
    if (lowest == count_) {
        active = 0;
        settle();
        return;
    }
    const Group chosen = groups_[lowest];
    drop(lowest);
    pc = chosen.pc;
    active = chosen.mask;
    meet();
}

// Another group's turn, so that lanes which poll for what other lanes of their warp do get an end.
void Warp::rotate() {
    for (unsigned i = 0; i < count_; ++i) {
        if (groups_[i].wait != Wait::None) continue;
        const Group chosen = groups_[i];
        for (unsigned j = i; j + 1 < count_; ++j) groups_[j] = groups_[j + 1];
        --count_;
        put(pc, active);
        pc = chosen.pc;
        active = chosen.mask;
        rotated_ = true;
        meet();
        return;
    }
    rotated_ = false;
}

void Warp::jump(std::uint32_t lanes, std::uint32_t target) {
    if (target < latest_barrier) went_back(lanes, target);
    if (lanes == active) {
        pc = target;
        if (count_ > 0) meet();
        return;
    }
    put(target, lanes);
    active &= ~lanes;
    meet();
}

void Warp::scatter(const std::map<std::uint32_t, std::uint32_t>& lanes) {
    if (lanes.size() == 1) return jump(lanes.begin()->second, lanes.begin()->first);
    for (const auto& [target, some] : lanes) {
        if (target < latest_barrier) went_back(some, target);
        put(target, some);
        active &= ~some;
    }
    if (active == 0) choose();
    else meet();
}

void Warp::went_back(std::uint32_t lanes, std::uint32_t target) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((lanes >> lane & 1) && target < last_barrier[lane]) onward &= ~(1u << lane);
    }
}

void Warp::leave(std::uint32_t lanes) {
    alive &= ~lanes;
    active &= ~lanes;
    cta->left(*this);
    if (active == 0) {
        choose();
        if (active == 0) stop = true;
    }
}

void Warp::wait(Wait kind, std::uint32_t which, std::uint32_t at) {
    put(at, exec, kind, which);
    active &= ~exec;
    if (active == 0) choose();
    else settle();
    if (active == 0) stop = true;
}

void Warp::part(std::uint32_t lanes, std::uint32_t at) {
    put(at, lanes);
    active &= ~lanes;
    settle();
}

std::uint32_t Warp::release(Wait kind, std::uint32_t which) {
    std::uint32_t released = 0;
    for (unsigned i = 0; i < count_;) {
        if (groups_[i].wait == kind && groups_[i].which == which) {
            const Group group = groups_[i];
            drop(i);
            put(group.pc, group.mask);
            released |= group.mask;
            i = 0;
        } else {
            ++i;
        }
    }
    if (released != 0) settle();
    return released;
}

bool Warp::together(const Op& op, std::uint32_t members) {
    const std::uint32_t wanted = members & alive;
    if ((wanted & ~exec) == 0) return true;
    std::uint32_t here = exec;
    for (unsigned i = 0; i < count_; ++i) {
        if (groups_[i].wait == Wait::Lanes && groups_[i].which == members) here |= groups_[i].mask;
    }
    if ((wanted & ~here) == 0) {
        // The others wait at another place. A barrier of lanes is all that this can be.
        if (op.mode == 1) {
            for (unsigned i = 0; i < count_;) {
                Group& group = groups_[i];
                if (group.wait == Wait::Lanes && group.which == members) {
                    const Group chosen = group;
                    drop(i);
                    put(chosen.pc + 1, chosen.mask);
                    i = 0;
                } else {
                    ++i;
                }
            }
            settle();
            return true;
        }
        cta->report_here(*this, op, "cpu.diverged_warp", "lanes of one warp exchange values from different places of the code");
        return true;
    }
    const std::uint32_t here_now = pc - 1;
    if (exec != active) {  // those that the guard leaves out go on
        put(pc, active & ~exec);
        active = exec;
    }
    wait(Wait::Lanes, members, here_now);
    return false;
}

bool Warp::all_together(const Op& op) {
    if (!together(op, kAllLanes)) return false;
    if (exec == kAllLanes) return true;
    const unsigned ended = kLanes - static_cast<unsigned>(__builtin_popcount(exec));
    cta->report_here(*this, op, "cpu.ended_lanes", "the instruction is one of all 32 lanes of a warp, and " + std::to_string(ended) + " of them have ended");
    return false;
}

}  // namespace gates_cpu
