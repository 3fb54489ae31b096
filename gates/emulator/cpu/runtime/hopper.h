// What the asynchronous engines of sm_90 share: barriers in shared memory, tensor maps, copies in bulk.
#pragma once

#include "ops.h"

namespace gates_cpu {

// cuTensorMapEncodeTiled's 128 bytes, as this device makes and reads them.
struct TensorMap {
    std::uint32_t magic;
    std::uint8_t rank, swizzle, fill_nan;                    // swizzle: 0 none, 1 of 32, 2 of 64, 3 of 128 bytes
    Type type;
    std::uint64_t address;
    std::uint64_t strides[4];                                // bytes, from dimension 1 on
    std::uint32_t extents[5];
    std::uint16_t box[5], steps[5];
    std::uint8_t rest[40];
};
static_assert(sizeof(TensorMap) == 128);
constexpr std::uint32_t kTensorMapMagic = 0x7e5a0a02;

// cp.async.bulk and cp.reduce.async.bulk, after these words are taken
void bulk_copy(Decoder& decoder, Modifiers& modifiers, bool reduces);
constexpr int kCopies = -1;                                  // else the number of an Atomic
int take_update(Modifiers& modifiers);                       // of a reduction's or an atomic's words; kCopies if there is none
void async_store(Decoder& decoder, Modifiers& modifiers, int what);  // st.async and red.async, after the words before the mbarrier's

// What `reads` says may not see the store of operation `writer`, since no fence.proxy.async came after it.
void report_no_proxy_fence(Warp& warp, const Op& op, unsigned lane, const std::string& reads, std::int32_t writer);
// The same of an engine that reads these bytes of the CTA's shared memory, if the store to one of them lacks the fence: true.
bool read_without_fence(Warp& warp, const Op& op, unsigned lane, const char* reader, std::uint32_t address, unsigned bytes);

// Brings home the copies that the barrier at `address` counts, by bytes or by arrivals; false if there are none.
bool land_copies(Cta& cta, std::uint32_t address);
bool land_arrivals(Cta& cta, std::uint32_t address);
// One of them arrives; its phase may end.
void complete_arrival(Cta& cta, std::uint32_t address);
void arrival_of_copies(Decoder& decoder, Modifiers& modifiers);  // cp.async.mbarrier.arrive, after the words before `arrive`
// Threads of the warp have ended: their stores in bulk end, too, and those that nobody waited for are a finding.
void end_stores(Warp& warp);
// Takes `bytes` from what the barrier expects; its phase may end.
void complete_bytes(Cta& cta, std::uint32_t address, std::uint32_t bytes);

// Whether an initialised mbarrier lies there, in the CTA's shared memory.
bool is_mbarrier(const Cta& cta, std::uint32_t address);

inline std::uint32_t swizzled(std::uint32_t address, unsigned bytes) {
    return bytes == 16 ? address : address ^ ((address >> 7 & (bytes / 16 - 1)) << 4);
}

}  // namespace gates_cpu
