// The part of the emulator that no kernel's translation unit need compile again: one object, linked into each library
// (gates/emulator/runtime_object.py). One unit, so that a barrier or a meeting of lanes is inlined as a whole.
#include "report.cpp"
#include "block.cpp"
#include "shared.cpp"
#include "warp.cpp"
#include "copies.cpp"
#include "launch.cpp"
#include "host_api.cpp"

namespace gates_emulator {

void assertion_failed(const char* text, const char* file, int line) {
    if (!block.current || !block.live) {
        fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
        abort();
    }
    fatal(cudaErrorAssert, "assert", file, line, "assertion failed: %s", text);
}

}  // namespace gates_emulator
