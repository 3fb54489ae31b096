// Asynchronous copies of a warp that have been asked for and have not landed. They land as late as the program allows.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx.h"

namespace gates_cpu {

struct Op;
struct Warp;

struct Copy {  // cp.async
    std::uint32_t lane, to;          // shared address
    std::uint64_t from;              // of host memory; 0: zeros
    std::uint32_t bytes, filled;     // filled: of `bytes`, the rest are zeros
    std::uint32_t group;             // its number in the lane
    std::uint32_t number;            // in the warp
    std::int32_t place;
};

struct Arrival {  // cp.async.mbarrier.arrive: once the lane's copies of lower numbers have landed
    std::uint32_t lane, barrier, number;
};

struct TensorCopy {  // what an mbarrier counts: cp.async.bulk, cp.reduce.async.bulk, st.async, red.async
    const Op* op;
    Warp* warp;                      // that asked for it, perhaps of another CTA of the cluster
    std::uint32_t lane, to, barrier, bytes;
    std::uint64_t source;
    std::int32_t at[5];
    std::uint8_t values[16];         // of registers
};

struct BulkStore {  // cp.async.bulk and cp.reduce.async.bulk from shared to global memory
    struct Piece {
        std::uint64_t to;
        std::uint32_t from, bytes;   // from: before the swizzle
    };
    const Op* op;
    std::uint32_t lane, group;
    unsigned swizzle;
    Type type;                       // of a reduction
    bool read;                       // its source has been read; only the writes are left
    std::vector<Piece> pieces;
    std::vector<std::uint8_t> bytes; // of the source, as they were when it was asked for, then as they were read
};

struct CopyGroup {
    std::vector<Copy> pending;
    std::vector<Arrival> arrivals;
    std::vector<BulkStore> stores;
    std::uint32_t started = 0;                            // copies so far
    std::uint32_t group[32] = {}, bulk_group[32] = {};    // the lane's open groups
};

}  // namespace gates_cpu
