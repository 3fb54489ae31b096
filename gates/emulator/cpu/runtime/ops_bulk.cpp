// Copies and reductions in bulk (cp.async.bulk, cp.reduce.async.bulk): boxes of tensors, by their maps, and plain ones; and asynchronous
// stores of registers (st.async, red.async). All end as late as the program allows: what an mbarrier counts when somebody waits for that,
// a store in bulk when its thread waits for it or ends.
#include <algorithm>

#include "access.h"
#include "cluster.h"
#include "copies.h"
#include "hopper.h"
#include "races.h"

namespace gates_cpu {
namespace {

enum Source : std::uint8_t { kGlobal, kShared, kRegisters };  // extra->kind of what an mbarrier counts

Atomic update_of(const Op& op) { return static_cast<Atomic>(op.mode - 1); }  // op.mode: 0 for a copy

std::uint32_t box_bytes(const TensorMap& map) {
    std::uint32_t bytes = bytes_of(map.type);
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
        row(r * width * bytes_of(map.type), address + static_cast<std::uint64_t>((std::int64_t(at[0]) + first) * bytes_of(map.type)),
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

bool read_map(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, TensorMap& map) {
    std::uint8_t* const at = resolve(warp, op, lane, address, sizeof map, Space::Generic, Use::Read, 64);
    const GlobalRaces* const races = warp.cta->launch->global_races.get();
    if (races != nullptr && !races->map_seen(static_cast<std::uint32_t>(warp.cta->number), address)) {
        warp.cta->launch->report(&warp, op.place, lane, "cpu.no_proxy_fence", "the copy may not see that the kernel changed its tensor map: fence.proxy.tensormap, release and acquire, comes between");
    }
    if (at != nullptr) std::memcpy(&map, at, sizeof map);
    if (at != nullptr && map.magic == kTensorMapMagic) return true;
    warp.cta->launch->fault(&warp, op.place, lane, "cpu.bad_tensor_map", "what the copy takes as a tensor map is none, or does not lie where one may lie");
    return false;
}

// To the shared memory of `owner`, whose mbarrier counts it.
void ask_for(Warp& warp, const Op& op, Cta& owner, const TensorCopy& copy) {
    if (!is_mbarrier(owner, copy.barrier)) {
        warp.cta->launch->fault(&warp, op.place, copy.lane, "cpu.bad_mbarrier", "an mbarrier of block " + std::to_string(owner.rank) + " of the cluster, which counts what is sent there, is not initialised");
        return;
    }
    if (owner.races && op.extra->kind != kRegisters) {
        const std::int32_t writer = owner.races->barrier_not_proxied(owner.races->place(owner, copy.barrier));
        if (writer >= 0) {
            report_no_proxy_fence(warp, op, copy.lane, "a copy in bulk counts on the mbarrier at byte " + std::to_string(copy.barrier - kSharedStart) + " of shared memory", writer);
        }
    }
    const std::uint32_t window = (owner.rank + 1) << kRankShift;
    for (std::uint32_t done = 0; done < copy.bytes; done += 16) {
        const std::uint32_t place = (&owner == warp.cta ? 0 : window) + copy.to + done, bytes = std::min(copy.bytes - done, 16u);
        if (shared_bytes(warp, op, copy.lane, place, bytes, op.mode == 0 ? Use::Write : Use::Atomic) == nullptr) return;
    }
    if (op.mode == 0) {
        std::memset(owner.shared.data() + copy.to, 0xff, copy.bytes);  // until it lands, nobody may read it
        std::memset(owner.shared_shadow.data() + copy.to, 0, copy.bytes);
    }
    owner.tensors.push_back(copy);
}

// The block whose shared memory it goes to, where its mbarrier is, too; null after a finding.
Cta* goes_to(Warp& warp, const Op& op, TensorCopy& copy, unsigned alignment) {
    Cta* const owner = shared_cta(warp, op, copy.lane, copy.to);
    Cta* const counts = shared_cta(warp, op, copy.lane, copy.barrier);
    if (owner == nullptr || counts == nullptr) return nullptr;
    const std::string what = op.extra->kind == kRegisters ? "an asynchronous store" : "a bulk copy";
    if (copy.to % alignment != 0 || copy.bytes % std::min(alignment, 16u) != 0) {
        warp.cta->launch->fault(&warp, op.place, copy.lane, "cpu.misaligned",
                                what + " goes to shared memory that is not aligned to " + std::to_string(alignment) + " bytes" + as_declared(warp, copy.to, alignment));
    } else if (owner != counts) {
        warp.cta->launch->fault(&warp, op.place, copy.lane, "cpu.bad_mbarrier", what + " counts on the mbarrier of another block than the one it goes to");
    } else {
        return owner;
    }
    return nullptr;
}

// extra->slots: coordinates, if it is a tensor's. op.a: shared memory; op.b: the map, or the source's address; op.c: the mbarrier; op.d2: bytes;
// op.d: ranks that it goes to.
void load(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        TensorMap map = {};
        const bool tensor = !op.extra->slots.empty();
        if (tensor && !read_map(warp, op, lane, warp.lanes<std::uint64_t>(op.b)[lane], map)) continue;
        if (tensor && map.rank != op.extra->slots.size()) {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.bad_tensor_map", "the copy names another number of dimensions than its tensor map has");
            continue;
        }
        TensorCopy copy = {};
        copy.op = &op;
        copy.warp = &warp;
        copy.lane = lane;
        copy.to = static_cast<std::uint32_t>(address_of(warp, op, lane));
        copy.barrier = warp.lanes<std::uint32_t>(op.c)[lane];
        copy.bytes = tensor ? box_bytes(map) : warp.lanes<std::uint32_t>(op.d2)[lane];
        copy.source = op.extra->kind == kShared ? kSharedWindow + warp.lanes<std::uint32_t>(op.b)[lane] : warp.lanes<std::uint64_t>(op.b)[lane];
        for (std::size_t i = 0; i < op.extra->slots.size(); ++i) copy.at[i] = static_cast<std::int32_t>(warp.lanes<std::uint32_t>(op.extra->slots[i])[lane]);
        Cta* const owner = goes_to(warp, op, copy, tensor ? 128 : 16);
        if (owner == nullptr) continue;
        const std::uint32_t from = static_cast<std::uint32_t>(copy.source), limit = warp.cta->shared_limit;
        if (op.extra->kind == kShared && from >= kSharedStart && from <= limit && copy.bytes <= limit - from) read_without_fence(warp, op, lane, "a copy in bulk", from, copy.bytes);
        if (op.d == kNowhere) {
            ask_for(warp, op, *owner, copy);
        } else {
            const std::uint32_t ranks = warp.lanes<std::uint32_t>(op.d)[lane] & 0xffff;
            for (std::uint32_t rank = 0; rank < 16; ++rank) {
                if (!(ranks >> rank & 1)) continue;
                std::uint32_t there = (rank + 1) << kRankShift;
                Cta* const target = shared_cta(warp, op, lane, there);
                if (target != nullptr) ask_for(warp, op, *target, copy);
            }
        }
    }
}

// st.async, red.async. extra->slots: the values; op.c: the mbarrier.
void send(Warp& warp, const Op& op) {
    const Extra& extra = *op.extra;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        TensorCopy copy = {};
        copy.op = &op;
        copy.warp = &warp;
        copy.lane = lane;
        copy.to = static_cast<std::uint32_t>(address_of(warp, op, lane));
        copy.barrier = warp.lanes<std::uint32_t>(op.c)[lane];
        copy.bytes = extra.bytes * extra.count;
        for (unsigned e = 0; e < extra.count; ++e) {
            const std::uint64_t value = extra.bytes == 8 ? warp.lanes<std::uint64_t>(extra.slots[e])[lane] : warp.lanes<std::uint32_t>(extra.slots[e])[lane];
            std::memcpy(copy.values + extra.bytes * e, &value, extra.bytes);
        }
        if (Cta* const owner = goes_to(warp, op, copy, copy.bytes)) ask_for(warp, op, *owner, copy);
    }
}

void land(Cta& cta, const TensorCopy& copy) {
    Warp& warp = *copy.warp;
    std::uint8_t* const shared = cta.shared.data();
    GlobalRaces* const races = copy.op->extra->kind == kGlobal ? warp.cta->launch->global_races.get() : nullptr;
    bool said = races == nullptr;
    const auto bring = [&](std::uint64_t from, std::uint32_t bytes, auto put) {
        pieces(from, bytes, [&](std::uint32_t done, std::uint32_t size) {
            const std::uint8_t* const at = resolve(warp, *copy.op, copy.lane, from + done, size, Space::Generic, Use::Read);
            if (at == nullptr) return;
            put(done, at, size);
            const std::int32_t writer = said ? -1 : warp.cta->races->not_proxied(*races, from + done, size);
            if (writer < 0) return;
            said = true;
            report_no_proxy_fence(warp, *copy.op, copy.lane, "a copy in bulk reads global memory", writer);
        });
    };
    if (copy.op->mode != 0) {
        const auto reduce = [&](std::uint32_t done, const std::uint8_t* at, std::uint32_t size) { update(shared + copy.to + done, at, size, update_of(*copy.op), copy.op->extra->type, false); };
        if (copy.op->extra->kind == kRegisters) reduce(0, copy.values, copy.bytes);
        else bring(copy.source, copy.bytes, reduce);
    } else if (copy.op->extra->kind == kRegisters) {
        std::memcpy(shared + copy.to, copy.values, copy.bytes);
    } else if (copy.op->extra->slots.empty()) {
        std::memset(shared + copy.to, 0, copy.bytes);
        bring(copy.source, copy.bytes, [&](std::uint32_t done, const std::uint8_t* at, std::uint32_t size) { std::memcpy(shared + copy.to + done, at, size); });
    } else {
        std::memset(shared + copy.to, 0, copy.bytes);
        TensorMap map;
        if (!read_map(warp, *copy.op, copy.lane, copy.source, map)) return;
        each_row(map, copy.at, [&](std::uint32_t offset, std::uint64_t from, std::uint32_t elements, std::uint32_t skipped) {
            const std::uint32_t to = copy.to + offset + skipped * bytes_of(map.type);
            bring(from, elements * bytes_of(map.type), [&](std::uint32_t done, const std::uint8_t* at, std::uint32_t size) {
                for (std::uint32_t i = 0; i < size; ++i) shared[swizzled(to + done + i, swizzle_bytes(map))] = at[i];
            });
        });
    }
    std::memset(cta.shared_shadow.data() + copy.to, kInitialised, copy.bytes);
    if (cta.races) cta.races->release_at(warp, kAllLanes, cta.races->place(cta, copy.barrier));
    complete_bytes(cta, copy.barrier, copy.bytes);
}

// Calls part(its address in shared memory, its place in `bytes`, its length) for each part of the source: at most 16 aligned bytes.
template <class Part> void each_part(const BulkStore& store, Part part) {
    std::size_t next = 0;
    for (const BulkStore::Piece& piece : store.pieces) {
        pieces(piece.from, piece.bytes, [&](std::uint32_t done, std::uint32_t size) { part(swizzled(piece.from + done, store.swizzle), next + done, size); });
        next += piece.bytes;
    }
}

// The way back: op.a: shared memory; op.b: the map or the address; op.d2: bytes.
void store(Warp& warp, const Op& op) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::uint32_t from = static_cast<std::uint32_t>(address_of(warp, op, lane));
        BulkStore made{&op, lane, copies.bulk_group[lane], 16, op.extra->type, false, {}, {}};
        const auto take = [&](std::uint32_t offset, std::uint64_t to, std::uint32_t bytes) {
            pieces(to, bytes, [&](std::uint32_t done, std::uint32_t size) { made.pieces.push_back({to + done, from + offset + done, size}); });
        };
        if (op.extra->slots.empty()) {
            take(0, warp.lanes<std::uint64_t>(op.b)[lane], warp.lanes<std::uint32_t>(op.d2)[lane]);
        } else {
            TensorMap map;
            if (!read_map(warp, op, lane, warp.lanes<std::uint64_t>(op.b)[lane], map)) continue;
            made.swizzle = swizzle_bytes(map);
            made.type = map.type;
            std::int32_t at[5] = {};
            for (std::size_t i = 0; i < op.extra->slots.size(); ++i) at[i] = static_cast<std::int32_t>(warp.lanes<std::uint32_t>(op.extra->slots[i])[lane]);
            each_row(map, at, [&](std::uint32_t offset, std::uint64_t to, std::uint32_t elements, std::uint32_t skipped) {
                take(offset + skipped * bytes_of(map.type), to, elements * bytes_of(map.type));
            });
        }
        bool said = false, whole = true;
        each_part(made, [&](std::uint32_t address, std::size_t, std::uint32_t size) {
            const std::uint8_t* const part = whole ? shared_bytes(warp, op, lane, address, size, Use::Read) : nullptr;
            whole = part != nullptr;
            if (!whole) return;
            made.bytes.insert(made.bytes.end(), part, part + size);
            said = said || read_without_fence(warp, op, lane, "a copy in bulk", address, size);
        });
        if (whole) copies.stores.push_back(std::move(made));
    }
}

// The engine reads the source now, as late as it may.
void read_source(Warp& warp, BulkStore& store) {
    if (store.read) return;
    store.read = true;
    Cta& cta = *warp.cta;
    bool said = false;
    each_part(store, [&](std::uint32_t address, std::size_t at, std::uint32_t size) {
        std::uint8_t *const was = store.bytes.data() + at, *const now = cta.shared.data() + address;
        const std::uint32_t changed = static_cast<std::uint32_t>(std::mismatch(was, was + size, now).first - was);
        std::memcpy(was, now, size);
        if (changed == size || said) return;
        said = true;
        const std::int32_t writer = cta.races ? cta.races->last_writer(cta.races->place(cta, address + changed)) : -1;
        cta.launch->report(&warp, store.op->place, store.lane, "cpu.bulk_source_overwritten",
                           "byte " + std::to_string(address + changed - kSharedStart) + " of shared memory was overwritten while this copy in bulk may still read it: cp.async.bulk.wait_group.read comes first",
                           writer < 0 ? -1 : warp.program->ops[static_cast<std::size_t>(writer)].place);
    });
}

void write_out(Warp& warp, const BulkStore& store) {
    std::size_t next = 0;
    for (const BulkStore::Piece& piece : store.pieces) {
        const std::uint8_t* const from = store.bytes.data() + next;
        const bool reduces = store.op->mode != 0;
        std::uint8_t* const at = resolve(warp, *store.op, store.lane, piece.to, piece.bytes, Space::Global, reduces ? Use::Atomic : Use::Write);
        if (at != nullptr && reduces) update(at, from, piece.bytes, update_of(*store.op), store.type, true);
        else if (at != nullptr) std::memcpy(at, from, piece.bytes);
        next += piece.bytes;
    }
}

void commit(Warp& warp, const Op&) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    for (unsigned i = 0; i < kLanes; ++i) copies.bulk_group[i] += warp.exec >> i & 1;
}

// The executing lanes' stores of groups that are older than the newest op.imm ones; mode 1: their sources alone.
void wait(Warp& warp, const Op& op) {
    CopyGroup& copies = *warp.cta->copies[warp.index];
    const auto awaited = [&](const BulkStore& store) {
        return (warp.exec >> store.lane & 1) != 0 && copies.bulk_group[store.lane] - store.group > static_cast<std::uint32_t>(op.imm);
    };
    for (BulkStore& store : copies.stores) {
        if (!awaited(store)) continue;
        read_source(warp, store);
        if (op.mode == 0) write_out(warp, store);
    }
    if (op.mode == 0) copies.stores.erase(std::remove_if(copies.stores.begin(), copies.stores.end(), awaited), copies.stores.end());
}

}  // namespace

void end_stores(Warp& warp) {
    std::vector<BulkStore>& stores = warp.cta->copies[warp.index]->stores;
    const auto ended = [&](const BulkStore& store) { return (warp.alive >> store.lane & 1) == 0; };
    for (BulkStore& store : stores) {
        if (!ended(store)) continue;
        if (!store.read) {
            warp.cta->launch->report(&warp, store.op->place, store.lane, "cpu.bulk_store_not_awaited",
                                     "the thread ends while this copy in bulk may still read shared memory: cp.async.bulk.commit_group and cp.async.bulk.wait_group.read come first");
        }
        read_source(warp, store);
        write_out(warp, store);
    }
    stores.erase(std::remove_if(stores.begin(), stores.end(), ended), stores.end());
}

void report_no_proxy_fence(Warp& warp, const Op& op, unsigned lane, const std::string& reads, std::int32_t writer) {
    if (warp.cta->launch->inlined_from(op.place, "memcpy_async")) return;  // the toolkit's own, which works on barriers as it makes them
    warp.cta->launch->report(&warp, op.place, lane, "cpu.no_proxy_fence", reads + " through the asynchronous proxy, and no fence.proxy.async came after the store to it",
                             warp.program->ops[static_cast<std::size_t>(writer)].place);
}

bool read_without_fence(Warp& warp, const Op& op, unsigned lane, const char* reader, std::uint32_t address, unsigned bytes) {
    const Cta& cta = *warp.cta;
    const std::int32_t writer = cta.races ? cta.races->not_proxied(cta.races->place(cta, address), bytes) : -1;
    if (writer < 0) return false;
    report_no_proxy_fence(warp, op, lane, reader + (" reads byte " + std::to_string(address - kSharedStart)) + " of shared memory", writer);
    return true;
}

bool land_copies(Cta& cta, std::uint32_t address) {
    std::vector<TensorCopy> landing;
    const auto counted = [&](const TensorCopy& copy) { return copy.barrier == address; };
    std::copy_if(cta.tensors.begin(), cta.tensors.end(), std::back_inserter(landing), counted);
    cta.tensors.erase(std::remove_if(cta.tensors.begin(), cta.tensors.end(), counted), cta.tensors.end());
    for (const TensorCopy& copy : landing) land(cta, copy);
    return land_arrivals(cta, address) || !landing.empty();
}

void bulk_copy(Decoder& decoder, Modifiers& modifiers, bool reduces) {
    if (modifiers.take("commit_group")) {
        decoder.emit(commit);
        return;
    }
    if (modifiers.take("wait_group")) {
        const bool read = modifiers.take("read");
        Op& op = decoder.emit(wait);
        op.mode = read;
        op.imm = static_cast<std::int64_t>(decoder.operand(0).bits);
        return;
    }
    const bool tensor = modifiers.take("tensor");
    if (tensor && modifiers.take_one_of({"1d", "2d", "3d", "4d", "5d"}).empty()) decoder.unsupported();
    const bool loads = modifiers.starts("shared::cluster") || modifiers.starts("shared::cta");
    if (!loads && !modifiers.starts("global")) decoder.unsupported();
    const bool to_cluster = modifiers.take_any() == "shared::cluster", between = loads && !tensor && modifiers.take("shared::cta");
    if (!between && !modifiers.take(loads ? "global" : "shared::cta")) decoder.unsupported();
    modifiers.take("tile");
    modifiers.take("L2::cache_hint");
    const int what = reduces ? take_update(modifiers) : kCopies;
    modifiers.take("noftz");
    const bool many = loads && modifiers.take("multicast::cluster");
    if (!modifiers.take(loads ? "mbarrier::complete_tx::bytes" : "bulk_group")) decoder.unsupported();
    Extra extra;
    extra.space = Space::Shared;
    extra.flags[kOfCluster] = to_cluster;
    extra.kind = between ? kShared : kGlobal;
    if (reduces && !tensor) extra.type = modifiers.take_type();
    if (reduces && (what == kCopies || (loads && !between) || (!tensor && bytes_of(extra.type) < 2))) decoder.unsupported();
    const Operand& global = decoder.operand(loads ? 1 : 0);
    const Operand& shared = decoder.operand(loads ? 0 : 1);
    if (tensor) {
        if (global.parts.size() != 2 || global.parts[1].kind != Operand::Vector) decoder.unsupported("this form of coordinates");
        for (const Operand& part : global.parts[1].parts) extra.slots.push_back(decoder.source(part, Type::S32));
    }
    if (global.parts.front().bits != 0 && global.parts.front().kind == Operand::Register) decoder.unsupported("an offset");
    const std::uint32_t b = decoder.source(global.parts.front(), between ? Type::B32 : Type::B64);
    std::uint32_t bytes = kNowhere, barrier = kNowhere, ranks = kNowhere;
    std::size_t next = 2;
    if (!tensor) bytes = decoder.source(next++, Type::U32);
    if (loads) {
        const Operand& place = decoder.operand(next++).parts.front();
        if (place.bits != 0 && place.kind == Operand::Register) decoder.unsupported("an offset");
        barrier = decoder.source(place, Type::B32);
        if (many) ranks = decoder.source(next++, Type::B16);
    }
    Op& op = decoder.emit(loads ? load : store);
    decoder.address(shared, op, extra);
    op.b = b;
    op.c = barrier;
    op.d = ranks;
    op.d2 = bytes;
    op.mode = static_cast<std::uint8_t>(what + 1);
    if (reduces && !loads) decoder.program().global_atomics = true;
    decoder.extra(op) = extra;
}

void async_store(Decoder& decoder, Modifiers& modifiers, int what) {
    modifiers.take_one_of({"weak", "relaxed"});
    modifiers.take("cluster");
    modifiers.take("shared::cluster");
    if (!modifiers.take("mbarrier::complete_tx::bytes")) decoder.unsupported();
    Extra extra;
    extra.space = Space::Shared;
    extra.flags[kOfCluster] = true;
    extra.kind = kRegisters;
    const std::string vector = modifiers.take_one_of({"v2", "v4"});
    extra.count = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
    extra.type = modifiers.take_type();
    extra.bytes = bytes_of(extra.type);
    if (extra.bytes < 4 || extra.bytes * extra.count > sizeof TensorCopy::values) decoder.unsupported();
    const Operand& value = decoder.operand(1);
    if (value.kind == Operand::Vector) for (const Operand& part : value.parts) extra.slots.push_back(decoder.source(part, extra.type));
    else extra.slots.push_back(decoder.source(value, extra.type));
    if (extra.slots.size() != extra.count) decoder.unsupported("operands of another number than the vector");
    const Operand& place = decoder.operand(2).parts.front();
    if (place.bits != 0 && place.kind == Operand::Register) decoder.unsupported("an offset");
    const std::uint32_t barrier = decoder.source(place, Type::B32);
    Op& op = decoder.emit(send);
    op.copies = true;
    decoder.address(decoder.operand(0), op, extra);
    op.c = barrier;
    op.mode = static_cast<std::uint8_t>(what + 1);
    decoder.extra(op) = extra;
}

}  // namespace gates_cpu
