#include "races.h"

#include <algorithm>

#include "cta.h"
#include "dataflow.h"

namespace gates_cpu {

GlobalRaces::Page& GlobalRaces::page(std::uint64_t address) {
    const std::uint64_t number = address / kPage;
    if (number != last_number_) {
        std::unique_ptr<Page>& held = pages_[number];
        if (!held) held = std::make_unique<Page>();
        last_number_ = number;
        last_ = held.get();
    }
    return *last_;
}

Word& GlobalRaces::byte(std::uint64_t address) {
    Page& held = page(address);
    if (held.bytes.empty()) held.bytes.resize(kPage);
    return held.bytes[address % kPage];
}

bool Known::join(const Known& from) {
    bool more = false;
    if (warps.size() < from.warps.size()) warps.resize(from.warps.size());
    for (std::size_t w = 0; w < from.warps.size(); ++w) {
        more |= warps[w] < from.warps[w];
        warps[w] = std::max(warps[w], from.warps[w]);
    }
    for (const auto& [lane, time] : from.lanes) {
        if (has(lane / kLanes, lane % kLanes, time)) continue;
        lanes[lane] = time;
        more = true;
    }
    return more;
}

bool Known::has(unsigned warp, unsigned lane, std::uint32_t time) const {
    if (warp < warps.size() && time <= warps[warp]) return true;
    const auto found = lanes.find(warp * kLanes + lane);
    return found != lanes.end() && time <= found->second;
}

void Known::clear() {
    std::fill(warps.begin(), warps.end(), 0);
    lanes.clear();
}

// What a CTA knows it passes on. One that polls does not do it again and again.
void GlobalRaces::released(std::uint32_t cta, const std::vector<std::uint32_t>& cluster, std::uint64_t address, const std::shared_ptr<const Known>& fenced) {
    Knowledge& own = known_[cta];
    auto& [version, fence] = own.given[address];
    if (version == own.version && fence == fenced) return;
    version = own.version;
    fence = fenced;
    Place& place = places_[address];
    bool more = false;
    for (const auto& [other, known] : own.known) more |= place.known[other].join(known);
    for (const std::uint32_t member : cluster) more |= place.known[member].join(*fenced);
    place.version += more;
}

const Known* GlobalRaces::acquired(std::uint32_t cta, std::uint64_t address) {
    const auto place = places_.find(address);
    if (place == places_.end()) return nullptr;
    const auto told = place->second.known.find(cta);
    const Known* const of_cluster = told != place->second.known.end() ? &told->second : nullptr;
    Knowledge& own = known_[cta];
    std::uint32_t& seen = own.seen[address];
    if (seen == place->second.version) return of_cluster;
    seen = place->second.version;
    bool more = false;
    for (const auto& [other, known] : place->second.known) more |= own.known[other].join(known);
    own.version += more;
    return of_cluster;
}

bool GlobalRaces::knows(std::uint32_t cta, const Touch& touch) const {
    const auto own = known_.find(cta);
    if (own == known_.end()) return false;
    const auto found = own->second.known.find(touch.cta);
    return found != own->second.known.end() && found->second.has(touch.warp, touch.lane, touch.clock);
}

void GlobalRaces::doubt(const Reader& reader, std::int32_t op, Finding finding) {
    if (doubts_.size() < 1000) doubts_.try_emplace(reader, op, std::move(finding));
}

void GlobalRaces::swapped(const Reader& reader) {
    const auto doubt = doubts_.find(reader);
    if (doubt == doubts_.end()) return;
    guesses_.insert(doubt->second.first);
    doubts_.erase(doubt);
}

void GlobalRaces::end(const Program& program) const {
    std::map<std::int32_t, bool> excused;
    for (const auto& [reader, doubt] : doubts_) {
        const auto [known, anew] = excused.try_emplace(doubt.first, false);
        if (anew) known->second = guesses_.count(doubt.first) != 0 && only_decides(program, doubt.first);
        if (!known->second) add_finding(doubt.second);
    }
}

void GlobalRaces::map_changed(std::uint32_t cta, std::uint64_t address, bool released) {
    Map& map = maps_[address];
    map = {cta, map.version + 1, released};
}

void GlobalRaces::maps_released(std::uint32_t cta) {
    for (auto& [address, map] : maps_) map.released |= map.cta == cta;
}

void GlobalRaces::map_acquired(std::uint32_t cta, std::uint64_t address) {
    const auto map = maps_.find(address);
    if (map != maps_.end() && map->second.released) maps_acquired_[{cta, address}] = map->second.version;
}

bool GlobalRaces::map_seen(std::uint32_t cta, std::uint64_t address) const {
    const auto map = maps_.find(address);
    if (map == maps_.end()) return true;
    const auto acquired = maps_acquired_.find({cta, address});
    return acquired != maps_acquired_.end() && acquired->second == map->second.version;
}

void Races::begin(std::uint32_t span, unsigned warps_of_cta, std::vector<std::uint32_t> ctas) {
    ctas_ = std::move(ctas);
    span_ = span;
    warps_of_cta_ = warps_of_cta;
    warps_ = warps_of_cta * static_cast<unsigned>(ctas_.size());
    const Known nothing{std::vector<std::uint32_t>(warps_, 0), {}};
    clocks_.assign(warps_, nothing);
    for (unsigned w = 0; w < warps_; ++w) clocks_[w].warps[w] = 1;
    fences_.assign(warps_ * kLanes, {});
    read_.assign(warps_, {});
    barriers_.assign(16 * ctas_.size() + 2, {nothing, {}});
    met_.assign(warps_, 0);
    places_.clear();
    flags_.clear();
    reached_.clear();
    first_epoch_ = ++epoch_;  // what is known of the CTAs before is void
    for (ProxyFences* fences : {&shared_fences_, &global_fences_}) {
        fences->at.assign(warps_ * kLanes, 0);
        fences->known = nothing;
    }
    made_.clear();
    const std::size_t bytes = std::size_t(span) * ctas_.size();
    if (words_.size() < bytes / 4 + 1) words_.assign(bytes / 4 + 1, {});
    if (bytes_.size() < bytes + 4) bytes_.assign(bytes + 4, {});
}

std::uint32_t Races::place(const Cta& owner, std::uint32_t address) const { return owner.rank * span_ + address; }

bool Races::before(const Touch& touch, const Access& access) const {
    const Warp& warp = access.warp;
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number);
    if (access.all != nullptr && access.all->knows(cta, touch)) return true;
    if (touch.cta != cta && (alone() || std::find(ctas_.begin(), ctas_.end(), touch.cta) == ctas_.end())) return false;
    if (touch.epoch != epoch_) return true;
    const Known& known = clocks_[warp.rank];
    if (touch.warp != warp.rank) return known.has(touch.warp, touch.lane, touch.clock);
    if (touch.lane == access.lane || touch.clock < met_[warp.rank]) return true;
    const auto found = known.lanes.find(warp.rank * kLanes + touch.lane);
    return found != known.lanes.end() && touch.clock <= found->second;
}

template <class AtWord, class AtByte>
void Races::watch(const Access& access, std::uint64_t address, unsigned bytes, std::uint32_t stamp, AtWord word_at, AtByte byte_at) {
    if (bytes >= 4) {
        for (std::uint64_t at = address; at < address + bytes; at += 4) {
            Word& word = word_at(at);
            if (word.split && word.stamp != stamp) {
                word.split = false;
                word.write = byte_at(at).write;  // what proxies ask for
                for (unsigned i = 1; i < 4 && proxied(word.write, shared_fences_); ++i) word.write = byte_at(at + i).write;
            }
            if (!word.split) {
                touch(word, access, at, stamp);
            } else {
                for (unsigned i = 0; i < 4; ++i) touch(byte_at(at + i), access, at + i, stamp);
            }
        }
        return;
    }
    Word& word = word_at(address);
    if (!word.split) {
        for (unsigned i = 0; i < 4; ++i) byte_at(address / 4 * 4 + i) = word;
        word.split = true;
    }
    word.stamp = stamp;
    for (std::uint64_t at = address; at < address + bytes; ++at) touch(byte_at(at), access, at, stamp);
}

// What these lanes know. Of the others of their warp that is what those did before all met.
Known Races::known(const Warp& warp, std::uint32_t lanes) const {
    Known known = clocks_[warp.rank];
    std::uint32_t& time = known.warps[warp.rank];
    const std::uint32_t now = time;
    if ((warp.began & ~lanes) == 0) return known;
    time = std::max(met_[warp.rank], 1u) - 1;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (lanes >> lane & 1) known.lanes[warp.rank * kLanes + lane] = now;
    }
    return known;
}

void Races::learn(const Warp& warp, const Known& from) {
    Known& known = clocks_[warp.rank];
    known.join(from);
    const std::uint32_t first = warp.rank * kLanes;  // of its own lanes the warp's time says nothing
    for (auto told = from.lanes.lower_bound(first); told != from.lanes.end() && told->first < first + kLanes; ++told) {
        std::uint32_t& time = known.lanes[told->first];
        time = std::max(time, told->second);
    }
    if (warp.rank < from.warps.size()) met_[warp.rank] = std::max(met_[warp.rank], from.warps[warp.rank] + 1);
}

// What these lanes have read of flags.
void Races::acquire(const Warp& warp, std::uint32_t lanes, GlobalRaces* all) {
    auto& read = read_[warp.rank];
    for (auto flag = read.begin(); flag != read.end();) {
        const auto [of_global, place] = flag->first;
        if ((flag->second & lanes) != 0 && (!of_global || all != nullptr)) {
            const Known* const told = of_global ? all->acquired(static_cast<std::uint32_t>(warp.cta->number), place) : &flags_[static_cast<std::uint32_t>(place)];
            if (told != nullptr) learn(warp, *told);
            flag->second &= ~lanes;
        }
        flag = flag->second == 0 ? read.erase(flag) : std::next(flag);
    }
}

void Races::release(const Warp& warp, std::uint32_t lanes, bool for_all) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        Fenced& fenced = fences_[warp.rank * kLanes + lane];
        fenced.of_cta = std::make_shared<const Known>(known(warp, 1u << lane));
        if (for_all) fenced.of_device = fenced.of_cta;
    }
    ++own(warp);
}

void Races::fence(const Warp& warp, GlobalRaces* all) {
    acquire(warp, warp.exec, all);
    release(warp, warp.exec, all != nullptr);
}

// A strong access: it tells what its thread has fenced, and what a load reads counts from the thread's next fence on.
void Races::flag(const Warp& warp, const Op& op, unsigned lane, std::uint64_t place, GlobalRaces* all, bool write) {
    const Extra& access = *op.extra;
    const bool acquires = write || access.order == Order::Acquire;  // an atomic update needs no fence after it, as in CUDA's guide
    const bool reads = op.fills || op.d != kNowhere || (write && access.slots.size() > access.count);
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number), shared = static_cast<std::uint32_t>(place);
    if (reads && (all != nullptr ? all->tells(place) : flags_.count(shared) != 0)) {
        read_[warp.rank][{all != nullptr, place}] |= 1u << lane;
        if (acquires) acquire(warp, 1u << lane, all);
    }
    if (!write) return;
    if (access.order == Order::Release || access.order == Order::AcqRel) release(warp, 1u << lane, true);
    const Fenced& fenced = fences_[warp.rank * kLanes + lane];
    if (all == nullptr && fenced.of_cta) flags_[shared].join(*fenced.of_cta);
    if (all != nullptr && fenced.of_device) all->released(cta, ctas_, place, fenced.of_device);
}

void Races::shared(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, bool write, bool strong, bool idle) {
    for (unsigned at = 0; strong && at < bytes; at += bytes / op.extra->count) flag(warp, op, lane, address + at, nullptr, write);
    watch({warp, op, lane, write, strong, idle, nullptr}, address, bytes, epoch_,
          [this](std::uint64_t at) -> Word& { return words_[at / 4]; }, [this](std::uint64_t at) -> Word& { return bytes_[at]; });
}

void Races::global(GlobalRaces& all, Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, bool write, bool strong, bool idle) {
    for (unsigned at = 0; strong && at < bytes; at += bytes / op.extra->count) flag(warp, op, lane, address + at, &all, write);
    watch({warp, op, lane, write, strong, idle, &all}, address, bytes, 1,
          [&all](std::uint64_t at) -> Word& { return all.word(at); }, [&all](std::uint64_t at) -> Word& { return all.byte(at); });
}

void Races::touch(Word& watched, const Access& access, std::uint64_t address, std::uint32_t stamp) {
    if (watched.stamp != stamp) {
        watched.stamp = stamp;
        watched.written = false;
        watched.readers = 0;
    }
    const Warp& warp = access.warp;
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number);
    const std::int32_t index = static_cast<std::int32_t>(&access.op - warp.program->ops.data());
    const auto same_instruction = [&](const Touch& other) { return other.op == index && other.warp == warp.rank && other.cta == cta; };  // its lanes
    const auto of_block = [](const Op& op) { return op.extra->flags[kOfBlock]; };
    const bool narrow = access.strong && watched.written && watched.strong && watched.write.cta != cta &&
                        (of_block(access.op) || of_block(warp.program->ops[static_cast<std::size_t>(watched.write.op)]));
    if (watched.written && !access.idle && (narrow || !(access.strong && watched.strong)) && !before(watched.write, access) && !(access.write && same_instruction(watched.write))) {
        if (conflict(access, watched.write, true, watched.strong, address)) return;
    }
    if (access.idle && watched.written && !before(watched.write, access)) return;
    const Touch now{cta, epoch_, clocks_[warp.rank].warps[warp.rank], access.op.copies ? 0 : proxy_time_, index,
                    static_cast<std::uint16_t>(warp.rank), static_cast<std::uint8_t>(access.lane)};
    if (access.write) {
        if (access.strong && access.op.extra->flags[kCompares]) swapped(access, watched, address);
        for (std::uint8_t i = 0; i < watched.readers && !access.idle; ++i) {
            const Touch& reader = watched.read[i];
            if (!before(reader, access) && !same_instruction(reader) && conflict(access, reader, false, false, address)) return;
        }
        watched.write = now;
        watched.written = true;
        watched.strong = access.strong;
        watched.readers = 0;
        return;
    }
    if (access.strong) return;  // a strong read and a write that is not: found where the write is plain and comes first
    for (std::uint8_t i = 0; i < watched.readers; ++i) {
        if (watched.read[i].cta == cta && watched.read[i].warp == warp.rank && watched.read[i].lane == access.lane) {
            watched.read[i] = now;
            return;
        }
    }
    if (watched.readers < 2) {
        watched.read[watched.readers++] = now;
        return;
    }
    if (watched.read[1].cta == watched.read[0].cta && watched.read[1].warp == watched.read[0].warp && watched.read[0].warp != warp.rank) watched.read[1] = now;
    else if (before(watched.read[0], access)) watched.read[0] = now;
    else if (before(watched.read[1], access)) watched.read[1] = now;
}

// False: it may be none, which the reader's next access decides.
bool Races::conflict(const Access& access, const Touch& other, bool other_write, bool other_strong, std::uint64_t address) {
    Warp& warp = access.warp;
    const bool here = other.cta == warp.cta->number, shared = access.all == nullptr;
    const std::string thread = "thread " + std::to_string(other.warp % warps_of_cta_ * kLanes + other.lane) + (here ? " of the block" : " of block " + std::to_string(other.cta));
    const std::string what = shared ? "byte " + std::to_string(address % span_ - kSharedStart) + " of shared memory" : "global memory";
    Launch& launch = *warp.cta->launch;
    const auto finding = [&] {
        return launch.finding(&warp, access.op.place, access.lane, shared ? "cpu.race_shared" : "cpu.race_global",
                              std::string(access.write ? "writes " : "reads ") + what + ", which " + thread + (other_write ? " wrote" : " read") +
                                  (here ? ", and no barrier lies between" : access.strong && other_strong ? ", and the scope of an atomic access is one block" : shared ? ", and no barrier of the cluster lies between" : ", and nothing orders the two: no atomic operation, no fence with a flag"),
                              warp.program->ops[static_cast<std::size_t>(other.op)].place);
    };
    const bool reads = !access.write && !access.strong && other_write && other_strong, was_read = access.write && access.strong && !other_write;
    if (!reads && !was_read) {
        add_finding(finding());
        return true;
    }
    const std::uint32_t reader = reads ? warp.rank * kLanes + access.lane : other.warp * kLanes + other.lane;
    launch.global_races->doubt({reads ? static_cast<std::uint32_t>(warp.cta->number) : other.cta, reader, shared, address},
                               reads ? static_cast<std::int32_t>(&access.op - warp.program->ops.data()) : other.op, finding());
    return false;
}

// By comparison: what this thread has read there was a guess.
void Races::swapped(const Access& access, const Word& watched, std::uint64_t address) {
    const Warp& warp = access.warp;
    GlobalRaces& all = *warp.cta->launch->global_races;
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number);
    for (std::uint8_t i = 0; i < watched.readers; ++i) {
        const Touch& read = watched.read[i];
        if (read.cta == cta && read.warp == warp.rank && read.lane == access.lane) all.guessed(read.op);
    }
    all.swapped({cta, warp.rank * kLanes + access.lane, access.all == nullptr, address});
}

std::uint32_t& Races::own(const Warp& warp) { return clocks_[warp.rank].warps[warp.rank]; }

void Races::Fenced::join(const Fenced& from) {
    const auto joined = [](std::shared_ptr<const Known>& known, const std::shared_ptr<const Known>& more) {
        if (!more || more == known) return;
        Known all = *more;
        known = known && !all.join(*known) ? more : std::make_shared<const Known>(std::move(all));
    };
    joined(of_cta, from.of_cta);
    joined(of_device, from.of_device);
}

// What one of these lanes has fenced all of them have, and `more`: they have met.
Races::Fenced Races::fences_met(const Warp& warp, std::uint32_t lanes, const Fenced& more) {
    Fenced all = more;
    Fenced* const fences = &fences_[warp.rank * kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (lanes >> lane & 1) all.join(fences[lane]);
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (lanes >> lane & 1) fences[lane] = all;
    }
    return all;
}

void Races::lanes_met(const Warp& warp) {
    acquire(warp, warp.exec, warp.cta->launch->global_races.get());
    meet(warp, warp.exec);
}

// These lanes: from now on each knows what the others did. Returns what they have fenced.
Races::Fenced Races::meet(const Warp& warp, std::uint32_t lanes) {
    const Fenced fenced = fences_met(warp, lanes, {});
    if ((warp.began & ~lanes) == 0) {
        met_[warp.rank] = ++own(warp);
        return fenced;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (lanes >> lane & 1) clocks_[warp.rank].lanes[warp.rank * kLanes + lane] = own(warp);
    }
    ++own(warp);
    return fenced;
}

Races::Meeting& Races::barrier(const Cta& cta, unsigned number) { return barriers_[16 * cta.rank + number]; }
Races::Meeting& Races::cluster_barrier(unsigned parity) { return barriers_[barriers_.size() - 2 + parity]; }

void Races::arrive(const Warp& warp, unsigned number) {
    acquire(warp, warp.exec, warp.cta->launch->global_races.get());
    Meeting& barrier = this->barrier(*warp.cta, number);
    const std::uint32_t arrived = warp.exec | (warp.began & ~warp.alive);  // a lane that has ended counts as one that came
    barrier.known.join(known(warp, arrived));
    barrier.fenced.join(meet(warp, arrived));
}

void Races::leave(const Warp& warp, std::uint32_t lanes, unsigned number) {
    const Meeting& barrier = this->barrier(*warp.cta, number);
    learn(warp, barrier.known);
    fences_met(warp, lanes, barrier.fenced);
}

void Races::passed(const Cta& cta, unsigned number, bool whole) {
    barrier(cta, number).clear();
    epoch_ += whole && alone();
}

void Races::arrive_at_cluster(const Warp& warp, unsigned parity, bool releases) {
    if (alone()) return;
    acquire(warp, warp.exec, warp.cta->launch->global_races.get());
    Meeting& barrier = cluster_barrier(parity);
    const std::uint32_t arrived = warp.exec | (warp.began & ~warp.alive);
    if (releases) barrier.known.join(known(warp, arrived));
    for (unsigned lane = 0; lane < kLanes && !releases; ++lane) {
        const std::shared_ptr<const Known>& fenced = fences_[warp.rank * kLanes + lane].of_cta;
        if ((warp.exec >> lane & 1) && fenced) barrier.known.join(*fenced);
    }
    barrier.fenced.join(meet(warp, arrived));
}

void Races::leave_cluster(const Warp& warp, std::uint32_t lanes, unsigned parity) {
    learn(warp, cluster_barrier(parity).known);
    fences_met(warp, lanes, cluster_barrier(parity).fenced);
    met_[warp.rank] = ++own(warp);  // lanes of the warp that ran apart are together again
}

// Those who have passed the phase before know it by now.
void Races::cluster_passed(unsigned parity) { cluster_barrier(1 - parity).clear(); }

// An access to another CTA's shared memory: that CTA has begun, as something told, and is not to end before.
void Races::reaches(Warp& warp, const Op& op, unsigned lane, const Cta& owner) {
    const Known& known = clocks_[warp.rank];
    const unsigned begin = owner.rank * warps_of_cta_, end = begin + warps_of_cta_;
    const auto told = known.lanes.lower_bound(begin * kLanes);
    if (std::all_of(known.warps.begin() + begin, known.warps.begin() + end, [](std::uint32_t time) { return time == 0; }) &&
        (told == known.lanes.end() || told->first >= end * kLanes)) {
        warp.cta->launch->report(&warp, op.place, lane, "cpu.cluster_not_started",
                                 "accesses the shared memory of block rank " + std::to_string(owner.rank) + ", which may not have started: a barrier of the cluster comes first");
    }
    reached_[{owner.rank, warp.rank}] = {&warp, &op, lane, known.warps[warp.rank]};
}

void Races::cta_ended(const Cta& cta) {
    for (auto at = reached_.lower_bound({cta.rank, 0}); at != reached_.end() && at->first.first == cta.rank; ++at) {
        const Reached& last = at->second;
        bool told = false;
        for (unsigned w = cta.rank * warps_of_cta_; w < (cta.rank + 1) * warps_of_cta_; ++w) told |= clocks_[w].has(at->first.second, last.lane, last.clock);
        if (!told) report_ended(*last.warp, *last.op, last.lane, cta);
    }
}

void Races::report_ended(Warp& warp, const Op& op, unsigned lane, const Cta& owner) {
    warp.cta->launch->report(&warp, op.place, lane, "cpu.cluster_exited",
                             "accesses the shared memory of block rank " + std::to_string(owner.rank) + ", which may have ended: a barrier of the cluster before its end keeps it");
}

void Races::release_at(const Warp& warp, std::uint32_t lanes, std::uint32_t place) {
    places_[place].join(known(warp, lanes));
    ++own(warp);
}

void Races::acquire_at(const Warp& warp, std::uint32_t place) {
    const auto found = places_.find(place);
    if (found != places_.end()) learn(warp, found->second);
}

void Races::ProxyFences::made(const Races& races, const Warp& warp) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (warp.exec >> lane & 1) at[warp.rank * kLanes + lane] = races.proxy_time_;
    }
    Known others = races.clocks_[warp.rank];
    others.warps[warp.rank] = std::max(races.met_[warp.rank], 1u) - 1;
    known.join(others);
}

void Races::proxy_fence(const Warp& warp, bool of_shared, bool of_global) {
    ++proxy_time_;
    if (of_shared) {
        shared_fences_.made(*this, warp);
        barriers_fenced(warp);
    }
    if (!of_global) return;
    global_fences_.made(*this, warp);
    if (warp.cta->launch->global_races) warp.cta->launch->global_races->proxy_fenced = true;
}

// By the thread that stored, or by one that a barrier has told of it.
bool Races::proxied(const Touch& touch, const ProxyFences& fences) const {
    return touch.proxy_time == 0 || touch.epoch < first_epoch_ || fences.at[touch.warp * kLanes + touch.lane] > touch.proxy_time || fences.known.has(touch.warp, touch.lane, touch.clock);
}

void Races::barrier_made(const Warp& warp, unsigned lane, const Op& op, std::uint32_t address) {
    made_[address] = {static_cast<std::uint32_t>(warp.cta->number), epoch_, clocks_[warp.rank].warps[warp.rank], proxy_time_,
                      static_cast<std::int32_t>(&op - warp.program->ops.data()), static_cast<std::uint16_t>(warp.rank), static_cast<std::uint8_t>(lane)};
}

void Races::barriers_fenced(const Warp& warp) {
    for (auto made = made_.begin(); made != made_.end();) {
        const Touch& touch = made->second;
        const bool known = touch.warp == warp.rank ? (warp.exec >> touch.lane & 1) != 0 : clocks_[warp.rank].has(touch.warp, touch.lane, touch.clock);
        made = known ? made_.erase(made) : std::next(made);
    }
}

const Touch* Races::last_store(std::uint32_t address) const {
    const Word& word = words_[address / 4];
    const Touch& touch = word.split ? bytes_[address].write : word.write;
    return touch.op >= 0 && touch.epoch >= first_epoch_ ? &touch : nullptr;
}

std::int32_t Races::not_proxied(std::uint32_t address, unsigned bytes) const {
    for (std::uint32_t at = address; at < address + bytes; at += words_[at / 4].split ? 1 : 4) {
        const Touch* const touch = last_store(at);
        if (touch != nullptr && !proxied(*touch, shared_fences_)) return touch->op;
    }
    return -1;
}

// Of a CTA of another cluster it is known alone that no thread of the launch has made a fence.
std::int32_t Races::not_proxied(GlobalRaces& all, std::uint64_t address, unsigned bytes) const {
    for (std::uint64_t at = address, step; at < address + bytes; at += step) {
        const Word& word = all.word(at);
        const Touch& touch = word.split ? all.byte(at).write : word.write;
        step = word.split ? 1 : 4;
        if (touch.op < 0 || touch.proxy_time == 0) continue;
        const bool here = std::find(ctas_.begin(), ctas_.end(), touch.cta) != ctas_.end();
        if (here ? !proxied(touch, global_fences_) : !all.proxy_fenced) return touch.op;
    }
    return -1;
}

std::int32_t Races::barrier_not_proxied(std::uint32_t address) const {
    const auto found = made_.find(address);
    return found == made_.end() || proxied(found->second, shared_fences_) ? -1 : found->second.op;
}

std::int32_t Races::last_writer(std::uint32_t address) const {
    const Touch* const touch = last_store(address);
    return touch != nullptr ? touch->op : -1;
}

}  // namespace gates_cpu
