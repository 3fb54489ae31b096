// kernel<<<grid, block, smem, stream>>>(arguments), as translate.py writes it down.
#pragma once
#pragma GCC system_header

#include "shared.h"
#include "warp.h"

typedef struct CUstream_st* cudaStream_t;

#pragma GCC visibility push(hidden)
namespace gates_emulator {

extern bool probing;
extern KernelEntry* probed;

// First statement of every kernel. True: this call only asks which kernel this is, return at once.
inline bool enter(KernelEntry& entry) {
    if (__builtin_expect(!probing, 1)) return false;
    probed = &entry;
    return true;
}

struct Config {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    Config(dim3 grid_, dim3 block_, size_t shared_bytes_ = 0, cudaStream_t stream_ = nullptr)
        : grid(grid_), block(block_), shared_bytes(shared_bytes_), stream(stream_) {}
};

GATES_EMULATOR_COLD void launch_grid(const char* expression, const char* file, int line, const Config& config, void (*body)(void*),
                                     void* argument);

template <typename Call>
struct Launcher {
    const char* expression;
    const char* file;
    int line;
    Call call;
    Config config;

    // Arguments are evaluated once and copied, and each thread gets its own copy, as on a device.
    template <typename... Arguments>
    void operator()(Arguments&&... arguments) {
        run<std::decay_t<Arguments>...>(std::forward<Arguments>(arguments)...);
    }

    template <typename... Arguments>
    void run(Arguments... kept) {
        auto body = [&] { call(kept...); };
        launch_grid(expression, file, line, config, [](void* closure) { (*static_cast<decltype(body)*>(closure))(); }, &body);
    }
};

template <typename Call>
Launcher<Call> launch(const char* expression, const char* file, int line, Call call, Config config) {
    return {expression, file, line, call, config};
}

}  // namespace gates_emulator
#pragma GCC visibility pop
