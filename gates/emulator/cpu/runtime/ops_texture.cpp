// tex: an element of a texture object by one or two coordinates.
#include <cmath>
#include <cstring>

#include "access.h"
#include "handles.h"
#include "ops.h"
#include "texture.h"

namespace gates_cpu {
namespace {

// The element at a coordinate of `size`, or -1 for the border.
std::int64_t place(double at, std::uint64_t size, int outside, bool normalised) {
    const double n = static_cast<double>(size);
    if (normalised && outside == kWrap) at -= std::floor(at);
    if (normalised && outside == kMirror) at = std::fmod(std::floor(at), 2) == 0 ? at - std::floor(at) : 1 - (at - std::floor(at));
    const double element = std::floor(normalised ? at * n : at);
    if (element >= 0 && element < n) return static_cast<std::int64_t>(element);
    return outside == kBorder ? -1 : element < 0 || std::isnan(element) ? 0 : static_cast<std::int64_t>(size) - 1;
}

std::uint32_t widened(const Channels& channels, const std::uint8_t* from) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, from, static_cast<std::size_t>(channels.bits[0] / 8));
    const unsigned unused = 32 - static_cast<unsigned>(channels.bits[0]);
    if (channels.kind == kSigned) return static_cast<std::uint32_t>(static_cast<std::int32_t>(bits << unused) >> unused);
    if (channels.kind != kFloat || unused == 0) return bits;
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// op.a: the object. extra->slots: results, then coordinates; extra->count of these. extra->flags[0]: whole numbers.
void fetch(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    const std::uint32_t* const coordinates = extra.slots.data() + 4;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const auto texture = Handles<Texture>::get().find(reinterpret_cast<const void*>(warp.lanes<std::uint64_t>(op.a)[lane]));
        if (!texture) return warp.cta->report_here(warp, op, "cpu.not_device_memory", "reads a texture object that does not exist: one that was destroyed?");
        const auto coordinate = [&](unsigned axis, std::uint64_t size) -> std::int64_t {
            const std::uint32_t bits = warp.lanes<std::uint32_t>(coordinates[axis])[lane];
            if (!extra.flags[0]) return place(warp.lanes<float>(coordinates[axis])[lane], size, texture->outside[axis], texture->normalised);
            const std::int64_t at = static_cast<std::int32_t>(bits);
            if (texture->linear) return at >= 0 && static_cast<std::uint64_t>(at) < size ? at : -1;
            return place(static_cast<double>(at), size, texture->outside[axis], false);
        };
        const std::int64_t x = coordinate(0, texture->width), y = extra.count > 1 ? coordinate(1, texture->height) : 0;
        const unsigned bytes = texture->channels.bytes();
        const std::uint8_t* from = nullptr;
        if (x >= 0 && y >= 0) {
            from = resolve(warp, op, lane, texture->address + static_cast<std::uint64_t>(y) * texture->pitch + static_cast<std::uint64_t>(x) * bytes, bytes, Space::Global, Use::Read);
        }
        for (unsigned i = 0; i < 4; ++i) {
            if (extra.slots[i] == kNowhere) continue;
            const bool there = from != nullptr && i < texture->channels.count();
            warp.lanes<std::uint32_t>(extra.slots[i])[lane] = there ? widened(texture->channels, from + i * bytes / texture->channels.count()) : 0;
        }
    }
}

void texture(Decoder& decoder, Modifiers& modifiers) {
    const std::string shape = modifiers.take_one_of({"1d", "2d"});
    if (shape.empty() || !modifiers.take("v4")) decoder.unsupported("only textures of one and two dimensions");
    const Type result = modifiers.take_type(), coordinate = modifiers.take_type();
    if (bytes_of(result) != 4 || bytes_of(coordinate) != 4) decoder.unsupported("results and coordinates of other than 32 bits");
    const Operand &to = decoder.operand(0), &from = decoder.operand(1);
    if (from.parts.size() != 2 || from.parts[0].kind != Operand::Register || to.parts.size() != 4) decoder.unsupported("a texture reference, or a sampler of its own");
    Extra made;
    for (const Operand& part : to.parts) made.slots.push_back(decoder.raw(part));
    const Operand& place = from.parts[1];
    made.count = shape == "1d" ? 1 : 2;
    for (unsigned i = 0; i < made.count; ++i) made.slots.push_back(decoder.source(place.kind == Operand::Vector ? place.parts[i] : place, coordinate));
    made.flags[0] = coordinate == Type::S32;
    Op& op = decoder.emit(fetch);
    op.a = decoder.raw(from.parts[0]);
    decoder.extra(op) = made;
}

const OpcodeTable table = {{"tex", texture}};

}  // namespace
}  // namespace gates_cpu
