// Host versions of wgmma.mma_async with halves and float sums, of its fence, commit and wait, and of setmaxnreg.
//
// A warp issues its 16 rows of a product and goes on; warps of a warpgroup don't wait for each other, but each must issue the
// same products in the same order. A product reads shared memory and adds up as late as possible: when it is waited for and no
// thread can run, in forward order after all copies that can land; in shuffled order about half of them, chosen by the seed, at
// once. Its accumulators hold NaN until it is waited for, whatever the order, and must still do so then. A in registers is read
// at the issue. Sums are float, over k in order.
#pragma once
#pragma GCC system_header

#include "../cuda_fp16.h"
#include "swizzle.h"
#include "warp_matrix.h"

#pragma GCC visibility push(hidden)
namespace gates_emulator {

constexpr int kMostColumns = 256;

// A product as all warps of a warpgroup must issue it; 0 as a_matrix: A from registers.
struct WgmmaCall {
    int columns;
    uint64_t a_matrix, b_matrix;
    bool b_transposed, add;
    const char* file;
    int line;
};

// The accumulators of a warp, known by those of its first lane, while a product has them.
struct WgmmaAccumulators {
    float* place[32];
    int columns;
    unsigned products;  // that have them
    float values[16][kMostColumns];
};

struct WgmmaProduct {
    WgmmaCall call;
    unsigned a[32][4];
    WgmmaAccumulators* d;
    unsigned group;
    bool done;
};

struct WgmmaWarp {
    std::vector<WgmmaProduct> products;  // issued and not waited for, oldest first
    std::vector<WgmmaAccumulators*> accumulators;
    unsigned committed = 0, issued = 0;
    bool fenced = false, waits = false;
    unsigned awaited = 0;  // groups that the wait covers
    int registers = 0;  // of a thread, as set by setmaxnreg
};

inline WgmmaWarp wgmma_warps[kMaxWarps];
inline std::vector<WgmmaCall> wgmma_calls[kMaxWarps / 4];  // of each warpgroup, in order

constexpr uint32_t kBusy = 0xffbfffffu;  // in accumulators: a signalling NaN, which arithmetic would turn into a quiet one

// A matrix descriptor of the PTX ISA ("Matrix descriptor format"), taken apart. Offsets in bytes.
struct MatrixDescriptor {
    unsigned start, leading, stride, base, swizzle;
    bool reserved;  // a bit that must be 0 is not

    explicit MatrixDescriptor(uint64_t bits)
        : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
          base(bits >> 49 & 7), swizzle(static_cast<unsigned>(bits >> 62)), reserved(bits & 0x3ff1c000c000c000ULL) {}

    // Address of a chunk of 8 halves: elements 8 * chunk to 8 * chunk + 7 of row `row` along the contiguous dimension, which is
    // K where `k_major` and M or N else. PTX ISA, "Canonical layouts".
    unsigned chunk(unsigned row, unsigned chunk, bool k_major) const {
        const unsigned width = 1u << swizzle_bits(swizzle);  // chunks of a row of an atom
        unsigned address = start + row % 8 * width * 16;
        if (k_major) {
            address += row / 8 * stride + chunk * (swizzle == kSwizzleNone ? leading : 16);
        } else if (swizzle == kSwizzleNone) {
            address += row / 8 * leading + chunk * stride;
        } else {
            address += row / 8 * stride + chunk / width * leading + chunk % width * 16;
        }
        return swizzled(address & 0x3ffff, swizzle);
    }
};

inline void read_chunk(const MatrixDescriptor& matrix, const WgmmaCall& call, unsigned row, unsigned chunk, bool k_major, float (&to)[8]) {
    const char* place = at_shared_address(matrix.chunk(row, chunk, k_major));
    if (!in_one_region(place, 16))
        fatal(cudaErrorIllegalAddress, "shared_out_of_bounds", call.file, call.line, "wgmma reads shared address 0x%x, outside any shared variable",
              shared_address(place));
    uint16_t bits[8];
    memcpy(bits, place, sizeof bits);
    for (int i = 0; i < 8; ++i) to[i] = half_bits_to_float(bits[i]);
}

// D = A·B + D of one warp: its rows of the 64, 16 columns of A. Everything is row by row.
inline void compute(WgmmaProduct& product, unsigned warp_of_group) {
    typedef float Lanes __attribute__((vector_size(32)));
    const WgmmaCall& call = product.call;
    WgmmaAccumulators& d = *product.d;
    alignas(32) float a[16][16], b[16][kMostColumns];
    if (call.a_matrix) {
        const MatrixDescriptor matrix(call.a_matrix);
        for (unsigned row = 0; row < 16; ++row)
            for (unsigned half = 0; half < 2; ++half)
                read_chunk(matrix, call, 16 * warp_of_group + row, half, true, reinterpret_cast<float(&)[8]>(a[row][8 * half]));
    } else {
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 8; ++i)  // register i / 2, its half i % 2
                a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = half_of(product.a[lane][i / 2], i % 2);
    }
    const MatrixDescriptor matrix(call.b_matrix);
    const unsigned columns = static_cast<unsigned>(call.columns);
    if (call.b_transposed) {
        for (unsigned k = 0; k < 16; ++k)
            for (unsigned chunk = 0; chunk < columns / 8; ++chunk)
                read_chunk(matrix, call, k, chunk, false, reinterpret_cast<float(&)[8]>(b[k][8 * chunk]));
    } else {
        for (unsigned column = 0; column < columns; ++column) {
            float k[16];
            for (unsigned half = 0; half < 2; ++half)
                read_chunk(matrix, call, column, half, true, reinterpret_cast<float(&)[8]>(k[8 * half]));
            for (unsigned i = 0; i < 16; ++i) b[i][column] = k[i];
        }
    }
    for (unsigned row = 0; row < 16; ++row) {
        for (unsigned first = 0; first < columns; first += 8) {
            Lanes sum{}, values;
            if (call.add) memcpy(&sum, &d.values[row][first], sizeof sum);
            for (unsigned k = 0; k < 16; ++k) {
                memcpy(&values, &b[k][first], sizeof values);
                sum += values * a[row][k];  // the product of two halves is exact in float
            }
            memcpy(&d.values[row][first], &sum, sizeof sum);
        }
    }
    product.done = true;
}

inline float& fragment_element(WgmmaAccumulators& d, int lane, int i) {  // PTX ISA, layout of D of m64nNk16
    return d.values[lane / 4 + i / 2 % 2 * 8][8 * (i / 4) + lane % 4 * 2 + i % 2];
}

struct WgmmaOperands {
    WgmmaCall call;
    float* d;
    const unsigned* a;
};

inline WgmmaWarp& state_of(const Warp& warp) { return wgmma_warps[&warp - block.warps]; }

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

inline void check_descriptor(uint64_t bits, const char* which, const WgmmaCall& call) {
    const MatrixDescriptor matrix(bits);
    const char* wrong = matrix.reserved ? "sets bits that must be 0" : matrix.base ? "has a base offset, which the emulator does not support" : nullptr;
    if (wrong) fatal(cudaErrorLaunchFailure, "bad_descriptor", call.file, call.line, "wgmma: the descriptor of %s %s", which, wrong);
}

// From here to the wait the registers are NaN.
inline WgmmaAccumulators& take_accumulators(WgmmaWarp& state, const Warp& warp, const WgmmaCall& call) {
    for (WgmmaAccumulators* known : state.accumulators) {
        if (known->place[0] != operands_of<WgmmaOperands>(warp, 0).d) continue;
        if (known->columns != call.columns)
            fatal(cudaErrorLaunchFailure, "bad_accumulators", call.file, call.line, "wgmma of n%d on accumulators that one of n%d has", call.columns, known->columns);
        ++known->products;
        return *known;
    }
    WgmmaAccumulators* taken = new WgmmaAccumulators;
    taken->columns = call.columns;
    taken->products = 1;
    for (int lane = 0; lane < 32; ++lane) {
        taken->place[lane] = operands_of<WgmmaOperands>(warp, lane).d;
        for (int i = 0; i < call.columns / 2; ++i) {
            fragment_element(*taken, lane, i) = taken->place[lane][i];
            memcpy(&taken->place[lane][i], &kBusy, sizeof kBusy);
        }
    }
    state.accumulators.push_back(taken);
    return *taken;
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

inline void give_back(WgmmaWarp& state, WgmmaAccumulators* d, const WgmmaCall& call) {
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < d->columns / 2; ++i) {
            if (bits_as<uint32_t>(d->place[lane][i]) != kBusy)
                fatal(cudaErrorLaunchFailure, "bad_accumulators", call.file, call.line,
                      "accumulator %d of lane %d was written between this wgmma and the wait for it", i, lane);
            d->place[lane][i] = fragment_element(*d, lane, i);
        }
    }
    for (size_t i = 0; i < state.accumulators.size(); ++i)
        if (state.accumulators[i] == d) state.accumulators.erase(state.accumulators.begin() + static_cast<long>(i));
    delete d;
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
__attribute__((noinline)) inline void wgmma_multiply(int columns, float* d, uint64_t a_matrix, const unsigned* a, uint64_t b_matrix,
                                                     bool b_transposed, bool add, GATES_EMULATOR_SITE) {
    const WgmmaOperands operands{{columns, a_matrix, b_matrix, b_transposed, add, file, line}, d, a};
    meet(kAllLanes, "wgmma.mma_async", reinterpret_cast<uint64_t>(&operands), 0, combine_wgmma, file, line);
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
    meet(kAllLanes, "setmaxnreg", static_cast<uint64_t>(count), 0, combine_registers, file, line);
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
        add_finding("warpgroup_divergence", block.kernel, place(call.file, call.line), format("warp %u never issued this wgmma of its warpgroup", w));
    }
    for (unsigned w = 0; w + 1 < block.warp_count; ++w)
        if (w % 4 != 3 && wgmma_warps[w].registers != wgmma_warps[w + 1].registers)
            add_finding("warpgroup_divergence", block.kernel, "", format("setmaxnreg: warps %u and %u of a warpgroup set %d and %d", w, w + 1,
                        wgmma_warps[w].registers, wgmma_warps[w + 1].registers));
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
