// Integer and bit operations.
#include <limits>

#include "ops.h"

namespace gates_cpu {
namespace {

struct Add { template <class T> static T apply(T a, T b) { return static_cast<T>(a + b); } };
struct Sub { template <class T> static T apply(T a, T b) { return static_cast<T>(a - b); } };
template <class F> struct Saturated {  // s32
    static std::int32_t apply(std::int32_t a, std::int32_t b) {
        const std::int64_t exact = F::apply(std::int64_t(a), std::int64_t(b));
        return static_cast<std::int32_t>(std::min<std::int64_t>(std::max<std::int64_t>(exact, INT32_MIN), INT32_MAX));
    }
};
struct MulLow {
    template <class T> static T apply(T a, T b) {
        using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;  // no promotion to int
        return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
};
template <class T> struct Double;
template <> struct Double<std::uint16_t> { using type = std::uint32_t; };
template <> struct Double<std::int16_t> { using type = std::int32_t; };
template <> struct Double<std::uint32_t> { using type = std::uint64_t; };
template <> struct Double<std::int32_t> { using type = std::int64_t; };
template <> struct Double<std::uint64_t> { using type = unsigned __int128; };
template <> struct Double<std::int64_t> { using type = __int128; };
struct MulHigh {
    template <class T> static T apply(T a, T b) {
        using W = typename Double<T>::type;
        return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
    }
};
struct MadLow { template <class T> static T apply(T a, T b, T c) { return static_cast<T>(MulLow::apply(a, b) + c); } };
struct MadHighSaturated {
    static std::int32_t apply(std::int32_t a, std::int32_t b, std::int32_t c) { return Saturated<Add>::apply(MulHigh::apply(a, b), c); }
};
struct MadHigh { template <class T> static T apply(T a, T b, T c) { return static_cast<T>(MulHigh::apply(a, b) + c); } };
struct MulWide {
    template <class T> static typename Double<T>::type apply(T a, T b) { return static_cast<typename Double<T>::type>(a) * b; }
};
struct MadWide {
    template <class T> static typename Double<T>::type apply(T a, T b, typename Double<T>::type c) {
        return static_cast<typename Double<T>::type>(a) * b + c;
    }
};
struct Div {
    template <class T> static T apply(T a, T b) {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - a);
        return static_cast<T>(a / b);
    }
};
struct Rem {
    template <class T> static T apply(T a, T b) {
        if (b == 0) return a;
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
        return static_cast<T>(a % b);
    }
};
struct Min { template <class T> static T apply(T a, T b) { return a < b ? a : b; } };
struct Max { template <class T> static T apply(T a, T b) { return a > b ? a : b; } };
struct Abs { template <class T> static T apply(T a) { return a < 0 ? static_cast<T>(0 - a) : a; } };
struct Neg { template <class T> static T apply(T a) { return static_cast<T>(0 - a); } };
struct Not { template <class T> static T apply(T a) { return static_cast<T>(~a); } };
struct LogicalNot { template <class T> static T apply(T a) { return a == 0; } };
struct And { template <class T> static T apply(T a, T b) { return a & b; } };
struct Or { template <class T> static T apply(T a, T b) { return a | b; } };
struct Xor { template <class T> static T apply(T a, T b) { return a ^ b; } };
struct ShiftLeft {
    template <class T> static T apply(T a, std::uint32_t b) {
        const T shifted = static_cast<T>(a << (b & (8 * sizeof(T) - 1)));
        return b >= 8 * sizeof(T) ? T(0) : shifted;
    }
};
struct ShiftRight {
    template <class T> static T apply(T a, std::uint32_t b) {
        const std::uint32_t most = 8 * sizeof(T) - 1;
        if (std::is_signed_v<T>) return static_cast<T>(a >> (b > most ? most : b));
        const T shifted = static_cast<T>(a >> (b & most));
        return b > most ? T(0) : shifted;
    }
};
struct Sad {
    template <class T> static T apply(T a, T b, T c) { return static_cast<T>(c + (a < b ? b - a : a - b)); }
};
struct Popc32 { static std::uint32_t apply(std::uint32_t a) { return static_cast<std::uint32_t>(__builtin_popcount(a)); } };
struct Popc64 { static std::uint32_t apply(std::uint64_t a) { return static_cast<std::uint32_t>(__builtin_popcountll(a)); } };
struct Clz32 { static std::uint32_t apply(std::uint32_t a) { return a == 0 ? 32 : static_cast<std::uint32_t>(__builtin_clz(a)); } };
struct Clz64 { static std::uint32_t apply(std::uint64_t a) { return a == 0 ? 64 : static_cast<std::uint32_t>(__builtin_clzll(a)); } };
struct Reverse {
    template <class T> static T apply(T a) {
        T made = 0;
        for (unsigned i = 0; i < 8 * sizeof(T); ++i) made |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
        return made;
    }
};
template <bool shift> struct FindTop {
    template <class T> static std::uint32_t apply(T a) {
        std::uint64_t bits = static_cast<std::make_unsigned_t<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
        if (bits == 0) return 0xffffffffu;
        const std::uint32_t top = 63 - static_cast<std::uint32_t>(__builtin_clzll(bits));
        return shift ? 8 * sizeof(T) - 1 - top : top;
    }
};

template <class F> void of_one(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    emit_plain(decoder, integer_unary<F>(type), type, 1);
}
template <class F> void of_two(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    emit_plain(decoder, integer_binary<F>(type), type, 2);
}

template <class F> void shift(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    Handler handler = nullptr;
    switch (type) {
        case Type::B16: case Type::U16: handler = binary<LU16, LU16, LU32, F>; break;
        case Type::S16: handler = binary<LS16, LS16, LU32, F>; break;
        case Type::B32: case Type::U32: handler = binary<LU32, LU32, LU32, F>; break;
        case Type::S32: handler = binary<LS32, LS32, LU32, F>; break;
        case Type::B64: case Type::U64: handler = binary<LU64, LU64, LU32, F>; break;
        case Type::S64: handler = binary<LS64, LS64, LU32, F>; break;
        default: decoder.unsupported();
    }
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, Type::U32), d = decoder.destination(0, type);
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
}

// Count bits or find one: the result is always 32 bits wide.
template <class F32, class F64> void count(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    const std::uint32_t a = decoder.source(1, type), d = decoder.destination(0, Type::U32);
    Op& op = decoder.emit(bytes_of(type) == 8 ? static_cast<Handler>(unary<LU32, LU64, F64>) : static_cast<Handler>(unary<LU32, LU32, F32>));
    op.d = d;
    op.a = a;
}

void find_top(Decoder& decoder, Modifiers& modifiers) {
    const bool shifted = modifiers.take("shiftamt");
    const Type type = modifiers.take_type();
    const auto pick = [&](auto yes, auto no) { return shifted ? static_cast<Handler>(yes) : static_cast<Handler>(no); };
    Handler handler = nullptr;
    switch (type) {
        case Type::U32: handler = pick(unary<LU32, LU32, FindTop<true>>, unary<LU32, LU32, FindTop<false>>); break;
        case Type::S32: handler = pick(unary<LU32, LS32, FindTop<true>>, unary<LU32, LS32, FindTop<false>>); break;
        case Type::U64: handler = pick(unary<LU32, LU64, FindTop<true>>, unary<LU32, LU64, FindTop<false>>); break;
        case Type::S64: handler = pick(unary<LU32, LS64, FindTop<true>>, unary<LU32, LS64, FindTop<false>>); break;
        default: decoder.unsupported();
    }
    const std::uint32_t a = decoder.source(1, type), d = decoder.destination(0, Type::U32);
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
}

// Additions that leave or take a carry: one bit a lane, kept in a slot of the program.
template <class T, bool subtract> void carry_add(Warp& warp, const Op& op) {
    const T *const a = warp.lanes<T>(op.a), *const b = warp.lanes<T>(op.b);
    T* const d = warp.lanes<T>(op.d);
    std::uint32_t& carry = warp.mask_at(op.d2);
    std::uint32_t made = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        const unsigned __int128 in = (op.mode & 1) != 0 ? carry >> i & 1 : subtract;
        const unsigned __int128 sum = static_cast<unsigned __int128>(a[i]) + (subtract ? static_cast<T>(~b[i]) : b[i]) + in;
        d[i] = static_cast<T>(sum);
        made |= static_cast<std::uint32_t>(sum >> (8 * sizeof(T)) & 1) << i;
    }
    if ((op.mode & 2) != 0) carry = (carry & ~warp.exec) | made;
}

template <class T, bool high> void carry_mad(Warp& warp, const Op& op) {
    const T *const a = warp.lanes<T>(op.a), *const b = warp.lanes<T>(op.b), *const c = warp.lanes<T>(op.c);
    T* const d = warp.lanes<T>(op.d);
    std::uint32_t& carry = warp.mask_at(op.d2);
    std::uint32_t made = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        const T product = high ? MulHigh::apply(a[i], b[i]) : MulLow::apply(a[i], b[i]);
        const unsigned __int128 sum = static_cast<unsigned __int128>(product) + c[i] + ((op.mode & 1) != 0 ? carry >> i & 1 : 0);
        d[i] = static_cast<T>(sum);
        made |= static_cast<std::uint32_t>(sum >> (8 * sizeof(T)) & 1) << i;
    }
    if ((op.mode & 2) != 0) carry = (carry & ~warp.exec) | made;
}

Type bits_type(Type type) { return bytes_of(type) == 8 ? Type::U64 : Type::U32; }

void with_carry(Decoder& decoder, Modifiers& modifiers, bool subtract, bool takes) {
    const bool leaves = modifiers.take("cc");
    const Type type = modifiers.take_type();
    const bool wide = bytes_of(type) == 8;
    const Handler handlers[2][2] = {{carry_add<std::uint32_t, false>, carry_add<std::uint64_t, false>}, {carry_add<std::uint32_t, true>, carry_add<std::uint64_t, true>}};
    Op& op = emit_plain(decoder, handlers[subtract][wide], bits_type(type), 2);
    op.d2 = decoder.carry();
    op.mode = static_cast<std::uint8_t>((takes ? 1 : 0) | (leaves ? 2 : 0));
}

void add_or_sub(Decoder& decoder, Modifiers& modifiers, bool subtract) {
    Modifiers ahead = modifiers;
    if (ahead.take("cc")) return with_carry(decoder, modifiers, subtract, false);
    const Type type = Modifiers(modifiers).take_type();
    if (type == Type::F32 || type == Type::F64 || type == Type::F16 || type == Type::F16x2 || type == Type::BF16 || type == Type::BF16x2) {
        return float_add(decoder, modifiers, subtract);
    }
    if (modifiers.take("sat")) {
        if (modifiers.take_type() != Type::S32) decoder.unsupported(".sat of this type");
        emit_plain(decoder, subtract ? static_cast<Handler>(binary<LS32, LS32, LS32, Saturated<Sub>>) : binary<LS32, LS32, LS32, Saturated<Add>>, Type::S32, 2);
    } else if (subtract) of_two<Sub>(decoder, modifiers);
    else of_two<Add>(decoder, modifiers);
}

void multiply(Decoder& decoder, Modifiers& modifiers) {
    const std::string part = modifiers.take_one_of({"lo", "hi", "wide"});
    if (part.empty()) return float_multiply(decoder, modifiers);
    const Type type = modifiers.take_type();
    if (part != "wide") {
        emit_plain(decoder, part == "lo" ? integer_binary<MulLow>(type) : integer_binary<MulHigh>(type), type, 2);
        return;
    }
    Handler handler = nullptr;
    Type result = Type::U32;
    switch (type) {
        case Type::U16: handler = binary<LU32, LU16, LU16, MulWide>; break;
        case Type::S16: handler = binary<LS32, LS16, LS16, MulWide>; break;
        case Type::U32: handler = binary<LU64, LU32, LU32, MulWide>; result = Type::U64; break;
        case Type::S32: handler = binary<LS64, LS32, LS32, MulWide>; result = Type::S64; break;
        default: decoder.unsupported();
    }
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type), d = decoder.destination(0, result);
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
}

void multiply_add(Decoder& decoder, Modifiers& modifiers) {
    const bool takes = decoder.instruction().opcode.front() == "madc";
    const std::string part = modifiers.take_one_of({"lo", "hi", "wide"});
    if (part.empty()) return float_fma(decoder, modifiers);
    const bool leaves = modifiers.take("cc"), saturates = part == "hi" && modifiers.take("sat");
    const Type type = modifiers.take_type();
    if (saturates) {
        if (type != Type::S32) decoder.unsupported(".sat of this type");
        emit_plain(decoder, ternary<LS32, LS32, LS32, MadHighSaturated>, type, 3);
        return;
    }
    if (takes || leaves) {
        const bool wide = bytes_of(type) == 8, high = part == "hi";
        if (part == "wide" || is_signed(type)) decoder.unsupported("a carry of this type");
        const Handler handlers[2][2] = {{carry_mad<std::uint32_t, false>, carry_mad<std::uint64_t, false>}, {carry_mad<std::uint32_t, true>, carry_mad<std::uint64_t, true>}};
        Op& op = emit_plain(decoder, handlers[high][wide], bits_type(type), 3);
        op.d2 = decoder.carry();
        op.mode = static_cast<std::uint8_t>((takes ? 1 : 0) | (leaves ? 2 : 0));
        return;
    }
    if (part != "wide") {
        emit_plain(decoder, part == "lo" ? integer_ternary<MadLow>(type) : integer_ternary<MadHigh>(type), type, 3);
        return;
    }
    Handler handler = nullptr;
    Type result = Type::U32;
    switch (type) {
        case Type::U16: handler = ternary<LU32, LU16, LU32, MadWide>; break;
        case Type::S16: handler = ternary<LS32, LS16, LS32, MadWide>; break;
        case Type::U32: handler = ternary<LU64, LU32, LU64, MadWide>; result = Type::U64; break;
        case Type::S32: handler = ternary<LS64, LS32, LS64, MadWide>; result = Type::S64; break;
        default: decoder.unsupported();
    }
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type), c = decoder.source(3, result), d = decoder.destination(0, result);
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
}

// Bits of a word, as PTX numbers them. Positions and lengths are 0 to 255, says the ISA; devices take the low eight bits of others for words
// of 32 bits, and all of them for 64.
template <class U> unsigned field_number(std::uint32_t given) { return sizeof(U) == 8 ? std::min(given, 255u) : given & 0xff; }

template <class T> void bit_field_extract(Warp& warp, const Op& op) {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned width = 8 * sizeof(T);
    const U* const a = warp.lanes<U>(op.a);
    const std::uint32_t *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<U>(warp, op.d, [&](unsigned i) -> U {
        const unsigned start = field_number<U>(b[i]), length = field_number<U>(c[i]);
        if (length == 0) return 0;
        const unsigned top = std::min(start + length - 1, width - 1);
        const bool sign = std::is_signed_v<T> && (a[i] >> top & 1);
        U made = start >= width ? 0 : static_cast<U>(a[i] >> start);
        const unsigned kept = start >= width ? 0 : top - start + 1;
        if (kept < width) made = (made & ((U(1) << kept) - 1)) | (sign ? static_cast<U>(~U(0)) << kept : 0);
        return made;
    });
}

template <class U> void bit_field_insert(Warp& warp, const Op& op) {
    constexpr unsigned width = 8 * sizeof(U);
    const U *const a = warp.lanes<U>(op.a), *const b = warp.lanes<U>(op.b);
    const std::uint32_t *const c = warp.lanes<std::uint32_t>(op.c), *const e = warp.lanes<std::uint32_t>(op.d2);
    each_lane<U>(warp, op.d, [&](unsigned i) -> U {
        const unsigned start = field_number<U>(c[i]), length = field_number<U>(e[i]);
        if (start >= width || length == 0) return b[i];
        const U field = length >= width ? static_cast<U>(~U(0)) : static_cast<U>((U(1) << length) - 1);
        return (b[i] & ~(field << start)) | ((a[i] & field) << start);
    });
}

void bit_field(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    const bool wide = bytes_of(type) == 8;
    if (decoder.instruction().opcode.front() == "bfe") {
        const Handler handler = wide ? (is_signed(type) ? bit_field_extract<std::int64_t> : bit_field_extract<std::uint64_t>)
                                     : (is_signed(type) ? bit_field_extract<std::int32_t> : bit_field_extract<std::uint32_t>);
        const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, Type::U32), c = decoder.source(3, Type::U32), d = decoder.destination(0, type);
        Op& op = decoder.emit(handler);
        op.d = d;
        op.a = a;
        op.b = b;
        op.c = c;
        return;
    }
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type), c = decoder.source(3, Type::U32), e = decoder.source(4, Type::U32),
                        d = decoder.destination(0, type);
    Op& op = decoder.emit(wide ? bit_field_insert<std::uint64_t> : bit_field_insert<std::uint32_t>);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    op.d2 = e;
}

void bit_mask(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) -> std::uint32_t {
        const unsigned start = op.mode == 1 ? a[i] & 31 : a[i], length = op.mode == 1 ? b[i] & 31 : b[i];
        if (start >= 32 || length == 0) return 0;
        return (length >= 32 ? kAllLanes : (1u << length) - 1) << start;
    });
}

void permute(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const std::uint64_t both = static_cast<std::uint64_t>(b[i]) << 32 | a[i];
        std::uint32_t made = 0;
        for (unsigned byte = 0; byte < 4; ++byte) {
            unsigned select = c[i] >> (4 * byte) & 15;
            const unsigned at = c[i] & 3;
            bool replicate = false;
            switch (op.mode) {
                case 0: replicate = (select & 8) != 0; select &= 7; break;
                case 1: select = at + byte; break;                                    // f4e
                case 2: select = (at + 8 - byte) & 7; break;                          // b4e
                case 3: select = at; break;                                           // rc8
                case 4: select = std::max(at, byte); break;                           // ecl
                case 5: select = std::min(at, byte); break;                           // ecr
                default: select = (at & 1) * 2 + (byte & 1); break;                   // rc16
            }
            std::uint32_t value = static_cast<std::uint32_t>(both >> (8 * select)) & 0xff;
            if (replicate) value = (value & 0x80) != 0 ? 0xff : 0;
            made |= value << (8 * byte);
        }
        return made;
    });
}

void logic3(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        std::uint32_t made = 0;
        for (unsigned row = 0; row < 8; ++row) {
            if (!(op.imm >> row & 1)) continue;
            made |= (row & 4 ? a[i] : ~a[i]) & (row & 2 ? b[i] : ~b[i]) & (row & 1 ? c[i] : ~c[i]);
        }
        return made;
    });
}

template <bool left, bool wrap> void funnel(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const std::uint32_t by = wrap ? c[i] & 31 : std::min(c[i], 32u);
        const std::uint64_t both = static_cast<std::uint64_t>(b[i]) << 32 | a[i];
        return static_cast<std::uint32_t>(left ? both << by >> 32 : both >> by);
    });
}

// Sums of products of bytes (dp4a) or of halves with bytes (dp2a).
template <bool signed_a, bool signed_b, int words> void dot(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        std::uint32_t sum = c[i];
        for (int k = 0; k < words; ++k) {
            std::int32_t x, y;
            if (words == 4) x = signed_a ? static_cast<std::int8_t>(a[i] >> (8 * k)) : static_cast<std::uint8_t>(a[i] >> (8 * k));
            else x = signed_a ? static_cast<std::int16_t>(a[i] >> (16 * k)) : static_cast<std::uint16_t>(a[i] >> (16 * k));
            const unsigned byte = static_cast<unsigned>(words == 4 ? k : k + op.mode * 2);
            y = signed_b ? static_cast<std::int8_t>(b[i] >> (8 * byte)) : static_cast<std::uint8_t>(b[i] >> (8 * byte));
            sum += static_cast<std::uint32_t>(x * y);
        }
        return sum;
    });
}

void dot_product(Decoder& decoder, Modifiers& modifiers) {
    const bool four = decoder.instruction().opcode.front() == "dp4a";
    const std::string half = four ? "" : modifiers.take_one_of({"lo", "hi"});
    const bool a = is_signed(modifiers.take_type());
    const bool b = Modifiers(modifiers).empty() ? a : is_signed(modifiers.take_type());
    const Handler handlers[2][2][2] = {{{dot<false, false, 2>, dot<false, true, 2>}, {dot<true, false, 2>, dot<true, true, 2>}},
                                       {{dot<false, false, 4>, dot<false, true, 4>}, {dot<true, false, 4>, dot<true, true, 4>}}};
    emit_plain(decoder, handlers[four][a][b], Type::U32, 3).mode = half == "hi";
}

// Differences of bytes or of halves without sign, one by one; of a sum, all of them and op.c.
template <unsigned bits, bool sign, bool sums> void differences(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b), *const c = warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const auto part = [](std::uint32_t whole, unsigned at) {
            const std::uint32_t top = whole << (32 - bits - at);
            return sign ? static_cast<std::int32_t>(top) >> (32 - bits) : static_cast<std::int32_t>(top >> (32 - bits));
        };
        std::uint32_t made = sums ? c[i] : 0;
        for (unsigned at = 0; at < 32; at += bits) {
            const std::uint32_t apart = static_cast<std::uint32_t>(std::abs(part(a[i], at) - part(b[i], at)));
            made += sums ? apart : (apart & ((1u << bits) - 1)) << at;
        }
        return made;
    });
}

void video_difference(Decoder& decoder, Modifiers& modifiers) {
    const bool four = decoder.instruction().opcode.front() == "vabsdiff4";
    modifiers.take_type();
    const bool sign = is_signed(modifiers.take_type());
    if (is_signed(modifiers.take_type()) != sign) decoder.unsupported("operands of different signs");
    const bool sums = modifiers.take("add");
    const Handler handlers[2][2][2] = {{{differences<16, false, false>, differences<16, false, true>}, {differences<16, true, false>, differences<16, true, true>}},
                                       {{differences<8, false, false>, differences<8, false, true>}, {differences<8, true, false>, differences<8, true, true>}}};
    emit_plain(decoder, handlers[four][sign][sums], Type::U32, 3);
}

// mul24 and mad24; op.c: what is added, if any.
template <bool high, bool sign> void multiply24(Warp& warp, const Op& op) {
    const std::uint32_t *const a = warp.lanes<std::uint32_t>(op.a), *const b = warp.lanes<std::uint32_t>(op.b);
    const std::uint32_t* const c = op.c == kNowhere ? nullptr : warp.lanes<std::uint32_t>(op.c);
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) {
        const std::int64_t x = sign ? static_cast<std::int32_t>(a[i] << 8) >> 8 : static_cast<std::int64_t>(a[i] & 0xffffff);
        const std::int64_t y = sign ? static_cast<std::int32_t>(b[i] << 8) >> 8 : static_cast<std::int64_t>(b[i] & 0xffffff);
        return static_cast<std::uint32_t>(high ? x * y >> 16 : x * y) + (c == nullptr ? 0 : c[i]);
    });
}

void multiply24_decode(Decoder& decoder, Modifiers& modifiers) {
    const bool high = modifiers.take_one_of({"lo", "hi"}) == "hi", sign = is_signed(modifiers.take_type());
    const Handler handlers[2][2] = {{multiply24<false, false>, multiply24<false, true>}, {multiply24<true, false>, multiply24<true, true>}};
    emit_plain(decoder, handlers[high][sign], Type::U32, decoder.instruction().opcode.front() == "mad24" ? 3 : 2);
}

// and, or, xor, not of predicates; else of bits.
template <class F> void logic(Decoder& decoder, Modifiers& modifiers) {
    if (Modifiers(modifiers).take("pred")) return predicate_logic(decoder, modifiers);
    of_two<F>(decoder, modifiers);
}

const OpcodeTable table = {
    {"add", [](Decoder& d, Modifiers& m) { add_or_sub(d, m, false); }},
    {"sub", [](Decoder& d, Modifiers& m) { add_or_sub(d, m, true); }},
    {"addc", [](Decoder& d, Modifiers& m) { with_carry(d, m, false, true); }},
    {"subc", [](Decoder& d, Modifiers& m) { with_carry(d, m, true, true); }},
    {"mul", multiply},
    {"mad", multiply_add},
    {"madc", multiply_add},
    {"mul24", multiply24_decode},
    {"mad24", multiply24_decode},
    {"div", [](Decoder& d, Modifiers& m) {
         const Type type = Modifiers(m).take_type();
         if (type == Type::F32 || type == Type::F64) return float_divide(d, m);
         of_two<Div>(d, m);
     }},
    {"rem", [](Decoder& d, Modifiers& m) { of_two<Rem>(d, m); }},
    {"sad", [](Decoder& d, Modifiers& m) { const Type t = m.take_type(); emit_plain(d, integer_ternary<Sad>(t), t, 3); }},
    {"min", [](Decoder& d, Modifiers& m) { float_or_not(d, m) ? float_min_max(d, m, false) : of_two<Min>(d, m); }},
    {"max", [](Decoder& d, Modifiers& m) { float_or_not(d, m) ? float_min_max(d, m, true) : of_two<Max>(d, m); }},
    {"abs", [](Decoder& d, Modifiers& m) { float_or_not(d, m) ? float_sign(d, m, true) : of_one<Abs>(d, m); }},
    {"neg", [](Decoder& d, Modifiers& m) { float_or_not(d, m) ? float_sign(d, m, false) : of_one<Neg>(d, m); }},
    {"and", logic<And>},
    {"or", logic<Or>},
    {"xor", logic<Xor>},
    {"not", [](Decoder& d, Modifiers& m) { Modifiers(m).take("pred") ? predicate_logic(d, m) : of_one<Not>(d, m); }},
    {"cnot", [](Decoder& d, Modifiers& m) { of_one<LogicalNot>(d, m); }},
    {"shl", shift<ShiftLeft>},
    {"shr", shift<ShiftRight>},
    {"popc", count<Popc32, Popc64>},
    {"clz", count<Clz32, Clz64>},
    {"brev", [](Decoder& d, Modifiers& m) {
         const Type t = m.take_type();
         emit_plain(d, bytes_of(t) == 8 ? static_cast<Handler>(unary<LU64, LU64, Reverse>) : static_cast<Handler>(unary<LU32, LU32, Reverse>), t, 1);
     }},
    {"bfind", find_top},
    {"bfe", bit_field},
    {"bfi", bit_field},
    {"bmsk", [](Decoder& d, Modifiers& m) {
         const bool wrap = m.take_one_of({"clamp", "wrap"}) == "wrap";
         m.take_type();
         emit_plain(d, bit_mask, Type::U32, 2).mode = wrap;
     }},
    {"prmt", [](Decoder& d, Modifiers& m) {
         m.take_type();
         std::uint8_t mode = 0;
         const char* const names[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
         for (std::uint8_t i = 0; i < 6; ++i) if (m.take(names[i])) mode = static_cast<std::uint8_t>(i + 1);
         emit_plain(d, permute, Type::U32, 3).mode = mode;
     }},
    {"lop3", [](Decoder& d, Modifiers& m) {
         m.take_type();
         emit_plain(d, logic3, Type::U32, 3).imm = static_cast<std::int64_t>(d.operand(4).bits);
     }},
    {"shf", [](Decoder& d, Modifiers& m) {
         const bool left = m.take_one_of({"l", "r"}) == "l", wrap = m.take_one_of({"wrap", "clamp"}) == "wrap";
         m.take_type();
         const Handler handlers[2][2] = {{funnel<false, false>, funnel<false, true>}, {funnel<true, false>, funnel<true, true>}};
         emit_plain(d, handlers[left][wrap], Type::U32, 3);
     }},
    {"dp4a", dot_product},
    {"dp2a", dot_product},
    {"vabsdiff2", video_difference},
    {"vabsdiff4", video_difference},
};

}  // namespace
}  // namespace gates_cpu
