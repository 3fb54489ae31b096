// The clusters of a launch over the threads of this machine.
#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "access.h"
#include "cluster.h"
#include "copies.h"
#include "device.h"
#include "races.h"

namespace gates_cpu {
namespace {

constexpr std::uint64_t kTurn = 20000, kShortTurn = 1000;  // operations of a warp before another has its turn; short: of one that polls

std::uint64_t resident_clusters(const Launch& launch) {
    const Limits& limits = Device::get().limits;
    const std::uint64_t ctas = std::uint64_t(limits.multiprocessors) * std::max(resident(limits, *launch.program, static_cast<int>(launch.threads()), launch.dynamic_shared), 1);
    return std::max<std::uint64_t>(ctas / launch.cluster_size(), 1);
}

// The seed's order of clusters `first` up to `last`, which the chip can hold at a time: a device promises none of them. Seed 0: as they are numbered.
std::vector<std::uint64_t> ordered(std::uint64_t first, std::uint64_t last, std::uint64_t seed) {
    std::vector<std::uint64_t> numbers(last - first);
    std::iota(numbers.begin(), numbers.end(), first);
    if (seed != 0) std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(seed + first));
    return numbers;
}

// One after the other. While those that run wait for others, more begin, up to what the chip can hold.
void in_order(Launch& launch) {
    const std::uint64_t count = launch.clusters(), most = resident_clusters(launch);
    std::deque<std::unique_ptr<Cluster>> running;
    std::vector<std::unique_ptr<Cluster>> spare;
    std::vector<std::uint64_t> order;
    for (std::uint64_t next = 0; (next < count || !running.empty()) && !launch.ended;) {
        const std::uint64_t more = std::min({count - next, std::max<std::uint64_t>(running.size(), 1), most - running.size()});
        for (std::uint64_t i = 0; i < more && !launch.ended; ++i) {
            if (spare.empty()) spare.push_back(std::make_unique<Cluster>());
            std::unique_ptr<Cluster> cluster = std::move(spare.back());
            spare.pop_back();
            if (next % most == 0) order = ordered(next, std::min(next + most, count), launch.seed);
            cluster->start(launch, order[next++ % most]);
            if (cluster->run(kTurn)) spare.push_back(std::move(cluster));
            else running.push_back(std::move(cluster));
        }
        for (std::size_t i = 0; i < running.size() && !launch.ended;) {
            if (running[i]->run(kShortTurn)) {
                spare.push_back(std::move(running[i]));
                running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
            } else {
                ++i;
            }
        }
    }
}

void side_by_side(Launch& launch, unsigned threads) {
    std::atomic<std::uint64_t> next{0};
    std::exception_ptr failure;
    std::mutex guard;
    const auto work = [&] {
        try {
            Cluster cluster;
            for (std::uint64_t number = next++; number < launch.clusters() && !launch.ended; number = next++) {
                cluster.start(launch, number);
                while (!cluster.run(kTurn)) {}
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(guard);
            failure = std::current_exception();
            launch.ended = true;
        }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < std::min<std::uint64_t>(threads, launch.clusters()); ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

void execute(Launch& launch, unsigned threads) {
    if (checks.races) launch.global_races = std::make_shared<GlobalRaces>();
    if (launch.program->global_atomics || launch.cooperative || launch.global_races) in_order(launch);
    else side_by_side(launch, threads);
    if (launch.global_races) launch.global_races->end(*launch.program);
}

}  // namespace gates_cpu
