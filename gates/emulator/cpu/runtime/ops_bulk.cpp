// Copies in bulk (cp.async.bulk): boxes of tensors, by their maps, and plain ones. A load lands when somebody waits for its mbarrier;
// a store is done at once.
#include "access.h"
#include "copies.h"
#include "hopper.h"
#include "races.h"

namespace gates_cpu {
namespace {

std::uint32_t box_bytes(const TensorMap& map) {
    std::uint32_t bytes = map.element_bytes;
    for (unsigned i = 0; i < map.rank; ++i) bytes *= map.box[i];
    return bytes;
}

// Calls row(shared offset of the row, global address, elements that lie inside, elements before them) for each row of the box.
template <class Row> void each_row(const TensorMap& map, const std::int32_t (&at)[5], Row row) {
    const std::uint32_t width = map.box[0];
    std::uint32_t rows = 1;
    for (unsigned i = 1; i < map.rank; ++i) rows *= map.box[i];
    for (std::uint32_t r = 0; r < rows; ++r) {
        std::uint64_t address = map.address;
        std::uint32_t rest = r;
        bool inside = true;
        for (unsigned i = 1; i < map.rank; ++i) {
            const std::int64_t index = std::int64_t(at[i]) + rest % map.box[i] * map.steps[i];
            rest /= map.box[i];
            inside = inside && index >= 0 && index < std::int64_t(map.extents[i]);
            address += static_cast<std::uint64_t>(index) * map.strides[i - 1];
        }
        const std::int64_t first = std::max<std::int64_t>(0, -std::int64_t(at[0]));
        const std::int64_t last = std::min<std::int64_t>(width, std::int64_t(map.extents[0]) - at[0]);
        const bool some = inside && last > first;
        row(r * width * map.element_bytes, address + static_cast<std::uint64_t>((std::int64_t(at[0]) + first) * map.element_bytes),
            static_cast<std::uint32_t>(some ? last - first : 0), static_cast<std::uint32_t>(some ? first : 0));
    }
}

unsigned swizzle_bytes(const TensorMap& map) { return 16u << map.swizzle; }

// Pieces of at most 16 aligned bytes, as resolve takes them.
template <class Piece> void pieces(std::uint64_t address, std::uint32_t bytes, Piece piece) {
    for (std::uint32_t done = 0; done < bytes;) {
        std::uint32_t size = 16;
        while ((address + done) % size != 0 || size > bytes - done) size /= 2;
        piece(done, size);
        done += size;
    }
}

bool read_map(Warp& warp, const Op& op, unsigned lane, TensorMap& map) {
    const std::uint64_t address = warp.lanes<std::uint64_t>(op.b)[lane];
    std::uint8_t* const at = resolve(warp, op, lane, address, sizeof map, Space::Generic, Use::Read, 64);
    if (at != nullptr) std::memcpy(&map, at, sizeof map);
    if (at != nullptr && map.magic == kTensorMapMagic) return true;
    warp.cta->launch->report(&warp, op.place, lane, "cpu.bad_tensor_map", "what the copy takes as a tensor map is none, or does not lie where one may lie");
    warp.cta->launch->faulted = true;
    return false;
}

// extra->slots: coordinates, if it is a tensor's. op.a: shared memory; op.b: the map, or the global address; op.c: the mbarrier; op.d2: bytes.
void load(Warp& warp, const Op& op) {
    Cta& cta = *warp.cta;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        TensorMap map = {};
        const bool tensor = !op.extra->slots.empty();
        if (tensor && !read_map(warp, op, lane, map)) continue;
        if (tensor && map.rank != op.extra->slots.size()) {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.bad_tensor_map", "the copy names another number of dimensions than its tensor map has");
            continue;
        }
        TensorCopy copy = {};
        copy.op = &op;
        copy.lane = lane;
        copy.to = static_cast<std::uint32_t>(address_of(warp, op, lane));
        copy.barrier = warp.lanes<std::uint32_t>(op.c)[lane];
        copy.bytes = tensor ? box_bytes(map) : warp.lanes<std::uint32_t>(op.d2)[lane];
        copy.source = warp.lanes<std::uint64_t>(op.b)[lane];
        for (std::size_t i = 0; i < op.extra->slots.size(); ++i) copy.at[i] = static_cast<std::int32_t>(warp.lanes<std::uint32_t>(op.extra->slots[i])[lane]);
        const std::uint32_t alignment = tensor ? 128 : 16;
        if (copy.to % alignment != 0 || copy.bytes % 16 != 0) {
            cta.launch->report(&warp, op.place, lane, "cpu.misaligned", "a bulk copy goes to shared memory that is not aligned to " + std::to_string(alignment) + " bytes");
            cta.launch->faulted = true;
            continue;
        }
        if (cta.races) {
            const std::int32_t writer = cta.races->barrier_not_proxied(copy.barrier);
            if (writer >= 0) report_no_proxy_fence(warp, op, lane, "a copy in bulk counts on the mbarrier at", copy.barrier, writer);
        }
        bool whole = true;
        for (std::uint32_t done = 0; done < copy.bytes && whole; done += 16) whole = shared_bytes(warp, op, lane, copy.to + done, 16, Use::Write) != nullptr;
        if (!whole) continue;
        std::memset(cta.shared.data() + copy.to, 0xff, copy.bytes);  // until it lands, nobody may read it
        std::memset(cta.shared_shadow.data() + copy.to, 0, copy.bytes);
        cta.copies[warp.index]->tensors.push_back(copy);
    }
}

void land(Cta& cta, Warp& warp, const TensorCopy& copy) {
    std::uint8_t* const shared = cta.shared.data();
    const auto bring = [&](std::uint32_t offset, std::uint64_t from, std::uint32_t bytes, unsigned swizzle) {
        pieces(from, bytes, [&](std::uint32_t done, std::uint32_t size) {
            const std::uint8_t* const at = resolve(warp, *copy.op, copy.lane, from + done, size, Space::Global, Use::Read);
            if (at == nullptr) return;
            for (std::uint32_t i = 0; i < size; ++i) shared[swizzled(copy.to + offset + done + i, swizzle)] = at[i];
        });
    };
    std::memset(shared + copy.to, 0, copy.bytes);
    if (copy.op->extra->slots.empty()) {
        bring(0, copy.source, copy.bytes, 16);
    } else {
        TensorMap map;
        if (!read_map(warp, *copy.op, copy.lane, map)) return;
        each_row(map, copy.at, [&](std::uint32_t offset, std::uint64_t from, std::uint32_t elements, std::uint32_t skipped) {
            bring(offset + skipped * map.element_bytes, from, elements * map.element_bytes, swizzle_bytes(map));
        });
    }
    std::memset(cta.shared_shadow.data() + copy.to, kInitialised, copy.bytes);
    if (cta.races) cta.races->release_at(warp, copy.barrier);
    complete_bytes(cta, copy.barrier, copy.bytes);
}

// The way back: op.a: shared memory; op.b: the map or the address; op.d2: bytes.
void store(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::uint32_t from = static_cast<std::uint32_t>(address_of(warp, op, lane));
        bool said = !warp.cta->races;
        const auto take = [&](std::uint32_t offset, std::uint64_t to, std::uint32_t bytes, unsigned swizzle) {
            pieces(to, bytes, [&](std::uint32_t done, std::uint32_t size) {
                std::uint8_t* const at = resolve(warp, op, lane, to + done, size, Space::Global, Use::Write);
                for (std::uint32_t i = 0; i < size && at != nullptr; ++i) {
                    const std::uint8_t* const byte = shared_bytes(warp, op, lane, swizzled(from + offset + done + i, swizzle), 1, Use::Read);
                    if (byte != nullptr) at[i] = *byte;
                    if (said || byte == nullptr) continue;
                    const std::int32_t writer = warp.cta->races->not_proxied(swizzled(from + offset + done + i, swizzle), 1);
                    if (writer < 0) continue;
                    said = true;
                    report_no_proxy_fence(warp, op, lane, "a copy in bulk reads", from + offset + done + i, writer);
                }
            });
        };
        if (op.extra->slots.empty()) {
            take(0, warp.lanes<std::uint64_t>(op.b)[lane], warp.lanes<std::uint32_t>(op.d2)[lane], 16);
            continue;
        }
        TensorMap map;
        if (!read_map(warp, op, lane, map)) continue;
        std::int32_t at[5] = {};
        for (std::size_t i = 0; i < op.extra->slots.size(); ++i) at[i] = static_cast<std::int32_t>(warp.lanes<std::uint32_t>(op.extra->slots[i])[lane]);
        each_row(map, at, [&](std::uint32_t offset, std::uint64_t to, std::uint32_t elements, std::uint32_t skipped) {
            take(offset + skipped * map.element_bytes, to, elements * map.element_bytes, swizzle_bytes(map));
        });
    }
}

void nothing(Warp&, const Op&) {}

}  // namespace

void report_no_proxy_fence(Warp& warp, const Op& op, unsigned lane, const char* reader, std::uint32_t address, std::int32_t writer) {
    if (warp.cta->launch->inlined_from(op.place, "memcpy_async")) return;  // the toolkit's own, which works on barriers as it makes them
    warp.cta->launch->report(&warp, op.place, lane, "cpu.no_proxy_fence",
                             std::string(reader) + " byte " + std::to_string(address - kSharedStart) +
                                 " of shared memory through the asynchronous proxy, and no fence.proxy.async came after the store to it",
                             warp.program->ops[static_cast<std::size_t>(writer)].place);
}

bool land_copies(Cta& cta, std::uint32_t address) {
    bool any = false;
    for (Warp& warp : cta.warps) {
        std::vector<TensorCopy>& pending = cta.copies[warp.index]->tensors;
        std::vector<TensorCopy> landing, left;
        for (const TensorCopy& copy : pending) (copy.barrier == address ? landing : left).push_back(copy);
        pending = std::move(left);
        for (const TensorCopy& copy : landing) land(cta, warp, copy);
        any |= !landing.empty();
    }
    return any;
}

void bulk_copy(Decoder& decoder, Modifiers& modifiers) {
    if (modifiers.take("commit_group")) {
        decoder.emit(nothing);
        return;
    }
    if (modifiers.take("wait_group")) {
        modifiers.take("read");
        decoder.emit(nothing);
        return;
    }
    const bool tensor = modifiers.take("tensor");
    if (tensor && modifiers.take_one_of({"1d", "2d", "3d", "4d", "5d"}).empty()) decoder.unsupported();
    const bool loads = modifiers.starts("shared::cluster") || modifiers.starts("shared::cta");
    if (!loads && !modifiers.starts("global")) decoder.unsupported();
    modifiers.take_any();
    if (!modifiers.take(loads ? "global" : "shared::cta")) decoder.unsupported();
    modifiers.take("tile");
    modifiers.take("L2::cache_hint");
    if (!modifiers.take(loads ? "mbarrier::complete_tx::bytes" : "bulk_group")) decoder.unsupported();
    Extra extra;
    extra.space = Space::Shared;
    const Operand& global = decoder.operand(loads ? 1 : 0);
    const Operand& shared = decoder.operand(loads ? 0 : 1);
    if (tensor) {
        if (global.parts.size() != 2 || global.parts[1].kind != Operand::Vector) decoder.unsupported("this form of coordinates");
        for (const Operand& part : global.parts[1].parts) extra.slots.push_back(decoder.source(part, Type::S32));
    }
    if (global.parts.front().bits != 0 && global.parts.front().kind == Operand::Register) decoder.unsupported("an offset");
    const std::uint32_t b = decoder.source(global.parts.front(), Type::B64);
    std::uint32_t bytes = kNowhere, barrier = kNowhere;
    std::size_t next = 2;
    if (!tensor) bytes = decoder.source(next++, Type::U32);
    if (loads) {
        const Operand& place = decoder.operand(next++).parts.front();
        if (place.bits != 0 && place.kind == Operand::Register) decoder.unsupported("an offset");
        barrier = decoder.source(place, Type::B32);
    }
    Op& op = decoder.emit(loads ? load : store);
    decoder.address(shared, op, extra);
    op.b = b;
    op.c = barrier;
    op.d2 = bytes;
    decoder.extra(op) = extra;
}

}  // namespace gates_cpu
