#include "memory.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

// Defined by a library whose host code has the device's memory for its own, as torch's tensors are on the CPU: it may touch what
// kernels touch, and what it wrote nobody knows.
extern "C" __attribute__((weak, visibility("default"))) const int gates_cpu_host_shares_memory;

namespace gates_cpu {
namespace {

constexpr std::uint64_t kReserved = std::uint64_t(64) << 30;
constexpr std::uint64_t kAlignment = 256, kGuard = 512, kPage = 4096;
std::mutex mutex;
std::map<std::uint64_t, DeviceMemory::Block> blocks;

// Host code that touches device memory ends the process, as it does beside a real device; first it is told what it did.
struct sigaction before_ours;
std::uint64_t device_range[2];

// Memory of both sides that the host is kept off, for a signal's handler to look at: 0 where there is none. Its pages hold more.
constexpr unsigned kMostKeptOff = 64;
struct Range {
    volatile std::uint64_t from, to;
    std::uint64_t first_page() const { return from / kPage * kPage; }
    std::uint64_t end_of_pages() const { return (to + kPage - 1) / kPage * kPage; }
};
Range kept_off[kMostKeptOff];
char early_function[256];

void open_pages(std::uint64_t from, std::uint64_t to, int protection) {
    mprotect(reinterpret_cast<void*>(from), to - from, protection);
}

bool let_through(std::uint64_t at, const char* function) {
    bool known = false;
    for (Range& range : kept_off) {
        if (at < range.first_page() || at >= range.end_of_pages()) continue;
        if (at >= range.from && at < range.to && early_function[0] == 0) std::strncpy(early_function, function, sizeof early_function - 1);
        open_pages(range.first_page(), range.end_of_pages(), PROT_READ | PROT_WRITE);
        range.from = range.to = 0;
        known = true;
    }
    return known;
}

void on_fault(int signal, siginfo_t* info, void* context) {
    const std::uint64_t at = reinterpret_cast<std::uint64_t>(info->si_addr);
    if (at >= device_range[0] && at < device_range[1]) {
        char text[512];
        Dl_info function = {};
#if defined(__x86_64__)
        dladdr(reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]), &function);
#else
        (void)context;
#endif
        if (let_through(at, function.dli_sname != nullptr ? function.dli_sname : "a static function")) return;
        const int length = std::snprintf(text, sizeof text, "error: host code%s%s touches device memory at 0x%llx: copy it with cudaMemcpy, or pass the pointer to a kernel\n",
                                         function.dli_sname != nullptr ? " in " : "", function.dli_sname != nullptr ? function.dli_sname : "", static_cast<unsigned long long>(at));
        if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) {}
    }
    sigaction(signal, &before_ours, nullptr);  // the access is tried again, and ends in what was there before
}

void watch_host(std::uint64_t base, std::uint64_t bytes) {
    device_range[0] = base;
    device_range[1] = base + bytes;
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before_ours);
}

bool is_shared() { return &gates_cpu_host_shares_memory != nullptr; }

// Shared pages do not count as this process's data, which RLIMIT_DATA limits in the processes that it forks.
void* reserve(std::uint64_t bytes, int protection) {
    const int kind = protection == PROT_NONE ? MAP_PRIVATE : MAP_SHARED;
    void* made = mmap(nullptr, bytes, protection, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made == MAP_FAILED ? nullptr : made;
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
    static DeviceMemory* memory = new DeviceMemory;  // outlives every library's destructors
    return *memory;
}

DeviceMemory::DeviceMemory() {
    for (size_ = kReserved; size_ >= (std::uint64_t(1) << 28); size_ /= 2) {  // less under a limit of address space
        data_ = static_cast<std::uint8_t*>(reserve(size_, PROT_READ | PROT_WRITE));
        void* range = is_shared() ? data_ : reserve(size_, PROT_NONE);
        shadow_ = static_cast<std::uint8_t*>(reserve(size_, PROT_READ | PROT_WRITE));
        if (range != nullptr && data_ != nullptr && shadow_ != nullptr) {
            base_ = reinterpret_cast<std::uint64_t>(range);
            if (!is_shared()) watch_host(base_, size_);
            // With its shadow at most half of this machine's memory, so that a kernel that takes all there is gets an error.
            capacity_ = std::min(size_ / 2, std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE)) / 4);
            return;
        }
        if (range != nullptr && range != data_) munmap(range, size_);
        if (data_ != nullptr) munmap(data_, size_);
        if (shadow_ != nullptr) munmap(shadow_, size_);
    }
    size_ = 0;
}

// Addresses are not used again while there are others, so a use after free is found. 0: out of memory.
std::uint64_t DeviceMemory::place(std::uint64_t bytes, std::uint64_t alignment, const Block& block) {
    if (bytes == 0 || size_ == 0) return 0;
    const std::uint64_t start = (next_ + kGuard + alignment - 1) / alignment * alignment;
    if (bytes > size_ || start + bytes + kGuard > size_) return 0;
    next_ = start + bytes;
    Block& made = blocks[base_ + start] = block;
    made.address = base_ + start;
    made.bytes = bytes;
    return made.address;
}

// Larger blocks hold zeros.
void DeviceMemory::fill_with_poison(std::uint64_t address, std::uint64_t count) const {
    if (count <= (std::uint64_t(256) << 20)) std::memset(bytes(address), poison_, count);
}

std::uint64_t DeviceMemory::allocate(std::uint64_t count, const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex);
    Block block;
    block.variable = !name.empty();
    block.name = name;
    const std::uint64_t address = place(count, kAlignment, block);
    if (address == 0) return 0;
    std::memset(shadow(address), is_shared() ? kWhole : kAllocated | kWritable, count);
    fill_with_poison(address, count);
    return address;
}

// The host's own view of the bytes, in whole pages.
std::uint64_t DeviceMemory::allocate_for_both(std::uint64_t count, bool managed, const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex);
    const std::uint64_t whole = (count + kPage - 1) / kPage * kPage;
    Block block;
    block.host = !managed;
    block.managed = managed;
    block.variable = !name.empty();
    block.name = name;
    const std::uint64_t address = whole < count ? 0 : place(whole, kPage, block);
    if (address == 0) return 0;
    void* const view = reinterpret_cast<void*>(address);
    if (!is_shared() && mremap(bytes(address), 0, whole, MREMAP_MAYMOVE | MREMAP_FIXED, view) != view) {
        blocks.erase(address);
        return 0;
    }
    blocks[address].bytes = count;
    next_ += kPage;  // nothing else lies in the last page
    fill_with_poison(address, whole);
    std::memset(shadow(address), kWhole, count);
    return address;
}

bool DeviceMemory::release(std::uint64_t address) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = blocks.find(address);
    if (found == blocks.end() || found->second.freed) return false;
    found->second.freed = true;
    std::memset(shadow(address), 0, found->second.bytes);
    if ((found->second.host || found->second.managed) && !is_shared()) {
        mmap(reinterpret_cast<void*>(address), found->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    const std::uint64_t first = (address + kPage - 1) / kPage * kPage, last = (address + found->second.bytes) / kPage * kPage;
    if (last > first) {  // whole pages go back to the system
        madvise(bytes(first), last - first, MADV_REMOVE);
        madvise(shadow(first), last - first, MADV_REMOVE);
    }
    return true;
}

bool DeviceMemory::allocated(std::uint64_t address, std::uint64_t count) const {
    if (!holds(address) || count > size_ || !holds(address + count - (count != 0))) return false;
    const std::uint8_t* at = shadow(address);
    for (std::uint64_t i = 0; i < count; ++i) {
        if ((at[i] & kAllocated) == 0) return false;
    }
    return true;
}

void DeviceMemory::mark_initialised(std::uint64_t address, std::uint64_t count) { std::memset(shadow(address), kWhole, count); }

void DeviceMemory::protect(std::uint64_t address, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) shadow(address)[i] &= static_cast<std::uint8_t>(~kWritable);
}

std::uint64_t DeviceMemory::used(bool host) const {
    const std::lock_guard<std::mutex> lock(mutex);
    std::uint64_t sum = 0;
    for (const auto& [address, block] : blocks) sum += block.freed || block.host != host ? 0 : block.bytes;
    return sum;
}

std::uint64_t DeviceMemory::room() const { return capacity_ - std::min(capacity_, used(false)); }

// With its shadow at most half of what the device's memory may take, and of what this process may.
std::uint64_t DeviceMemory::room_on_host() const {
    rlimit allowed = {};
    const bool known = getrlimit(RLIMIT_DATA, &allowed) == 0;
    const std::uint64_t most = std::min(capacity_, known ? std::uint64_t(allowed.rlim_cur) : capacity_) / 2;
    return most - std::min(most, used(true));
}

DeviceMemory::Block DeviceMemory::nearest(std::uint64_t address) const {
    const std::lock_guard<std::mutex> lock(mutex);
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return {};
    return std::prev(after)->second;
}

std::vector<DeviceMemory::Block> DeviceMemory::live() const {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<Block> found;
    for (const auto& [address, block] : blocks) {
        if (!block.freed && !block.variable && !block.host) found.push_back(block);
    }
    return found;
}

std::vector<DeviceMemory::Block> DeviceMemory::of_both() const {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<Block> found;
    for (const auto& [address, block] : blocks) {
        if (!block.freed && (block.host || block.managed)) found.push_back(block);
    }
    return found;
}

void DeviceMemory::keep_host_off(std::uint64_t address, std::uint64_t count, bool off) {
    Range* place = nullptr;
    for (Range& range : kept_off) {
        if (range.from == address) {
            place = &range;
            break;
        }
        if (range.from == 0 && place == nullptr) place = &range;
    }
    if (is_shared() || place == nullptr) return;
    const Range changed{address, address + count};
    place->from = off ? changed.from : 0;
    place->to = off ? changed.to : 0;
    if (host_may_touch(address)) open_pages(changed.first_page(), changed.end_of_pages(), off ? PROT_NONE : PROT_READ | PROT_WRITE);
}

std::string DeviceMemory::touched_early() {
    const std::string function = early_function;
    early_function[0] = 0;
    return function;
}

bool DeviceMemory::host_may_touch(std::uint64_t address) const {
    if (!holds(address)) return true;
    const Block block = nearest(address);
    return (block.host || block.managed) && !block.freed && address - block.address < block.bytes;
}

bool DeviceMemory::pinned(std::uint64_t address) const {
    const Block block = nearest(address);
    return block.host && !block.freed && block.address == address;
}

}  // namespace gates_cpu
