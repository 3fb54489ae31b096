// Floating-point arithmetic: f32 and f64 as IEEE 754 has it, halves computed in float and rounded once.
#include <cfenv>

#include "access.h"
#include "ops.h"

namespace gates_cpu {
namespace {

inline float whole_nan(float value) { return value == value ? value : float_of(0x7fffffffu); }  // the NaN that devices make
inline double whole_nan(double value) { return value; }

struct FAdd { template <class T> static T apply(T a, T b) { return whole_nan(a + b); } };
struct FSub { template <class T> static T apply(T a, T b) { return whole_nan(a - b); } };
struct FMul { template <class T> static T apply(T a, T b) { return whole_nan(a * b); } };
struct FDiv { template <class T> static T apply(T a, T b) { return whole_nan(a / b); } };
struct FFma {
    static float apply(float a, float b, float c) { return whole_nan(__builtin_fmaf(a, b, c)); }
    static double apply(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
struct HalfFma {  // rounded to odd in double, then in float, so that the one rounding to half is right
    static float apply(float a, float b, float c) {
        const double product = static_cast<double>(a) * b;
        double sum = product + c;
        if (!(std::fabs(sum) <= 1e300)) return whole_nan(static_cast<float>(sum));
        const double back = sum - product, lost = (product - (sum - back)) + (c - back);
        std::int64_t bits;
        std::memcpy(&bits, &sum, sizeof bits);
        if (lost != 0 && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1 : -1;
        std::memcpy(&sum, &bits, sizeof bits);
        const float near = static_cast<float>(sum);
        if (static_cast<double>(near) == sum) return near;
        const float cut = std::fabs(static_cast<double>(near)) > std::fabs(sum) ? float_of(bits_of(near) - 1) : near;
        return float_of(bits_of(cut) | 1);
    }
};
struct HalfMul {
    static float apply(float a, float b) { return HalfFma::apply(a, b, -0.0f); }
    static double apply(double a, double b) { return a * b; }
};
struct FMin {
    template <class T> static T apply(T a, T b) {
        if (a != a) return whole_nan(b);
        if (b != b) return a;
        return a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
    }
};
struct FMax {
    template <class T> static T apply(T a, T b) {
        if (a != a) return whole_nan(b);
        if (b != b) return a;
        return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
    }
};
template <class F> struct NanWins {
    template <class T> static T apply(T a, T b) { return a != a || b != b ? whole_nan(static_cast<T>(NAN)) : F::apply(a, b); }
};
struct FAbs {
    static float apply(float a) { return float_of(bits_of(a) & 0x7fffffffu); }
    static double apply(double a) { return std::fabs(a); }
};
struct FNeg {
    static float apply(float a) { return float_of(bits_of(a) ^ 0x80000000u); }
    static double apply(double a) { return -a; }
};
struct CopySign {  // of a, onto b
    static float apply(float a, float b) { return float_of((bits_of(b) & 0x7fffffffu) | (bits_of(a) & 0x80000000u)); }
    static double apply(double a, double b) { return std::copysign(b, a); }
};
struct Reciprocal { template <class T> static T apply(T a) { return whole_nan(T(1) / a); } };
struct SquareRoot {
    static float apply(float a) { return whole_nan(__builtin_sqrtf(a)); }
    static double apply(double a) { return __builtin_sqrt(a); }
};
struct ReciprocalRoot {
    static float apply(float a) { return whole_nan(static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a)))); }
    static double apply(double a) { return 1.0 / __builtin_sqrt(a); }
};
struct Exp2 {  // relative error below 2^-22, as ex2.approx is documented
    static float apply(float x) {
        const float kept = x < -160.0f ? -160.0f : x > 160.0f ? 160.0f : x;
        const float n = __builtin_floorf(kept + 0.5f), f = kept - n;
        float p = 1.5252734e-5f;
        p = __builtin_fmaf(p, f, 1.5403530e-4f);
        p = __builtin_fmaf(p, f, 1.3333558e-3f);
        p = __builtin_fmaf(p, f, 9.6181291e-3f);
        p = __builtin_fmaf(p, f, 5.5504109e-2f);
        p = __builtin_fmaf(p, f, 2.4022651e-1f);
        p = __builtin_fmaf(p, f, 6.9314718e-1f);
        p = __builtin_fmaf(p, f, 1.0f);
        const std::int32_t whole = static_cast<std::int32_t>(n == n ? n : 0), half = whole >> 1;
        const float made = p * float_of(static_cast<std::uint32_t>(half + 127) << 23) * float_of(static_cast<std::uint32_t>(whole - half + 127) << 23);
        return x == x ? made : float_of(0x7fffffffu);
    }
};
struct Log2 { static float apply(float a) { return whole_nan(static_cast<float>(std::log2(static_cast<double>(a)))); } };
// A device reduces the angle by one rounded product, so large angles lose their low bits.
inline double turns(float a) { return 6.283185307179586 * static_cast<double>(a * 0.15915494309f); }
struct Sine { static float apply(float a) { return whole_nan(static_cast<float>(std::sin(turns(a)))); } };
struct Cosine { static float apply(float a) { return whole_nan(static_cast<float>(std::cos(turns(a)))); } };
struct HyperbolicTangent { static float apply(float a) { return whole_nan(static_cast<float>(std::tanh(static_cast<double>(a)))); } };

struct LFlushed {  // f32 under .ftz: subnormal operands and results are zeros
    using Value = float;
    using Store = float;
    static float get(float stored) { return flushed(stored); }
    static float put(float value) { return flushed(value); }
};

struct LF16Flushed {
    using Value = float;
    using Store = std::uint32_t;
    static constexpr float kTiny = 6.103515625e-05f * (1 - 1.0f / 4096);  // what is less stays below 2^-14 when rounded to 11 bits
    static std::uint32_t kept(std::uint32_t bits) { return (bits & 0x7c00) == 0 ? bits & 0x8000 : bits & 0xffff; }
    static float get(Store stored) { return half_to_float(static_cast<std::uint16_t>(kept(stored))); }
    static Store put(float value) { return std::fabs(value) < kTiny ? (std::signbit(value) ? 0x8000 : 0) : kept(float_to_half(value)); }
};

// Two halves of a word.
template <class L, class F, unsigned sources> void pairs(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = sources > 1 ? warp.lanes<std::uint32_t>(op.b) : a,
                        *const c = sources > 2 ? warp.lanes<std::uint32_t>(op.c) : a;
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        std::uint32_t made = 0;
        for (unsigned half = 0; half < 32; half += 16) {
            const float x = L::get(a[i] >> half), y = L::get(b[i] >> half), z = L::get(c[i] >> half);
            float result;
            if constexpr (sources == 1) result = F::apply(x);
            else if constexpr (sources == 2) result = F::apply(x, y);
            else result = F::apply(x, y, z);
            (void)y;
            (void)z;
            made |= L::put(result) << half;
        }
        return made;
    });
}

template <class F> Handler of_one(Type type, bool flush) {
    switch (type) {
        case Type::F32: return flush ? unary<LFlushed, LFlushed, F> : unary<LF32, LF32, F>;
        case Type::F16: return flush ? unary<LF16Flushed, LF16Flushed, F> : unary<LF16, LF16, F>;
        case Type::BF16: return unary<LBF16, LBF16, F>;
        case Type::F16x2: return flush ? pairs<LF16Flushed, F, 1> : pairs<LF16, F, 1>;
        case Type::BF16x2: return pairs<LBF16, F, 1>;
        default: return nullptr;
    }
}
template <class F> Handler of_two(Type type, bool flush) {
    switch (type) {
        case Type::F32: return flush ? binary<LFlushed, LFlushed, LFlushed, F> : binary<LF32, LF32, LF32, F>;
        case Type::F64: return binary<LF64, LF64, LF64, F>;
        case Type::F16: return flush ? binary<LF16Flushed, LF16Flushed, LF16Flushed, F> : binary<LF16, LF16, LF16, F>;
        case Type::BF16: return binary<LBF16, LBF16, LBF16, F>;
        case Type::F16x2: return flush ? pairs<LF16Flushed, F, 2> : pairs<LF16, F, 2>;
        case Type::BF16x2: return pairs<LBF16, F, 2>;
        default: return nullptr;
    }
}
Handler fma_of(Type type, bool flush) {
    switch (type) {
        case Type::F32: return flush ? ternary<LFlushed, LFlushed, LFlushed, FFma> : ternary<LF32, LF32, LF32, FFma>;
        case Type::F64: return ternary<LF64, LF64, LF64, FFma>;
        case Type::F16: return flush ? ternary<LF16Flushed, LF16Flushed, LF16Flushed, HalfFma> : ternary<LF16, LF16, LF16, HalfFma>;
        case Type::BF16: return ternary<LBF16, LBF16, LBF16, HalfFma>;
        case Type::F16x2: return flush ? pairs<LF16Flushed, HalfFma, 3> : pairs<LF16, HalfFma, 3>;
        case Type::BF16x2: return pairs<LBF16, HalfFma, 3>;
        default: return nullptr;
    }
}

// Another rounding than to nearest: the machine's, for one operation. The handler is reached through memory, so no
// compiler moves its arithmetic across the change.
void rounded(Warp& warp, const Op& op) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    const Handler volatile inner = reinterpret_cast<Handler>(op.imm);
#if defined(__SSE__)
    static const unsigned bits[] = {0x0000, 0x6000, 0x2000, 0x4000};
    (void)modes;
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((before & ~0x6000u) | bits[op.mode]);
    inner(warp, op);
    __builtin_ia32_ldmxcsr(before);
#else
    std::fesetround(modes[op.mode]);
    inner(warp, op);
    std::fesetround(FE_TONEAREST);
#endif
}

std::uint8_t rounding(Modifiers& modifiers) {
    const std::string name = modifiers.take_one_of({"rn", "rz", "rm", "rp", "rna"});
    return static_cast<std::uint8_t>(name == "rz" ? 1 : name == "rm" ? 2 : name == "rp" ? 3 : 0);
}

void round_op(Op& op, std::uint8_t mode) {
    if (mode == 0) return;
    op.imm = reinterpret_cast<std::int64_t>(op.run);
    op.run = rounded;
    op.mode = mode;
}

// Approximations of f32 err by up to what the PTX ISA allows, by a function of operand and seed. So a kernel that needs more than
// is promised shows it, and one that is run again gives the same. What the ISA fixes (zeros, infinities, NaN) stays. The bounds:
// lg2 2^-22, absolute between 0.5 and 2, else relative; sin, cos 2^-20.5 up to 2 pi, then 2^-14.7, absolute; tanh 2^-11, relative.
// The errors of the functions themselves (of an angle, those of its reduction) and one rounding are taken off. ex2, div,
// rcp, sqrt and rsqrt stay as they are: libdevice builds expf and others on them, for which CUDA promises more, and kernels rely on x / x = 1.
enum Approximation : std::uint8_t { kLogarithm, kAngle, kTangent };

float nudged(Approximation what, float value, float given, float by) {  // by: -1 to 1
    const std::uint32_t exponent = bits_of(value) >> 23 & 0xff;
    if (exponent == 0 || exponent >= 254 || given == 0.0f) return value;
    const float size = std::fabs(given);
    switch (what) {
        case kLogarithm: return given == 1.0f ? value : size > 0.5f && size < 2.0f ? value + by * 1.78e-7f : value + value * by * 1.19e-7f;
        case kAngle: return std::fmin(std::fmax(value + by * (size <= 6.2831f ? 2.3e-7f : 1.6e-5f), -1.0f), 1.0f);
        default: return std::fmin(std::fmax(value + value * by * 4.88e-4f, -1.0f), 1.0f);
    }
}

// op.imm: the exact handler; op.mode: which.
void approximately(Warp& warp, const Op& op) {
    const Handler inner = reinterpret_cast<Handler>(op.imm);
    const std::uint64_t seed = checks.approximations;
    if (seed == 0) return inner(warp, op);
    std::uint32_t given[kLanes], mixed[kLanes];
    std::memcpy(given, warp.lanes<std::uint32_t>(op.a), sizeof given);
    for (unsigned i = 0; i < kLanes; ++i) {
        std::uint32_t bits = given[i] + static_cast<std::uint32_t>(seed) * 0x9e3779b9u;
        bits = (bits ^ bits >> 16) * 0x85ebca6bu;
        bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
        mixed[i] = bits ^ bits >> 16;
    }
    inner(warp, op);
    const float* const made = warp.lanes<float>(op.d);
    each_lane<float>(warp, op.d, [&](unsigned i) {
        return nudged(static_cast<Approximation>(op.mode), made[i], float_of(given[i]), static_cast<float>(static_cast<std::int32_t>(mixed[i])) * 4.6566129e-10f);
    });
}

void err(Op& op, Approximation what) {
    op.imm = reinterpret_cast<std::int64_t>(op.run);
    op.run = approximately;
    op.mode = what;
}

struct Saturate { static float apply(float a) { return a > 0.0f ? (a > 1.0f ? 1.0f : a) : 0.0f; } };  // NaN and -0: 0
struct Positive { static float apply(float a) { return a > 0.0f ? a : a != a ? a : 0.0f; } };            // .relu

template <class F> void afterwards(Decoder& decoder, std::uint32_t slot, Type type) {
    const Handler handler = type == Type::F64 ? nullptr : of_one<F>(type, false);
    if (handler == nullptr) decoder.unsupported();
    Op& op = decoder.emit(handler);
    op.d = slot;
    op.a = slot;
}

void emit_float(Decoder& decoder, Handler handler, Type type, unsigned sources, std::uint8_t mode, bool saturate, bool positive = false) {
    Op& op = emit_plain(decoder, handler, type, sources);
    round_op(op, mode);
    const std::uint32_t slot = op.d;
    if (saturate) afterwards<Saturate>(decoder, slot, type);
    if (positive) afterwards<Positive>(decoder, slot, type);
}

// An approximation: .approx (or .full, .rn), of f32 and perhaps halves.
template <class F> void approximate(Decoder& decoder, Modifiers& modifiers) {
    const bool errs = modifiers.take("approx");
    const std::uint8_t mode = rounding(modifiers);
    const bool flush = modifiers.take("ftz");
    const Type type = modifiers.take_type();
    Op& op = emit_plain(decoder, of_one<F>(type, flush), type, 1);
    round_op(op, mode);
    if (!errs || type != Type::F32) return;
    if constexpr (std::is_same_v<F, Log2>) err(op, kLogarithm);
    else if constexpr (std::is_same_v<F, Sine> || std::is_same_v<F, Cosine>) err(op, kAngle);
    else if constexpr (std::is_same_v<F, HyperbolicTangent>) err(op, kTangent);
}
template <class F> void approximate_wide(Decoder& decoder, Modifiers& modifiers) {
    if (Modifiers(modifiers).take("f64")) {
        modifiers.take_one_of({"approx"});
        const std::uint8_t mode = rounding(modifiers);
        modifiers.take("ftz");
        const Type type = modifiers.take_type();
        return emit_float(decoder, unary<LF64, LF64, F>, type, 1, mode, false);
    }
    approximate<F>(decoder, modifiers);
}

template <class L> void test_property(Warp& warp, const Op& op) {
    std::uint32_t bits = 0;
    const typename L::Store* const a = warp.lanes<typename L::Store>(op.a);
    for (unsigned i = 0; i < kLanes; ++i) {
        const int kind = std::fpclassify(L::get(a[i]));
        const bool holds[] = {kind != FP_NAN && kind != FP_INFINITE, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN, kind == FP_NORMAL || kind == FP_ZERO, kind == FP_SUBNORMAL};
        bits |= static_cast<std::uint32_t>(holds[op.mode]) << i;
    }
    set_predicate(warp, op.d, bits);
}

void test(Decoder& decoder, Modifiers& modifiers) {
    const char* const names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    std::uint8_t mode = 0;
    for (std::uint8_t i = 0; i < 6; ++i) if (modifiers.take(names[i])) mode = i;
    const Type type = modifiers.take_type();
    const std::uint32_t a = decoder.source(1, type);
    Op& op = decoder.emit(type == Type::F64 ? test_property<LF64> : test_property<LF32>);
    op.d = decoder.raw(decoder.operand(0));
    op.a = a;
    op.mode = mode;
}

template <class L> void compare_pair(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b);
    const std::string& name = op.extra->name;
    const auto holds = [&](float x, float y) {
        const bool unordered = x != x || y != y;
        if (name == "num") return !unordered;
        if (name == "nan") return unordered;
        if (unordered) return name.size() == 3;
        const std::string base = name.substr(0, 2);
        return base == "eq" ? x == y : base == "ne" ? x != y : base == "lt" ? x < y : base == "le" ? x <= y : base == "gt" ? x > y : x >= y;
    };
    std::uint32_t low = 0, high = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        low |= static_cast<std::uint32_t>(holds(L::get(a[i]), L::get(b[i]))) << i;
        high |= static_cast<std::uint32_t>(holds(L::get(a[i] >> 16), L::get(b[i] >> 16))) << i;
    }
    if (op.mode == 0) {
        set_predicate(warp, op.d, low);
        if (op.d2 != kNowhere) set_predicate(warp, op.d2, high);
        return;
    }
    const std::uint32_t one = static_cast<std::uint32_t>(op.imm);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return (low >> i & 1 ? one : 0) | (high >> i & 1 ? one << 16 : 0); });
}

const OpcodeTable table = {
    {"fma", float_fma},
    {"copysign", [](Decoder& d, Modifiers& m) {
         const Type type = m.take_type();
         emit_plain(d, type == Type::F64 ? static_cast<Handler>(binary<LF64, LF64, LF64, CopySign>) : static_cast<Handler>(binary<LF32, LF32, LF32, CopySign>), type, 2);
     }},
    {"rcp", approximate_wide<Reciprocal>},
    {"sqrt", approximate_wide<SquareRoot>},
    {"rsqrt", approximate_wide<ReciprocalRoot>},
    {"ex2", approximate<Exp2>},
    {"lg2", approximate<Log2>},
    {"sin", approximate<Sine>},
    {"cos", approximate<Cosine>},
    {"tanh", approximate<HyperbolicTangent>},
    {"testp", test},
};

}  // namespace

bool float_or_not(const Decoder&, const Modifiers& modifiers) {
    const Type type = Modifiers(modifiers).take_type();
    return type == Type::F32 || type == Type::F64 || type == Type::F16 || type == Type::F16x2 || type == Type::BF16 || type == Type::BF16x2;
}

void float_add(Decoder& decoder, Modifiers& modifiers, bool subtract) {
    const std::uint8_t mode = rounding(modifiers);
    const bool flush = modifiers.take("ftz"), saturate = modifiers.take("sat");
    const Type type = modifiers.take_type();
    emit_float(decoder, subtract ? of_two<FSub>(type, flush) : of_two<FAdd>(type, flush), type, 2, mode, saturate);
}

void float_multiply(Decoder& decoder, Modifiers& modifiers) {
    const std::uint8_t mode = rounding(modifiers);
    const bool flush = modifiers.take("ftz"), saturate = modifiers.take("sat");
    const Type type = modifiers.take_type();
    const bool narrow = type == Type::BF16 || type == Type::BF16x2;  // whose subnormals a product in float may lose
    emit_float(decoder, narrow ? of_two<HalfMul>(type, flush) : of_two<FMul>(type, flush), type, 2, mode, saturate);
}

void float_fma(Decoder& decoder, Modifiers& modifiers) {
    const std::uint8_t mode = rounding(modifiers);
    const bool flush = modifiers.take("ftz"), saturate = modifiers.take("sat"), positive = modifiers.take("relu");
    const Type type = modifiers.take_type();
    emit_float(decoder, fma_of(type, flush), type, 3, mode, saturate, positive);
}

void float_divide(Decoder& decoder, Modifiers& modifiers) {
    modifiers.take_one_of({"approx", "full"});
    const std::uint8_t mode = rounding(modifiers);
    const bool flush = modifiers.take("ftz");
    const Type type = modifiers.take_type();
    emit_float(decoder, of_two<FDiv>(type, flush), type, 2, mode, false);
}

void float_min_max(Decoder& decoder, Modifiers& modifiers, bool most) {
    const bool flush = modifiers.take("ftz"), nan = modifiers.take("NaN");
    const Type type = modifiers.take_type();
    const Handler handler = most ? (nan ? of_two<NanWins<FMax>>(type, flush) : of_two<FMax>(type, flush))
                                 : (nan ? of_two<NanWins<FMin>>(type, flush) : of_two<FMin>(type, flush));
    if (decoder.operands() != 3) decoder.unsupported("three operands");
    emit_plain(decoder, handler, type, 2);
}

void float_sign(Decoder& decoder, Modifiers& modifiers, bool absolute) {
    const bool flush = modifiers.take("ftz");
    const Type type = modifiers.take_type();
    // Halves keep their bits but for the sign; a way through float would change NaNs.
    if (type == Type::F64) {
        emit_plain(decoder, absolute ? static_cast<Handler>(unary<LF64, LF64, FAbs>) : static_cast<Handler>(unary<LF64, LF64, FNeg>), type, 1);
        return;
    }
    if (type == Type::F32) {
        emit_plain(decoder, absolute ? of_one<FAbs>(type, flush) : of_one<FNeg>(type, flush), type, 1);
        return;
    }
    if (flush) {
        emit_plain(decoder, absolute ? of_one<FAbs>(type, true) : of_one<FNeg>(type, true), type, 1);
        return;
    }
    Op& op = emit_plain(decoder, [](Warp& warp, const Op& self) {
        const std::uint32_t* const a = warp.lanes<std::uint32_t>(self.a);
        const std::uint32_t sign = static_cast<std::uint32_t>(self.imm);
        each_lane<std::uint32_t>(warp, self.d, [&](unsigned i) { return self.mode != 0 ? a[i] & ~sign : a[i] ^ sign; });
    }, type, 1);
    op.imm = bytes_of(type) == 4 ? 0x80008000 : 0x8000;
    op.mode = absolute;
}

void compare_pairs(Decoder& decoder, const std::string& name, const std::string& join, Type result, Type type) {
    if (!join.empty()) decoder.unsupported("a comparison of pairs with a predicate");
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
    const bool value = result != Type::Pred;
    const std::uint32_t d = value ? decoder.destination(0, Type::U32) : decoder.raw(decoder.operand(0));
    Op& op = decoder.emit(type == Type::F16x2 ? compare_pair<LF16> : compare_pair<LBF16>);
    decoder.extra(op).name = name;
    op.d = d;
    op.d2 = value ? kNowhere : decoder.second_destination(decoder.operand(0));
    op.a = a;
    op.b = b;
    op.mode = value;
    op.imm = result == Type::F16x2 ? 0x3c00 : result == Type::BF16x2 ? 0x3f80 : 0xffff;
}

}  // namespace gates_cpu
