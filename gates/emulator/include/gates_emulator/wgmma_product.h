// The products of wgmma.h: what is known of each while it runs, and what it computes.
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
    u_int64_t a_matrix, b_matrix;
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

constexpr u_int32_t kBusy = 0xffbfffffu;  // in accumulators: a signalling NaN, which arithmetic would turn into a quiet one

inline void read_chunk(const MatrixDescriptor& matrix, const WgmmaCall& call, unsigned row, unsigned chunk, bool k_major, float (&to)[8]) {
    const char* place = at_shared_address(matrix.chunk(row, chunk, k_major));
    if (!in_one_region(place, 16))
        fatal(cudaErrorIllegalAddress, "shared_out_of_bounds", call.file, call.line, "wgmma reads shared address 0x%x, outside any shared variable",
              shared_address(place));
    u_int16_t bits[8];
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

inline void give_back(WgmmaWarp& state, WgmmaAccumulators* d, const WgmmaCall& call) {
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < d->columns / 2; ++i) {
            if (bits_as<u_int32_t>(d->place[lane][i]) != kBusy)
                fatal(cudaErrorLaunchFailure, "bad_accumulators", call.file, call.line,
                      "accumulator %d of lane %d was written between this wgmma and the wait for it", i, lane);
            d->place[lane][i] = fragment_element(*d, lane, i);
        }
    }
    for (size_t i = 0; i < state.accumulators.size(); ++i)
        if (state.accumulators[i] == d) state.accumulators.erase(state.accumulators.begin() + static_cast<long>(i));
    delete d;
}

}  // namespace gates_emulator
#pragma GCC visibility pop
