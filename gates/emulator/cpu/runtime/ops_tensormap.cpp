// Tensor maps that a kernel changes: tensormap.replace, tensormap.cp_fenceproxy, and the fences between the change and the copy engine.
#include "access.h"
#include "hopper.h"
#include "races.h"

namespace gates_cpu {
namespace {

enum Field : std::uint8_t { kAddress, kRank, kBox, kExtent, kStride, kStep, kElement, kInterleave, kSwizzle, kFill };
constexpr const char* kFields[] = {"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"};
// PTX ISA, tensormap.replace: .elemtype
constexpr Type kElements[] = {Type::U8, Type::U16, Type::U32, Type::S32, Type::U64, Type::S64, Type::F16, Type::F32, Type::F32, Type::F64, Type::BF16, Type::F32, Type::F32};

// The field's value as the instruction gives it; false if no tensor map holds it.
bool put(TensorMap& map, Field field, std::uint32_t ordinal, std::uint64_t value) {
    if (ordinal > 4 || (field == kStride && ordinal > 3)) return false;
    switch (field) {
        case kAddress: map.address = value; return value % 16 == 0;
        case kRank: map.rank = static_cast<std::uint8_t>(value + 1); return value < 5;
        case kBox: map.box[ordinal] = static_cast<std::uint16_t>(value); return value >= 1 && value <= 256;
        case kExtent: map.extents[ordinal] = static_cast<std::uint32_t>(value); return value != 0;
        case kStride: map.strides[ordinal] = value; return value % 16 == 0 && value >> 40 == 0;
        case kStep: map.steps[ordinal] = static_cast<std::uint16_t>(value); return value >= 1 && value <= 8;
        case kElement: map.type = value < 13 ? kElements[value] : Type::None; return value < 13;
        case kSwizzle: map.swizzle = static_cast<std::uint8_t>(value); return value <= 3;
        default: return value == 0;  // interleaved layouts, and NaN where nothing is, are not supported
    }
}

void changed(Warp& warp, std::uint64_t address, bool released) {
    if (warp.cta->launch->global_races) warp.cta->launch->global_races->map_changed(static_cast<std::uint32_t>(warp.cta->number), address, released);
}

// op.mode: the field; op.b: the value; op.c: the ordinal, if any.
void replace(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::uint64_t address = address_of(warp, op, lane);
        std::uint8_t* const at = resolve(warp, op, lane, address, sizeof(TensorMap), op.extra->space, Use::Read, 64);
        if (at == nullptr || resolve(warp, op, lane, address, sizeof(TensorMap), op.extra->space, Use::Write, 64) == nullptr) continue;
        TensorMap map;
        std::memcpy(&map, at, sizeof map);
        const Field field = static_cast<Field>(op.mode);
        const bool wide = field == kAddress || field == kStride;
        const std::uint64_t value = wide ? warp.lanes<std::uint64_t>(op.b)[lane] : warp.lanes<std::uint32_t>(op.b)[lane];
        if (map.magic != kTensorMapMagic || !put(map, field, op.c == kNowhere ? 0 : warp.lanes<std::uint32_t>(op.c)[lane], value)) {
            warp.cta->launch->fault(&warp, op.place, lane, "cpu.bad_tensor_map", std::string("tensormap.replace changes .") + kFields[field] + " of what is no tensor map, or to what none can have");
            continue;
        }
        std::memcpy(at, &map, sizeof map);
        changed(warp, address, false);
    }
}

// tensormap.cp_fenceproxy: a warp copies a map of 128 bytes from shared memory, and releases it to the copy engine.
void copy(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const std::uint64_t to = address_of(warp, op, 0);
    const std::uint8_t* const from = shared_bytes(warp, op, 0, warp.lanes<std::uint32_t>(op.b)[0], sizeof(TensorMap), Use::Read, 64);
    std::uint8_t* const at = from == nullptr ? nullptr : resolve(warp, op, 0, to, sizeof(TensorMap), Space::Global, Use::Write, 64);
    if (at == nullptr) return;
    std::memcpy(at, from, sizeof(TensorMap));
    changed(warp, to, true);
}

void tensormap(Decoder& decoder, Modifiers& modifiers) {
    Extra extra;
    if (modifiers.take("cp_fenceproxy")) {
        while (!modifiers.empty()) modifiers.take_any();
        const std::uint32_t from = decoder.source(decoder.operand(1).parts.front(), Type::B32);
        Op& op = decoder.emit(copy);
        decoder.address(decoder.operand(0), op, extra);
        op.b = from;
        decoder.extra(op) = extra;
        return;
    }
    if (!modifiers.take("replace") || !modifiers.take("tile")) decoder.unsupported();
    std::uint8_t field = 0;
    while (field < std::size(kFields) && !modifiers.take(kFields[field])) ++field;
    if (field == std::size(kFields)) decoder.unsupported();
    const std::string space = modifiers.take_one_of({"global", "shared::cta"});
    modifiers.take("b1024");
    const Type type = modifiers.take_type();
    const bool ordered = decoder.operands() > 2;
    const std::uint32_t value = decoder.source(decoder.operand(ordered ? 2 : 1), type == Type::B64 ? Type::B64 : Type::B32),
                        ordinal = ordered ? decoder.source(1, Type::B32) : kNowhere;
    Op& op = decoder.emit(replace);
    decoder.address(decoder.operand(0), op, extra);
    extra.space = space == "global" ? Space::Global : space.empty() ? Space::Generic : Space::Shared;
    op.b = value;
    op.c = ordinal;
    op.mode = field;
    decoder.extra(op) = extra;
}

const OpcodeTable table = {{"tensormap", tensormap}};

}  // namespace

// fence.proxy.tensormap::generic.release.SCOPE   fence.proxy.tensormap::generic.acquire.SCOPE [address], 128
void tensormap_fence(Decoder& decoder, Modifiers& modifiers) {
    const bool acquires = modifiers.take_one_of({"release", "acquire"}) == "acquire";
    modifiers.take_one_of({"cta", "cluster", "gpu", "sys"});
    if (!acquires) {
        decoder.emit([](Warp& warp, const Op&) {
            if (warp.cta->launch->global_races) warp.cta->launch->global_races->maps_released(static_cast<std::uint32_t>(warp.cta->number));
        });
        return;
    }
    Extra extra;
    Op& op = decoder.emit([](Warp& warp, const Op& self) {
        for (unsigned lane = 0; lane < kLanes && warp.cta->launch->global_races; ++lane) {
            if (warp.exec >> lane & 1) warp.cta->launch->global_races->map_acquired(static_cast<std::uint32_t>(warp.cta->number), address_of(warp, self, lane));
        }
    });
    decoder.address(decoder.operand(0), op, extra);
    decoder.extra(op) = extra;
}

}  // namespace gates_cpu
