// The C library's assert.h, with an assert() that ends a device's launch, and not the process, where it fails.
// No include guard: each inclusion defines the macro anew, by what NDEBUG is there.
#pragma GCC system_header

#include_next <assert.h>

#ifndef NDEBUG
#pragma GCC visibility push(hidden)
namespace gates_emulator {
void assertion_failed(const char* text, const char* file, int line);
}  // namespace gates_emulator
#pragma GCC visibility pop
#undef assert
#define assert(condition) ((condition) ? (void)0 : gates_emulator::assertion_failed(#condition, __FILE__, __LINE__))
#endif
