#include "access.h"

#include <algorithm>
#include <cstdio>

#include "cluster.h"
#include "copies.h"
#include "races.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace gates_cpu {

Checks checks;

namespace {

// An access that takes part in no race: volatile and ordered ones do among themselves, an atomic update with its like.
bool strong(const Op& op, Use use) { return use == Use::Atomic || (op.extra != nullptr && op.extra->order != Order::Weak); }

// A store of what is there already.
bool idle(const Warp& warp, unsigned lane, Use use) { return use == Use::Write && (warp.unchanged >> lane & 1) != 0; }

const char* verb(Use use) { return use == Use::Read ? "reads" : use == Use::Write ? "writes" : "updates"; }

std::string hex(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

void fault(Warp& warp, const Op& op, unsigned lane, const char* code, const std::string& message) {
    warp.cta->launch->fault(&warp, op.place, lane, code, message);
}

// The first byte of `shadow` that lacks a bit of `wanted`, or `bytes`.
unsigned first_lacking(const std::uint8_t* shadow, unsigned bytes, std::uint8_t wanted) {
    for (unsigned i = 0; i < bytes; ++i) {
        if ((shadow[i] & wanted) != wanted) return i;
    }
    return bytes;
}

bool misaligned(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Use use, const char* where, unsigned alignment) {
    if (address % alignment == 0) return false;
    fault(warp, op, lane, "cpu.misaligned", std::string(verb(use)) + " " + std::to_string(bytes) + " bytes of " + where + " memory at " + hex(address) +
                                                ", which is no multiple of " + std::to_string(alignment));
    return true;
}

std::string described(std::uint64_t address) {
    const DeviceMemory::Block block = DeviceMemory::get().nearest(address);
    if (block.bytes == 0) return "no allocation lies there";
    const std::string name = block.name.empty() ? "an allocation" : block.name;
    if (block.freed) return "it was freed: " + name + " of " + std::to_string(block.bytes) + " bytes";
    const std::uint64_t offset = address - block.address;
    return std::to_string(offset) + " bytes from the start of " + name + " of " + std::to_string(block.bytes) + " bytes";
}

std::uint8_t* global(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Use use, unsigned alignment) {
    DeviceMemory& memory = DeviceMemory::get();
    if (!memory.holds(address) || !memory.holds(address + bytes - 1)) {
        const bool window = (address & kWindowBits) != 0;
        fault(warp, op, lane, address < 65536 ? "cpu.null_address" : window ? "cpu.wrong_space" : "cpu.not_device_memory",
              std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at " + hex(address) +
                  (address < 65536 ? ", an address near null" : window ? ", an address of another state space" : ", which is no device memory: a host pointer, or computed wrongly"));
        return nullptr;
    }
    if (misaligned(warp, op, lane, address, bytes, use, "global", alignment)) return nullptr;
    std::uint8_t* const shadow = memory.shadow(address);
    const std::uint8_t wanted = (use == Use::Write || !checks.uninitialised ? kAllocated : kReadable) | (use == Use::Read ? 0 : kWritable);
    if (const unsigned at = first_lacking(shadow, bytes, wanted); at < bytes) {
        if (first_lacking(shadow, bytes, kAllocated) < bytes) {
            const DeviceMemory::Block block = DeviceMemory::get().nearest(address + at);
            const bool freed = block.freed && address + at - block.address < block.bytes;
            fault(warp, op, lane, freed ? "cpu.use_after_free" : "cpu.out_of_bounds",
                  std::string(verb(use)) + " " + std::to_string(bytes) + " bytes of global memory: " + described(address));
            return nullptr;
        }
        if (use != Use::Read && first_lacking(shadow, bytes, kWritable) < bytes) {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.input_written", std::string(verb(use)) + " an input: " + described(address));
        } else {
            warp.cta->launch->report(&warp, op.place, lane, "cpu.uninitialised_global",
                                     std::string(verb(use)) + " global memory that nothing has written: " + described(address + at));
        }
        std::memset(shadow, kWhole, bytes);  // said once
    }
    if (use != Use::Read) std::memset(shadow, kWhole, bytes);
    if (warp.cta->launch->global_races) {
        warp.cta->races->global(*warp.cta->launch->global_races, warp, op, lane, address, bytes, use != Use::Read, strong(op, use), idle(warp, lane, use));
    }
    return memory.bytes(address);
}

template <class T> bool all_set(const std::uint8_t* shadow, const std::uint64_t (&offsets)[kLanes], std::uint8_t wanted) {
    T common = static_cast<T>(~T(0));
    for (unsigned i = 0; i < kLanes; ++i) {
        T here;
        std::memcpy(&here, shadow + offsets[i], sizeof here);
        common &= here;
    }
    const T pattern = static_cast<T>(0x0101010101010101ull * wanted);
    return (common & pattern) == pattern;
}

// Other lanes' places are one of an executing lane, so all may be set.
template <class T> void set_all(std::uint8_t* shadow, const std::uint64_t (&offsets)[kLanes], unsigned words) {
    const T whole = static_cast<T>(0x0101010101010101ull * kWhole);
    for (unsigned i = 0; i < kLanes; ++i) {
        for (unsigned word = 0; word < words; ++word) std::memcpy(shadow + offsets[i] + word * sizeof whole, &whole, sizeof whole);
    }
}

bool shadows_hold(const std::uint8_t* shadow, std::uint64_t (&offsets)[kLanes], unsigned bytes, std::uint8_t wanted) {
    switch (bytes) {
        case 1: return all_set<std::uint8_t>(shadow, offsets, wanted);
        case 2: return all_set<std::uint16_t>(shadow, offsets, wanted);
        case 4: return all_set<std::uint32_t>(shadow, offsets, wanted);
        case 8: return all_set<std::uint64_t>(shadow, offsets, wanted);
        case 16: return all_set<std::uint64_t>(shadow, offsets, wanted) && all_set<std::uint64_t>(shadow + 8, offsets, wanted);
        default: return false;
    }
}

}  // namespace

bool lane_places(Warp& warp, const Op& op, unsigned bytes, Use use, std::uint8_t* (&places)[kLanes]) {
    std::uint64_t at[kLanes];
    const std::uint64_t by = static_cast<std::uint64_t>(op.imm);
    if (op.extra->wide_address) {
        const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
        for (unsigned i = 0; i < kLanes; ++i) at[i] = a[i] + by;
    } else {
        const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
        for (unsigned i = 0; i < kLanes; ++i) at[i] = static_cast<std::uint32_t>(a[i] + static_cast<std::uint32_t>(by));
    }
    if (warp.exec != kAllLanes) {
        const std::uint64_t one = at[__builtin_ctz(warp.exec)];
        for (unsigned i = 0; i < kLanes; ++i) at[i] = warp.exec >> i & 1 ? at[i] : one;
    }
    Space space = op.extra->space;
    std::uint64_t start = 0;
    if (space == Space::Generic) {
        const std::uint64_t window = at[0] & kWindowBits;
        if (window != 0 && window != kSharedWindow) return false;
        space = window != 0 ? Space::Shared : Space::Global;
        start = window;
    }
    DeviceMemory& memory = DeviceMemory::get();
    Cta& cta = *warp.cta;
    std::uint8_t *data, *shadow;
    std::uint64_t room;
    std::uint8_t wanted = use == Use::Write ? 0 : kInitialised;
    if (space == Space::Shared) {
        if (cta.shared_limit < kSharedStart + bytes) return false;
        start += kSharedStart;
        room = cta.shared_limit - kSharedStart - bytes;
        data = cta.shared.data() + kSharedStart;
        shadow = cta.shared_shadow.data() + kSharedStart;
    } else if (space == Space::Global || space == Space::Const) {
        start = memory.base();
        room = memory.size() - bytes;
        data = memory.bytes(start);
        shadow = memory.shadow(start);
        wanted |= use == Use::Read ? kAllocated : kAllocated | kWritable;
    } else {
        return false;
    }
    std::uint64_t outside = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
        outside |= at[i] & (bytes - 1);
        at[i] -= start;
        outside |= at[i] > room;
    }
    if (outside != 0 || (wanted != 0 && !shadows_hold(shadow, at, bytes, wanted))) return false;
    for (unsigned i = 0; i < kLanes; ++i) places[i] = data + at[i];
    if (use != Use::Read) {
        switch (bytes) {
            case 1: set_all<std::uint8_t>(shadow, at, 1); break;
            case 2: set_all<std::uint16_t>(shadow, at, 1); break;
            case 4: set_all<std::uint32_t>(shadow, at, 1); break;
            default: set_all<std::uint64_t>(shadow, at, bytes / 8); break;
        }
    }
    if (cta.races) {
        const bool write = use != Use::Read, together = strong(op, use);
        for (unsigned i = 0; i < kLanes; ++i) {
            if (!(warp.exec >> i & 1)) continue;
            const bool same = idle(warp, i, use);
            if (space == Space::Shared) cta.races->shared(warp, op, i, cta.races->place(cta, static_cast<std::uint32_t>(at[i]) + kSharedStart), bytes, write, together, same);
            else if (cta.launch->global_races && space == Space::Global) cta.races->global(*cta.launch->global_races, warp, op, i, at[i] + start, bytes, write, together, same);
        }
    }
    return true;
}

#if defined(__AVX2__)
bool load_words(Warp& warp, const Op& op, unsigned words) {
    const Extra& access = *op.extra;
    Cta& cta = *warp.cta;
    if (warp.exec != kAllLanes || cta.races) return false;
    alignas(64) std::uint32_t at[kLanes];  // from `start`
    const std::uint32_t bytes = 4 * words;
    std::uint32_t outside = 0;
    const std::uint8_t *data, *shadow;
    std::uint32_t wanted = kInitialised * 0x01010101u;
    if (access.space == Space::Shared && !access.wide_address) {
        if (cta.shared_limit < kSharedStart + bytes) return false;
        const std::uint32_t* const a = warp.lanes<std::uint32_t>(op.a);
        const std::uint32_t by = static_cast<std::uint32_t>(op.imm) - kSharedStart, room = cta.shared_limit - kSharedStart - bytes;
        for (unsigned i = 0; i < kLanes; ++i) {
            at[i] = a[i] + by;
            outside |= (at[i] & (bytes - 1)) | static_cast<std::uint32_t>(at[i] > room);  // kSharedStart is a multiple of all sizes
        }
        data = cta.shared.data() + kSharedStart;
        shadow = cta.shared_shadow.data() + kSharedStart;
    } else if (access.space == Space::Global && access.wide_address) {
        const DeviceMemory& memory = DeviceMemory::get();
        const std::uint64_t* const a = warp.lanes<std::uint64_t>(op.a);
        std::int32_t least = 0, most = 0;  // from the first lane's address
        std::uint64_t mixed = 0, far = 0;
        for (unsigned i = 0; i < kLanes; ++i) {
            const std::uint64_t apart = a[i] - a[0];
            far |= (apart + (1u << 30)) >> 31;
            mixed |= a[i] + static_cast<std::uint64_t>(op.imm);
            at[i] = static_cast<std::uint32_t>(apart);
        }
        for (unsigned i = 0; i < kLanes; ++i) {
            least = std::min(least, static_cast<std::int32_t>(at[i]));
            most = std::max(most, static_cast<std::int32_t>(at[i]));
        }
        const std::uint64_t first = a[0] + static_cast<std::uint64_t>(op.imm) + static_cast<std::uint64_t>(static_cast<std::int64_t>(least));
        if (far != 0 || (mixed & (bytes - 1)) != 0 || !memory.holds(first) || !memory.holds(first + static_cast<std::uint64_t>(most - least) + bytes)) return false;
        for (unsigned i = 0; i < kLanes; ++i) at[i] -= static_cast<std::uint32_t>(least);
        data = memory.bytes(first);
        shadow = memory.shadow(first);
        wanted = kReadable * 0x01010101u;
    } else {
        return false;
    }
    if (outside != 0) return false;
    if (words == 4) {
        __m128i common = _mm_set1_epi32(-1);
        for (unsigned i = 0; i < kLanes; ++i) common = _mm_and_si128(common, _mm_loadu_si128(reinterpret_cast<const __m128i*>(shadow + at[i])));
        if (_mm_testc_si128(common, _mm_set1_epi32(static_cast<int>(wanted))) == 0) return false;
        float* const d[4] = {warp.lanes<float>(access.slots[0]), warp.lanes<float>(access.slots[1]), warp.lanes<float>(access.slots[2]), warp.lanes<float>(access.slots[3])};
        for (unsigned i = 0; i < kLanes; i += 4) {
            __m128 rows[4];
            for (unsigned j = 0; j < 4; ++j) rows[j] = _mm_loadu_ps(reinterpret_cast<const float*>(data + at[i + j]));
            _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
            for (unsigned j = 0; j < 4; ++j) _mm_store_ps(d[j] + i, rows[j]);
        }
        return true;
    }
    __m256i common = _mm256_set1_epi32(-1);
    const auto gathered = [&](const std::uint8_t* from, unsigned i) {
        return _mm256_i32gather_epi32(reinterpret_cast<const int*>(from), _mm256_load_si256(reinterpret_cast<const __m256i*>(at + i)), 1);
    };
    for (unsigned word = 0; word < words; ++word) {
        for (unsigned i = 0; i < kLanes; i += 8) common = _mm256_and_si256(common, gathered(shadow + 4 * word, i));
    }
    if (_mm256_testc_si256(common, _mm256_set1_epi32(static_cast<int>(wanted))) == 0) return false;
    for (unsigned word = 0; word < words; ++word) {
        std::uint32_t* const d = warp.lanes<std::uint32_t>(access.slots[word]);
        for (unsigned i = 0; i < kLanes; i += 8) _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i), gathered(data + 4 * word, i));
    }
    return true;
}
#else
bool load_words(Warp&, const Op&, unsigned) { return false; }
#endif

namespace {

// Where the program asked for the copy that is on its way to this byte of shared memory; -1 if none is.
std::int32_t copy_on_its_way(const Cta& cta, std::uint32_t address) {
    const auto covers = [&](const auto& copy) { return copy.to <= address && address < copy.to + copy.bytes; };
    for (const auto& copies : cta.copies) {
        for (const Copy& copy : copies->pending) {
            if (covers(copy)) return copy.place;
        }
    }
    for (const TensorCopy& copy : cta.tensors) {
        if (covers(copy)) return copy.op->place;
    }
    return -1;
}

void report_unwritten(Warp& warp, const Op& op, unsigned lane, const Cta& cta, std::uint32_t address, Use use) {
    const std::string byte = "byte " + std::to_string(address - kSharedStart) + " of shared memory";
    const std::int32_t copy = copy_on_its_way(cta, address);
    if (copy >= 0) {
        warp.cta->launch->report(&warp, copy, lane, "cpu.copy_not_awaited", "asynchronous copy never waited for: a thread reads " + byte + ", to which it is on its way", op.place);
    } else {
        warp.cta->launch->report(&warp, op.place, lane, "cpu.uninitialised_shared", std::string(verb(use)) + " " + byte + ", which nothing has written");
    }
}

// All but races.
std::uint8_t* shared_place(Warp& warp, const Op& op, unsigned lane, Cta& cta, std::uint32_t address, unsigned bytes, Use use, unsigned alignment) {
    if (address < warp.program->shared_from || address + bytes > cta.shared_limit || address + bytes < address) {
        fault(warp, op, lane, "cpu.shared_out_of_bounds",
              std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at byte " +
                  std::to_string(static_cast<std::int64_t>(static_cast<std::int32_t>(address)) - kSharedStart) + " of shared memory; the CTA has " +
                  std::to_string(cta.shared_limit - kSharedStart) + (&cta != warp.cta ? " (of block rank " + std::to_string(cta.rank) + ")" : ""));
        return nullptr;
    }
    if (misaligned(warp, op, lane, address, bytes, use, "shared", alignment)) return nullptr;
    std::uint8_t* const shadow = cta.shared_shadow.data() + address;
    if (use != Use::Write && checks.uninitialised) {
        if (const unsigned at = first_lacking(shadow, bytes, kInitialised); at < bytes) {
            report_unwritten(warp, op, lane, cta, address + at, use);
            std::memset(shadow, kInitialised, bytes);
        }
    }
    if (use != Use::Read) std::memset(shadow, kInitialised, bytes);
    return cta.shared.data() + address;
}

}  // namespace

Cta* shared_cta(Warp& warp, const Op& op, unsigned lane, std::uint32_t& address) {
    const SharedPlace found = shared_owner(*warp.cta, address);
    const bool of_cta = op.extra->space == Space::Shared && !op.extra->flags[kOfCluster], alone = warp.cta->cluster->ctas.size() == 1;
    if (found.owner == nullptr ? of_cta || alone : of_cta && alone && found.offset != address) return warp.cta;  // it lies outside, as a whole
    if (found.owner == nullptr) {
        fault(warp, op, lane, "cpu.cluster_rank", "an address in the shared memory of block rank " + std::to_string((address >> kRankShift) - 1) + "; the cluster has " +
                                                      std::to_string(warp.cta->cluster->ctas.size()) + " blocks");
        return nullptr;
    }
    address = found.offset;
    if (found.owner == warp.cta) return found.owner;
    if (of_cta) {
        fault(warp, op, lane, "cpu.wrong_space", "an access of .shared::cta by an address in the shared memory of block rank " + std::to_string(found.owner->rank) + "; .shared::cluster reaches it");
        return nullptr;
    }
    if (found.owner->alive == 0) Races::report_ended(warp, op, lane, *found.owner);
    else if (warp.cta->races) warp.cta->races->reaches(warp, op, lane, *found.owner);
    return found.owner;
}

std::uint8_t* shared_bytes(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, Use use, unsigned alignment) {
    Cta* const owner = shared_cta(warp, op, lane, address);
    std::uint8_t* const place = owner == nullptr ? nullptr : shared_place(warp, op, lane, *owner, address, bytes, use, alignment == 0 ? bytes : alignment);
    Races* const races = warp.cta->races.get();
    const bool watched = address >= kSharedStart || strong(op, use);  // cooperative groups order their own memory by votes, too
    if (place != nullptr && races != nullptr && watched) races->shared(warp, op, lane, races->place(*owner, address), bytes, use != Use::Read, strong(op, use), idle(warp, lane, use));
    return place;
}

std::string as_declared(const Warp& warp, std::uint32_t address, unsigned needed) {
    const Program& program = *warp.program;
    if (address < program.dynamic_shared_at || program.dynamic_alignment >= needed) return "";
    return "; the kernel declares its dynamic shared memory with an alignment of " + std::to_string(program.dynamic_alignment) +
           " bytes, so it may begin at any multiple of them: declare __align__(" + std::to_string(needed) + "), or align the address in the kernel";
}

const std::uint8_t* readable_chunk(Warp& warp, const Op& op, std::uint32_t address) { return shared_place(warp, op, 0, *warp.cta, address, 16, Use::Read, 16); }

const std::uint8_t* written_bytes(const Warp& warp, Space space, std::uint64_t address, unsigned bytes) {
    const Cta& cta = *warp.cta;
    if (space == Space::Generic) {
        if ((address & kWindowBits) == kSharedWindow) {
            space = Space::Shared;
            address -= kSharedWindow;
        } else {
            space = Space::Global;
        }
    }
    const DeviceMemory& memory = DeviceMemory::get();
    if (space == Space::Shared) {
        if (address < warp.program->shared_from || address + bytes > cta.shared_limit) return nullptr;
        return first_lacking(cta.shared_shadow.data() + address, bytes, kInitialised) < bytes ? nullptr : cta.shared.data() + address;
    }
    if (space != Space::Global || !memory.holds(address) || !memory.holds(address + bytes)) return nullptr;
    return first_lacking(memory.shadow(address), bytes, kReadable) < bytes ? nullptr : memory.bytes(address);
}

std::uint8_t* resolve(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Space space, Use use, unsigned alignment) {
    if (alignment == 0) alignment = bytes;
    if (space == Space::Generic) {
        const std::uint64_t window = address & kWindowBits;
        if (window == kSharedWindow) { space = Space::Shared; address -= kSharedWindow; }
        else if (window == kLocalWindow) { space = Space::Local; address -= kLocalWindow; }
        else if (window == kParamWindow) { space = Space::Param; address -= kParamWindow; }
        else space = Space::Global;
    }
    switch (space) {
        case Space::Shared: return shared_bytes(warp, op, lane, static_cast<std::uint32_t>(address), bytes, use, alignment);
        case Space::Local: {
            const std::uint64_t size = warp.program->local_bytes;
            if (address + bytes > size || address + bytes < address) {
                fault(warp, op, lane, "cpu.local_out_of_bounds", std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at byte " +
                                                                     std::to_string(static_cast<std::int64_t>(address)) + " of " + std::to_string(size) + " bytes of local memory");
                return nullptr;
            }
            if (misaligned(warp, op, lane, address, bytes, use, "local", alignment)) return nullptr;
            std::uint8_t* const data = warp.local + lane * size + address;
            std::uint8_t* const shadow = data + size * kLanes;
            if (use == Use::Read && checks.uninitialised && first_lacking(shadow, bytes, kInitialised) < bytes) {
                warp.cta->launch->report(&warp, op.place, lane, "cpu.uninitialised_local", "reads a local variable that nothing has written");
                std::memset(shadow, kInitialised, bytes);
            }
            if (use != Use::Read) std::memset(shadow, kInitialised, bytes);
            return data;
        }
        case Space::Param: {
            std::vector<std::uint8_t>& parameters = warp.cta->launch->parameters;
            if (use != Use::Read || address + bytes > parameters.size() || address + bytes < address) {
                fault(warp, op, lane, "cpu.parameter_out_of_bounds", std::string(verb(use)) + " outside of the kernel's parameters");
                return nullptr;
            }
            return parameters.data() + address;
        }
        default: return global(warp, op, lane, address, bytes, use, alignment);
    }
}

}  // namespace gates_cpu
