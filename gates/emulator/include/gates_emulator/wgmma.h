// Host versions of wgmma.mma_async with halves and float sums, of its fence, commit and wait, and of setmaxnreg.
//
// A warp issues its 16 rows of a product and goes on; warps of a warpgroup don't wait for each other, but each must issue the
// same products in the same order. A product reads shared memory and adds up as late as possible: when it is waited for and no
// thread can run, in forward order after all copies that can land; in shuffled order about half of them, chosen by the seed, at
// once. Its accumulators hold NaN until it is waited for, whatever the order, and must still do so then. A in registers is read
// at the issue. Sums are float, over k in order.
#pragma once
#pragma GCC system_header

#include "wgmma_product.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

// All four warps exist and issue the same: this one its next call.
inline void check_warpgroup(const Warp& warp, const WgmmaCall& call) {
    const unsigned index = static_cast<unsigned>(&warp - block.warps), group = index / 4;
    WgmmaWarp& state = wgmma_warps[index];
    if ((group + 1) * 4 > block.warp_count)
        fatal(cudaErrorLaunchFailure, "warpgroup_divergence", call.file, call.line, "wgmma by warp %u: its warpgroup lacks warps", index);
    std::vector<WgmmaCall>& calls = wgmma_calls[group];
    if (state.issued == calls.size()) calls.push_back(call);
    const WgmmaCall& first = calls[state.issued++];
    if (!same_place(first.file, first.line, call.file, call.line) || first.columns != call.columns || first.a_matrix != call.a_matrix ||
        first.b_matrix != call.b_matrix || first.b_transposed != call.b_transposed || first.add != call.add)
        fatal(cudaErrorLaunchFailure, "warpgroup_divergence", call.file, call.line,
              "wgmma number %u of warp %u is another one than that of its warpgroup's first warp to come, at %s:%d", state.issued, index,
              first.file, first.line);
}

inline void check_descriptor(u_int64_t bits, const char* which, const WgmmaCall& call) {
    const MatrixDescriptor matrix(bits);
    const char* wrong = matrix.reserved ? "sets bits that must be 0" : matrix.base ? "has a base offset, which the emulator does not support" : nullptr;
    if (wrong) fatal(cudaErrorLaunchFailure, "bad_descriptor", call.file, call.line, "wgmma: the descriptor of %s %s", which, wrong);
}

inline void combine_wgmma(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "wgmma.mma_async");
    WgmmaWarp& state = state_of(warp);
    const WgmmaCall& call = operands_of<WgmmaOperands>(warp, 0).call;
    for (int lane = 1; lane < 32; ++lane) {
        const WgmmaCall& other = operands_of<WgmmaOperands>(warp, lane).call;
        if (other.a_matrix != call.a_matrix || other.b_matrix != call.b_matrix || other.add != call.add)
            fatal(cudaErrorLaunchFailure, "warp_divergence", call.file, call.line, "wgmma: lane %d has another descriptor or scale-d than lane 0", lane);
    }
    check_warpgroup(warp, call);
    if (call.a_matrix) check_descriptor(call.a_matrix, "A", call);
    check_descriptor(call.b_matrix, "B", call);
    const bool chained = !state.products.empty() && state.products.back().group == state.committed;
    if (!chained && !state.fenced)
        fatal(cudaErrorLaunchFailure, "wgmma_without_fence", call.file, call.line, "the first wgmma of a group without wgmma.fence before it");
    state.fenced = false;
    WgmmaProduct product{call, {}, &take_accumulators(state, warp, call), state.committed, false};
    if (!call.a_matrix)
        for (int lane = 0; lane < 32; ++lane) memcpy(product.a[lane], operands_of<WgmmaOperands>(warp, lane).a, sizeof product.a[lane]);
    state.products.push_back(product);
    if (settings.order == kShuffled && next_random() >> 63)
        for (WgmmaProduct& earlier : state.products)
            if (!earlier.done) compute(earlier, static_cast<unsigned>(&warp - block.warps) % 4);
}

inline void combine_wgmma_wait(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "wgmma.wait_group");
    WgmmaWarp& state = state_of(warp);
    const unsigned pending = static_cast<unsigned>(warp.value[0]);
    state.awaited = state.committed > pending ? state.committed - pending : 0;
    state.waits = !state.products.empty() && state.products.front().group < state.awaited;
}

// One warp that waits goes on, its products done.
inline bool finish_awaited() {
    unsigned waiting[kMaxWarps], count = 0;
    for (unsigned w = 0; w < block.warp_count; ++w)
        if (wgmma_warps[w].waits) waiting[count++] = w;
    if (!count) return false;
    const unsigned chosen = waiting[any_of(count)];
    WgmmaWarp& state = wgmma_warps[chosen];
    size_t done = 0;
    for (; done < state.products.size() && state.products[done].group < state.awaited; ++done) {
        WgmmaProduct& product = state.products[done];
        if (!product.done) compute(product, chosen % 4);
        if (--product.d->products == 0) give_back(state, product.d, product.call);
    }
    state.products.erase(state.products.begin(), state.products.begin() + static_cast<long>(done));
    state.waits = false;
    make_ready(chosen, kAllLanes);
    return true;
}

inline void combine_wgmma_commit(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "wgmma.commit_group");
    ++state_of(warp).committed;
}

inline void combine_wgmma_fence(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "wgmma.fence");
    state_of(warp).fenced = true;
}

// D of 64 x `columns` = A·B, or + D with `add`; A from registers where `a` is given.
__attribute__((noinline)) inline void wgmma_multiply(int columns, float* d, u_int64_t a_matrix, const unsigned* a, u_int64_t b_matrix,
                                                     bool b_transposed, bool add, GATES_EMULATOR_SITE) {
    const WgmmaOperands operands{{columns, a_matrix, b_matrix, b_transposed, add, file, line}, d, a};
    meet(kAllLanes, "wgmma.mma_async", reinterpret_cast<u_int64_t>(&operands), 0, combine_wgmma, file, line);
}

inline void wgmma_fence(GATES_EMULATOR_SITE) { meet(kAllLanes, "wgmma.fence", 0, 0, combine_wgmma_fence, file, line); }
inline void wgmma_commit(GATES_EMULATOR_SITE) { meet(kAllLanes, "wgmma.commit_group", 0, 0, combine_wgmma_commit, file, line); }
inline void wgmma_wait(unsigned pending, GATES_EMULATOR_SITE) {
    meet(kAllLanes, "wgmma.wait_group", pending, 0, combine_wgmma_wait, file, line);
    if (!wgmma_warps[block.current->warp].waits) return;
    wait_in("wgmma.wait_group", file, line);
    reschedule();
}

inline void combine_registers(Warp& warp, unsigned lanes) {
    need_whole_warp(warp, lanes, "setmaxnreg");
    state_of(warp).registers = static_cast<int>(warp.value[0]);
}

__attribute__((noinline)) inline void set_max_registers(int count, GATES_EMULATOR_SITE) {
    if (count < 24 || count > 256 || count % 8)
        fatal(cudaErrorLaunchFailure, "bad_registers", file, line, "setmaxnreg %d: a multiple of 8 from 24 to 256 is possible", count);
    meet(kAllLanes, "setmaxnreg", static_cast<u_int64_t>(count), 0, combine_registers, file, line);
    int sum = 0;
    for (unsigned w = 0; w < block.warp_count; ++w) sum += 32 * wgmma_warps[w].registers;
    if (sum > 65536)
        fatal(cudaErrorLaunchFailure, "bad_registers", file, line, "setmaxnreg: the warps of the block want %d registers, there are 65536", sum);
}

inline void begin_wgmma() {
    for (WgmmaWarp& state : wgmma_warps) {
        for (WgmmaAccumulators* d : state.accumulators) delete d;
        state = WgmmaWarp();
    }
    for (std::vector<WgmmaCall>& calls : wgmma_calls) calls.clear();
}

GATES_EMULATOR_COLD inline void end_wgmma() {
    for (unsigned w = 0; w < block.warp_count; ++w) {
        const std::vector<WgmmaCall>& calls = wgmma_calls[w / 4];
        if (wgmma_warps[w].issued == calls.size()) continue;
        const WgmmaCall& call = calls[wgmma_warps[w].issued];
        add_finding("warpgroup_divergence", call.file, call.line, "warp %u never issued this wgmma of its warpgroup", w);
    }
    for (unsigned w = 0; w + 1 < block.warp_count; ++w)
        if (w % 4 != 3 && wgmma_warps[w].registers != wgmma_warps[w + 1].registers)
            add_finding("warpgroup_divergence", nullptr, 0, "setmaxnreg: warps %u and %u of a warpgroup set %d and %d", w, w + 1,
                        wgmma_warps[w].registers, wgmma_warps[w + 1].registers);
}

// Accumulators of a thread that has returned are gone.
GATES_EMULATOR_COLD inline void end_wgmma_thread(Thread& thread) {
    WgmmaWarp& state = wgmma_warps[thread.warp];
    if (state.products.empty()) return;
    const WgmmaCall& call = state.products.front().call;
    fatal(cudaErrorLaunchFailure, "wgmma_never_waited_for", call.file, call.line, "a thread returned without waiting for this wgmma");
}

constexpr Extension kProducts = {begin_wgmma, end_wgmma, end_wgmma_thread, finish_awaited, nullptr};
inline const bool products_added = (asynchronous.products = &kProducts, true);

}  // namespace gates_emulator
#pragma GCC visibility pop
