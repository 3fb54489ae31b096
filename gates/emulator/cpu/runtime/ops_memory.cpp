// Loads, stores, atomics, prefetches.
#include <array>
#include <limits>
#include <mutex>

#include "access.h"
#include "hopper.h"
#include "races.h"

namespace gates_cpu {
namespace {

std::uint64_t read_value(const std::uint8_t* from, unsigned bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, bytes);
    return value;
}

std::uint64_t extended(std::uint64_t value, unsigned bytes, bool sign, bool wide, unsigned register_bytes) {
    if (sign && bytes < 8 && (value >> (8 * bytes - 1) & 1) != 0) value |= ~0ull << (8 * bytes);
    if (register_bytes == 2) return value & 0xffff;
    return wide ? value : value & 0xffffffffu;
}

// If all lanes read neighbouring elements of global or shared memory: where the first lies, else null.
const std::uint8_t* neighbours(Warp& warp, const Op& op, const Extra& access, Use use) {
    if (warp.exec != kAllLanes || warp.cta->races) return nullptr;
    const unsigned bytes = access.bytes * access.count;
    const std::uint64_t first = address_of(warp, op, 0);
    if (first % bytes != 0) return nullptr;
    std::uint64_t wrong = 0;
    if (access.wide_address) {
        const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
        for (unsigned i = 0; i < kLanes; ++i) wrong |= a[i] ^ (a[0] + std::uint64_t(i) * bytes);
    } else {
        const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
        std::uint32_t apart = 0;
        for (unsigned i = 0; i < kLanes; ++i) apart |= a[i] ^ (a[0] + i * bytes);
        wrong = apart;
    }
    if (wrong != 0) return nullptr;
    const unsigned all = bytes * kLanes;
    Space space = access.space;
    std::uint64_t address = first;
    if (space == Space::Generic) {
        if ((address & kWindowBits) == kSharedWindow) { space = Space::Shared; address -= kSharedWindow; }
        else if ((address & kWindowBits) == 0) space = Space::Global;
        else return nullptr;
    }
    std::uint8_t *data, *shadow;
    std::uint8_t wanted = use == Use::Write ? 0 : kInitialised;
    if (space == Space::Shared) {
        Cta& cta = *warp.cta;
        if (address < kSharedStart || address + all > cta.shared_limit) return nullptr;
        data = cta.shared.data() + address;
        shadow = cta.shared_shadow.data() + address;
    } else if (space == Space::Global || space == Space::Const) {
        DeviceMemory& memory = DeviceMemory::get();
        if (!memory.holds(address) || !memory.holds(address + all)) return nullptr;
        data = memory.bytes(address);
        shadow = memory.shadow(address);
        wanted |= use == Use::Read ? kAllocated : kAllocated | kWritable;
    } else {
        return nullptr;
    }
    if (wanted != 0) {
        const std::uint64_t pattern = wanted * 0x0101010101010101ull;
        std::uint64_t lacking = 0;
        for (unsigned i = 0; i < all; i += 8) lacking |= ~read_value(shadow + i, 8) & pattern;
        if (lacking != 0) return nullptr;
    }
    if (use == Use::Write) std::memset(shadow, kWhole, all);
    return data;
}

template <class M, class S> void copy_in(Warp& warp, std::uint32_t slot, std::uint8_t* const (&places)[kLanes], unsigned offset, S kept) {
    each_lane<S>(warp, slot, [&](unsigned i) {
        M value;
        std::memcpy(&value, places[i] + offset, sizeof value);
        return static_cast<S>(value) & kept;
    });
}

// Elements to registers, extended as the type says.
void take_in(Warp& warp, const Extra& access, std::uint8_t* const (&places)[kLanes]) {
    for (unsigned e = 0; e < access.count; ++e) {
        const std::uint32_t slot = access.slots[e], kept = access.flags[2] ? 0xffff : kAllLanes;
        if (slot == kNowhere) continue;
        const unsigned offset = e * access.bytes, kind = access.bytes * 2 + access.flags[0];
        if (access.wide[e]) {
            switch (kind) {
                case 2: copy_in<std::uint8_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                case 3: copy_in<std::int8_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                case 4: copy_in<std::uint16_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                case 5: copy_in<std::int16_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                case 8: copy_in<std::uint32_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                case 9: copy_in<std::int32_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
                default: copy_in<std::uint64_t, std::uint64_t>(warp, slot, places, offset, ~0ull); break;
            }
        } else {
            switch (kind) {
                case 2: copy_in<std::uint8_t, std::uint32_t>(warp, slot, places, offset, kept); break;
                case 3: copy_in<std::int8_t, std::uint32_t>(warp, slot, places, offset, kept); break;
                case 4: copy_in<std::uint16_t, std::uint32_t>(warp, slot, places, offset, kept); break;
                case 5: copy_in<std::int16_t, std::uint32_t>(warp, slot, places, offset, kept); break;
                default: copy_in<std::uint32_t, std::uint32_t>(warp, slot, places, offset, kept); break;
            }
        }
    }
}

void load(Warp& warp, const Op& op) {
    const Extra& access = *op.extra;
    const unsigned bytes = access.bytes * access.count;
    if (access.bytes == 4 && access.kind == 0 && !access.flags[2] && load_words(warp, op, access.count)) return;
    if (const std::uint8_t* const data = neighbours(warp, op, access, Use::Read)) {
        if (bytes == 4 && !access.wide[0] && access.slots[0] != kNowhere) {
            std::memcpy(warp.lanes<std::uint8_t>(access.slots[0]), data, 128);
            return;
        }
        if (access.bytes == 4 && access.count == 4 && access.kind == 0) {
            for (unsigned e = 0; e < 4; ++e) {
                std::uint32_t* const d = warp.lanes<std::uint32_t>(access.slots[e]);
                for (unsigned i = 0; i < kLanes; ++i) std::memcpy(d + i, data + 16 * i + 4 * e, 4);
            }
            return;
        }
        for (unsigned e = 0; e < access.count; ++e) {
            if (access.slots[e] == kNowhere) continue;
            for (unsigned i = 0; i < kLanes; ++i) {
                const std::uint64_t value = extended(read_value(data + bytes * i + access.bytes * e, access.bytes), access.bytes, access.flags[0], access.wide[e], access.flags[2] ? 2 : 8);
                if (access.wide[e]) warp.lanes<std::uint64_t>(access.slots[e])[i] = value;
                else warp.lanes<std::uint32_t>(access.slots[e])[i] = static_cast<std::uint32_t>(value);
            }
        }
        return;
    }
    std::uint8_t* places[kLanes];
    if (lane_places(warp, op, bytes, Use::Read, places)) return take_in(warp, access, places);
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        const std::uint8_t* const from = resolve(warp, op, i, address_of(warp, op, i), bytes, access.space, Use::Read);
        for (unsigned e = 0; e < access.count; ++e) {
            if (access.slots[e] == kNowhere) continue;
            const std::uint64_t value = from == nullptr ? ~0ull : extended(read_value(from + access.bytes * e, access.bytes), access.bytes, access.flags[0], access.wide[e], access.flags[2] ? 2 : 8);
            if (access.wide[e]) warp.lanes<std::uint64_t>(access.slots[e])[i] = value;
            else warp.lanes<std::uint32_t>(access.slots[e])[i] = static_cast<std::uint32_t>(value);
        }
    }
}

// A kernel's parameter at a fixed offset: the same for all lanes.
void load_parameter(Warp& warp, const Op& op) {
    const Extra& access = *op.extra;
    const std::uint8_t* const from = warp.cta->launch->parameters.data() + op.imm;
    for (unsigned e = 0; e < access.count; ++e) {
        if (access.slots[e] == kNowhere) continue;
        const std::uint64_t value = extended(read_value(from + access.bytes * e, access.bytes), access.bytes, access.flags[0], access.wide[e], access.flags[2] ? 2 : 8);
        if (access.wide[e]) each_lane<std::uint64_t>(warp, access.slots[e], [&](unsigned) { return value; });
        else each_lane<std::uint32_t>(warp, access.slots[e], [&](unsigned) { return static_cast<std::uint32_t>(value); });
    }
}

// Lanes whose store leaves what its place in shared or global memory holds: of several lanes that write one place, one wins, and
// here it is the highest.
std::uint32_t unchanged(Warp& warp, const Op& op) {
    const Extra& access = *op.extra;
    const unsigned bytes = access.bytes * access.count;
    std::uint32_t same = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        const std::uint8_t* const at = written_bytes(warp, access.space, address_of(warp, op, i), bytes);
        bool equal = at != nullptr;
        for (unsigned e = 0; e < access.count && equal; ++e) {
            const std::uint64_t value = access.wide[e] ? warp.lanes<std::uint64_t>(access.slots[e])[i] : warp.lanes<std::uint32_t>(access.slots[e])[i];
            equal = std::memcmp(at + access.bytes * e, &value, access.bytes) == 0;
        }
        same |= static_cast<std::uint32_t>(equal) << i;
    }
    if (same == 0 || same == warp.exec) return same;
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!((warp.exec & ~same) >> i & 1)) continue;
        for (unsigned winner = kLanes - 1; winner > i; --winner) {
            if (!(warp.exec >> winner & 1) || address_of(warp, op, winner) != address_of(warp, op, i)) continue;
            same |= (same >> winner & 1) << i;
            break;
        }
    }
    return same;
}

void load_of_others(Warp& warp, const Op& op) {
    warp.cta->polled = true;
    load(warp, op);
}

void store(Warp& warp, const Op& op) {
    const Extra& access = *op.extra;
    const unsigned bytes = access.bytes * access.count;
    if (const std::uint8_t* const found = neighbours(warp, op, access, Use::Write)) {
        std::uint8_t* const data = const_cast<std::uint8_t*>(found);
        if (bytes == 4 && !access.wide[0]) {
            std::memcpy(data, warp.lanes<std::uint8_t>(access.slots[0]), 128);
            return;
        }
        for (unsigned e = 0; e < access.count; ++e) {
            for (unsigned i = 0; i < kLanes; ++i) {
                const std::uint64_t value = access.wide[e] ? warp.lanes<std::uint64_t>(access.slots[e])[i] : warp.lanes<std::uint32_t>(access.slots[e])[i];
                std::memcpy(data + bytes * i + access.bytes * e, &value, access.bytes);
            }
        }
        return;
    }
    std::uint8_t* places[kLanes];
    if (warp.cta->races) warp.unchanged = unchanged(warp, op);
    const bool quick = lane_places(warp, op, bytes, Use::Write, places);
    if (quick && access.bytes == 4 && access.kind == 0 && warp.exec == kAllLanes) {
        for (unsigned e = 0; e < access.count; ++e) {
            const std::uint32_t* const from = warp.lanes<std::uint32_t>(access.slots[e]);
            for (unsigned i = 0; i < kLanes; ++i) std::memcpy(places[i] + 4 * e, from + i, 4);
        }
        warp.unchanged = 0;
        return;
    }
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        std::uint8_t* const to = quick ? places[i] : resolve(warp, op, i, address_of(warp, op, i), bytes, access.space, Use::Write);
        if (to == nullptr) continue;
        if (access.bytes == 4 && access.kind == 0) {
            for (unsigned e = 0; e < access.count; ++e) std::memcpy(to + 4 * e, warp.lanes<std::uint32_t>(access.slots[e]) + i, 4);
            continue;
        }
        for (unsigned e = 0; e < access.count; ++e) {
            const std::uint64_t value = access.wide[e] ? warp.lanes<std::uint64_t>(access.slots[e])[i] : warp.lanes<std::uint32_t>(access.slots[e])[i];
            std::memcpy(to + access.bytes * e, &value, access.bytes);
        }
    }
    warp.unchanged = 0;
}

// ---- atomics

template <class T> std::uint64_t as_bits(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> T as_value(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

std::uint64_t updated(Atomic what, Type type, std::uint64_t old, std::uint64_t b, std::uint64_t c) {
    switch (what) {
        case Atomic::And: return old & b;
        case Atomic::Or: return old | b;
        case Atomic::Xor: return old ^ b;
        case Atomic::Exch: return b;
        case Atomic::Cas: return old == b ? c : old;
        case Atomic::Inc: return old >= b ? 0 : old + 1;
        case Atomic::Dec: return old == 0 || old > b ? b : old - 1;
        default: break;
    }
    const auto pick = [&](auto x, auto y) {
        using T = decltype(x);
        return as_bits<T>(what == Atomic::Add ? static_cast<T>(x + y) : what == Atomic::Min ? (y < x ? y : x) : (y > x ? y : x));
    };
    const auto small = [&](bool half) {
        const float x = half ? half_to_float(static_cast<std::uint16_t>(old)) : bf16_to_float(static_cast<std::uint16_t>(old));
        const float y = half ? half_to_float(static_cast<std::uint16_t>(b)) : bf16_to_float(static_cast<std::uint16_t>(b));
        const float made = what == Atomic::Add ? x + y : what == Atomic::Min ? (y < x ? y : x) : (y > x ? y : x);
        return static_cast<std::uint64_t>(half ? float_to_half(made) : float_to_bf16(made));
    };
    switch (type) {
        case Type::F32: return pick(as_value<float>(old), as_value<float>(b));
        case Type::F64: return pick(as_value<double>(old), as_value<double>(b));
        case Type::S32: return pick(as_value<std::int32_t>(old), as_value<std::int32_t>(b));
        case Type::S64: return pick(as_value<std::int64_t>(old), as_value<std::int64_t>(b));
        case Type::F16: return small(true);
        case Type::BF16: return small(false);
        case Type::F16x2: case Type::BF16x2: {
            const Type half = type == Type::F16x2 ? Type::F16 : Type::BF16;
            return updated(what, half, old & 0xffff, b & 0xffff, 0) | updated(what, half, old >> 16 & 0xffff, b >> 16 & 0xffff, 0) << 16;
        }
        default: return bytes_of(type) == 4 ? pick(as_value<std::uint32_t>(old), as_value<std::uint32_t>(b)) : pick(old, b);
    }
}

// Global memory's units flush subnormal f32 to zeros; shared memory's keep them.
std::uint64_t flushed_sum(std::uint64_t old, std::uint64_t b) {
    return as_bits(flushed(flushed(as_value<float>(old)) + flushed(as_value<float>(b))));
}

std::mutex atomics;

void atomic(Warp& warp, const Op& op) {
    const Extra& access = *op.extra;
    const auto value = [&](std::uint32_t slot, bool wide, unsigned lane) -> std::uint64_t {
        return wide ? warp.lanes<std::uint64_t>(slot)[lane] : warp.lanes<std::uint32_t>(slot)[lane];
    };
    warp.cta->polled |= op.d != kNowhere && access.space != Space::Shared;
    const std::lock_guard<std::mutex> lock(atomics);
    for (unsigned i = 0; i < kLanes; ++i) {
        if (!(warp.exec >> i & 1)) continue;
        std::uint8_t* const at = resolve(warp, op, i, address_of(warp, op, i), access.bytes * access.count, access.space, Use::Atomic);
        if (at == nullptr) continue;
        for (unsigned e = 0; e < access.count; ++e) {
            const bool wide = access.bytes == 8;
            const std::uint64_t old = read_value(at + access.bytes * e, access.bytes);
            const std::uint64_t b = value(access.slots[e], wide, i), c = op.c == kNowhere ? 0 : value(op.c, wide, i);
            const bool flushes = access.type == Type::F32 && static_cast<Atomic>(op.mode) == Atomic::Add && access.space != Space::Shared &&
                                 (address_of(warp, op, i) & kWindowBits) != kSharedWindow;
            const std::uint64_t made = flushes ? flushed_sum(old, b) : updated(static_cast<Atomic>(op.mode), access.type, old, b, c);
            std::memcpy(at + access.bytes * e, &made, access.bytes);
            const std::uint32_t d = access.count == 1 ? op.d : access.slots.size() > access.count ? access.slots[access.count + e] : kNowhere;
            if (d == kNowhere) continue;
            if (wide) warp.lanes<std::uint64_t>(d)[i] = old;
            else warp.lanes<std::uint32_t>(d)[i] = static_cast<std::uint32_t>(old);
        }
    }
}

// op.b: what to compare with, or none; op.c: what is put there.
void atomic_128(Warp& warp, const Op& op) {
    warp.cta->polled |= op.d != kNowhere && op.extra->space != Space::Shared;
    const std::lock_guard<std::mutex> lock(atomics);
    const auto halves = [&](std::uint32_t slot, unsigned lane) {
        return std::array<std::uint64_t, 2>{warp.lanes<std::uint64_t>(slot)[lane], warp.lanes<std::uint64_t>(slot + kHalf128)[lane]};
    };
    for (unsigned i = 0; i < kLanes; ++i) {
        std::uint8_t* const at = warp.exec >> i & 1 ? resolve(warp, op, i, address_of(warp, op, i), 16, op.extra->space, Use::Atomic) : nullptr;
        if (at == nullptr) continue;
        std::array<std::uint64_t, 2> old;
        std::memcpy(old.data(), at, 16);
        const std::array<std::uint64_t, 2> with = halves(op.c, i);
        if (op.b == kNowhere || old == halves(op.b, i)) std::memcpy(at, with.data(), 16);
        if (op.d == kNowhere) continue;
        warp.lanes<std::uint64_t>(op.d)[i] = old[0];
        warp.lanes<std::uint64_t>(op.d + kHalf128)[i] = old[1];
    }
}

}  // namespace

void update(std::uint8_t* at, const std::uint8_t* with, unsigned bytes, Atomic what, Type type, bool global) {
    const std::lock_guard<std::mutex> lock(atomics);
    const unsigned size = bytes_of(type);
    for (unsigned i = 0; i + size <= bytes; i += size) {
        const std::uint64_t old = read_value(at + i, size), b = read_value(with + i, size);
        const std::uint64_t made = global && type == Type::F32 && what == Atomic::Add ? flushed_sum(old, b) : updated(what, type, old, b, 0);
        std::memcpy(at + i, &made, size);
    }
}

int take_update(Modifiers& modifiers) {
    const char* const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
    int what = kCopies;
    for (int i = 0; i < 10; ++i) if (modifiers.take(names[i])) what = i;
    return what;
}

namespace {

// What every access may say about order, scope and caches.
void take_order(Modifiers& modifiers, Extra& access) {
    const std::string order = modifiers.take_one_of({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
    access.order = order == "volatile" ? Order::Volatile : order == "relaxed" || order == "mmio" ? Order::Relaxed : order == "acquire" ? Order::Acquire
                   : order == "release" ? Order::Release : order == "acq_rel" ? Order::AcqRel : Order::Weak;
    access.flags[kOfBlock] = modifiers.take_one_of({"cta", "cluster", "gpu", "sys"}) == "cta";
}
void take_space(Modifiers& modifiers, Extra& access) {
    const std::string space = modifiers.take_one_of({"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const"});
    access.space = space == "global" ? Space::Global : space == "local" ? Space::Local : space == "const" ? Space::Const
                   : space.rfind("shared", 0) == 0 ? Space::Shared : space.rfind("param", 0) == 0 ? Space::Param : Space::Generic;
    access.flags[kOfCluster] = space == "shared::cluster";
}
void take_caches(Modifiers& modifiers) {
    modifiers.take("nc");
    modifiers.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
    modifiers.take_one_of({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
    modifiers.take_one_of({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
    modifiers.take("L2::cache_hint");
    modifiers.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
    modifiers.take("unified");
}

Type storage(unsigned bytes) { return bytes == 8 ? Type::B64 : Type::B32; }

void load_or_store(Decoder& decoder, Modifiers& modifiers) {
    const bool stores = decoder.instruction().opcode.front() == "st";
    if (modifiers.take("async")) return async_store(decoder, modifiers, kCopies);
    Extra access;
    take_order(modifiers, access);
    take_space(modifiers, access);
    take_caches(modifiers);
    const std::string vector = modifiers.take_one_of({"v2", "v4", "v8"});
    access.count = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
    const Type type = modifiers.take_type();
    if (type == Type::B128) decoder.unsupported("load or store two of 64 bits instead");
    access.type = type;
    access.bytes = bytes_of(type);
    access.flags[0] = is_signed(type);
    const Operand& value = decoder.operand(stores ? 1 : 0);
    const Operand& address = decoder.operand(stores ? 0 : 1);
    std::vector<const Operand*> parts;
    if (value.kind == Operand::Vector) for (const Operand& part : value.parts) parts.push_back(&part);
    else parts.push_back(&value);
    if (parts.size() != access.count) decoder.unsupported("operands of another number than the vector");
    for (const Operand* part : parts) {
        bool wide = access.bytes == 8;
        if (part->kind == Operand::Register) wide = decoder.wide_register(*part);
        if (stores) {
            access.slots.push_back(part->kind == Operand::Register ? decoder.raw(*part) : decoder.source(*part, storage(access.bytes)));
        } else {
            access.slots.push_back(decoder.raw(*part));
            if (part->kind == Operand::Sink) access.kind = 1;
            if (part->kind == Operand::Register && bytes_of(decoder.register_type(part->reg)) == 2) access.flags[2] = true;
        }
        if (wide) access.kind = 1;
        access.wide.push_back(wide);
    }
    const bool together = access.order != Order::Weak && (access.space != Space::Shared || access.flags[kOfCluster]);
    Op& op = decoder.emit(stores ? store : together ? load_of_others : load);
    decoder.address(address, op, access);
    if (access.space == Space::Param) {
        const Operand& base = address.parts.front();
        if (!stores && base.kind == Operand::Name) {
            op.run = load_parameter;
            op.imm += static_cast<std::int64_t>(decoder.parameter_offset(base.name));
            const Program& program = decoder.program();
            if (op.imm < 0 || static_cast<std::uint64_t>(op.imm) + access.bytes * access.count > program.parameter_bytes) decoder.unsupported("a parameter read past its end");
        }
    }
    if (access.order != Order::Weak && access.space != Space::Shared) decoder.program().global_atomics = true;
    decoder.extra(op) = access;
}

void swap_128(Decoder& decoder, Extra& access, bool compares) {
    Op& op = decoder.emit(atomic_128);
    decoder.address(decoder.operand(1), op, access);
    op.d = decoder.raw(decoder.operand(0));
    op.b = compares ? decoder.raw(decoder.operand(2)) : kNowhere;
    op.c = decoder.raw(decoder.operand(compares ? 3 : 2));
    if (access.space != Space::Shared) decoder.program().global_atomics = true;
    decoder.extra(op) = access;
}

void atomic_decode(Decoder& decoder, Modifiers& modifiers) {
    const bool returns = decoder.instruction().opcode.front() == "atom";
    Extra access;
    const bool asynchronous = modifiers.take("async");
    take_order(modifiers, access);
    take_space(modifiers, access);
    take_caches(modifiers);
    const int what = take_update(modifiers);
    if (asynchronous) return async_store(decoder, modifiers, what);
    modifiers.take("noftz");
    const std::string vector = modifiers.take_one_of({"v2", "v4", "v8"});
    access.count = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
    access.type = modifiers.take_type();
    access.bytes = bytes_of(access.type);
    access.flags[kCompares] = what == 9;
    if (access.type == Type::B128 && (what == 8 || what == 9)) return swap_128(decoder, access, what == 9);
    if (what < 0 || access.bytes < 2 || access.bytes > 8) decoder.unsupported();
    const std::size_t first = returns ? 1 : 0;
    const Operand& value = decoder.operand(first + 1);
    if (value.kind == Operand::Vector) for (const Operand& part : value.parts) access.slots.push_back(decoder.source(part, access.type));
    else access.slots.push_back(decoder.source(value, access.type));
    const std::uint32_t c = what == 9 ? decoder.source(first + 2, access.type) : kNowhere;
    if (returns && access.count > 1) for (const Operand& part : decoder.operand(0).parts) access.slots.push_back(part.kind == Operand::Sink ? kNowhere : decoder.raw(part));
    const std::uint32_t d = returns && access.count == 1 && decoder.operand(0).kind != Operand::Sink ? decoder.destination(0, access.type) : kNowhere;
    Op& op = decoder.emit(atomic);
    decoder.address(decoder.operand(first), op, access);
    op.d = d;
    op.c = c;
    op.mode = static_cast<std::uint8_t>(what);
    if (access.space != Space::Shared) decoder.program().global_atomics = true;
    decoder.extra(op) = access;
}

const OpcodeTable table = {
    {"ld", load_or_store},
    {"ldu", load_or_store},
    {"st", load_or_store},
    {"atom", atomic_decode},
    {"red", atomic_decode},
    {"prefetch", [](Decoder& d, Modifiers& m) { while (!m.empty()) m.take_any(); d.emit([](Warp&, const Op&) {}); }},
    {"prefetchu", [](Decoder& d, Modifiers& m) { while (!m.empty()) m.take_any(); d.emit([](Warp&, const Op&) {}); }},
    {"createpolicy", [](Decoder& d, Modifiers& m) {
         while (!m.empty()) m.take_any();
         const std::uint32_t to = d.destination(0, Type::B64), zero = d.constant(0, true);
         Op& op = d.emit([](Warp& warp, const Op& self) { each_lane<std::uint64_t>(warp, self.d, [](unsigned) { return std::uint64_t(0); }); });
         op.d = to;
         op.a = zero;
     }},
};

}  // namespace
}  // namespace gates_cpu
