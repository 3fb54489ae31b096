// What the files of operations share: lanes of a type, and loops over lanes that compilers turn into vector code.
#pragma once

#include <cmath>
#include <cstring>

#include "cta.h"
#include "decode.h"
#include "half.h"

namespace gates_cpu {

// Of the decoder.
void widen_slot(Warp& warp, const Op& op);
void widen_slot_signed(Warp& warp, const Op& op);
void narrow_slot(Warp& warp, const Op& op);
void end_lanes(Warp& warp, const Op& op);
void jump_always(Warp& warp, const Op& op);
void jump_unless_equal(Warp& warp, const Op& op);    // op.a and op.b, of 64 bits
void end_call(Warp& warp, const Op& op);             // of a function that calls itself: back to where it was called, or op.imm
void call_of_no_function(Warp& warp, const Op& op);  // op.a: the address
bool is_move(const Op& op);      // of a register of 32 bits
bool is_product(const Op& op);   // wgmma.mma_async
void special_register(Decoder& decoder, const std::string& name, Type type, std::uint32_t destination);
bool call_system(Decoder& decoder, const std::string& name, const std::vector<std::pair<Space, std::uint64_t>>& results,
                 const std::vector<std::pair<Space, std::uint64_t>>& arguments);

// Opcodes that integers, floats and predicates share.
bool float_or_not(const Decoder& decoder, const Modifiers& modifiers);  // true: of floats
void float_add(Decoder& decoder, Modifiers& modifiers, bool subtract);
void float_multiply(Decoder& decoder, Modifiers& modifiers);
void float_fma(Decoder& decoder, Modifiers& modifiers);
void float_divide(Decoder& decoder, Modifiers& modifiers);
void float_min_max(Decoder& decoder, Modifiers& modifiers, bool most);
void float_sign(Decoder& decoder, Modifiers& modifiers, bool absolute);
void cluster_barrier(Decoder& decoder, Modifiers& modifiers);
void tensormap_fence(Decoder& decoder, Modifiers& modifiers);  // after "proxy" and "tensormap::generic" are taken
void predicate_logic(Decoder& decoder, Modifiers& modifiers);
void compare_pairs(Decoder& decoder, const std::string& name, const std::string& join, Type result, Type type);

// A lane's type in its slot: what the value is, and how it is stored. Slots of fewer than 32 bits keep their upper bits zero.
template <class V, class S> struct Lane {
    using Value = V;
    using Store = S;
    static Value get(Store stored) { return static_cast<Value>(stored); }
    static Store put(Value value) { return static_cast<Store>(static_cast<std::make_unsigned_t<Value>>(value)); }
};
template <class V> struct Plain {
    using Value = V;
    using Store = V;
    static Value get(Store stored) { return stored; }
    static Store put(Value value) { return value; }
};
using LU8 = Lane<std::uint8_t, std::uint32_t>;
using LS8 = Lane<std::int8_t, std::uint32_t>;
using LU16 = Lane<std::uint16_t, std::uint32_t>;
using LS16 = Lane<std::int16_t, std::uint32_t>;
using LU32 = Plain<std::uint32_t>;
using LS32 = Plain<std::int32_t>;
using LU64 = Plain<std::uint64_t>;
using LS64 = Plain<std::int64_t>;
using LF32 = Plain<float>;
using LF64 = Plain<double>;
struct LF16 {  // computed in float, rounded once
    using Value = float;
    using Store = std::uint32_t;
    static float get(Store stored) { return half_to_float(static_cast<std::uint16_t>(stored)); }
    static Store put(float value) { return float_to_half(value); }
};
struct LBF16 {
    using Value = float;
    using Store = std::uint32_t;
    static float get(Store stored) { return bf16_to_float(static_cast<std::uint16_t>(stored)); }
    static Store put(float value) { return float_to_bf16(value); }
};

// d[i] = make(i) for the executing lanes.
template <class S, class Make> inline void each_lane(Warp& warp, std::uint32_t slot, Make make) {
    S* const d = warp.lanes<S>(slot);
    const std::uint32_t mask = warp.exec;
    if (mask == kAllLanes) {
#pragma GCC ivdep
        for (unsigned i = 0; i < kLanes; ++i) d[i] = make(i);
    } else {
#pragma GCC ivdep
        for (unsigned i = 0; i < kLanes; ++i) {
            const S made = make(i);
            d[i] = mask >> i & 1 ? made : d[i];
        }
    }
}

template <class D, class A, class F> void unary(Warp& warp, const Op& op) {
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(F::apply(A::get(a[i]))); });
}
template <class D, class A, class B, class F> void binary(Warp& warp, const Op& op) {
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    const typename B::Store* const b = warp.lanes<typename B::Store>(op.b);
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(F::apply(A::get(a[i]), B::get(b[i]))); });
}
template <class D, class A, class C, class F> void ternary(Warp& warp, const Op& op) {
    const typename A::Store* const a = warp.lanes<typename A::Store>(op.a);
    const typename A::Store* const b = warp.lanes<typename A::Store>(op.b);
    const typename C::Store* const c = warp.lanes<typename C::Store>(op.c);
    each_lane<typename D::Store>(warp, op.d, [&](unsigned i) { return D::put(F::apply(A::get(a[i]), A::get(b[i]), C::get(c[i]))); });
}

template <class F> Handler integer_unary(Type type) {
    switch (type) {
        case Type::U16: case Type::B16: return unary<LU16, LU16, F>;
        case Type::S16: return unary<LS16, LS16, F>;
        case Type::U32: case Type::B32: return unary<LU32, LU32, F>;
        case Type::S32: return unary<LS32, LS32, F>;
        case Type::U64: case Type::B64: return unary<LU64, LU64, F>;
        case Type::S64: return unary<LS64, LS64, F>;
        default: return nullptr;
    }
}
template <class F> Handler integer_binary(Type type) {
    switch (type) {
        case Type::U16: case Type::B16: return binary<LU16, LU16, LU16, F>;
        case Type::S16: return binary<LS16, LS16, LS16, F>;
        case Type::U32: case Type::B32: return binary<LU32, LU32, LU32, F>;
        case Type::S32: return binary<LS32, LS32, LS32, F>;
        case Type::U64: case Type::B64: return binary<LU64, LU64, LU64, F>;
        case Type::S64: return binary<LS64, LS64, LS64, F>;
        default: return nullptr;
    }
}
template <class F> Handler integer_ternary(Type type) {
    switch (type) {
        case Type::U16: case Type::B16: return ternary<LU16, LU16, LU16, F>;
        case Type::S16: return ternary<LS16, LS16, LS16, F>;
        case Type::U32: case Type::B32: return ternary<LU32, LU32, LU32, F>;
        case Type::S32: return ternary<LS32, LS32, LS32, F>;
        case Type::U64: case Type::B64: return ternary<LU64, LU64, LU64, F>;
        case Type::S64: return ternary<LS64, LS64, LS64, F>;
        default: return nullptr;
    }
}

// Operands d, a, b, c of one type.
inline Op& emit_plain(Decoder& decoder, Handler handler, Type type, unsigned sources) {
    if (handler == nullptr) decoder.unsupported();
    const std::uint32_t a = decoder.source(1, type), b = sources > 1 ? decoder.source(2, type) : kNowhere,
                        c = sources > 2 ? decoder.source(3, type) : kNowhere, d = decoder.destination(decoder.operand(0), type);
    Op& op = decoder.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    return op;
}

// One bit a lane that is not zero.
inline std::uint32_t lane_bits(const std::int32_t* lanes) {
#if defined(__AVX2__)
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < 4; ++i) {
        typedef float Floats8 __attribute__((vector_size(32)));
        Floats8 part;
        std::memcpy(&part, lanes + 8 * i, sizeof part);
        bits |= static_cast<std::uint32_t>(__builtin_ia32_movmskps256(part)) << (8 * i);
    }
    return bits;
#else
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < kLanes; ++i) bits |= static_cast<std::uint32_t>(lanes[i] != 0) << i;
    return bits;
#endif
}

inline void set_predicate(Warp& warp, std::uint32_t slot, std::uint32_t bits) {
    std::uint32_t& mask = warp.mask_at(slot);
    mask = (mask & ~warp.exec) | (bits & warp.exec);
}

inline float flushed(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
    std::memcpy(&value, &bits, 4);
    return value;
}

}  // namespace gates_cpu
