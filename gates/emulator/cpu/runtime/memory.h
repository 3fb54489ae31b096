// The device's global memory. Device addresses lie in a range that the host can't touch; the bytes lie elsewhere, a fixed
// distance away, and for each byte there is one of shadow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gates_cpu {

// Bits of a byte's shadow. A byte of an input that kernels must leave alone is not writable.
constexpr std::uint8_t kAllocated = 1, kInitialised = 2, kWritable = 4;
constexpr std::uint8_t kReadable = kAllocated | kInitialised, kWhole = kReadable | kWritable;

// Windows of generic addresses. None is a canonical address, so a host that follows one faults.
constexpr std::uint64_t kSharedWindow = 0x0100000000000000ull;
constexpr std::uint64_t kLocalWindow = 0x0200000000000000ull;
constexpr std::uint64_t kParamWindow = 0x0300000000000000ull;
constexpr std::uint64_t kFunctionWindow = 0x0400000000000000ull;
constexpr std::uint64_t kWindowBits = 0xff00000000000000ull;

class DeviceMemory {
  public:
    struct Block {
        std::uint64_t address = 0, bytes = 0;
        bool freed = false, variable = false, host = false, managed = false;
        std::string name;
    };

    static DeviceMemory& get();
    std::uint64_t allocate(std::uint64_t bytes, const std::string& name = {});  // 0: out of memory
    bool release(std::uint64_t address);                                        // false: no live block begins there
    bool holds(std::uint64_t address) const { return address - base_ < size_; }
    std::uint8_t* bytes(std::uint64_t address) const { return data_ + (address - base_); }
    std::uint8_t* shadow(std::uint64_t address) const { return shadow_ + (address - base_); }
    std::uint64_t base() const { return base_; }
    std::uint64_t size() const { return size_; }
    bool allocated(std::uint64_t address, std::uint64_t bytes) const;           // the whole range
    void mark_initialised(std::uint64_t address, std::uint64_t bytes);
    void protect(std::uint64_t address, std::uint64_t bytes);                   // kernels may not write there
    std::uint64_t capacity() const { return capacity_; }
    std::uint64_t room() const;                                                 // what is left of the capacity
    std::uint64_t room_on_host() const;                                         // what the host can still pin
    Block nearest(std::uint64_t address) const;                                 // the block at or before it, or an empty one
    std::vector<Block> live() const;
    void poison(std::uint8_t pattern) { poison_ = pattern; }
    // Memory that both sides may touch at one address: the host's, pinned, or managed. It holds the same pattern at
    // first, and counts as written: what the host wrote nobody knows. 0: out of memory.
    std::uint64_t allocate_for_both(std::uint64_t bytes, bool managed, const std::string& name = {});
    std::vector<Block> of_both() const;                                         // those that are live
    // While work on a stream may still change it: the host's next access is noted, and then let through.
    void keep_host_off(std::uint64_t address, std::uint64_t bytes, bool off);
    std::string touched_early();                                                // the function that did, once; empty: none has
    bool host_may_touch(std::uint64_t address) const;
    bool pinned(std::uint64_t address) const;                                   // a live block of the host begins there

  private:
    DeviceMemory();
    std::uint64_t base_ = 0, size_ = 0, next_ = 0, capacity_ = 0;
    std::uint8_t *data_ = nullptr, *shadow_ = nullptr;
    std::uint8_t poison_ = 0xcd;
    std::uint64_t place(std::uint64_t bytes, std::uint64_t alignment, const Block& block);
    void fill_with_poison(std::uint64_t address, std::uint64_t bytes) const;
    std::uint64_t used(bool host) const;
};

}  // namespace gates_cpu
