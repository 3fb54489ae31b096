// Graphs: stream capture, and launches of what it kept, in the order in which it was given.
#include <map>
#include <memory>
#include <vector>

#include "capture.h"
#include "findings.h"

using namespace gates_cpu;

namespace {

using Steps = std::vector<Work>;
using Reached = std::map<Stream, std::size_t>;       // how far each stream's work is known to have come

struct Capture {
    Stream origin = nullptr;
    bool relaxed = false, invalid = false;
    Steps steps;
    std::map<Stream, Reached> streams;               // each that is captured: its own work, and what it waited for
    std::map<EventHandle, Reached> events;
};
std::unique_ptr<Capture> capture;                    // there is one at a time

constexpr Stream legacy = nullptr;
const Stream named_legacy = reinterpret_cast<Stream>(1);  // cudaStreamLegacy

bool is_legacy(Stream stream) { return stream == legacy || stream == named_legacy; }

int invalidate(int error) {
    capture->invalid = true;
    return Device::get().set_error(error);
}

void join(Reached& into, const Reached& from) {
    for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

}  // namespace

namespace gates_cpu {

bool keeps(Stream stream) { return capture && capture->streams.count(stream) != 0; }

int in_order(Stream stream, Work work) {
    if (!capture) return work();
    if (is_legacy(stream)) return invalidate(kStreamCaptureImplicit);
    if (!keeps(stream)) return work();
    if (capture->invalid) return Device::get().set_error(kStreamCaptureInvalidated);
    capture->steps.push_back(std::move(work));
    ++capture->streams[stream][stream];
    return kSuccess;
}

int at_once(Stream stream) {
    if (!capture || (is_legacy(stream) ? capture->relaxed : !keeps(stream))) return kSuccess;
    return invalidate(kStreamCaptureUnsupported);
}

int no_node(const char* function) {
    Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = std::string("not supported: ") + function + " of a stream that is captured";
    add_finding(finding);
    return invalidate(kNotSupported);
}

void forget_capture() { capture.reset(); }

void event_recorded(EventHandle event, Stream stream) {
    if (!capture) return;
    if (keeps(stream)) capture->events[event] = capture->streams[stream];
    else capture->events.erase(event);
}

bool event_is_captured(EventHandle event) { return capture && capture->events.count(event) != 0; }

// A stream that waits for captured work is captured, too.
void event_awaited(EventHandle event, Stream stream) {
    if (event_is_captured(event)) join(capture->streams[stream], capture->events[event]);
}

}  // namespace gates_cpu

GATES_CUDA int cudaStreamBeginCapture(Stream stream, int mode) {
    if (is_legacy(stream)) return Device::get().set_error(kStreamCaptureUnsupported);
    if (capture) return Device::get().set_error(kIllegalState);
    capture = std::make_unique<Capture>();
    capture->origin = stream;
    capture->relaxed = mode == 2;
    capture->streams[stream];
    return kSuccess;
}
GATES_CUDA int cudaStreamEndCapture(Stream stream, Steps** graph) {
    *graph = nullptr;
    if (!capture) return Device::get().set_error(kIllegalState);
    if (capture->origin != stream) return Device::get().set_error(kStreamCaptureUnmatched);
    const std::unique_ptr<Capture> ended = std::move(capture);
    if (ended->invalid) return Device::get().set_error(kStreamCaptureInvalidated);
    Reached& known = ended->streams[stream];
    for (const auto& [other, reached] : ended->streams) {
        const auto own = reached.find(other);
        if (own != reached.end() && known[other] < own->second) return Device::get().set_error(kStreamCaptureUnjoined);
    }
    *graph = new Steps(std::move(ended->steps));
    return kSuccess;
}
GATES_CUDA int cudaStreamIsCapturing(Stream stream, int* status) {
    *status = !keeps(stream) ? 0 : capture->invalid ? 2 : 1;
    return kSuccess;
}

GATES_CUDA int cudaGraphInstantiate(Steps** made, const Steps* graph, unsigned long long) {
    *made = new Steps(*graph);
    return kSuccess;
}
GATES_CUDA int cudaGraphInstantiateWithFlags(Steps** made, const Steps* graph, unsigned long long flags) { return cudaGraphInstantiate(made, graph, flags); }
GATES_CUDA int cudaGraphUpload(const Steps*, Stream) { return kSuccess; }
GATES_CUDA int cudaGraphLaunch(const Steps* made, Stream stream) {
    return in_order(stream, [steps = *made] {
        for (const Work& work : steps) {
            if (const int error = work()) return error;
        }
        return int(kSuccess);
    });
}
GATES_CUDA int cudaGraphExecDestroy(const Steps* made) {
    delete made;
    return kSuccess;
}
GATES_CUDA int cudaGraphDestroy(const Steps* graph) {
    delete graph;
    return kSuccess;
}
