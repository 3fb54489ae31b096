// Arithmetic, conversion, memory and atomic functions of device code. Fast-math forms (__expf, __fdividef, …) are
// computed as exactly as the C library does: the emulator has no figures on the error of a device's.
#pragma once
#pragma GCC system_header

#include "launch.h"

#pragma GCC visibility push(hidden)

// glibc declares functions of these names.
#define __expf gates_emulator_expf
#define __exp10f gates_emulator_exp10f
#define __logf gates_emulator_logf
#define __log2f gates_emulator_log2f
#define __log10f gates_emulator_log10f
#define __powf gates_emulator_powf
#define __sinf gates_emulator_sinf
#define __cosf gates_emulator_cosf
#define __tanf gates_emulator_tanf
#define __tanhf gates_emulator_tanhf
#define __sincosf gates_emulator_sincosf

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN gives 0
// The lower tail of the normal distribution; in wider arithmetic, since erfc multiplies the rounding of its argument.
inline float normcdff(float x) { return static_cast<float>(0.5 * erfc(-0.70710678118654752440 * static_cast<double>(x))); }
inline double normcdf(double x) { return static_cast<double>(0.5L * erfcl(-0.70710678118654752440084436210485L * x)); }
inline void sincospif(float x, float* s, float* c) { *s = sinf(x * 3.14159265358979f), *c = cosf(x * 3.14159265358979f); }

namespace gates_emulator {
// Out of range goes to the nearest limit and NaN to 0, as cvt.rni/rzi do.
inline int to_int(float rounded) {
    if (rounded != rounded) return 0;
    if (rounded >= 2147483648.0f) return INT_MAX;
    return rounded <= -2147483648.0f ? INT_MIN : static_cast<int>(rounded);
}
inline unsigned to_unsigned(float rounded) {
    if (!(rounded > 0.0f)) return 0;
    return rounded >= 4294967296.0f ? UINT_MAX : static_cast<unsigned>(rounded);
}
template <typename To, typename From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "a change of type keeps the size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace gates_emulator

inline int __float2int_rn(float x) { return gates_emulator::to_int(nearbyintf(x)); }
inline int __float2int_rz(float x) { return gates_emulator::to_int(truncf(x)); }
inline int __float2int_rd(float x) { return gates_emulator::to_int(floorf(x)); }
inline int __float2int_ru(float x) { return gates_emulator::to_int(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return gates_emulator::to_unsigned(nearbyintf(x)); }
inline unsigned __float2uint_rz(float x) { return gates_emulator::to_unsigned(truncf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline int __float_as_int(float x) { return gates_emulator::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return gates_emulator::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return gates_emulator::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return gates_emulator::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return gates_emulator::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return gates_emulator::bits_as<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned out = 0;
    for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
    return out;
}
inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> (4 * i) & 0xf;
        // PRMT's sign replication, bit 3, can't be asked for: nvcc masks the selector with 0x7777.
        out |= (static_cast<unsigned>(both >> (8 * (nibble & 7))) & 0xff) << (8 * i);
    }
    return out;
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
    return c;
}

// min and max of CUDA: one for each pair of arithmetic types that meet in practice.
#define GATES_EMULATOR_MIN_MAX(A, B, R)                                                                   \
    constexpr R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    constexpr R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
GATES_EMULATOR_MIN_MAX(int, int, int)
GATES_EMULATOR_MIN_MAX(unsigned, unsigned, unsigned)
GATES_EMULATOR_MIN_MAX(int, unsigned, unsigned)
GATES_EMULATOR_MIN_MAX(unsigned, int, unsigned)
GATES_EMULATOR_MIN_MAX(long, long, long)
GATES_EMULATOR_MIN_MAX(unsigned long, unsigned long, unsigned long)
GATES_EMULATOR_MIN_MAX(long, unsigned long, unsigned long)
GATES_EMULATOR_MIN_MAX(unsigned long, long, unsigned long)
GATES_EMULATOR_MIN_MAX(long long, long long, long long)
GATES_EMULATOR_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
GATES_EMULATOR_MIN_MAX(long long, unsigned long long, unsigned long long)
GATES_EMULATOR_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef GATES_EMULATOR_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

// Loads and stores with a cache hint.
#define GATES_EMULATOR_LOAD(name) template <typename T> T name(const T* address) { return *address; }
GATES_EMULATOR_LOAD(__ldg)
GATES_EMULATOR_LOAD(__ldcs)
GATES_EMULATOR_LOAD(__ldca)
GATES_EMULATOR_LOAD(__ldcg)
GATES_EMULATOR_LOAD(__ldlu)
GATES_EMULATOR_LOAD(__ldcv)
#undef GATES_EMULATOR_LOAD
#define GATES_EMULATOR_STORE(name) template <typename T> void name(T* address, T value) { *address = value; }
GATES_EMULATOR_STORE(__stcs)
GATES_EMULATOR_STORE(__stcg)
GATES_EMULATOR_STORE(__stwb)
GATES_EMULATOR_STORE(__stwt)
#undef GATES_EMULATOR_STORE

// Threads never run at the same time, so an atomic is a plain read and write. The old value is returned.
namespace gates_emulator {
template <typename T>
struct Same { using type = T; };
template <typename T>
using same_t = typename Same<T>::type;
}  // namespace gates_emulator
#define GATES_EMULATOR_ATOMIC(name, expression)                                 \
    template <typename T>                                                       \
    T name(T* address, gates_emulator::same_t<T> value) {                       \
        const T old = *address;                                                 \
        *address = static_cast<T>(expression);                                  \
        return old;                                                             \
    }
GATES_EMULATOR_ATOMIC(atomicAdd, old + value)
GATES_EMULATOR_ATOMIC(atomicSub, old - value)
GATES_EMULATOR_ATOMIC(atomicExch, value)
GATES_EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
GATES_EMULATOR_ATOMIC(atomicMax, value > old ? value : old)
GATES_EMULATOR_ATOMIC(atomicAnd, old& value)
GATES_EMULATOR_ATOMIC(atomicOr, old | value)
GATES_EMULATOR_ATOMIC(atomicXor, old ^ value)
GATES_EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
GATES_EMULATOR_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef GATES_EMULATOR_ATOMIC
template <typename T>
T atomicCAS(T* address, gates_emulator::same_t<T> compare, gates_emulator::same_t<T> value) {
    const T old = *address;
    if (old == compare) *address = value;
    return old;
}

inline long long clock64() {
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    static long long ticks = 0;
    return ticks += 100;
#endif
}
inline void __trap(GATES_EMULATOR_SITE) {
    gates_emulator::fatal(cudaErrorLaunchFailure, "trap", file, line, "__trap()");
}

namespace gates_emulator {
void assertion_failed(const char* text, const char* file, int line);
}  // namespace gates_emulator

// A promise to the compiler: where it does not hold the behaviour is undefined, so it is checked. Not g++'s own.
#define __builtin_assume(condition) \
    ((condition) ? (void)0 : gates_emulator::assertion_failed("__builtin_assume(" #condition ")", __FILE__, __LINE__))

#pragma GCC visibility pop
