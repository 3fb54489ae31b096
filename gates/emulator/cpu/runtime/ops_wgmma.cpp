// wgmma: products of a warpgroup with operands in shared memory, told by descriptors. Each warp makes its 16 rows.
#include <algorithm>

#include "access.h"
#include "hopper.h"
#include "products.h"
#include "races.h"

namespace gates_cpu {
namespace {

constexpr int kMostColumns = 256, kMostDepth = 32;

struct Descriptor {
    std::uint32_t start, leading, stride, base;
    unsigned swizzle;  // bytes
    explicit Descriptor(std::uint64_t bits)
        : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4), leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
          stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4), base(static_cast<std::uint32_t>(bits >> 49 & 7)) {
        static constexpr unsigned bytes[] = {16, 128, 64, 32};
        swizzle = bytes[bits >> 62];
    }
};

// The matrix has to begin where its swizzle repeats: the chip takes the swizzle from the address alone.
void check(Warp& warp, const Op& op, const Descriptor& from, const char* which) {
    const std::uint32_t repeats = 8 * from.swizzle;
    if (from.swizzle != 16 && from.base == 0 && from.start % repeats >= from.swizzle) {
        warp.cta->launch->report(&warp, op.place, 0, "cpu.wgmma_descriptor",
                                 std::string("the matrix ") + which + " of a wgmma product lies " + std::to_string(from.start % repeats) +
                                     " bytes past a multiple of " + std::to_string(repeats) + ", and its swizzle of " + std::to_string(from.swizzle) + " bytes repeats there" +
                                     as_declared(warp, from.start, repeats));
    } else if (from.base != 0) {
        warp.cta->launch->report(&warp, op.place, 0, "cpu.unsupported", std::string("not supported: a base offset in the descriptor of ") + which);
    }
}

std::int32_t place_of(const Warp& warp, std::int32_t operation) { return operation < 0 ? -1 : warp.program->ops[static_cast<std::size_t>(operation)].place; }

float element(Type type, const std::uint8_t* at) {
    std::uint16_t bits;
    if (type == Type::B8) return e4m3_to_float(*at);
    if (type == Type::F16 || type == Type::BF16) {
        std::memcpy(&bits, at, 2);
        return type == Type::F16 ? half_to_float(bits) : bf16_to_float(bits);
    }
    float value;
    std::memcpy(&value, at, 4);
    return to_tf32(value, false);
}

// Calls chunk(address, row, k) for each 16 bytes of `count` rows from `first` on (along M or N) and `depth` along K; those of a matrix
// that is transposed lie along the rows.
template <class Chunk> void each_chunk(const Descriptor& from, bool transposed, int first, int count, int depth, unsigned bytes, Chunk chunk) {
    const int elements = static_cast<int>(16 / bytes);
    if (!transposed) {
        for (int r = first; r < first + count; ++r) {
            for (int k = 0; k < depth; k += elements) {
                const std::uint32_t row = static_cast<std::uint32_t>(r), along = static_cast<std::uint32_t>(k) * bytes;
                chunk(swizzled(from.start + row / 8 * from.stride + row % 8 * from.swizzle + (from.swizzle == 16 ? along / 16 * from.leading : along), from.swizzle), r - first, k);
            }
        }
        return;
    }
    const std::uint32_t wide = from.swizzle / bytes;  // elements along M or N in a row of the atom
    const bool plain = from.swizzle == 16;             // without a swizzle the two distances change places
    const std::uint32_t over = plain ? from.stride : from.leading, under = plain ? from.leading : from.stride;
    for (int k = 0; k < depth; ++k) {
        for (int r = first; r < first + count; r += elements) {
            const std::uint32_t row = static_cast<std::uint32_t>(r), deep = static_cast<std::uint32_t>(k);
            chunk(swizzled(from.start + row / wide * over + deep / 8 * under + deep % 8 * from.swizzle + row % wide * bytes, from.swizzle), r - first, k);
        }
    }
}

// At the issue: the operand is there, and visible to the asynchronous proxy. Its addresses and bytes are kept.
void take_operand(Warp& warp, const Op& op, std::uint64_t bits, const char* which, bool transposed, int first, int count, std::vector<std::uint32_t>& chunks, std::vector<std::uint8_t>& seen) {
    const Descriptor from(bits);
    check(warp, op, from, which);
    bool said = false;
    each_chunk(from, transposed, first, count, op.extra->k, bytes_of(op.extra->type), [&](std::uint32_t address, int, int) {
        const std::uint8_t* const at = readable_chunk(warp, op, address);
        chunks.push_back(address);
        seen.resize(seen.size() + 16, 0);
        if (at == nullptr) return;
        std::memcpy(seen.data() + seen.size() - 16, at, 16);
        said = said || read_without_fence(warp, op, 0, "wgmma", address, 16);
    });
}

// At the end: the same bytes are there still.
void read_operand(Warp& warp, const Product& product, const std::vector<std::uint32_t>& chunks, std::size_t seen, bool transposed, int count, float* matrix, int row_step, int k_step) {
    const Op& op = *product.op;
    const Type type = op.extra->type;
    const int elements = static_cast<int>(16 / bytes_of(type));
    Cta& cta = *warp.cta;
    std::size_t next = 0;
    bool said = false;
    each_chunk(Descriptor(0), transposed, 0, count, op.extra->k, bytes_of(type), [&](std::uint32_t, int r, int k) {
        const std::uint32_t address = chunks[next];
        const std::uint8_t* const was = product.seen.data() + seen + 16 * next++;
        if (address < kSharedStart || address + 16 > cta.shared_limit) return;
        const std::uint8_t* const at = cta.shared.data() + address;
        if (std::memcmp(at, was, 16) != 0) {
            if (!said) {
                cta.launch->report(&warp, op.place, 0, "cpu.wgmma_operand_overwritten",
                                   "byte " + std::to_string(address - kSharedStart) + " of shared memory was overwritten while this wgmma product may still read it: its wgmma.wait_group comes first",
                                   place_of(warp, cta.races ? cta.races->last_writer(cta.races->place(cta, address)) : -1));
            }
            said = true;
        } else if (cta.races) {
            cta.races->shared(warp, op, 0, cta.races->place(cta, address), 16, false, false, false);
        }
        for (int i = 0; i < elements; ++i) {
            const float value = element(type, at + static_cast<unsigned>(i) * bytes_of(type));
            matrix[(transposed ? r + i : r) * row_step + (transposed ? k : k + i) * k_step] = value;
        }
    });
}

// extra: n, k; type: of A and B; slots: D, then A's registers if flags[0]; flags[1], [2]: A, B transposed; [3], [4]: negated; [5]: D is f16.
// op.a, op.b: descriptors; op.c: the predicate that keeps D.
void issue(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const Extra& extra = *op.extra;
    Product product;
    product.op = &op;
    product.d = warp.products->take(warp, op);
    if (extra.flags[0]) {
        product.a.resize(16u * static_cast<unsigned>(extra.k));
        for (unsigned reg = 0; reg < 4; ++reg) {
            const std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[extra.count + reg]);
            const unsigned packed = 4 / bytes_of(extra.type);
            for (unsigned lane = 0; lane < kLanes; ++lane) {
                for (unsigned part = 0; part < packed; ++part) {
                    const std::uint32_t bits = lanes[lane] >> (32 / packed * part);
                    const unsigned row = lane / 4 + 8 * (reg & 1), column = lane % 4 * packed + part + 4 * packed * (reg >> 1);
                    product.a[row * static_cast<unsigned>(extra.k) + column] = element(extra.type, reinterpret_cast<const std::uint8_t*>(&bits));
                }
            }
        }
    } else {
        take_operand(warp, op, warp.lanes<std::uint64_t>(op.a)[0], "A", extra.flags[1], static_cast<int>(warp.index % 4 * 16), 16, product.a_chunks, product.seen);
    }
    take_operand(warp, op, warp.lanes<std::uint64_t>(op.b)[0], "B", extra.flags[2], 0, extra.n, product.b_chunks, product.seen);
    product.keeps = op.c == kNowhere || (op.mode != 0 ? ~warp.mask_at(op.c) : warp.mask_at(op.c)) != 0;
    warp.products->add(warp, std::move(product));
}

void wait(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    if (!warp.products->wait(warp, op, static_cast<unsigned>(op.imm))) warp.wait(Wait::Products, 0, warp.pc - 1);
}

void wgmma(Decoder& decoder, Modifiers& modifiers) {
    decoder.program().products = true;
    const std::string what = modifiers.take_one_of({"fence", "commit_group", "wait_group", "mma_async"});
    modifiers.take("sync");
    modifiers.take("aligned");
    if (what == "fence") {
        decoder.emit([](Warp& warp, const Op& op) { if (warp.all_together(op)) warp.products->fence(); });
        return;
    }
    if (what == "commit_group") {
        decoder.emit([](Warp& warp, const Op& op) { if (warp.all_together(op)) warp.products->commit(); });
        return;
    }
    if (what == "wait_group") {
        const std::int64_t kept = static_cast<std::int64_t>(decoder.operand(0).bits);
        decoder.emit(wait).imm = kept;
        return;
    }
    if (what.empty() || modifiers.take("sp")) decoder.unsupported();
    const std::string shape = modifiers.take_any();
    Extra extra;
    if (std::sscanf(shape.c_str(), "m64n%dk%d", &extra.n, &extra.k) != 2 || extra.n % 8 != 0 || extra.n > kMostColumns) decoder.unsupported("this shape");
    const auto take_type = [&] { return modifiers.take("e4m3") ? Type::B8 : modifiers.take_type(); };  // B8: E4M3
    const Type d = modifiers.take_type(), a = take_type(), b = take_type();
    if (a != b || (a != Type::F16 && a != Type::BF16 && a != Type::TF32 && a != Type::B8) || (d != Type::F32 && d != Type::F16)) decoder.unsupported("these types");
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
    Op& op = decoder.emit(issue);
    op.a = first;
    op.b = second;
    op.c = keep;
    op.mode = negated;
    decoder.extra(op) = extra;
}

const OpcodeTable table = {{"wgmma", wgmma}};

}  // namespace

bool is_product(const Op& op) { return op.run == issue; }

void multiply(Warp& warp, const Product& product) {
    const Extra& extra = *product.op->extra;
    const int n = extra.n, depth = extra.k;
    alignas(64) float own[16 * kMostDepth] = {}, b[kMostDepth * kMostColumns] = {};
    const float* const a = product.a.empty() ? own : product.a.data();
    if (product.a.empty()) read_operand(warp, product, product.a_chunks, 0, extra.flags[1], 16, own, depth, 1);
    read_operand(warp, product, product.b_chunks, 16 * product.a_chunks.size(), extra.flags[2], n, b, 1, n);
    float* const d = product.d->values.data();
    if (!product.keeps) std::fill(product.d->values.begin(), product.d->values.end(), 0.0f);
    const float sign = extra.flags[3] != extra.flags[4] ? -1.0f : 1.0f;
    for (int i = 0; i < 16; ++i) {
        for (int k = 0; k < depth; ++k) {
            const float x = sign * a[i * depth + k];
            for (int j = 0; j < n; ++j) d[i * n + j] = __builtin_fmaf(x, b[k * n + j], d[i * n + j]);
        }
    }
    if (extra.flags[5]) for (float& value : product.d->values) value = half_to_float(float_to_half(value));
}

}  // namespace gates_cpu
