// What waits for what: streams for one another, the host for streams. All work is done at once, in the order in which it is given; here
// it is only noted whether a device would have done it in that order, as far as the memory is concerned that a launcher is given.
#pragma once

#include <string>
#include <vector>

#include "cuda_abi.h"

namespace gates_cpu {

struct Given {
    std::uint64_t address, bytes;
};
// A call of a launcher: of the caller's stream, with memory that the caller wrote there before and reads there after.
void begin_call(Stream caller, std::vector<Given> given);
void end_call();

void work_begins(Stream stream);
void work_ended(Stream stream);
void touched(std::uint64_t address, const std::string& kernel);  // by this work; an empty name: a copy
void kernel_runs();                                              // as this work
bool after_kernel(Stream stream);                                // whether its newest work may be a kernel that is still running
void event_marks(EventHandle event, Stream stream);
void stream_waits(Stream stream, EventHandle event);
void host_waits(Stream stream);
void host_waits_for_event(EventHandle event);
void host_waits_for_all();
void host_function_begins();                                     // in a stream's order, so it may touch what the stream's work has written
bool syncs_with_legacy(Stream stream);

}  // namespace gates_cpu
