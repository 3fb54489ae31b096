// A stream that is captured: its work is kept for a graph instead of being done.
#pragma once

#include <functional>

#include "cuda_abi.h"

namespace gates_cpu {

using Work = std::function<int()>;                   // gives the runtime's error

bool keeps(Stream stream);                           // whether it is captured
int in_order(Stream stream, Work work);              // does the work, or keeps it; an error where a capture forbids it
int at_once(Stream stream = nullptr);                // of a call that can't wait for a graph: 0, or the error where a capture forbids it
int no_node(const char* function);                   // of one that could be a node, and none is made
void forget_capture();                               // one that a launcher has left open
void event_recorded(EventHandle event, Stream stream);
bool event_is_captured(EventHandle event);
void event_awaited(EventHandle event, Stream stream);

}  // namespace gates_cpu
