// Races: who touched a word last, and whether something orders the two. Within a CTA that is a barrier, of the whole CTA, of some
// warps or of a warp's lanes; between CTAs a fence, then a strong write (atomic, volatile, relaxed, release) that the other has read.
// Words are four bytes; one that is accessed by the byte is watched by the byte.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "findings.h"

namespace gates_cpu {

struct Cta;
struct Warp;
struct Op;

struct Touch {
    std::uint32_t cta = 0, fences = 0, epoch = 0, clock = 0;
    std::uint32_t proxy_time = 0;        // 0 if an engine of its own wrote
    std::int32_t op = -1;
    std::uint16_t warp = 0;              // its rank in the cluster
    std::uint8_t lane = 0;
};

struct Word {
    std::uint32_t stamp = 0;             // of what follows; another one makes it void
    bool written = false, strong = false, split = false;
    std::uint8_t readers = 0;
    Touch write, read[2];                // two readers of different threads: a third writer races with one of them
};

// Global memory in one launch: its watched words, and what CTAs know of one another.
class GlobalRaces {
  public:
    Word& word(std::uint64_t address) { return page(address).words[address % kPage / 4]; }
    Word& byte(std::uint64_t address);
    void fence(std::uint32_t cta) { ++fences_[cta]; }
    std::uint32_t fences(std::uint32_t cta) { return fences_[cta]; }
    void released(std::uint32_t cta, std::uint64_t address);
    void acquired(std::uint32_t cta, std::uint64_t address);
    bool knows(std::uint32_t cta, std::uint32_t other, std::uint32_t fences) const;
    // Tensor maps that CTAs changed: the copy engine of a CTA sees the change after a release, and an acquire of that CTA.
    void map_changed(std::uint32_t cta, std::uint64_t address, bool released);
    void maps_released(std::uint32_t cta);
    void map_acquired(std::uint32_t cta, std::uint64_t address);
    bool map_seen(std::uint32_t cta, std::uint64_t address) const;
    bool proxy_fenced = false;           // by any thread
    // Plain reads of what others update by atomic operations are no races if they are guesses: a thread that has read by the same
    // instruction then swaps by comparison, the usual loop.
    void guessed(std::int32_t op) { guesses_.insert(op); }
    void doubt(std::int32_t op, Finding finding) { if (doubts_.size() < 1000) doubts_.emplace_back(op, std::move(finding)); }
    void end() const;                    // says what stayed in doubt

  private:
    static constexpr std::uint64_t kPage = 4096;
    struct Page {
        Word words[kPage / 4];
        std::vector<Word> bytes;
    };
    using Known = std::unordered_map<std::uint32_t, std::uint32_t>;  // CTA -> its fences
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::unordered_map<std::uint32_t, std::uint32_t> fences_;
    struct Place {                       // what those that wrote there knew
        Known known;
        std::uint32_t version = 1;
    };
    struct Knowledge {
        Known known;
        std::uint32_t version = 1;
        std::unordered_map<std::uint64_t, std::uint32_t> seen;                             // place -> its version then
        std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> given;  // place -> own version and fences then
    };
    struct Map { std::uint32_t cta, version; bool released; };
    std::unordered_map<std::uint64_t, Map> maps_;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> maps_acquired_;  // CTA and address: the version
    std::unordered_map<std::uint64_t, Place> places_;
    std::unordered_map<std::uint32_t, Knowledge> known_;
    std::set<std::int32_t> guesses_;
    std::vector<std::pair<std::int32_t, Finding>> doubts_;
    static bool join(Known& into, const Known& from);
    std::uint64_t last_number_ = ~0ull;
    Page* last_ = nullptr;
    Page& page(std::uint64_t address);
};

// Of one cluster, usually of one CTA. A place in shared memory is an offset, plus `span` for each CTA of lower rank.
class Races {
  public:
    void begin(std::uint32_t span, unsigned warps_of_cta, std::vector<std::uint32_t> ctas);
    std::uint32_t place(const Cta& owner, std::uint32_t address) const;
    // A store of what is there already (idle) races with no other store, but with what reads it later.
    void shared(Warp& warp, const Op& op, unsigned lane, std::uint32_t place, unsigned bytes, bool write, bool strong, bool idle);
    void global(GlobalRaces& all, Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, bool write, bool strong, bool idle);
    void arrive(const Warp& warp, unsigned barrier);
    void leave(const Warp& warp, unsigned barrier);
    void passed(const Cta& cta, unsigned barrier, bool whole);
    void arrive_at_cluster(const Warp& warp, unsigned parity, bool releases);
    void leave_cluster(const Warp& warp, unsigned parity);
    void cluster_passed(unsigned parity);
    void fence(const Warp& warp);                             // what came before is released by a relaxed arrival or store, too
    void reaches(Warp& warp, const Op& op, unsigned lane, const Cta& owner);
    void cta_ended(const Cta& cta);
    static void report_ended(Warp& warp, const Op& op, unsigned lane, const Cta& owner);
    void release_at(const Warp& warp, std::uint32_t place);   // an mbarrier: what the warp did before is known to those who
    void acquire_at(const Warp& warp, std::uint32_t place);   // come here later
    void lanes_met(const Warp& warp);        // bar.warp.sync
    void end(GlobalRaces& all);              // hands over what stayed in doubt

    // The asynchronous proxy (wgmma, copies in bulk) sees what threads stored only after fence.proxy.async. What lacks it is -1, or
    // the operation that stored: shared memory, global memory, an mbarrier.
    void proxy_fence(const Warp& warp, bool of_shared, bool of_global);
    void barrier_made(const Warp& warp, unsigned lane, const Op& op, std::uint32_t address);
    void barriers_fenced(const Warp& warp);                                 // fence.mbarrier_init
    std::int32_t not_proxied(std::uint32_t address, unsigned bytes) const;
    std::int32_t not_proxied(GlobalRaces& all, std::uint64_t address, unsigned bytes) const;
    std::int32_t barrier_not_proxied(std::uint32_t address) const;
    std::int32_t last_writer(std::uint32_t address) const;                  // operation, or -1

  private:
    struct Reached { Warp* warp; const Op* op; unsigned lane; std::uint32_t clock; };
    std::vector<std::uint32_t> ctas_;        // their numbers
    std::uint32_t span_ = 0;
    unsigned warps_ = 0, warps_of_cta_ = 0;
    bool alone() const { return ctas_.size() == 1; }
    static void join(std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& from);
    std::vector<std::uint32_t>& barrier(const Cta& cta, unsigned number);
    std::vector<std::uint32_t>& cluster_barrier(unsigned parity);
    std::map<std::pair<unsigned, unsigned>, Reached> reached_;  // CTA and warp: the warp's last access to the CTA's shared memory
    std::vector<std::vector<std::uint32_t>> fenced_;   // of each warp: what it knew at its last fence
    std::uint32_t epoch_ = 1;                // barriers of the whole CTA
    std::vector<std::vector<std::uint32_t>> clocks_;   // of each warp: what it knows of the others
    std::vector<std::vector<std::uint32_t>> barriers_; // what those that arrived know: 16 a CTA, then two phases of the cluster's
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> places_;
    std::vector<std::uint32_t> met_;                   // of each warp: its own clock when its lanes were last together
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> flags_;  // places in shared memory: what strong stores there tell
    std::vector<Word> words_, bytes_;                  // of shared memory
    std::map<std::pair<std::uint64_t, unsigned>, std::pair<std::int32_t, Finding>> doubts_;  // address and thread: its read
    std::uint32_t first_epoch_ = 1;                    // of the CTA
    struct ProxyFences {
        std::vector<std::uint32_t> at;                 // of each thread: the time after its last fence
        std::vector<std::uint32_t> known;              // of each warp: what those that made a fence knew
        void made(const Races& races, const Warp& warp);
    };
    std::uint32_t proxy_time_ = 1;                     // proxy fences that threads made
    ProxyFences shared_fences_, global_fences_;
    std::unordered_map<std::uint32_t, Touch> made_;    // barriers
    bool proxied(const Touch& touch, const ProxyFences& fences) const;
    const Touch* last_store(std::uint32_t address) const;

    struct Access {
        Warp& warp;
        const Op& op;
        unsigned lane;
        bool write, strong, idle;
        GlobalRaces* all;                    // null: of shared memory
    };
    template <class AtWord, class AtByte> void watch(const Access& access, std::uint64_t address, unsigned bytes, std::uint32_t stamp, AtWord word, AtByte byte);
    void touch(Word& watched, const Access& access, std::uint64_t address, std::uint32_t stamp);
    bool conflict(const Access& access, const Touch& other, bool other_write, bool other_strong, std::uint64_t address);
    bool before(const Touch& touch, const Access& access) const;
    void tick(const Warp& warp);
    void flag(const Warp& warp, const Op& op, std::uint32_t place, bool write);
    void swapped(const Access& access, const Word& watched, std::uint64_t address);
};

}  // namespace gates_cpu
