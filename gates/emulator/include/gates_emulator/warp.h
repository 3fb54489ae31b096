// Warp intrinsics: the named lanes meet, the last to arrive computes for all, and each takes its own result.
#pragma once
#pragma GCC system_header

#include "block.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr u_int64_t kUndefined = ~0ull;  // NaN in every float format: what a lane gets that CUDA promises nothing

// Meet the lanes of `mask`; returns this lane's result.
u_int64_t meet(unsigned mask, const char* what, u_int64_t value, u_int64_t operand, void (*combine)(Warp&, unsigned), const char* file,
              int line);

// The lanes that run this call together: those that have come to it when no other lane of the warp can run.
unsigned active_lanes(const char* file, int line);

// Source lane of each shuffle, or -1 for "keep the own value". segment = lanes of this lane's width-wide part.
enum Shuffle { kIndex, kUp, kDown, kXor };

template <Shuffle kind>
void combine_shuffle(Warp& warp, unsigned lanes) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const int width = static_cast<int>(warp.operand[lane] >> 32);
        const int by = static_cast<int>(warp.operand[lane] & 31);  // as the hardware's instruction
        const int first = lane & ~(width - 1);
        int source = lane;
        bool inside = true;
        if (kind == kIndex) source = first + (by & (width - 1));
        if (kind == kUp) source = lane - by, inside = source >= first;
        if (kind == kDown) source = lane + by, inside = source < first + width;
        if (kind == kXor) source = lane ^ by, inside = source < first + width;  // lower parts may be read
        if (!inside) source = lane;
        warp.result[lane] = (lanes >> source & 1) ? warp.value[source] : kUndefined;
    }
}

template <Shuffle kind, typename T>
T shuffle(const char* what, unsigned mask, T value, int by, int width, const char* file, int line) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "shuffles move values of up to 8 bytes");
    if (width <= 0 || width > 32 || (width & (width - 1)))
        fatal(cudaErrorLaunchFailure, "warp_mask", file, line,
              "%s: width %d is no power of two up to 32", what, width);
    u_int64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    const u_int64_t operand = static_cast<u_int64_t>(width) << 32 | static_cast<u_int32_t>(by);
    bits = meet(mask, what, bits, operand, combine_shuffle<kind>, file, line);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

void combine_ballot(Warp& warp, unsigned lanes);
void combine_match(Warp& warp, unsigned lanes);

template <typename T, typename Operation>
void combine_reduce(Warp& warp, unsigned lanes) {
    T total = static_cast<T>(warp.value[__builtin_ctz(lanes)]);
    for (unsigned rest = lanes & (lanes - 1); rest; rest &= rest - 1)
        total = Operation()(total, static_cast<T>(warp.value[__builtin_ctz(rest)]));
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        warp.result[__builtin_ctz(rest)] = static_cast<u_int64_t>(total);
}

}  // namespace gates_emulator

inline void __syncwarp(unsigned mask = gates_emulator::kAllLanes, GATES_EMULATOR_SITE) {
    gates_emulator::meet(mask, "__syncwarp", 0, 0, nullptr, file, line);
}
inline unsigned __activemask(GATES_EMULATOR_SITE) { return gates_emulator::active_lanes(file, line); }

#define GATES_EMULATOR_SHUFFLE(name, kind, by_type)                                                   \
    template <typename T>                                                                             \
    T name(unsigned mask, T value, by_type by, int width = 32, GATES_EMULATOR_SITE) {                 \
        return gates_emulator::shuffle<gates_emulator::kind>(#name, mask, value, static_cast<int>(by), width, file, line); \
    }
GATES_EMULATOR_SHUFFLE(__shfl_sync, kIndex, int)
GATES_EMULATOR_SHUFFLE(__shfl_up_sync, kUp, unsigned)
GATES_EMULATOR_SHUFFLE(__shfl_down_sync, kDown, unsigned)
GATES_EMULATOR_SHUFFLE(__shfl_xor_sync, kXor, int)
#undef GATES_EMULATOR_SHUFFLE

inline unsigned __ballot_sync(unsigned mask, int predicate, GATES_EMULATOR_SITE) {
    using namespace gates_emulator;
    return static_cast<unsigned>(meet(mask, "__ballot_sync", predicate != 0, 0, combine_ballot, file, line));
}
inline int __any_sync(unsigned mask, int predicate, GATES_EMULATOR_SITE) {
    using namespace gates_emulator;
    return static_cast<unsigned>(meet(mask, "__any_sync", predicate != 0, 0, combine_ballot, file, line)) != 0;
}
inline int __all_sync(unsigned mask, int predicate, GATES_EMULATOR_SITE) {
    using namespace gates_emulator;
    const u_int64_t both = meet(mask, "__all_sync", predicate != 0, 0, combine_ballot, file, line);
    return static_cast<unsigned>(both) == static_cast<unsigned>(both >> 32);
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, GATES_EMULATOR_SITE) {
    u_int64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return static_cast<unsigned>(
        gates_emulator::meet(mask, "__match_any_sync", bits, 0, gates_emulator::combine_match, file, line));
}
template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* all_equal, GATES_EMULATOR_SITE) {
    u_int64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = gates_emulator::meet(mask, "__match_all_sync", bits, 0, gates_emulator::combine_match, file, line);
    *all_equal = static_cast<unsigned>(bits) == static_cast<unsigned>(bits >> 32);
    return *all_equal ? static_cast<unsigned>(bits) : 0;
}

#define GATES_EMULATOR_REDUCE(name, T, expression)                                                       \
    inline T name(unsigned mask, T value, GATES_EMULATOR_SITE) {                                         \
        struct Operation {                                                                               \
            T operator()(T a, T b) const { return expression; }                                          \
        };                                                                                               \
        return static_cast<T>(gates_emulator::meet(mask, #name, static_cast<u_int64_t>(value), 0,         \
                                                   gates_emulator::combine_reduce<T, Operation>, file, line)); \
    }
GATES_EMULATOR_REDUCE(__reduce_add_sync, unsigned, a + b)
GATES_EMULATOR_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
GATES_EMULATOR_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
GATES_EMULATOR_REDUCE(__reduce_and_sync, unsigned, a& b)
GATES_EMULATOR_REDUCE(__reduce_or_sync, unsigned, a | b)
GATES_EMULATOR_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
GATES_EMULATOR_REDUCE(__reduce_add_sync, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
GATES_EMULATOR_REDUCE(__reduce_min_sync, int, a < b ? a : b)
GATES_EMULATOR_REDUCE(__reduce_max_sync, int, a > b ? a : b)
#undef GATES_EMULATOR_REDUCE

#pragma GCC visibility pop
