#include "races.h"

#include <algorithm>

#include "cta.h"

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

bool GlobalRaces::join(Known& into, const Known& from) {
    bool more = false;
    for (const auto& [cta, fences] : from) {
        std::uint32_t& held = into[cta];
        more |= held < fences;
        held = std::max(held, fences);
    }
    return more;
}

// What a CTA knows it passes on. One that polls does not do it again and again.
void GlobalRaces::released(std::uint32_t cta, std::uint64_t address) {
    Knowledge& own = known_[cta];
    const std::pair<std::uint32_t, std::uint32_t> now{own.version, fences_[cta]};
    std::pair<std::uint32_t, std::uint32_t>& given = own.given[address];
    if (given == now) return;
    given = now;
    Place& place = places_[address];
    const bool more = join(place.known, own.known), mine = join(place.known, {{cta, now.second}});
    place.version += more || mine;
}

void GlobalRaces::acquired(std::uint32_t cta, std::uint64_t address) {
    const auto place = places_.find(address);
    if (place == places_.end()) return;
    Knowledge& own = known_[cta];
    std::uint32_t& seen = own.seen[address];
    if (seen == place->second.version) return;
    seen = place->second.version;
    own.version += join(own.known, place->second.known);
}

bool GlobalRaces::knows(std::uint32_t cta, std::uint32_t other, std::uint32_t fences) const {
    const auto known = known_.find(cta);
    if (known == known_.end()) return false;
    const auto found = known->second.known.find(other);
    return found != known->second.known.end() && found->second > fences;
}

void Races::begin(std::uint32_t shared_bytes, unsigned warps) {
    warps_ = warps;
    clocks_.assign(warps, std::vector<std::uint32_t>(warps, 0));
    for (unsigned w = 0; w < warps; ++w) clocks_[w][w] = 1;
    barriers_.assign(16, std::vector<std::uint32_t>(warps, 0));
    rounds_.assign(warps, 0);
    places_.clear();
    first_epoch_ = ++epoch_;  // what is known of the CTA before is void
    proxied_at_.assign(warps * kLanes, 0);
    proxied_.assign(warps, 0);
    made_.clear();
    doubts_.clear();
    if (words_.size() < shared_bytes / 4 + 1) words_.assign(shared_bytes / 4 + 1, {});
    if (bytes_.size() < shared_bytes + 4) bytes_.assign(shared_bytes + 4, {});
}

bool Races::before(const Touch& touch, const Access& access) const {
    const Warp& warp = access.warp;
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number);
    if (touch.cta != cta) return access.all != nullptr && access.all->knows(cta, touch.cta, touch.fences);
    if (touch.epoch != epoch_) return true;
    const std::vector<std::uint32_t>& known = clocks_[warp.index];
    if (touch.warp == warp.index) return touch.lane == access.lane || touch.round != rounds_[warp.index] || touch.clock < known[warp.index];
    return touch.clock <= known[touch.warp];
}

template <class AtWord, class AtByte>
void Races::watch(const Access& access, std::uint64_t address, unsigned bytes, std::uint32_t stamp, AtWord word_at, AtByte byte_at) {
    if (bytes >= 4) {
        for (std::uint64_t at = address; at < address + bytes; at += 4) {
            Word& word = word_at(at);
            if (word.stamp != stamp) word.split = false;
            if (!word.split) {
                touch(word, access, at, stamp);
            } else {
                for (unsigned i = 0; i < 4; ++i) touch(byte_at(at + i), access, at + i, stamp);
            }
        }
        return;
    }
    Word& word = word_at(address);
    if (word.stamp != stamp || !word.split) {
        for (unsigned i = 0; i < 4; ++i) {
            Word& byte = byte_at(address / 4 * 4 + i);
            if (word.stamp == stamp) byte = word;
            else byte.stamp = 0;
        }
        word.stamp = stamp;
        word.split = true;
    }
    for (std::uint64_t at = address; at < address + bytes; ++at) touch(byte_at(at), access, at, stamp);
}

void Races::shared(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, bool write, bool strong, bool idle) {
    watch({warp, op, lane, write, strong, idle, nullptr}, address, bytes, epoch_,
          [this](std::uint64_t at) -> Word& { return words_[at / 4]; }, [this](std::uint64_t at) -> Word& { return bytes_[at]; });
}

void Races::global(GlobalRaces& all, Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, bool write, bool strong, bool idle) {
    const std::uint32_t cta = static_cast<std::uint32_t>(warp.cta->number);
    if (strong) {
        const Order order = op.extra->order;
        if (order == Order::Release || order == Order::AcqRel) all.fence(cta);
        all.acquired(cta, address);  // an atomic update reads, too; a plain strong store gains nothing that a finding hangs on
        if (write) all.released(cta, address);
    }
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
    const auto same_instruction = [&](const Touch& other) { return other.op == index && other.warp == warp.index && other.cta == cta; };  // its lanes
    if (watched.written && !access.idle && !(access.strong && watched.strong) && !before(watched.write, access) && !(access.write && same_instruction(watched.write))) {
        if (conflict(access, watched.write, true, watched.strong, address)) return;
    }
    if (access.idle && watched.written && !before(watched.write, access)) return;
    const Touch now{cta, access.all != nullptr ? access.all->fences(cta) : access.op.copies ? 0 : proxy_time_, epoch_, clocks_[warp.index][warp.index], index,
                    static_cast<std::uint8_t>(warp.index), static_cast<std::uint8_t>(access.lane), rounds_[warp.index]};
    if (access.write) {
        if (access.strong && access.op.extra->flags[kCompares] && !doubts_.empty()) doubts_.erase({address, warp.index * kLanes + access.lane});
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
        if (watched.read[i].cta == cta && watched.read[i].warp == warp.index && watched.read[i].lane == access.lane) {
            watched.read[i] = now;
            return;
        }
    }
    if (watched.readers < 2) {
        watched.read[watched.readers++] = now;
        return;
    }
    if (watched.read[1].cta == watched.read[0].cta && watched.read[1].warp == watched.read[0].warp && watched.read[0].warp != warp.index) watched.read[1] = now;
    else if (before(watched.read[0], access)) watched.read[0] = now;
    else if (before(watched.read[1], access)) watched.read[1] = now;
}

// False: it may be none, which the reader's next access decides.
bool Races::conflict(const Access& access, const Touch& other, bool other_write, bool other_strong, std::uint64_t address) {
    Warp& warp = access.warp;
    const bool here = other.cta == warp.cta->number, shared = access.all == nullptr;
    const std::string thread = "thread " + std::to_string(other.warp * kLanes + other.lane) + (here ? " of the block" : " of block " + std::to_string(other.cta));
    const std::string what = shared ? "byte " + std::to_string(address - kSharedStart) + " of shared memory" : "global memory";
    Launch& launch = *warp.cta->launch;
    const auto finding = [&] {
        return launch.finding(&warp, access.op.place, access.lane, shared ? "cpu.race_shared" : "cpu.race_global",
                              std::string(access.write ? "writes " : "reads ") + what + ", which " + thread + (other_write ? " wrote" : " read") +
                                  (here ? ", and no barrier lies between" : ", and nothing orders the two: no atomic operation, no fence with a flag"),
                              warp.program->ops[static_cast<std::size_t>(other.op)].place);
    };
    const bool reads = !access.write && other_write && other_strong, was_read = access.write && access.strong && !other_write && here;
    if (!reads && !was_read) {
        add_finding(finding());
        return true;
    }
    if (doubts_.size() > 1000) return false;
    std::vector<Finding>& doubts = doubts_[{address, reads ? warp.index * kLanes + access.lane : other.warp * kLanes + other.lane}];
    if (doubts.empty()) doubts.push_back(finding());
    return false;
}

void Races::end() {
    for (const auto& [where, doubts] : doubts_) {
        for (const Finding& doubt : doubts) add_finding(doubt);
    }
    doubts_.clear();
}

void Races::arrive(const Warp& warp, unsigned barrier) {
    std::vector<std::uint32_t>& known = barriers_[barrier];
    for (unsigned w = 0; w < warps_; ++w) known[w] = std::max(known[w], clocks_[warp.index][w]);
    ++clocks_[warp.index][warp.index];
}

void Races::leave(const Warp& warp, unsigned barrier) {
    for (unsigned w = 0; w < warps_; ++w) clocks_[warp.index][w] = std::max(clocks_[warp.index][w], barriers_[barrier][w]);
}

void Races::passed(unsigned barrier, bool whole) {
    std::fill(barriers_[barrier].begin(), barriers_[barrier].end(), 0);
    epoch_ += whole;
}

void Races::release_at(const Warp& warp, std::uint32_t place) {
    std::vector<std::uint32_t>& known = places_[place];
    known.resize(warps_);
    for (unsigned w = 0; w < warps_; ++w) known[w] = std::max(known[w], clocks_[warp.index][w]);
    ++clocks_[warp.index][warp.index];
}

void Races::acquire_at(const Warp& warp, std::uint32_t place) {
    const auto found = places_.find(place);
    if (found == places_.end()) return;
    for (unsigned w = 0; w < warps_; ++w) clocks_[warp.index][w] = std::max(clocks_[warp.index][w], found->second[w]);
    ++clocks_[warp.index][warp.index];  // lanes of the warp that ran apart are together again
}

void Races::proxy_fence(const Warp& warp) {
    ++proxy_time_;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (warp.exec >> lane & 1) proxied_at_[warp.index * kLanes + lane] = proxy_time_;
    }
    for (unsigned w = 0; w < warps_; ++w) proxied_[w] = std::max(proxied_[w], clocks_[warp.index][w] - (w == warp.index));
}

// By the thread that stored, or by one that a barrier has told of it.
bool Races::proxied(const Touch& touch) const {
    return touch.fences == 0 || touch.epoch < first_epoch_ || proxied_at_[touch.warp * kLanes + touch.lane] > touch.fences || touch.clock <= proxied_[touch.warp];
}

void Races::barrier_made(const Warp& warp, unsigned lane, const Op& op, std::uint32_t address) {
    made_[address] = {static_cast<std::uint32_t>(warp.cta->number), proxy_time_, epoch_, clocks_[warp.index][warp.index],
                      static_cast<std::int32_t>(&op - warp.program->ops.data()), static_cast<std::uint8_t>(warp.index), static_cast<std::uint8_t>(lane), rounds_[warp.index]};
}

const Touch* Races::last_store(std::uint32_t address) const {
    const Word& word = words_[address / 4];
    const Touch& touch = word.split ? bytes_[address].write : word.write;
    return touch.op >= 0 && touch.epoch >= first_epoch_ ? &touch : nullptr;
}

std::int32_t Races::not_proxied(std::uint32_t address, unsigned bytes) const {
    for (std::uint32_t at = address; at < address + bytes; at += words_[at / 4].split ? 1 : 4) {
        const Touch* const touch = last_store(at);
        if (touch != nullptr && !proxied(*touch)) return touch->op;
    }
    return -1;
}

std::int32_t Races::barrier_not_proxied(std::uint32_t address) const {
    const auto found = made_.find(address);
    return found == made_.end() || proxied(found->second) ? -1 : found->second.op;
}

std::int32_t Races::last_writer(std::uint32_t address) const {
    const Touch* const touch = last_store(address);
    return touch != nullptr ? touch->op : -1;
}

void Races::lanes_met(const Warp& warp) { ++rounds_[warp.index]; }

}  // namespace gates_cpu
