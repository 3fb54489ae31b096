// cvt, mov, cvta, and the moves between slots of different widths.
#include <limits>

#include "ops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace gates_cpu {
namespace {

template <class A> double rounded_value(A value, std::uint8_t mode) {  // 0 to nearest even, 1 to zero, 2 down, 3 up
    const double wide = static_cast<double>(value);
    switch (mode) {
        case 1: return std::trunc(wide);
        case 2: return std::floor(wide);
        case 3: return std::ceil(wide);
        default: return std::nearbyint(wide);
    }
}

template <class D, class A> void float_to_integer(Warp& warp, const Op& op) {
    using V = typename D::Value;
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    constexpr bool big = sizeof(V) == 8 || sizeof(typename A::Value) == 8;
    const double most = static_cast<double>(std::numeric_limits<V>::max()), least = static_cast<double>(std::numeric_limits<V>::min());
    const bool flush = op.imm != 0;
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) {
        typename A::Value x = A::get(a[i]);
        if (flush) x = static_cast<typename A::Value>(flushed(static_cast<float>(x)));
        if (x != x) return D::put(big ? static_cast<V>(std::uint64_t(1) << (8 * sizeof(V) - 1)) : V(0));
        const double whole = rounded_value(x, op.mode);
        const V value = whole >= most ? std::numeric_limits<V>::max() : whole <= least ? std::numeric_limits<V>::min() : static_cast<V>(whole);
        return D::put(value);
    });
}

// The usual case, kept free of branches: float to a 32-bit integer towards zero.
void float_to_int_cut(Warp& warp, const Op& op) {
    const float* const a = warp.lanes<float>(op.a);
    each_lane<std::int32_t>(warp, op.d, [&](unsigned i) {
        const float kept = a[i] > 2147483520.0f ? 2147483520.0f : a[i] < -2147483648.0f ? -2147483648.0f : a[i];
        const std::int32_t value = static_cast<std::int32_t>(a[i] == a[i] ? kept : 0.0f);
        return a[i] >= 2147483648.0f ? 2147483647 : value;
    });
}

template <class V, class A> V to_float(A value, std::uint8_t mode) {
    const V near = static_cast<V>(value);
    if (mode == 0 || !(std::fabs(static_cast<long double>(value)) <= std::numeric_limits<long double>::max())) return near;
    const long double exact = static_cast<long double>(value), got = static_cast<long double>(near);
    if (exact == got) return near;
    const bool down = mode == 2 || (mode == 1 && exact > 0), up = mode == 3 || (mode == 1 && exact < 0);
    if (down && got > exact) return std::nextafter(near, -std::numeric_limits<V>::infinity());
    if (up && got < exact) return std::nextafter(near, std::numeric_limits<V>::infinity());
    return near;
}

std::uint16_t small_float(float value, bool half, std::uint8_t mode);

// To a float that is cut, with its last bit set if anything is lost: a rounding to fewer bits comes out as if from the value itself.
template <class A> float cut_to_odd(A value) {
    const float near = static_cast<float>(value);
    const long double exact = static_cast<long double>(value), got = near;
    if (exact == got || exact != exact) return near;
    return float_of(bits_of(std::fabs(got) > std::fabs(exact) ? std::nextafter(near, 0.0f) : near) | 1);
}

template <class D, class A> void to_float_lanes(Warp& warp, const Op& op) {
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    if constexpr (std::is_same_v<D, LF16> || std::is_same_v<D, LBF16>) {
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) -> std::uint32_t { return small_float(cut_to_odd(A::get(a[i])), std::is_same_v<D, LF16>, op.mode); });
    } else if (op.mode == 0) {
        each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(static_cast<typename D::Value>(A::get(a[i]))); });
    } else {
        each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(to_float<typename D::Value>(A::get(a[i]), op.mode)); });
    }
}

// Rounding to whole numbers in the float's own type; also a plain copy (mode 4).
template <class L> void round_float(Warp& warp, const Op& op) {
    const typename L::Store* const a = warp.lanes<typename L::Store>(op.a);
    each_lane<typename L::Store>(warp, op.d, [&](unsigned i) {
        const typename L::Value x = L::get(a[i]);
        return op.mode == 4 ? a[i] : L::put(static_cast<typename L::Value>(rounded_value(x, op.mode)));
    });
}

template <class D, class A> void integer_lanes(Warp& warp, const Op& op) {
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(static_cast<typename D::Value>(A::get(a[i]))); });
}
// op.mode: the source's bytes; op.imm: whether it is signed.
template <class D> void integer_saturated(Warp& warp, const Op& op) {
    using V = typename D::Value;
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) {
        const std::uint64_t bits = op.mode == 8 ? warp.lanes<std::uint64_t>(op.a)[i] : warp.lanes<std::uint32_t>(op.a)[i];
        const unsigned unused = 64 - 8 * op.mode;
        const __int128 value = op.imm != 0 ? static_cast<__int128>(static_cast<std::int64_t>(bits << unused) >> unused) : static_cast<__int128>(bits << unused >> unused), most = std::numeric_limits<V>::max(), least = std::numeric_limits<V>::min();
        return D::put(static_cast<V>(value > most ? most : value < least ? least : value));
    });
}

template <class Pick> Handler with_integer(Type type, Pick pick) {
    switch (type) {
        case Type::U8: case Type::B8: return pick(LU8());
        case Type::S8: return pick(LS8());
        case Type::U16: case Type::B16: return pick(LU16());
        case Type::S16: return pick(LS16());
        case Type::U32: case Type::B32: return pick(LU32());
        case Type::S32: return pick(LS32());
        case Type::U64: case Type::B64: return pick(LU64());
        case Type::S64: return pick(LS64());
        default: return nullptr;
    }
}
template <class Pick> Handler with_float(Type type, Pick pick) {
    switch (type) {
        case Type::F16: return pick(LF16());
        case Type::BF16: return pick(LBF16());
        case Type::F32: return pick(LF32());
        case Type::F64: return pick(LF64());
        default: return nullptr;
    }
}

bool is_float(Type type) { return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64; }

// A float's bits by the rounding of op.mode, to half or bf16.
std::uint16_t small_float(float value, bool half, std::uint8_t mode) {
    const std::uint16_t near = half ? float_to_half(value) : float_to_bf16(value);
    if (mode == 0 || value != value) return near;
    const auto back = [half](std::uint16_t bits) { return half ? half_to_float(bits) : bf16_to_float(bits); };
    const std::uint16_t cut = std::fabs(back(near)) > std::fabs(value) ? static_cast<std::uint16_t>(near - 1) : near;
    const bool away = (mode == 2 && value < 0) || (mode == 3 && value > 0);
    return away && back(cut) != value ? static_cast<std::uint16_t>(cut + 1) : cut;
}

// Of a whole slot, rounded to nearest; NaNs are those of a device.
void halves_of(const float* from, std::uint32_t* to) {
#if defined(__F16C__) && defined(__AVX2__)
    for (unsigned i = 0; i < kLanes; i += 8) {
        const __m256 values = _mm256_loadu_ps(from + i);
        const __m256i halves = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(values, 0));
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_blendv_epi8(halves, _mm256_set1_epi32(0x7fff), nan));
    }
#else
    for (unsigned i = 0; i < kLanes; ++i) to[i] = float_to_half(from[i]);
#endif
}
void bf16s_of(const float* from, std::uint32_t* to) {
    for (unsigned i = 0; i < kLanes; ++i) to[i] = float_to_bf16(from[i]);
}

void half_to_float_lanes(Warp& warp, const Op& op) {
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    alignas(64) float made[kLanes];
#if defined(__F16C__) && defined(__AVX2__)
    for (unsigned i = 0; i < kLanes; i += 8) {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
        const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm256_storeu_ps(made + i, _mm256_cvtph_ps(halves));
    }
#else
    for (unsigned i = 0; i < kLanes; ++i) made[i] = half_to_float(static_cast<std::uint16_t>(a[i]));
#endif
    each_lane<float>(warp, op.d, [&](unsigned i) { return made[i]; });
}

float positive_or_zero(float value) { return value > 0 ? value : value != value ? value : 0.0f; }  // .relu

template <bool half> void float_to_small(Warp& warp, const Op& op) {
    const float* const a = warp.lanes<float>(op.a);
    if (op.mode == 0 && op.imm == 0) {
        alignas(64) std::uint32_t made[kLanes];
        half ? halves_of(a, made) : bf16s_of(a, made);
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return made[i]; });
        return;
    }
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) -> std::uint32_t {
        return small_float(op.imm != 0 ? positive_or_zero(a[i]) : a[i], half, op.mode);
    });
}

// cvt.rn.f16x2.f32 d, a, b: a goes to the upper half.
template <bool half> void two_floats_to_pair(Warp& warp, const Op& op) {
    const float *const a = warp.lanes<float>(op.a), *const b = warp.lanes<float>(op.b);
    if (op.mode == 0 && op.imm == 0) {
        alignas(64) std::uint32_t high[kLanes], low[kLanes];
        half ? halves_of(a, high) : bf16s_of(a, high);
        half ? halves_of(b, low) : bf16s_of(b, low);
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return high[i] << 16 | low[i]; });
        return;
    }
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const float x = op.imm != 0 ? positive_or_zero(a[i]) : a[i], y = op.imm != 0 ? positive_or_zero(b[i]) : b[i];
        return static_cast<std::uint32_t>(small_float(x, half, op.mode)) << 16 | small_float(y, half, op.mode);
    });
}

// Of two values and fp8: op.imm is 1 for .relu.
template <bool four> void fp8_pair_to_halves(Warp& warp, const Op& op) {
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const auto one = [&](std::uint8_t bits) {
            const float value = four ? e4m3_to_float(bits) : e5m2_to_float(bits);
            return static_cast<std::uint32_t>(float_to_half(op.imm != 0 ? positive_or_zero(value) : value));
        };
        return one(static_cast<std::uint8_t>(a[i])) | one(static_cast<std::uint8_t>(a[i] >> 8)) << 16;
    });
}
template <bool four> void floats_to_fp8_pair(Warp& warp, const Op& op) {
    const float *const a = warp.lanes<float>(op.a), *const b = warp.lanes<float>(op.b);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const auto one = [&](float given) {
            const float value = op.imm != 0 ? positive_or_zero(given) : given;
            return static_cast<std::uint32_t>(four ? float_to_e4m3(value) : float_to_e5m2(value));
        };
        return one(a[i]) << 8 | one(b[i]);
    });
}
template <bool four> void halves_to_fp8_pair(Warp& warp, const Op& op) {
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const auto one = [&](std::uint32_t bits) {
            const float given = half_to_float(static_cast<std::uint16_t>(bits)), value = op.imm != 0 ? positive_or_zero(given) : given;
            return static_cast<std::uint32_t>(four ? float_to_e4m3(value) : float_to_e5m2(value));
        };
        return one(a[i] >> 16) << 8 | one(a[i]);
    });
}

void float_to_tf32(Warp& warp, const Op& op) {
    const float* const a = warp.lanes<float>(op.a);
    each_lane<float>(warp, op.d, [&](unsigned i) { return to_tf32(a[i], true); });
}

// A result that is narrower than its register, which takes its sign.
template <class V> void extend(Warp& warp, const Op& op) {
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    const std::uint32_t kept = op.mode != 0 ? 0xffff : kAllLanes;
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<V>(a[i]))) & kept; });
}

struct FlushOp { static float apply(float a) { return flushed(a); } };
struct SaturateOp { static float apply(float a) { return a > 0.0f ? (a > 1.0f ? 1.0f : a) : 0.0f; } };  // NaN and -0: 0

void convert_small(Decoder& decoder, Modifiers& modifiers) {
    const std::uint8_t mode = [&] {
        const std::string name = modifiers.take_one_of({"rn", "rz", "rm", "rp", "rna"});
        return static_cast<std::uint8_t>(name == "rz" ? 1 : name == "rm" ? 2 : name == "rp" ? 3 : 0);
    }();
    const bool positive = modifiers.take("relu");
    modifiers.take("satfinite");
    const std::string to = modifiers.take_any(), from = modifiers.take_any();
    const auto one = [&](Handler handler, Type result, Type given, unsigned sources) {
        const std::uint32_t a = decoder.source(1, given), b = sources > 1 ? decoder.source(2, given) : kNowhere, d = decoder.destination(0, result);
        Op& op = decoder.emit(handler);
        op.d = d;
        op.a = a;
        op.b = b;
        op.mode = mode;
        op.imm = positive;
    };
    if (from == "f32" && (to == "f16x2" || to == "bf16x2")) return one(to == "f16x2" ? two_floats_to_pair<true> : two_floats_to_pair<false>, Type::B32, Type::F32, 2);
    if (from == "f32" && to == "tf32" && !positive) return one(float_to_tf32, Type::B32, Type::F32, 1);
    if (to == "f16x2" && (from == "e4m3x2" || from == "e5m2x2")) return one(from == "e4m3x2" ? fp8_pair_to_halves<true> : fp8_pair_to_halves<false>, Type::B32, Type::B16, 1);
    if (from == "f32" && (to == "e4m3x2" || to == "e5m2x2")) return one(to == "e4m3x2" ? floats_to_fp8_pair<true> : floats_to_fp8_pair<false>, Type::B16, Type::F32, 2);
    if (from == "f16x2" && (to == "e4m3x2" || to == "e5m2x2")) return one(to == "e4m3x2" ? halves_to_fp8_pair<true> : halves_to_fp8_pair<false>, Type::B16, Type::B32, 1);
    decoder.unsupported();
}

void convert(Decoder& decoder, Modifiers& modifiers) {
    for (const char* packed : {"f16x2", "bf16x2", "tf32", "e4m3x2", "e5m2x2"}) {
        Modifiers ahead = modifiers;
        if (ahead.take(packed)) return convert_small(decoder, modifiers);
    }
    const std::string rounding = modifiers.take_one_of({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"});
    const std::uint8_t mode = static_cast<std::uint8_t>(rounding.empty() ? 0 : rounding[1] == 'z' ? 1 : rounding[1] == 'm' ? 2 : rounding[1] == 'p' ? 3 : 0);
    const bool to_whole = rounding.size() == 3 && rounding != "rna";
    const bool flush = modifiers.take("ftz"), saturate = modifiers.take("sat"), positive = modifiers.take("relu");
    modifiers.take("satfinite");
    const Type to = modifiers.take_type(), from = modifiers.take_type();
    Handler handler = nullptr;
    std::uint8_t used = mode;
    if (!is_float(to) && !is_float(from)) {
        handler = with_integer(to, [&](auto d) {
            if (saturate) return Handler(integer_saturated<decltype(d)>);
            return with_integer(from, [&](auto a) -> Handler { return integer_lanes<decltype(d), decltype(a)>; });
        });
        if (saturate) used = static_cast<std::uint8_t>(bytes_of(from));
    } else if (!is_float(to)) {
        handler = with_integer(to, [&](auto d) {
            return with_float(from, [&](auto a) -> Handler { return float_to_integer<decltype(d), decltype(a)>; });
        });
        if (to == Type::S32 && from == Type::F32 && mode == 1) handler = float_to_int_cut;
    } else if (!is_float(from)) {
        handler = with_float(to, [&](auto d) {
            return with_integer(from, [&](auto a) -> Handler { return to_float_lanes<decltype(d), decltype(a)>; });
        });
    } else if (from == to) {
        handler = with_float(to, [&](auto d) -> Handler { return round_float<decltype(d)>; });
        if (!to_whole) used = 4;
    } else if (from == Type::F32 && (to == Type::F16 || to == Type::BF16)) {
        handler = to == Type::F16 ? float_to_small<true> : float_to_small<false>;
    } else if (from == Type::F16 && to == Type::F32) {
        handler = half_to_float_lanes;
    } else {
        handler = with_float(to, [&](auto d) {
            return with_float(from, [&](auto a) -> Handler { return to_float_lanes<decltype(d), decltype(a)>; });
        });
    }
    if (handler == nullptr) decoder.unsupported();
    std::uint32_t a = decoder.source(1, from);
    const std::uint32_t d = decoder.destination(0, to);
    if (flush && is_float(to) && from == Type::F32) {
        const std::uint32_t kept = decoder.temporary(false);
        Op& first = decoder.emit(unary<LF32, LF32, FlushOp>);
        first.d = kept;
        first.a = a;
        a = kept;
    }
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.mode = used;
    if (!is_float(to)) op.imm = is_float(from) ? flush : is_signed(from);
    if (handler == float_to_small<true> || handler == float_to_small<false>) op.imm = positive;
    const Operand& result = decoder.operand(0);
    if (is_signed(to) && bytes_of(to) < 4 && result.kind == Operand::Register && bytes_of(decoder.register_type(result.reg)) > bytes_of(to)) {
        Op& extension = decoder.emit(bytes_of(to) == 1 ? extend<std::int8_t> : extend<std::int16_t>);
        extension.d = extension.a = d;
        extension.mode = bytes_of(decoder.register_type(result.reg)) == 2;
    }
    if (is_float(to) && to == Type::F32) {
        const auto afterwards = [&](Handler last) {
            Op& second = decoder.emit(last);
            second.d = d;
            second.a = d;
        };
        if (flush) afterwards(unary<LF32, LF32, FlushOp>);
        if (saturate) afterwards(unary<LF32, LF32, SaturateOp>);
    } else if (is_float(to) && saturate) {
        decoder.unsupported(".sat");
    }
}

template <class S> void copy(Warp& warp, const Op& op) {
    const S* const a = warp.lanes<S>(op.a);
    each_lane<S>(warp, op.d, [&](unsigned i) { return a[i]; });
}

// Parts of a wider register, low ones first: `count` parts of `bytes` each.
void unpack(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    for (std::size_t part = 0; part < extra.slots.size(); ++part) {
        if (extra.slots[part] == kNowhere) continue;
        const unsigned shift = static_cast<unsigned>(8 * extra.bytes * part);
        const auto value = [&](unsigned i) -> std::uint64_t {
            const std::uint64_t all = extra.wide_address ? warp.lanes<std::uint64_t>(op.a)[i] : warp.lanes<std::uint32_t>(op.a)[i];
            return all >> shift & (extra.bytes == 8 ? ~0ull : (1ull << (8 * extra.bytes)) - 1);
        };
        each_lane<std::uint32_t>(warp, extra.slots[part], [&](unsigned i) { return static_cast<std::uint32_t>(value(i)); });
    }
}
void pack(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    const auto value = [&](unsigned i) {
        std::uint64_t all = 0;
        for (std::size_t part = 0; part < extra.slots.size(); ++part) {
            all |= static_cast<std::uint64_t>(warp.lanes<std::uint32_t>(extra.slots[part])[i]) << (8 * extra.bytes * part);
        }
        return all;
    };
    if (extra.wide_address) each_lane<std::uint64_t>(warp, op.d, value);
    else each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return static_cast<std::uint32_t>(value(i)); });
}

// Of a register of 128 bits: its halves lie one after the other.
void move_128(Decoder& decoder, const Operand& to, const Operand& from) {
    const auto halves = [&](const Operand& operand) -> std::pair<std::uint32_t, std::uint32_t> {
        if (operand.kind != Operand::Vector) return {decoder.raw(operand), decoder.raw(operand) + kHalf128};
        if (operand.parts.size() != 2) decoder.unsupported("a vector of other than two elements");
        return {decoder.raw(operand.parts[0]), decoder.raw(operand.parts[1])};
    };
    const auto d = halves(to), a = halves(from);
    for (const auto& [into, out_of] : {std::pair{d.first, a.first}, std::pair{d.second, a.second}}) {
        Op& op = decoder.emit(copy<std::uint64_t>);
        op.d = into;
        op.a = out_of;
    }
}

void move(Decoder& decoder, Modifiers& modifiers) {
    if (Modifiers(modifiers).take("pred")) {
        if (decoder.operand(1).name != "%is_explicit_cluster") return predicate_logic(decoder, modifiers);
        modifiers.take("pred");
        decoder.emit([](Warp& warp, const Op& self) { set_predicate(warp, self.d, warp.cta->launch->cluster_size() > 1 ? kAllLanes : 0); }).d = decoder.raw(decoder.operand(0));
        return;
    }
    const Type type = modifiers.take_type();
    const bool wide = bytes_of(type) == 8;
    const Operand &to = decoder.operand(0), &from = decoder.operand(1);
    if (type == Type::B128) return move_128(decoder, to, from);
    if (to.kind == Operand::Vector) {
        const std::uint32_t a = decoder.source(from, type);
        std::vector<std::uint32_t> slots;
        for (const Operand& part : to.parts) slots.push_back(decoder.raw(part));
        Op& op = decoder.emit(unpack);
        op.a = a;
        Extra& extra = decoder.extra(op);
        extra.slots = slots;
        extra.bytes = bytes_of(type) / static_cast<unsigned>(to.parts.size());
        extra.wide_address = wide;
        return;
    }
    if (from.kind == Operand::Vector) {
        const unsigned bytes = bytes_of(type) / static_cast<unsigned>(from.parts.size());
        std::vector<std::uint32_t> slots;
        for (const Operand& part : from.parts) slots.push_back(decoder.source(part, bytes == 4 ? Type::B32 : bytes == 2 ? Type::B16 : Type::B8));
        const std::uint32_t d = decoder.destination(to, type);
        Op& op = decoder.emit(pack);
        op.d = d;
        Extra& extra = decoder.extra(op);
        extra.slots = slots;
        extra.bytes = bytes;
        extra.wide_address = wide;
        return;
    }
    if (from.kind == Operand::Name && from.name[0] == '%') {
        const std::uint32_t d = decoder.destination(to, type);
        return special_register(decoder, from.name, type, d);
    }
    const std::uint32_t a = decoder.source(from, type), d = decoder.destination(to, type);
    Op& op = decoder.emit(wide ? copy<std::uint64_t> : copy<std::uint32_t>);
    op.d = d;
    op.a = a;
}

std::uint64_t window(const std::string& space) {
    if (space == "shared" || space.rfind("shared::", 0) == 0) return kSharedWindow;
    if (space == "local") return kLocalWindow;
    if (space == "param" || space.rfind("param::", 0) == 0) return kParamWindow;
    return 0;
}

void add_window(Warp& warp, const Op& op) {
    const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
    const std::uint64_t by = static_cast<std::uint64_t>(op.imm);
    each_lane<std::uint64_t>(warp, op.d, [&](unsigned i) { return a[i] + by; });
}

void convert_address(Decoder& decoder, Modifiers& modifiers) {
    const bool to = modifiers.take("to");
    const std::string space = modifiers.take_any();
    const Type type = modifiers.take_type();
    const std::uint64_t by = window(space);
    if (bytes_of(type) != 8 && by != 0) decoder.unsupported("32-bit generic addresses");
    const std::uint32_t a = decoder.source(1, Type::B64), d = decoder.destination(0, Type::B64);
    Op& op = decoder.emit(add_window);
    op.d = d;
    op.a = a;
    op.imm = static_cast<std::int64_t>(to ? 0 - by : by);
}

void is_space(Warp& warp, const Op& op) {
    const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        const std::uint64_t found = a[i] & kWindowBits;
        bits |= static_cast<std::uint32_t>(found == static_cast<std::uint64_t>(op.imm)) << i;
    }
    set_predicate(warp, op.d, bits);
}

const OpcodeTable table = {
    {"cvt", convert},
    {"mov", move},
    {"cvta", convert_address},
    {"isspacep", [](Decoder& d, Modifiers& m) {
         const std::uint64_t by = window(m.take_any());
         const std::uint32_t a = d.source(1, Type::B64);
         Op& op = d.emit(is_space);
         op.d = d.raw(d.operand(0));
         op.a = a;
         op.imm = static_cast<std::int64_t>(by);
     }},
};

}  // namespace

void widen_slot(Warp& warp, const Op& op) {
    const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
    each_lane<std::uint64_t>(warp, op.d, [&](unsigned i) { return static_cast<std::uint64_t>(a[i]); });
}
void widen_slot_signed(Warp& warp, const Op& op) {
    const std::int32_t* const a = warp.lanes<std::int32_t>(op.a);
    each_lane<std::int64_t>(warp, op.d, [&](unsigned i) { return static_cast<std::int64_t>(a[i]); });
}
void narrow_slot(Warp& warp, const Op& op) {
    const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return static_cast<std::uint32_t>(a[i]); });
}

float e4m3_to_float(std::uint8_t bits) {
    const std::uint32_t sign = (bits & 0x80u) << 24, rest = bits & 0x7fu;
    if (rest == 0x7f) return float_of(0x7fffffffu);
    if (rest >= 8) return float_of(sign | ((rest << 20) + 0x3c000000u));
    return float_of(sign | bits_of(static_cast<float>(rest) * 0.001953125f));
}
float e5m2_to_float(std::uint8_t bits) { return half_to_float(static_cast<std::uint16_t>(bits << 8)); }

namespace {
// To nearest even, values too large to the largest finite one.
std::uint8_t to_fp8(float value, int mantissa_bits, int least_exponent, float most, std::uint8_t most_bits, std::uint8_t nan) {
    if (value != value) return nan;
    const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude >= most) return sign | most_bits;
    if (magnitude == 0.0f) return sign;
    int exponent;
    std::frexp(magnitude, &exponent);
    exponent = std::max(exponent - 1, least_exponent);
    const long steps = std::lrint(std::ldexp(static_cast<double>(magnitude), mantissa_bits - exponent));
    const long biased = steps + (static_cast<long>(exponent - least_exponent) << mantissa_bits);
    return static_cast<std::uint8_t>(sign | std::min<long>(biased, most_bits));
}
}  // namespace

bool is_move(const Op& op) { return op.run == copy<std::uint32_t>; }
std::uint8_t float_to_e4m3(float value) { return to_fp8(value, 3, -6, 448.0f, 0x7e, 0x7f); }
std::uint8_t float_to_e5m2(float value) { return to_fp8(value, 2, -14, 57344.0f, 0x7b, 0x7f); }

}  // namespace gates_cpu
