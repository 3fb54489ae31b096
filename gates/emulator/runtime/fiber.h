// A stack switch in a few instructions, with AddressSanitizer told about it where it is loaded.
//
// The sanitizer's functions are weak references, found at load time, so that one source serves the plain and the
// sanitized build.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "gates_emulator/types.h"

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(GATES_EMULATOR_UCONTEXT)
#define GATES_EMULATOR_UCONTEXT
#endif
#ifdef GATES_EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* save, const void** old_bottom, size_t* old_size);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, size_t size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, size_t size);
__attribute__((visibility("hidden"))) void gates_emulator_switch(void** save, void* load);
}

#ifndef GATES_EMULATOR_UCONTEXT
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl gates_emulator_switch
.hidden gates_emulator_switch
.type gates_emulator_switch, @function
gates_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size gates_emulator_switch, .-gates_emulator_switch
.popsection
)");
#else
asm(R"(
.pushsection .text
.globl gates_emulator_switch
.hidden gates_emulator_switch
.type gates_emulator_switch, %function
gates_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size gates_emulator_switch, .-gates_emulator_switch
.popsection
)");
#endif
#endif

#pragma GCC visibility push(hidden)
namespace gates_emulator {

inline void poison(const void* address, size_t bytes) {
    if (__asan_poison_memory_region) __asan_poison_memory_region(address, bytes);
}
inline void unpoison(const void* address, size_t bytes) {
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(address, bytes);
}

// One stack and the place where it was left. A default-made Fiber stands for the caller's own stack.
struct Fiber {
    void* stack_pointer = nullptr;
#ifdef GATES_EMULATOR_UCONTEXT
    ucontext_t context;
#endif
    char* bottom = nullptr;
    size_t bytes = 0;
    void* fake_stack = nullptr;

    // Make the next switch to this fiber call entry() at the top of its stack; entry never returns.
    void start(void (*entry)(), size_t colour) {
        unpoison(bottom, bytes);
        fake_stack = nullptr;
#ifdef GATES_EMULATOR_UCONTEXT
        (void)colour;
        getcontext(&context);
        context.uc_stack.ss_sp = bottom;
        context.uc_stack.ss_size = bytes;
        makecontext(&context, entry, 0);
#else
        // Stacks lie a power of two apart; a shift of each top keeps them out of the same cache sets.
        void** top = reinterpret_cast<void**>(bottom + bytes - 64 - colour);
#if defined(__x86_64__)
        *--top = nullptr;                            // where entry's return address would be
        *--top = reinterpret_cast<void*>(entry);     // popped by ret
        for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
        top -= 20;
        memset(top, 0, 160);
        top[11] = reinterpret_cast<void*>(entry);    // x30
#endif
        stack_pointer = top;
#endif
    }
};

inline Fiber* switched_from = nullptr;

// To be called first thing after each arrival on a fiber.
inline void arrived(Fiber& self) {
    if (!__sanitizer_finish_switch_fiber) return;
    const void* bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
    if (switched_from->bytes == 0) {  // the host's stack, whose bounds only the sanitizer knows
        switched_from->bottom = static_cast<char*>(const_cast<void*>(bottom));
        switched_from->bytes = bytes;
    }
}

inline void switch_fiber(Fiber& from, Fiber& to) {
    if (__sanitizer_start_switch_fiber) {
        switched_from = &from;
        __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
    }
#ifdef GATES_EMULATOR_UCONTEXT
    swapcontext(&from.context, &to.context);
#else
    gates_emulator_switch(&from.stack_pointer, to.stack_pointer);
#endif
    arrived(from);
}

// `count` stacks, each with an inaccessible page below it, kept for the life of the library.
inline char* map_stacks(size_t count, size_t bytes, size_t guard) {
    void* memory = mmap(nullptr, count * (bytes + guard), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "gates emulator: no memory for %zu stacks of %zu bytes\n", count, bytes);
        abort();
    }
    char* base = static_cast<char*>(memory);
    for (size_t i = 0; i < count; ++i) mprotect(base + i * (bytes + guard), guard, PROT_NONE);
    return base;
}

}  // namespace gates_emulator
#pragma GCC visibility pop
