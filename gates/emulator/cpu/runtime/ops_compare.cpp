// Comparisons, selections, and logic of predicates.
#include "ops.h"

namespace gates_cpu {
namespace {

struct Eq { template <class T> static bool apply(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool apply(T a, T b) { return (a < b) | (a > b); } };  // false for NaN; for integers the same
struct Lt { template <class T> static bool apply(T a, T b) { return a < b; } };
struct Le { template <class T> static bool apply(T a, T b) { return a <= b; } };
struct Gt { template <class T> static bool apply(T a, T b) { return a > b; } };
struct Ge { template <class T> static bool apply(T a, T b) { return a >= b; } };
// True also if an operand is NaN.
struct Equ { template <class T> static bool apply(T a, T b) { return !((a < b) | (a > b)); } };
struct Neu { template <class T> static bool apply(T a, T b) { return !(a == b); } };
struct Ltu { template <class T> static bool apply(T a, T b) { return !(a >= b); } };
struct Leu { template <class T> static bool apply(T a, T b) { return !(a > b); } };
struct Gtu { template <class T> static bool apply(T a, T b) { return !(a <= b); } };
struct Geu { template <class T> static bool apply(T a, T b) { return !(a < b); } };
struct Num { template <class T> static bool apply(T a, T b) { return (a == a) & (b == b); } };
struct NotANumber { template <class T> static bool apply(T a, T b) { return (a != a) | (b != b); } };

struct Flushed {  // f32 under .ftz
    using Value = float;
    using Store = float;
    static float get(float stored) { return flushed(stored); }
};

template <class L, class C> void compare(Warp& warp, const Op& op) {
    const typename L::Store *const a = warp.lanes<typename L::Store>(op.a), *const b = warp.lanes<typename L::Store>(op.b);
    alignas(64) std::int32_t found[kLanes];
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) found[i] = -static_cast<std::int32_t>(C::apply(L::get(a[i]), L::get(b[i])));
    std::uint32_t bits = lane_bits(found), opposite = ~bits;
    if (op.c != kNowhere) {
        const std::uint32_t other = (op.mode & 8) != 0 ? ~warp.mask_at(op.c) : warp.mask_at(op.c);
        switch (op.mode & 3) {
            case 1: bits &= other; opposite &= other; break;
            case 2: bits |= other; opposite |= other; break;
            default: bits ^= other; opposite ^= other; break;
        }
    }
    if ((op.mode & 16) != 0) {  // set: a value a lane
        each_lane<std::uint32_t>(warp, op.d, [&](unsigned i) { return bits >> i & 1 ? static_cast<std::uint32_t>(op.imm) : 0; });
        return;
    }
    if (op.d != kNowhere) set_predicate(warp, op.d, bits);
    if (op.d2 != kNowhere) set_predicate(warp, op.d2, opposite);
}

template <class L> Handler of_lane(const std::string& name) {
    static const std::map<std::string, Handler> handlers = {
        {"eq", compare<L, Eq>}, {"ne", compare<L, Ne>}, {"lt", compare<L, Lt>}, {"le", compare<L, Le>}, {"gt", compare<L, Gt>},
        {"ge", compare<L, Ge>}, {"lo", compare<L, Lt>}, {"ls", compare<L, Le>}, {"hi", compare<L, Gt>}, {"hs", compare<L, Ge>},
    };
    const auto found = handlers.find(name);
    return found == handlers.end() ? nullptr : found->second;
}

template <class L> Handler of_float(const std::string& name) {
    static const std::map<std::string, Handler> handlers = {
        {"equ", compare<L, Equ>}, {"neu", compare<L, Neu>}, {"ltu", compare<L, Ltu>}, {"leu", compare<L, Leu>},
        {"gtu", compare<L, Gtu>}, {"geu", compare<L, Geu>}, {"num", compare<L, Num>}, {"nan", compare<L, NotANumber>},
    };
    const auto found = handlers.find(name);
    return found == handlers.end() ? of_lane<L>(name) : found->second;
}

Handler comparison(const std::string& name, Type type, bool flush) {
    switch (type) {
        case Type::B16: case Type::U16: return of_lane<LU16>(name);
        case Type::S16: return of_lane<LS16>(name);
        case Type::B32: case Type::U32: return of_lane<LU32>(name);
        case Type::S32: return of_lane<LS32>(name);
        case Type::B64: case Type::U64: return of_lane<LU64>(name);
        case Type::S64: return of_lane<LS64>(name);
        case Type::F16: return of_float<LF16>(name);
        case Type::BF16: return of_float<LBF16>(name);
        case Type::F32: return flush ? of_float<Flushed>(name) : of_float<LF32>(name);
        case Type::F64: return of_float<LF64>(name);
        default: return nullptr;
    }
}

// setp.CMP[.BOOL].type p[|q], a, b[, c]   and   set.CMP[.BOOL].dtype.type d, a, b[, c]
void set(Decoder& decoder, Modifiers& modifiers) {
    const bool value = decoder.instruction().opcode.front() == "set", flush = modifiers.take("ftz");
    const std::string name = modifiers.take_any(), join = modifiers.take_one_of({"and", "or", "xor"});
    const Type result = value ? modifiers.take_type() : Type::Pred, type = modifiers.take_type();
    if (type == Type::F16x2 || type == Type::BF16x2) return compare_pairs(decoder, name, join, result, type);
    const Handler handler = comparison(name, type, flush);
    if (handler == nullptr) decoder.unsupported("comparison ." + name);
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
    std::uint32_t c = kNowhere;
    bool negated = false;
    if (!join.empty()) c = decoder.predicate(decoder.operand(3), negated);
    std::uint8_t mode = static_cast<std::uint8_t>(join == "and" ? 1 : join == "or" ? 2 : 3);
    if (negated) mode |= 8;
    std::uint32_t d = kNowhere, d2 = kNowhere;
    if (value) {
        d = decoder.destination(0, bytes_of(result) == 2 ? Type::U16 : Type::U32);
        mode |= 16;
    } else {
        if (decoder.operand(0).kind != Operand::Sink) d = decoder.raw(decoder.operand(0));
        d2 = decoder.second_destination(decoder.operand(0));
    }
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    op.d2 = d2;
    op.mode = mode;
    op.imm = result == Type::F32 ? 0x3f800000 : result == Type::F16 ? 0x3c00 : result == Type::BF16 ? 0x3f80 : bytes_of(result) == 2 ? 0xffff : 0xffffffff;
}

template <class S> void select(Warp& warp, const Op& op) {
    const S *const a = warp.lanes<S>(op.a), *const b = warp.lanes<S>(op.b);
    const std::uint32_t chosen = op.mode != 0 ? ~warp.mask_at(op.c) : warp.mask_at(op.c);
    each_lane<S>(warp, op.d, [&](unsigned i) { return chosen >> i & 1 ? a[i] : b[i]; });
}

void select_value(Decoder& decoder, Modifiers& modifiers) {
    const Type type = modifiers.take_type();
    bool negated = false;
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type), c = decoder.predicate(decoder.operand(3), negated),
                        d = decoder.destination(0, type);
    Op& op = decoder.emit(bytes_of(type) == 8 ? select<std::uint64_t> : select<std::uint32_t>);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    op.mode = negated;
}

template <class S, class C> void select_by_sign(Warp& warp, const Op& op) {
    const S *const a = warp.lanes<S>(op.a), *const b = warp.lanes<S>(op.b);
    const C* const c = warp.lanes<C>(op.c);
    each_lane<S>(warp, op.d, [&](unsigned i) { return c[i] >= 0 ? a[i] : b[i]; });
}

void select_sign(Decoder& decoder, Modifiers& modifiers) {
    modifiers.take("ftz");
    const Type type = modifiers.take_type(), by = modifiers.take_type();
    const bool wide = bytes_of(type) == 8, is_float = by == Type::F32;
    const Handler handlers[2][2] = {{select_by_sign<std::uint32_t, std::int32_t>, select_by_sign<std::uint32_t, float>},
                                    {select_by_sign<std::uint64_t, std::int32_t>, select_by_sign<std::uint64_t, float>}};
    const std::uint32_t a = decoder.source(1, type), b = decoder.source(2, type), c = decoder.source(3, by), d = decoder.destination(0, type);
    Op& op = decoder.emit(handlers[wide][is_float]);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
}

// mode: 0 and, 1 or, 2 xor, 3 not, 4 mov; 8 and 16: a, b negated
void predicates(Warp& warp, const Op& op) {
    const std::uint32_t a = (op.mode & 8) != 0 ? ~warp.mask_at(op.a) : warp.mask_at(op.a);
    const std::uint32_t b = op.b == kNowhere ? 0 : (op.mode & 16) != 0 ? ~warp.mask_at(op.b) : warp.mask_at(op.b);
    std::uint32_t made = a;
    switch (op.mode & 7) {
        case 0: made = a & b; break;
        case 1: made = a | b; break;
        case 2: made = a ^ b; break;
        case 3: made = ~a; break;
        default: break;
    }
    set_predicate(warp, op.d, made);
}

const OpcodeTable table = {{"setp", set}, {"set", set}, {"selp", select_value}, {"slct", select_sign}};

}  // namespace

void predicate_logic(Decoder& decoder, Modifiers& modifiers) {
    modifiers.take("pred");
    const std::string& name = decoder.instruction().opcode.front();
    bool negated_a = false, negated_b = false;
    const std::uint32_t a = decoder.predicate(decoder.operand(1), negated_a);
    const bool two = name != "not" && name != "mov";
    const std::uint32_t b = two ? decoder.predicate(decoder.operand(2), negated_b) : kNowhere;
    Op& op = decoder.emit(predicates);
    op.d = decoder.raw(decoder.operand(0));
    op.a = a;
    op.b = b;
    op.mode = static_cast<std::uint8_t>((name == "and" ? 0 : name == "or" ? 1 : name == "xor" ? 2 : name == "not" ? 3 : 4) | (negated_a ? 8 : 0) | (negated_b ? 16 : 0));
}

}  // namespace gates_cpu
