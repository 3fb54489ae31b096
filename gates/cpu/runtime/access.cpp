#include "access.h"

#include <cstdio>

#include "races.h"

namespace gates_cpu {

Checks checks;

namespace {

const char* verb(Use use) { return use == Use::Read ? "reads" : use == Use::Write ? "writes" : "updates"; }

std::string hex(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

void fault(Warp& warp, const Op& op, unsigned lane, const char* code, const std::string& message) {
    warp.cta->launch->report(&warp, op.place, lane, code, message);
    warp.cta->launch->faulted = true;
}

// The first byte of `shadow` that lacks a bit of `wanted`, or `bytes`.
unsigned first_lacking(const std::uint8_t* shadow, unsigned bytes, std::uint8_t wanted) {
    for (unsigned i = 0; i < bytes; ++i) {
        if ((shadow[i] & wanted) != wanted) return i;
    }
    return bytes;
}

bool misaligned(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Use use, const char* where) {
    if (address % bytes == 0) return false;
    fault(warp, op, lane, "cpu.misaligned", std::string(verb(use)) + " " + std::to_string(bytes) + " bytes of " + where + " memory at " + hex(address) +
                                                ", which is no multiple of " + std::to_string(bytes));
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

std::uint8_t* global(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Use use) {
    DeviceMemory& memory = DeviceMemory::get();
    if (!memory.holds(address) || !memory.holds(address + bytes - 1)) {
        const bool window = (address & kWindowBits) != 0;
        fault(warp, op, lane, address < 65536 ? "cpu.null_address" : window ? "cpu.wrong_space" : "cpu.not_device_memory",
              std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at " + hex(address) +
                  (address < 65536 ? ", an address near null" : window ? ", an address of another state space" : ", which is no device memory: a host pointer, or computed wrongly"));
        return nullptr;
    }
    if (misaligned(warp, op, lane, address, bytes, use, "global")) return nullptr;
    std::uint8_t* const shadow = memory.shadow(address);
    const std::uint8_t wanted = use == Use::Write || !checks.uninitialised ? kAllocated : kReadable;
    if (const unsigned at = first_lacking(shadow, bytes, wanted); at < bytes) {
        if (first_lacking(shadow, bytes, kAllocated) < bytes) {
            const bool freed = (shadow[at] & kFreed) != 0;
            fault(warp, op, lane, freed ? "cpu.use_after_free" : "cpu.out_of_bounds",
                  std::string(verb(use)) + " " + std::to_string(bytes) + " bytes of global memory: " + described(address));
            return nullptr;
        }
        warp.cta->launch->report(&warp, op.place, lane, "cpu.uninitialised_global",
                                 std::string(verb(use)) + " global memory that nothing has written: " + described(address + at));
        std::memset(shadow, kReadable, bytes);  // said once
    }
    if (use != Use::Read) std::memset(shadow, kReadable, bytes);
    if (warp.cta->launch->global_races) touch_global(warp, op, lane, address, bytes, use);
    return memory.bytes(address);
}

}  // namespace

std::uint8_t* shared_bytes(Warp& warp, const Op& op, unsigned lane, std::uint32_t address, unsigned bytes, Use use) {
    Cta& cta = *warp.cta;
    if (address < kSharedStart || address + bytes > cta.shared_limit || address + bytes < address) {
        fault(warp, op, lane, "cpu.shared_out_of_bounds",
              std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at byte " +
                  std::to_string(static_cast<std::int64_t>(static_cast<std::int32_t>(address)) - kSharedStart) + " of shared memory; the CTA has " +
                  std::to_string(cta.shared_limit - kSharedStart));
        return nullptr;
    }
    if (misaligned(warp, op, lane, address, bytes, use, "shared")) return nullptr;
    std::uint8_t* const shadow = cta.shared_shadow.data() + address;
    if (use != Use::Write && checks.uninitialised && first_lacking(shadow, bytes, kInitialised) < bytes) {
        cta.launch->report(&warp, op.place, lane, "cpu.uninitialised_shared",
                           std::string(verb(use)) + " byte " + std::to_string(address - kSharedStart) + " of shared memory, which nothing has written");
        std::memset(shadow, kInitialised, bytes);
    }
    if (use != Use::Read) std::memset(shadow, kInitialised, bytes);
    if (cta.races) cta.races->access(warp, op, lane, address, bytes, use != Use::Read, use == Use::Atomic);
    return cta.shared.data() + address;
}

std::uint8_t* resolve(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, Space space, Use use) {
    if (space == Space::Generic) {
        const std::uint64_t window = address & kWindowBits;
        if (window == kSharedWindow) { space = Space::Shared; address -= kSharedWindow; }
        else if (window == kLocalWindow) { space = Space::Local; address -= kLocalWindow; }
        else if (window == kParamWindow) { space = Space::Param; address -= kParamWindow; }
        else space = Space::Global;
    }
    switch (space) {
        case Space::Shared: return shared_bytes(warp, op, lane, static_cast<std::uint32_t>(address), bytes, use);
        case Space::Local: {
            const std::uint64_t size = warp.program->local_bytes;
            if (address + bytes > size || address + bytes < address) {
                fault(warp, op, lane, "cpu.local_out_of_bounds", std::string(verb(use)) + " " + std::to_string(bytes) + " bytes at byte " +
                                                                     std::to_string(static_cast<std::int64_t>(address)) + " of " + std::to_string(size) + " bytes of local memory");
                return nullptr;
            }
            if (misaligned(warp, op, lane, address, bytes, use, "local")) return nullptr;
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
        default: return global(warp, op, lane, address, bytes, use);
    }
}

void touch_global(Warp&, const Op&, unsigned, std::uint64_t, unsigned, Use) {}

}  // namespace gates_cpu
