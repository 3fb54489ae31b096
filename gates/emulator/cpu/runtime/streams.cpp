#include "streams.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "findings.h"
#include "memory.h"

namespace gates_cpu {
namespace {

using Reached = std::map<Stream, std::uint64_t>;     // of each stream, how much of its work is known to have ended
constexpr std::uint64_t kMostWatched = 1 << 20;      // bytes of a block that both sides may touch
constexpr std::uint64_t kWord = 8;                   // bytes that the host reads at once

struct Touch {
    std::uint64_t at = 0;                            // in the stream's work
    std::string kernel;
};
struct Unread {                                      // memory of both sides that work has changed, and nobody has waited for
    std::uint64_t address, bytes, at;
    Stream stream;
};
struct Before {
    std::uint64_t address;
    std::vector<std::uint8_t> content;
};
struct LauncherCall {
    Stream caller = nullptr;
    std::vector<Given> given;
    std::map<Stream, Reached> streams;
    std::map<EventHandle, Reached> events;
    Reached host;
    std::map<Stream, Touch> last;                    // of the memory that was given
    std::vector<Unread> unread;
    std::vector<Before> before;
    std::set<Stream> after_kernel;
    Stream current = nullptr;
};
std::unique_ptr<LauncherCall> call;
std::mutex mutex;

Stream plain(Stream stream) { return stream == reinterpret_cast<Stream>(1) ? nullptr : stream; }  // cudaStreamLegacy

void join(Reached& into, const Reached& from) {
    for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

// The caller's stream is one that does not, unless it is the default stream itself.
bool blocks(Stream stream) { return stream != call->caller && syncs_with_legacy(stream); }

void join_by_legacy(Stream stream) {
    if (stream == nullptr) {
        for (const auto& [other, reached] : std::map<Stream, Reached>(call->streams)) if (other != nullptr && blocks(other)) join(call->streams[nullptr], reached);
    } else if (blocks(stream)) {
        join(call->streams[stream], call->streams[nullptr]);
    }
}

std::string named(const std::string& kernel) { return kernel.empty() ? "a copy or set" : "the kernel"; }

void report(const std::string& message, const std::string& kernel) {
    Finding finding;
    finding.code = "cpu.stream_order";
    finding.message = message;
    finding.kernel = kernel;
    add_finding(finding);
}

void report_early() {
    const std::string function = DeviceMemory::get().touched_early();
    if (!function.empty()) report("host code in " + function + " touches memory that work on a stream has changed, and nothing has waited for that work: synchronise first", {});
}

void lift(bool all) {
    auto& unread = call->unread;
    report_early();
    unread.erase(std::remove_if(unread.begin(), unread.end(), [&](const Unread& one) {
        if (!all && call->host[one.stream] < one.at) return false;
        DeviceMemory::get().keep_host_off(one.address, one.bytes, false);
        return true;
    }), unread.end());
}

}  // namespace

void begin_call(Stream caller, std::vector<Given> given) {
    const std::lock_guard<std::mutex> lock(mutex);
    call = std::make_unique<LauncherCall>();
    call->caller = plain(caller);
    call->given = std::move(given);
    call->streams[call->caller][call->caller] = 1;   // the caller's own work
    call->after_kernel.insert(call->caller);
}

void end_call() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    join_by_legacy(call->caller);
    Reached& known = call->streams[call->caller];
    for (const auto& [stream, touch] : call->last) {
        if (stream == call->caller || std::max(known[stream], call->host[stream]) >= touch.at) continue;
        report(named(touch.kernel) + " runs on a stream for which the caller's stream never waits: the caller may read its output before it is written", touch.kernel);
    }
    lift(true);
    call.reset();
}

void work_begins(Stream given) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    const Stream stream = call->current = plain(given);
    join(call->streams[stream], call->host);
    join_by_legacy(stream);
    ++call->streams[stream][stream];
    call->after_kernel.erase(stream);
    call->before.clear();
    const DeviceMemory& memory = DeviceMemory::get();
    for (const DeviceMemory::Block& block : memory.of_both()) {
        if (block.bytes <= kMostWatched) call->before.push_back({block.address, {memory.bytes(block.address), memory.bytes(block.address) + block.bytes}});
    }
}

void work_ended(Stream given) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    const Stream stream = plain(given);
    DeviceMemory& memory = DeviceMemory::get();
    for (const Before& one : call->before) {
        const std::uint8_t *was = one.content.data(), *is = memory.bytes(one.address);
        std::uint64_t first = 0, end = one.content.size();
        if (!memory.host_may_touch(one.address) || std::memcmp(is, was, end) == 0) continue;
        while (is[first] == was[first]) ++first;
        while (is[end - 1] == was[end - 1]) --end;
        first = first / kWord * kWord;
        end = (end + kWord - 1) / kWord * kWord;
        memory.keep_host_off(one.address + first, end - first, true);
        call->unread.push_back({one.address + first, end - first, call->streams[stream][stream], stream});
    }
    call->before.clear();
}

void touched(std::uint64_t address, const std::string& kernel) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    const auto holds = [&](const Given& one) { return address - one.address < one.bytes; };
    if (std::none_of(call->given.begin(), call->given.end(), holds)) return;
    Reached& known = call->streams[call->current];
    if (known[call->caller] == 0) {
        report(named(kernel) + " runs on a stream that does not wait for the caller's stream: it may read the caller's memory before that is written", kernel);
    }
    call->last[call->current] = {known[call->current], kernel};
}

void kernel_runs() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (call) call->after_kernel.insert(call->current);
}

bool after_kernel(Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex);
    return !call || call->after_kernel.count(plain(stream)) != 0;
}

void event_marks(EventHandle event, Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    join(call->streams[plain(stream)], call->host);
    join_by_legacy(plain(stream));
    call->events[event] = call->streams[plain(stream)];
}

void stream_waits(Stream stream, EventHandle event) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    join(call->streams[plain(stream)], call->events[event]);
    call->after_kernel.erase(plain(stream));
}

void host_waits(Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    join_by_legacy(plain(stream));
    join(call->host, call->streams[plain(stream)]);
    call->after_kernel.erase(plain(stream));
    lift(false);
}

void host_waits_for_event(EventHandle event) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    join(call->host, call->events[event]);
    lift(false);
}

void host_waits_for_all() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!call) return;
    for (const auto& [stream, reached] : call->streams) join(call->host, reached);
    call->after_kernel.clear();
    lift(true);
}

void host_function_begins() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (call) lift(true);
}

}  // namespace gates_cpu
