// Races: who touched a word last, and whether something orders the two. That is a barrier, of the whole CTA, of some warps or of a
// warp's lanes; or a fence of a thread, its strong write (atomic, volatile, relaxed, release) after it, which another thread reads, and a
// fence or a barrier of the other after that. The write may be of a thread that met the first one at a barrier after the fence.
// Words are four bytes; one that is accessed by the byte is watched by the byte.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "findings.h"

namespace gates_cpu {

struct Cta;
struct Warp;
struct Op;
struct Program;

// Up to which time of its own somebody knows of each warp of a cluster; of single lanes it may know more than of their warps.
struct Known {
    std::vector<std::uint32_t> warps;
    std::map<std::uint32_t, std::uint32_t> lanes;  // 32 a warp

    bool join(const Known& from);                  // true: it knows more now
    bool has(unsigned warp, unsigned lane, std::uint32_t time) const;
    void clear();
};

struct Touch {
    std::uint32_t cta = 0, epoch = 0, clock = 0;
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
    void released(std::uint32_t cta, const std::vector<std::uint32_t>& cluster, std::uint64_t address, const std::shared_ptr<const Known>& fenced);
    const Known* acquired(std::uint32_t cta, std::uint64_t address);  // what is told there of the CTA's own cluster, if anything
    bool tells(std::uint64_t address) const { return places_.count(address) != 0; }
    bool knows(std::uint32_t cta, const Touch& touch) const;
    // Tensor maps that CTAs changed: the copy engine of a CTA sees the change after a release, and an acquire of that CTA.
    void map_changed(std::uint32_t cta, std::uint64_t address, bool released);
    void maps_released(std::uint32_t cta);
    void map_acquired(std::uint32_t cta, std::uint64_t address);
    bool map_seen(std::uint32_t cta, std::uint64_t address) const;
    bool proxy_fenced = false;           // by any thread
    // Plain reads of what others update by atomic operations are no races if they are guesses: the thread then swaps there by comparison,
    // the usual loop. One that need not swap is excused if other threads do, and nothing but that hangs on what it read.
    struct Reader {
        std::uint32_t cta, thread;       // in the cluster
        bool shared;
        std::uint64_t address;
        bool operator<(const Reader& other) const {
            return std::tie(cta, thread, shared, address) < std::tie(other.cta, other.thread, other.shared, other.address);
        }
    };
    void doubt(const Reader& reader, std::int32_t op, Finding finding);
    void guessed(std::int32_t op) { guesses_.insert(op); }
    void swapped(const Reader& reader);  // by comparison
    void end(const Program& program) const;  // says what stayed in doubt

  private:
    static constexpr std::uint64_t kPage = 4096;
    struct Page {
        Word words[kPage / 4];
        std::vector<Word> bytes;
    };
    using OfCtas = std::unordered_map<std::uint32_t, Known>;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    struct Place {                       // what those that wrote there knew
        OfCtas known;
        std::uint32_t version = 1;
    };
    struct Knowledge {
        OfCtas known;
        std::uint32_t version = 1;
        std::unordered_map<std::uint64_t, std::uint32_t> seen;                                            // place -> its version then
        std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::shared_ptr<const Known>>> given;  // place -> own version and fence then
    };
    struct Map { std::uint32_t cta, version; bool released; };
    std::unordered_map<std::uint64_t, Map> maps_;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> maps_acquired_;  // CTA and address: the version
    std::unordered_map<std::uint64_t, Place> places_;
    std::unordered_map<std::uint32_t, Knowledge> known_;
    std::set<std::int32_t> guesses_;
    std::map<Reader, std::pair<std::int32_t, Finding>> doubts_;
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
    void leave(const Warp& warp, std::uint32_t lanes, unsigned barrier);
    void passed(const Cta& cta, unsigned barrier, bool whole);
    void arrive_at_cluster(const Warp& warp, unsigned parity, bool releases);
    void leave_cluster(const Warp& warp, std::uint32_t lanes, unsigned parity);
    void cluster_passed(unsigned parity);
    // Of the executing lanes. What they did and knew before is released by their relaxed arrivals and stores, too, and what they have
    // read there is acquired; of global memory by one that is not of the CTA alone.
    void fence(const Warp& warp, GlobalRaces* all);
    void reaches(Warp& warp, const Op& op, unsigned lane, const Cta& owner);
    void cta_ended(const Cta& cta);
    static void report_ended(Warp& warp, const Op& op, unsigned lane, const Cta& owner);
    void release_at(const Warp& warp, std::uint32_t lanes, std::uint32_t place);  // an mbarrier: what these lanes did before is known to
    void acquire_at(const Warp& warp, std::uint32_t place);                       // those who come here later
    void lanes_met(const Warp& warp);        // bar.warp.sync

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
    std::map<std::pair<unsigned, unsigned>, Reached> reached_;  // CTA and warp: the warp's last access to the CTA's shared memory
    struct Fenced {                                    // what a thread, and those that it met since, knew at their last fences
        std::shared_ptr<const Known> of_cta, of_device;
        void join(const Fenced& from);
    };
    std::vector<Fenced> fences_;                       // of each thread
    std::vector<std::map<std::pair<bool, std::uint64_t>, std::uint32_t>> read_;  // of each warp: flags, of global memory or not, that lanes have read
    std::uint32_t epoch_ = 1;                // barriers of the whole CTA
    std::vector<Known> clocks_;                        // of each warp: its own time, and what it knows of the others
    struct Meeting {                                   // what those that arrived know, and what they have fenced
        Known known;
        Fenced fenced;
        void clear() { known.clear(); fenced = {}; }
    };
    std::vector<Meeting> barriers_;                    // 16 a CTA, then two phases of the cluster's
    Meeting& barrier(const Cta& cta, unsigned number);
    Meeting& cluster_barrier(unsigned parity);
    std::unordered_map<std::uint32_t, Known> places_;
    std::vector<std::uint32_t> met_;                   // of each warp: its own clock when its lanes were last together
    std::unordered_map<std::uint32_t, Known> flags_;   // places in shared memory: what strong stores there tell
    std::vector<Word> words_, bytes_;                  // of shared memory
    std::uint32_t first_epoch_ = 1;                    // of the CTA
    struct ProxyFences {
        std::vector<std::uint32_t> at;                 // of each thread: the time after its last fence
        Known known;                                   // what those that made a fence knew
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
    std::uint32_t& own(const Warp& warp);              // time
    Known known(const Warp& warp, std::uint32_t lanes) const;
    void learn(const Warp& warp, const Known& from);
    Fenced meet(const Warp& warp, std::uint32_t lanes);
    Fenced fences_met(const Warp& warp, std::uint32_t lanes, const Fenced& more);
    void acquire(const Warp& warp, std::uint32_t lanes, GlobalRaces* all);
    void release(const Warp& warp, std::uint32_t lanes, bool for_all);
    void flag(const Warp& warp, const Op& op, unsigned lane, std::uint64_t place, GlobalRaces* all, bool write);
    void swapped(const Access& access, const Word& watched, std::uint64_t address);
};

}  // namespace gates_cpu
