// Graphs: stream capture, and launches of what it kept, in the order in which it was given.
#include <map>
#include <memory>
#include <vector>

#include "capture.h"
#include "findings.h"
#include "handles.h"
#include "streams.h"

using namespace gates_cpu;

namespace {

struct Graph {
    std::vector<Work> steps;
    std::uint64_t nodes = 0;                         // with those of the graphs that it launches
};
struct Executable {
    std::shared_ptr<const Graph> graph;
};
constexpr std::uint64_t kMostNodes = 1 << 16;

using Reached = std::map<Stream, std::size_t>;       // how far each stream's work is known to have come

struct Capture {
    Stream origin = nullptr;
    bool relaxed = false, invalid = false;
    Graph graph;
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

int unsupported(const std::string& what) {
    Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = "not supported: " + what;
    add_finding(finding);
    return invalidate(kNotSupported);
}

void join(Reached& into, const Reached& from) {
    for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

}  // namespace

namespace gates_cpu {
namespace {

int done_now(Stream stream, const Work& work) {
    work_begins(stream);
    const int error = work();
    work_ended(stream);
    return error;
}

}  // namespace

bool keeps(Stream stream) { return capture && capture->streams.count(stream) != 0; }

int in_order(Stream stream, Work work, std::uint64_t nodes) {
    if (const int error = to_stream(stream)) return error;
    if (!capture) return done_now(stream, work);
    if (is_legacy(stream)) return invalidate(kStreamCaptureImplicit);
    if (!keeps(stream)) return done_now(stream, work);
    if (capture->invalid) return Device::get().set_error(kStreamCaptureInvalidated);
    Graph& graph = capture->graph;
    if (nodes > kMostNodes - graph.nodes) return unsupported("a graph of more than " + std::to_string(kMostNodes) + " nodes, with those of the graphs that it launches");
    graph.nodes += nodes;
    graph.steps.push_back(std::move(work));
    ++capture->streams[stream][stream];
    return kSuccess;
}

int at_once(Stream stream) {
    if (const int error = to_stream(stream)) return error;
    if (!capture || (is_legacy(stream) ? capture->relaxed : !keeps(stream))) return kSuccess;
    return invalidate(kStreamCaptureUnsupported);
}

int no_node(const char* function) {
    return unsupported(std::string(function) + " of a stream that is captured");
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
    if (const int error = to_stream(stream)) return error;
    if (is_legacy(stream)) return Device::get().set_error(kStreamCaptureUnsupported);
    if (capture) return Device::get().set_error(kIllegalState);
    capture = std::make_unique<Capture>();
    capture->origin = stream;
    capture->relaxed = mode == 2;
    capture->streams[stream];
    return kSuccess;
}
GATES_CUDA int cudaStreamEndCapture(Stream stream, void** graph) {
    *graph = nullptr;
    if (const int error = to_stream(stream)) return error;
    if (!capture) return Device::get().set_error(kIllegalState);
    if (capture->origin != stream) return Device::get().set_error(kStreamCaptureUnmatched);
    const std::unique_ptr<Capture> ended = std::move(capture);
    if (ended->invalid) return Device::get().set_error(kStreamCaptureInvalidated);
    Reached& known = ended->streams[stream];
    for (const auto& [other, reached] : ended->streams) {
        const auto own = reached.find(other);
        if (own != reached.end() && known[other] < own->second) return Device::get().set_error(kStreamCaptureUnjoined);
    }
    *graph = Handles<Graph>::get().add(std::move(ended->graph));
    return kSuccess;
}
GATES_CUDA int cudaStreamIsCapturing(Stream stream, int* status) {
    if (const int error = to_stream(stream)) return error;
    *status = !keeps(stream) ? 0 : capture->invalid ? 2 : 1;
    return kSuccess;
}

GATES_CUDA int cudaGraphInstantiate(void** made, const void* handle, unsigned long long) {
    const auto graph = Handles<Graph>::get().find(handle);
    if (!graph) return Device::get().set_error(kInvalidValue);
    *made = Handles<Executable>::get().add({graph});
    return kSuccess;
}
GATES_CUDA int cudaGraphInstantiateWithFlags(void** made, const void* graph, unsigned long long flags) { return cudaGraphInstantiate(made, graph, flags); }
GATES_CUDA int cudaGraphUpload(const void* made, Stream stream) { return Handles<Executable>::get().find(made) ? to_stream(stream) : Device::get().set_error(kInvalidValue); }
GATES_CUDA int cudaGraphLaunch(const void* made, Stream stream) {
    const auto executable = Handles<Executable>::get().find(made);
    if (!executable) return Device::get().set_error(kInvalidValue);
    const auto run = [kept = executable->graph] {
        for (const Work& work : kept->steps) {
            if (const int error = work()) return error;
        }
        return int(kSuccess);
    };
    return in_order(stream, run, executable->graph->nodes + 1);
}
GATES_CUDA int cudaGraphExecDestroy(const void* made) { return Handles<Executable>::get().remove(made) ? kSuccess : Device::get().set_error(kInvalidValue); }
GATES_CUDA int cudaGraphDestroy(const void* graph) { return Handles<Graph>::get().remove(graph) ? kSuccess : Device::get().set_error(kInvalidValue); }
