// A CTA: its warps, shared memory, barriers; and the launch that it belongs to.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "findings.h"
#include "memory.h"
#include "warp.h"

namespace gates_cpu {

class GlobalRaces;
class Races;

struct Launch {
    const Program* program = nullptr;
    std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
    std::uint32_t dynamic_shared = 0;
    std::vector<std::uint8_t> parameters;
    bool cooperative = false;
    std::uint64_t workspace = 0;         // of a cooperative launch: where its CTAs meet (cooperative_groups' grid_workspace)
    std::atomic<bool> ended{false};      // by the time limit, or a finding after which nothing can go on
    std::atomic<int> error{0};           // of the runtime, by the first fault
    std::chrono::steady_clock::time_point deadline;
    std::uint64_t seed = 0;
    std::atomic<std::uint64_t> executed{0};
    std::shared_ptr<GlobalRaces> global_races;  // null if races are not looked for

    std::uint64_t ctas() const { return std::uint64_t(grid[0]) * grid[1] * grid[2]; }
    std::uint64_t cluster_size() const { return std::uint64_t(cluster[0]) * cluster[1] * cluster[2]; }
    std::uint64_t clusters() const { return ctas() / cluster_size(); }
    unsigned threads() const { return block[0] * block[1] * block[2]; }
    std::string where(std::int32_t place) const;                       // FILE:LINE of the user's own code
    bool inlined_from(std::int32_t place, const char* path) const;     // whether a file with `path` in its name holds it, or inlined it
    Finding finding(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message, std::int32_t other = -1) const;
    void fault(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message);  // a finding, and the launch's error
    void report(const Warp* warp, std::int32_t place, unsigned lane, const std::string& code, const std::string& message,
                std::int32_t other = -1);
};

struct Barrier {
    std::uint32_t arrived = 0, expected = 0;   // threads; 0: all that live
    std::uint32_t ones = 0, all = 0;           // of a reduction: threads whose predicate held, and all of them
};

struct Cluster;
struct CopyGroup;
struct TensorCopy;

struct Cta {
    enum class Progress : std::uint8_t { Ended, Spinning, Waiting };

    Launch* launch = nullptr;
    Cluster* cluster = nullptr;
    std::uint32_t rank = 0;                    // in the cluster
    std::uint64_t number = 0;
    std::uint32_t id[3] = {};
    std::vector<Warp> warps;
    std::vector<std::uint8_t> shared, shared_shadow, files, local;
    std::uint32_t shared_limit = 0;            // addresses from kSharedStart to here are its own
    std::uint32_t alive = 0;                   // threads
    bool ran = false;                          // in its last turn
    Barrier barriers[16];
    std::uint64_t barriers_passed = 0;
    bool polled = false;                       // it read what others write, since its last barrier
    std::shared_ptr<Races> races;
    std::vector<std::unique_ptr<CopyGroup>> copies;  // asynchronous ones that have not landed, one entry a warp
    std::vector<TensorCopy> tensors;           // copies in bulk to its shared memory that have not landed
    std::vector<std::unique_ptr<Products>> products; // of wgmma, one entry a warp

    Cta();
    ~Cta();
    void start(Launch& launch, std::uint64_t number);
    Progress turn(std::uint64_t operations);   // of each warp
    bool advance_asynchronous();               // nothing can run: a copy or product ends; false if there is none
    void stuck();                              // nothing ever will
    void arrive(Warp& warp, const Op& op, unsigned barrier, std::uint32_t expected, bool waits, std::uint32_t predicate);
    void left(Warp& warp);
    void report_here(Warp& warp, const Op& op, const std::string& code, const std::string& message);  // ends the launch

  private:
    std::vector<unsigned> order_;
    unsigned polls_ = 0;                       // barriers in this turn that came after such a read
    bool settled_ = false;                     // it has ended, and what it executed is counted
    void complete(unsigned barrier);
    void check(unsigned barrier);
    bool land_awaited();
    bool finish_products();
    void compare_products();
    void report_time_limit();
};

// All CTAs of a launch, over `threads` threads of this machine. Returns when they have ended.
void execute(Launch& launch, unsigned threads);

}  // namespace gates_cpu
