// nvcuda::wmma for half inputs, 16x16x16, 32x8x16 and 8x32x16, accumulating in float or half.
//
// Each lane holds its own share of a fragment. Which elements those are is unspecified in CUDA, and here it is the
// mapping of no GPU: element e in storage order (row by row, or column by column of a col_major fragment) belongs to
// lane e / (elements of a lane). load and store touch the lane's own elements only and don't wait for other lanes, so
// a missing __syncwarp shows. mma_sync waits for the whole warp; its sums are float, over k in order, and a half
// accumulator is rounded once at the end.
#pragma once
#pragma GCC system_header

#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k>
struct Extent;
template <int m, int n, int k>
struct Extent<matrix_a, m, n, k> { static constexpr int rows = m, columns = k; };
template <int m, int n, int k>
struct Extent<matrix_b, m, n, k> { static constexpr int rows = k, columns = n; };
template <int m, int n, int k>
struct Extent<accumulator, m, n, k> { static constexpr int rows = m, columns = n; };

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
    static_assert((m == 16 && n == 16 && k == 16) || (m == 32 && n == 8 && k == 16) || (m == 8 && n == 32 && k == 16),
                  "the emulator has the WMMA shapes 16x16x16, 32x8x16 and 8x32x16");
    static_assert(std::is_same<T, __half>::value || (std::is_same<Use, accumulator>::value && std::is_same<T, float>::value),
                  "the emulator has WMMA with half inputs and float or half accumulators");
    static constexpr bool is_input = !std::is_same<Use, accumulator>::value;
    static constexpr int rows = Extent<Use, m, n, k>::rows, columns = Extent<Use, m, n, k>::columns;
    static constexpr int own = rows * columns / 32;  // elements that only this lane holds
    // On a device a lane holds 16 elements of an input, some of them copies.
    enum { num_elements = is_input ? 16 : own };
    enum { num_storage_elements = num_elements };
    typedef T element_type;
    T x[num_elements];
    fragment() { gates_emulator::fill_poison(x, sizeof x); }  // until it is filled or loaded
};

}  // namespace wmma
}  // namespace nvcuda

namespace gates_emulator {

template <typename T>
void check_matrix(const char* what, const T* address, unsigned ldm, const char* file, int line) {
    if (reinterpret_cast<size_t>(address) % 32)
        fatal(cudaErrorMisalignedAddress, "wmma_alignment", file, line,
              "%s: the pointer must be aligned to 32 bytes (256 bits)", what);
    if (ldm * sizeof(T) % 16)
        fatal(cudaErrorMisalignedAddress, "wmma_alignment", file, line,
              "%s: leading dimension %u must be a multiple of %zu", what, ldm, 16 / sizeof(T));
}

// Where element `e` of a fragment, counted in its storage order, lies in a matrix with leading dimension ldm.
// `line_length`: elements of a row (or column of a col_major matrix).
constexpr size_t element_offset(int e, int line_length, unsigned ldm) {
    return static_cast<size_t>(e / line_length) * ldm + static_cast<size_t>(e % line_length);
}

template <typename Fragment, typename T>
void load_elements(Fragment& fragment, const T* address, unsigned ldm, bool transposed) {
    constexpr int own = Fragment::own;
    const int first = static_cast<int>(block.current->lane) * own;
    for (int i = 0; i < own; ++i) {
        const int e = first + i;
        fragment.x[i] = transposed
            ? address[static_cast<size_t>(e % Fragment::columns) * ldm + static_cast<size_t>(e / Fragment::columns)]
            : address[element_offset(e, Fragment::columns, ldm)];
    }
}

// An input's own storage order makes its share contiguous, whichever the layout.
template <int line_length, typename Fragment>
void load_input(Fragment& fragment, const __half* address, unsigned ldm) {
    constexpr int own = Fragment::own;
    const int first = static_cast<int>(block.current->lane) * own;
    static_assert(line_length % own == 0, "a lane's share lies within one row or column");
    const __half* share = address + element_offset(first, line_length, ldm);
    for (int i = 0; i < own; ++i) fragment.x[i] = share[i];
    for (int i = own; i < Fragment::num_elements; ++i) fragment.x[i] = fragment.x[i % own];
}

struct MmaOperands {
    void* d;
    const void *a, *b, *c;
};

template <int n>
struct RowOf { typedef float type __attribute__((vector_size(n * 4))); };

inline float as_float(float x) { return x; }
inline float as_float(__half x) { return __half2float(x); }

template <int m, int n, int k, typename LayoutA, typename LayoutB, typename ElementC, typename ElementD>
void combine_mma(Warp& warp, unsigned lanes) {
    using namespace nvcuda::wmma;
    typedef fragment<matrix_a, m, n, k, __half, LayoutA> FragmentA;
    typedef fragment<matrix_b, m, n, k, __half, LayoutB> FragmentB;
    typedef fragment<accumulator, m, n, k, ElementC> FragmentC;
    typedef fragment<accumulator, m, n, k, ElementD> FragmentD;
    if (lanes != kAllLanes)
        fatal(cudaErrorLaunchFailure, "warp_divergence", warp.meeting[0].file, warp.meeting[0].line,
              "wmma::mma_sync needs all 32 lanes of the warp; some have returned or don't exist");
    typedef typename RowOf<n>::type Row;
    alignas(64) float a[m][k], c[m][n];
    alignas(64) float b[k][n];
    for (int lane = 0; lane < 32; ++lane) {
        const MmaOperands& operands = *reinterpret_cast<const MmaOperands*>(warp.value[lane]);
        const __half* own_a = static_cast<const FragmentA*>(operands.a)->x;
        const __half* own_b = static_cast<const FragmentB*>(operands.b)->x;
        const ElementC* own_c = static_cast<const FragmentC*>(operands.c)->x;
        for (int i = 0; i < FragmentA::own; ++i) {
            const int e = lane * FragmentA::own + i;
            if (std::is_same<LayoutA, row_major>::value) a[e / k][e % k] = __half2float(own_a[i]);
            else a[e % m][e / m] = __half2float(own_a[i]);
        }
        for (int i = 0; i < FragmentB::own; ++i) {
            const int e = lane * FragmentB::own + i;
            if (std::is_same<LayoutB, row_major>::value) b[e / n][e % n] = __half2float(own_b[i]);
            else b[e % k][e / k] = __half2float(own_b[i]);
        }
        for (int i = 0; i < FragmentC::own; ++i) {
            const int e = lane * FragmentC::own + i;
            c[e / n][e % n] = as_float(own_c[i]);
        }
    }
    for (int row = 0; row < m; ++row) {
        Row sum;
        memcpy(&sum, c[row], sizeof sum);
        for (int inner = 0; inner < k; ++inner) {
            Row values;
            memcpy(&values, b[inner], sizeof values);
            sum += values * a[row][inner];  // the product of two halves is exact in float
        }
        memcpy(c[row], &sum, sizeof sum);
    }
    for (int lane = 0; lane < 32; ++lane) {
        ElementD* own_d = static_cast<FragmentD*>(reinterpret_cast<const MmaOperands*>(warp.value[lane])->d)->x;
        for (int i = 0; i < FragmentD::own; ++i) {
            const int e = lane * FragmentD::own + i;
            own_d[i] = ElementD(c[e / n][e % n]);
        }
    }
}

}  // namespace gates_emulator

namespace nvcuda {
namespace wmma {

template <typename Use, int m, int n, int k, typename T, typename Layout>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const gates_emulator::same_t<T>& value) {
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}

template <typename Use, int m, int n, int k, typename Layout>
void load_matrix_sync(fragment<Use, m, n, k, __half, Layout>& f, const __half* address, unsigned ldm, GATES_EMULATOR_SITE) {
    typedef fragment<Use, m, n, k, __half, Layout> Fragment;
    static_assert(Fragment::is_input, "an accumulator is loaded with a layout argument");
    gates_emulator::check_matrix("wmma::load_matrix_sync", address, ldm, file, line);
    constexpr bool by_row = std::is_same<Layout, row_major>::value;
    gates_emulator::load_input<by_row ? Fragment::columns : Fragment::rows>(f, address, ldm);
}

template <int m, int n, int k, typename T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const gates_emulator::same_t<T>* address, unsigned ldm,
                      layout_t layout, GATES_EMULATOR_SITE) {
    gates_emulator::check_matrix("wmma::load_matrix_sync", address, ldm, file, line);
    gates_emulator::load_elements(f, address, ldm, layout == mem_col_major);
}

template <int m, int n, int k, typename T>
void store_matrix_sync(T* address, const fragment<accumulator, m, n, k, T>& f, unsigned ldm, layout_t layout,
                       GATES_EMULATOR_SITE) {
    typedef fragment<accumulator, m, n, k, T> Fragment;
    gates_emulator::check_matrix("wmma::store_matrix_sync", address, ldm, file, line);
    const int first = static_cast<int>(gates_emulator::block.current->lane) * Fragment::own;
    for (int i = 0; i < Fragment::own; ++i) {
        const int row = (first + i) / Fragment::columns, column = (first + i) % Fragment::columns;
        address[layout == mem_row_major ? static_cast<size_t>(row) * ldm + static_cast<size_t>(column)
                                        : static_cast<size_t>(column) * ldm + static_cast<size_t>(row)] = f.x[i];
    }
}

template <int m, int n, int k, typename LayoutA, typename LayoutB, typename ElementC, typename ElementD>
void mma_sync(fragment<accumulator, m, n, k, ElementD>& d, const fragment<matrix_a, m, n, k, __half, LayoutA>& a,
              const fragment<matrix_b, m, n, k, __half, LayoutB>& b, const fragment<accumulator, m, n, k, ElementC>& c,
              bool satf = false, GATES_EMULATOR_SITE) {
    (void)satf;  // saturates integer results only
    const gates_emulator::MmaOperands operands{&d, &a, &b, &c};
    gates_emulator::meet(gates_emulator::kAllLanes, "wmma::mma_sync", reinterpret_cast<u_int64_t>(&operands), 0,
                         gates_emulator::combine_mma<m, n, k, LayoutA, LayoutB, ElementC, ElementD>, file, line);
}

}  // namespace wmma
}  // namespace nvcuda
