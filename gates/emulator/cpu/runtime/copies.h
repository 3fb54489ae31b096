// Asynchronous copies of a warp that have been asked for and have not landed. They land as late as the program allows.
#pragma once

#include <cstdint>
#include <vector>

namespace gates_cpu {

struct Op;

struct Copy {  // cp.async
    std::uint32_t lane, to;          // shared address
    std::uint64_t from;              // of host memory; 0: zeros
    std::uint32_t bytes, filled;     // filled: of `bytes`, the rest are zeros
    std::uint32_t group;             // its number in the lane
    std::int32_t place;
};

struct TensorCopy {  // cp.async.bulk
    const Op* op;
    std::uint32_t lane, to, barrier, bytes;
    std::uint64_t source;
    std::int32_t at[5];
};

struct CopyGroup {
    std::vector<Copy> pending;
    std::vector<TensorCopy> tensors;
    std::uint32_t group[32] = {};    // the lane's open group
};

}  // namespace gates_cpu
