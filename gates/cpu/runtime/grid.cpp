// The CTAs of a launch over the threads of this machine.
#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "access.h"
#include "copies.h"
#include "cta.h"
#include "races.h"

namespace gates_cpu {
namespace {

constexpr std::uint64_t kTurn = 20000;        // operations of a warp before another has its turn
constexpr std::uint64_t kResident = 264;      // CTAs that run together at most

std::unique_ptr<Cta> made() {
    auto cta = std::make_unique<Cta>();
    if (checks.races) cta->races = std::make_shared<Races>();
    return cta;
}

// One after the other, in order; one that waits for others lets the next begin.
void in_order(Launch& launch) {
    std::deque<std::unique_ptr<Cta>> running, spare;
    std::uint64_t next = 0;
    const std::uint64_t count = launch.ctas();
    while ((next < count || !running.empty()) && !launch.ended) {
        if (next < count && running.size() < kResident) {
            std::unique_ptr<Cta> cta = spare.empty() ? made() : std::move(spare.front());
            if (!spare.empty()) spare.pop_front();
            cta->start(launch, next++);
            running.push_back(std::move(cta));
        }
        for (std::size_t i = 0; i < running.size();) {
            if (running[i]->run(kTurn)) {
                spare.push_back(std::move(running[i]));
                running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
            } else {
                ++i;
            }
            if (launch.ended) return;
        }
    }
}

void side_by_side(Launch& launch, unsigned threads) {
    std::atomic<std::uint64_t> next{0};
    std::exception_ptr failure;
    std::mutex guard;
    const auto work = [&] {
        try {
            const std::unique_ptr<Cta> cta = made();
            for (std::uint64_t number = next++; number < launch.ctas() && !launch.ended; number = next++) {
                cta->start(launch, number);
                while (!cta->run(kTurn)) {}
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(guard);
            failure = std::current_exception();
            launch.ended = true;
        }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < std::min<std::uint64_t>(threads, launch.ctas()); ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

void execute(Launch& launch, unsigned threads) {
    if (launch.program->global_atomics || launch.cooperative || launch.global_races) in_order(launch);
    else side_by_side(launch, threads);
}

}  // namespace gates_cpu
