// Graphs: stream capture, whose work comes in the order in which it was given, and graphs of nodes, in an order that these allow.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "works.h"
#include "findings.h"
#include "handles.h"
#include "streams.h"

using namespace gates_cpu;

namespace {

struct Node {
    Work work;
    std::vector<std::size_t> after;                  // nodes that come before it
};
struct Graph {
    std::vector<Node> steps;
    std::uint64_t nodes = 0;                         // with those of the graphs that it launches
};
struct NodeOf {
    std::weak_ptr<Graph> graph;
    std::size_t index;
};
struct Executable {
    std::shared_ptr<Graph> graph;                    // which it was made of
    std::vector<Node> steps;                         // as they were then
    std::uint64_t nodes;
    std::vector<std::size_t> orders[2];              // by the seed
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
    if (capture) capture->invalid = true;
    return Device::get().set_error(error);
}

int unsupported(const std::string& what) {
    Finding finding;
    finding.code = "cpu.unsupported";
    finding.message = "not supported: " + what;
    add_finding(finding);
    return invalidate(kNotSupported);
}

int too_many_nodes() { return unsupported("a graph of more than " + std::to_string(kMostNodes) + " nodes, with those of the graphs that it launches"); }

void join(Reached& into, const Reached& from) {
    for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

// An order that the nodes allow: as they were added where that may be, or, found from the end, the other way round. Some are missing if
// there is none.
std::vector<std::size_t> ordered(const std::vector<Node>& steps, bool from_end) {
    std::vector<std::size_t> order, lacking(steps.size());
    std::vector<std::vector<std::size_t>> next(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        for (const std::size_t before : steps[i].after) {
            ++lacking[from_end ? before : i];
            next[from_end ? i : before].push_back(from_end ? before : i);
        }
    }
    std::set<std::size_t> ready;
    for (std::size_t i = 0; i < steps.size(); ++i) if (lacking[i] == 0) ready.insert(i);
    while (!ready.empty()) {
        order.push_back(*ready.begin());
        ready.erase(ready.begin());
        for (const std::size_t one : next[order.back()]) if (--lacking[one] == 0) ready.insert(one);
    }
    if (from_end) std::reverse(order.begin(), order.end());
    return order;
}

// A graph as it is now, to be launched; empty where nodes wait for one another.
std::unique_ptr<Executable> executable_of(const std::shared_ptr<Graph>& graph) {
    auto made = std::make_unique<Executable>(Executable{graph, graph->steps, graph->nodes, {ordered(graph->steps, false), ordered(graph->steps, true)}});
    return made->orders[0].size() == made->steps.size() ? std::move(made) : nullptr;
}

int run(const Executable& executable) {
    for (const std::size_t step : executable.orders[Device::get().seed % 2]) {
        if (const int error = executable.steps[step].work()) return error;
    }
    return kSuccess;
}

struct KernelNode {                                  // cudaKernelNodeParams
    const void* function;
    Dim3 grid, block;
    unsigned shared;
    void** arguments;
    void** extra;
    int made(Work& work) const {
        if (arguments == nullptr && extra != nullptr) return unsupported("a kernel node whose arguments are packed (extra)");
        return launching(Device::get().kernel(function), grid, block, arguments, shared, false, {0, 0, 0}, work);
    }
};
struct MemsetNode {                                  // cudaMemsetParams
    void* to;
    std::size_t pitch;
    unsigned value, element_bytes;
    std::size_t width, height;
};
struct HostNode {                                    // cudaHostNodeParams
    void (*function)(void*);
    void* data;
};

constexpr std::size_t kNoNode = ~std::size_t(0);

std::size_t index_of(const std::shared_ptr<Graph>& graph, const void* node) {
    const auto found = Handles<NodeOf>::get().find(node);
    return graph && found && found->graph.lock() == graph ? found->index : kNoNode;
}

int add_node(void** node, const void* handle, const void* const* after, std::size_t count, Work work, std::uint64_t nodes = 1) {
    const auto graph = Handles<Graph>::get().find(handle);
    if (!graph) return Device::get().set_error(kInvalidValue);
    if (nodes > kMostNodes - graph->nodes) return too_many_nodes();
    Node made{std::move(work), {}};
    for (std::size_t i = 0; i < count; ++i) {
        made.after.push_back(index_of(graph, after[i]));
        if (made.after.back() == kNoNode) return Device::get().set_error(kInvalidValue);
    }
    graph->nodes += nodes;
    graph->steps.push_back(std::move(made));
    *node = Handles<NodeOf>::get().add({graph, graph->steps.size() - 1});
    return kSuccess;
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
    if (nodes > kMostNodes - graph.nodes) return too_many_nodes();
    graph.nodes += nodes;
    const std::size_t before = graph.steps.size();
    graph.steps.push_back({std::move(work), before == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{before - 1}});
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
    const auto executable = graph ? executable_of(graph) : nullptr;
    if (!executable) return Device::get().set_error(kInvalidValue);
    *made = Handles<Executable>::get().add(std::move(*executable));
    return kSuccess;
}
GATES_CUDA int cudaGraphInstantiateWithFlags(void** made, const void* graph, unsigned long long flags) { return cudaGraphInstantiate(made, graph, flags); }
GATES_CUDA int cudaGraphUpload(const void* made, Stream stream) { return Handles<Executable>::get().find(made) ? to_stream(stream) : Device::get().set_error(kInvalidValue); }
GATES_CUDA int cudaGraphLaunch(const void* made, Stream stream) {
    const auto executable = Handles<Executable>::get().find(made);
    if (!executable) return Device::get().set_error(kInvalidValue);
    return in_order(stream, [executable] { return run(*executable); }, executable->nodes + 1);
}

// Graphs that are made of nodes.
GATES_CUDA int cudaGraphCreate(void** graph, unsigned) {
    *graph = Handles<Graph>::get().add({});
    return kSuccess;
}
GATES_CUDA int cudaGraphAddKernelNode(void** node, const void* graph, const void* const* after, std::size_t count, const KernelNode* kernel) {
    Work work;
    const int error = kernel->made(work);
    return error != kSuccess ? error : add_node(node, graph, after, count, std::move(work));
}
GATES_CUDA int cudaGraphAddMemsetNode(void** node, const void* graph, const void* const* after, std::size_t count, const MemsetNode* set) {
    if (set->element_bytes != 1 && set->element_bytes != 2 && set->element_bytes != 4) return Device::get().set_error(kInvalidValue);
    return add_node(node, graph, after, count, filling(set->to, set->pitch, set->value, set->element_bytes, set->width, set->height));
}
GATES_CUDA int cudaGraphAddMemcpyNode1D(void** node, const void* graph, const void* const* after, std::size_t count, void* to, const void* from, std::size_t bytes, int kind) {
    return add_node(node, graph, after, count, copying(to, 0, from, 0, bytes, 1, kind));
}
GATES_CUDA int cudaGraphAddHostNode(void** node, const void* graph, const void* const* after, std::size_t count, const HostNode* host) {
    return add_node(node, graph, after, count, [called = *host] {
        host_function_begins();
        called.function(called.data);
        return int(kSuccess);
    });
}
GATES_CUDA int cudaGraphAddEmptyNode(void** node, const void* graph, const void* const* after, std::size_t count) {
    return add_node(node, graph, after, count, [] { return int(kSuccess); });
}
GATES_CUDA int cudaGraphAddChildGraphNode(void** node, const void* graph, const void* const* after, std::size_t count, const void* child) {
    const auto inner = Handles<Graph>::get().find(child);
    const std::shared_ptr<Executable> kept = inner ? executable_of(inner) : nullptr;
    return kept ? add_node(node, graph, after, count, [kept] { return run(*kept); }, inner->nodes + 1) : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaGraphAddDependencies(const void* graph, const void* const* from, const void* const* to, const void*, std::size_t count) {
    const auto made = Handles<Graph>::get().find(graph);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t before = index_of(made, from[i]), after = index_of(made, to[i]);
        if (before == kNoNode || after == kNoNode) return Device::get().set_error(kInvalidValue);
        made->steps[after].after.push_back(before);
    }
    return made ? kSuccess : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaGraphKernelNodeSetParams(const void* node, const KernelNode* kernel) {
    const auto found = Handles<NodeOf>::get().find(node);
    const auto graph = found ? found->graph.lock() : nullptr;
    return graph ? kernel->made(graph->steps[found->index].work) : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaGraphExecKernelNodeSetParams(const void* executable, const void* node, const KernelNode* kernel) {
    const auto made = Handles<Executable>::get().find(executable);
    const std::size_t index = made ? index_of(made->graph, node) : kNoNode;
    return index < (made ? made->steps.size() : 0) ? kernel->made(made->steps[index].work) : Device::get().set_error(kInvalidValue);
}
GATES_CUDA int cudaGraphExecDestroy(const void* made) { return Handles<Executable>::get().remove(made) ? kSuccess : Device::get().set_error(kInvalidValue); }
GATES_CUDA int cudaGraphDestroy(const void* graph) { return Handles<Graph>::get().remove(graph) ? kSuccess : Device::get().set_error(kInvalidValue); }
