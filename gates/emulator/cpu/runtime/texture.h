// Texture objects: elements of memory by their coordinates.
#pragma once

#include <cstdint>

namespace gates_cpu {

struct Channels {                 // cudaChannelFormatDesc: bits of each channel, and whether they are signed, unsigned or floats
    int bits[4], kind;
    unsigned count() const { return bits[3] != 0 ? 4 : bits[1] != 0 ? 2 : 1; }
    unsigned bytes() const { return count() * static_cast<unsigned>(bits[0]) / 8; }
};
enum Kind : int { kSigned = 0, kUnsigned = 1, kFloat = 2 };
enum Outside : int { kWrap = 0, kClamp = 1, kMirror = 2, kBorder = 3 };

struct Texture {
    std::uint64_t address = 0, width = 0, height = 1, pitch = 0;
    Channels channels = {};
    int outside[2] = {kClamp, kClamp};
    bool normalised = false, linear = false;  // linear: of memory without rows, outside of which lie zeros
};

}  // namespace gates_cpu
