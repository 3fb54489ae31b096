// wgmma: products of a warpgroup with operands in shared memory, told by descriptors. Each warp makes its 16 rows when it issues the
// product, so a wait that is missing does not show in numbers.
#include "access.h"
#include "hopper.h"

namespace gates_cpu {
namespace {

constexpr int kMostColumns = 256, kMostDepth = 32;

struct Descriptor {
    std::uint32_t start, leading, stride;
    unsigned swizzle;  // bytes
    explicit Descriptor(std::uint64_t bits)
        : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4), leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
          stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4) {
        static constexpr unsigned bytes[] = {16, 128, 64, 32};
        swizzle = bytes[bits >> 62];
    }
};

float element(Type type, const std::uint8_t* at) {
    std::uint16_t bits;
    if (type == Type::F16 || type == Type::BF16) {
        std::memcpy(&bits, at, 2);
        return type == Type::F16 ? half_to_float(bits) : bf16_to_float(bits);
    }
    float value;
    std::memcpy(&value, at, 4);
    return to_tf32(value, false);
}

// `count` rows from `first` on (along M or N), `depth` along K: into matrix[row * row_step + k * k_step].
void read_matrix(Warp& warp, const Op& op, const Descriptor& from, bool transposed, int first, int count, int depth, Type type, float* matrix, int row_step, int k_step) {
    const unsigned bytes = bytes_of(type), chunk = 16 / bytes;
    const auto chunk_at = [&](std::uint32_t address) { return shared_bytes(warp, op, 0, swizzled(address, from.swizzle), 16, Use::Read); };
    if (!transposed) {
        for (int r = first; r < first + count; ++r) {
            for (int k = 0; k < depth; k += static_cast<int>(chunk)) {
                const std::uint32_t row = static_cast<std::uint32_t>(r), along = static_cast<std::uint32_t>(k) * bytes;
                const std::uint32_t address = from.start + row / 8 * from.stride + row % 8 * from.swizzle + (from.swizzle == 16 ? along / 16 * from.leading : along);
                const std::uint8_t* const data = chunk_at(address);
                for (unsigned i = 0; i < chunk && data != nullptr; ++i) matrix[(r - first) * row_step + (k + static_cast<int>(i)) * k_step] = element(type, data + i * bytes);
            }
        }
        return;
    }
    const std::uint32_t wide = from.swizzle / bytes;  // elements along M or N in a row of the atom
    for (int k = 0; k < depth; ++k) {
        for (int r = first; r < first + count; r += static_cast<int>(chunk)) {
            const std::uint32_t row = static_cast<std::uint32_t>(r), deep = static_cast<std::uint32_t>(k);
            const std::uint32_t address = from.start + row / wide * from.leading + deep / 8 * from.stride + deep % 8 * from.swizzle + row % wide * bytes;
            const std::uint8_t* const data = chunk_at(address);
            for (unsigned i = 0; i < chunk && data != nullptr; ++i) matrix[(r - first + static_cast<int>(i)) * row_step + k * k_step] = element(type, data + i * bytes);
        }
    }
}

// extra: n, k; type: of A and B; slots: D, then A's registers if flags[0]; flags[1], [2]: A, B transposed; [3], [4]: negated; [5]: D is f16.
// op.a, op.b: descriptors; op.c: the predicate that keeps D.
void multiply(Warp& warp, const Op& op) {
    if (!warp.together(op, kAllLanes)) return;
    const Extra& extra = *op.extra;
    const int n = extra.n, depth = extra.k;
    alignas(64) float a[16 * kMostDepth] = {}, b[kMostDepth * kMostColumns] = {}, d[16 * kMostColumns];
    const unsigned results = static_cast<unsigned>(extra.count);
    if (extra.flags[0]) {
        for (unsigned reg = 0; reg < 4; ++reg) {
            const std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[results + reg]);
            const unsigned packed = 4 / bytes_of(extra.type);
            for (unsigned lane = 0; lane < kLanes; ++lane) {
                for (unsigned part = 0; part < packed; ++part) {
                    const std::uint32_t bits = packed == 1 ? lanes[lane] : lanes[lane] >> (16 * part) & 0xffff;
                    const unsigned row = lane / 4 + 8 * (reg & 1), column = lane % 4 * packed + part + 4 * packed * (reg >> 1);
                    a[row * static_cast<unsigned>(depth) + column] = element(extra.type, reinterpret_cast<const std::uint8_t*>(&bits));
                }
            }
        }
    } else {
        const Descriptor from(warp.lanes<std::uint64_t>(op.a)[0]);
        read_matrix(warp, op, from, extra.flags[1], static_cast<int>(warp.index % 4 * 16), 16, depth, extra.type, a, depth, 1);
    }
    read_matrix(warp, op, Descriptor(warp.lanes<std::uint64_t>(op.b)[0]), extra.flags[2], 0, n, depth, extra.type, b, 1, n);
    const bool keep = op.c == kNowhere || (op.mode != 0 ? ~warp.mask_at(op.c) : warp.mask_at(op.c)) != 0;
    const auto place = [n](unsigned reg, unsigned lane) { return static_cast<int>(lane / 4 + 8 * (reg >> 1 & 1)) * n + static_cast<int>(reg / 4 * 8 + lane % 4 * 2 + (reg & 1)); };
    const bool half = extra.flags[5];
    for (unsigned reg = 0; reg < results; ++reg) {
        const std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[reg]);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (half) {
                d[place(2 * reg, lane)] = keep ? half_to_float(static_cast<std::uint16_t>(lanes[lane])) : 0;
                d[place(2 * reg + 1, lane)] = keep ? half_to_float(static_cast<std::uint16_t>(lanes[lane] >> 16)) : 0;
            } else {
                d[place(reg, lane)] = keep ? float_of(lanes[lane]) : 0;
            }
        }
    }
    const float sign = extra.flags[3] != extra.flags[4] ? -1.0f : 1.0f;
    for (int i = 0; i < 16; ++i) {
        for (int k = 0; k < depth; ++k) {
            const float x = sign * a[i * depth + k];
            for (int j = 0; j < n; ++j) d[i * n + j] = __builtin_fmaf(x, b[k * n + j], d[i * n + j]);
        }
    }
    for (unsigned reg = 0; reg < results; ++reg) {
        std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[reg]);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = half ? float_to_half(d[place(2 * reg, lane)]) | static_cast<std::uint32_t>(float_to_half(d[place(2 * reg + 1, lane)])) << 16 : bits_of(d[place(reg, lane)]);
        }
    }
}

void wgmma(Decoder& decoder, Modifiers& modifiers) {
    if (modifiers.take("fence") || modifiers.take("commit_group") || modifiers.take("wait_group")) {
        modifiers.take("sync");
        modifiers.take("aligned");
        decoder.emit([](Warp&, const Op&) {});
        return;
    }
    if (!modifiers.take("mma_async") || modifiers.take("sp")) decoder.unsupported();
    modifiers.take("sync");
    modifiers.take("aligned");
    const std::string shape = modifiers.take_any();
    Extra extra;
    if (std::sscanf(shape.c_str(), "m64n%dk%d", &extra.n, &extra.k) != 2 || extra.n % 8 != 0 || extra.n > kMostColumns) decoder.unsupported("this shape");
    const Type d = modifiers.take_type(), a = modifiers.take_type(), b = modifiers.take_type();
    if (a != b || (a != Type::F16 && a != Type::BF16 && a != Type::TF32) || (d != Type::F32 && d != Type::F16)) decoder.unsupported("these types");
    extra.type = a;
    extra.flags[5] = d == Type::F16;
    for (const Operand& part : decoder.operand(0).parts) extra.slots.push_back(decoder.raw(part));
    extra.count = static_cast<unsigned>(extra.slots.size());
    std::uint32_t first = kNowhere;
    const Operand& left = decoder.operand(1);
    extra.flags[0] = left.kind == Operand::Vector;
    if (extra.flags[0]) for (const Operand& part : left.parts) extra.slots.push_back(decoder.source(part, Type::B32));
    else first = decoder.source(left, Type::B64);
    const std::uint32_t second = decoder.source(2, Type::B64);
    bool negated = false;
    const std::uint32_t keep = decoder.predicate(decoder.operand(3), negated);
    const auto flag = [&](std::size_t index) { return decoder.operands() > index ? static_cast<std::int64_t>(decoder.operand(index).bits) : 0; };
    extra.flags[3] = flag(4) < 0;
    extra.flags[4] = flag(5) < 0;
    if (!extra.flags[0]) extra.flags[1] = flag(6) != 0;
    extra.flags[2] = flag(extra.flags[0] ? 6 : 7) != 0;
    Op& op = decoder.emit(multiply);
    op.a = first;
    op.b = second;
    op.c = keep;
    op.mode = negated;
    decoder.extra(op) = extra;
}

const OpcodeTable table = {{"wgmma", wgmma}};

}  // namespace
}  // namespace gates_cpu
