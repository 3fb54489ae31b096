// A stream that is captured: its work is kept for a graph instead of being done.
#pragma once

#include <functional>

#include "cuda_abi.h"

namespace gates_cpu {

using Work = std::function<int()>;                   // gives the runtime's error

bool keeps(Stream stream);                           // whether it is captured
// Does the work, or keeps it as so many nodes; an error where a capture forbids it, and for a stream that is none.
int in_order(Stream stream, Work work, std::uint64_t nodes = 1);
int at_once(Stream stream = nullptr);                // of a call that can't wait for a graph: 0, or the same errors
int no_node(const char* function);                   // of one that could be a node, and none is made
bool is_stream(Stream stream);
int to_stream(Stream stream);                        // 0, or the error of a stream that is none
void forget_capture();                               // one that a launcher has left open
void event_recorded(EventHandle event, Stream stream);
bool event_is_captured(EventHandle event);
void event_awaited(EventHandle event, Stream stream);

}  // namespace gates_cpu
