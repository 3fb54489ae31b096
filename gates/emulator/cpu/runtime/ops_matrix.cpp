// Matrix operations of a warp: mma.sync, wmma, ldmatrix, stmatrix, movmatrix.
//
// Each reads its fragments into whole matrices and works on those. Where an element of a fragment lies is computed once, when the
// operation is decoded. wmma's fragments, whose layout PTX leaves open, are those of mma side by side; registers beyond one copy repeat it.
#include <array>

#include "access.h"
#include "ops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace gates_cpu {
namespace {

enum class Element : std::uint8_t { F16, BF16, TF32, E4M3, E5M2, F32, S8, U8, S32, F64 };

bool element_named(const std::string& name, Element& element) {
    static const std::map<std::string, Element> names = {{"f16", Element::F16}, {"bf16", Element::BF16}, {"tf32", Element::TF32}, {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2},
                                                         {"f32", Element::F32}, {"s8", Element::S8}, {"u8", Element::U8}, {"s32", Element::S32}, {"f64", Element::F64}};
    const auto found = names.find(name);
    if (found != names.end()) element = found->second;
    return found != names.end();
}

unsigned bits_of_element(Element element) {
    switch (element) {
        case Element::F16: case Element::BF16: return 16;
        case Element::E4M3: case Element::E5M2: case Element::S8: case Element::U8: return 8;
        case Element::F64: return 64;
        default: return 32;
    }
}

float as_float(Element element, std::uint32_t bits) {
    switch (element) {
        case Element::F16: return half_to_float(static_cast<std::uint16_t>(bits));
        case Element::BF16: return bf16_to_float(static_cast<std::uint16_t>(bits));
        case Element::TF32: return to_tf32(float_of(bits), false);
        case Element::E4M3: return e4m3_to_float(static_cast<std::uint8_t>(bits));
        case Element::E5M2: return e5m2_to_float(static_cast<std::uint8_t>(bits));
        default: return float_of(bits);
    }
}
std::int32_t as_integer(Element element, std::uint32_t bits) {
    return element == Element::S8 ? static_cast<std::int8_t>(bits) : element == Element::U8 ? static_cast<std::uint8_t>(bits) : static_cast<std::int32_t>(bits);
}

enum Which { A, B, C };

// Index (row * columns + column) of each element: register after register, packed elements low first, lanes innermost.
std::vector<std::uint16_t> layout(Which which, int m, int n, int k, unsigned registers, unsigned packed) {
    std::vector<std::uint16_t> made;
    const unsigned each = static_cast<unsigned>(k) / (4 * packed);  // registers along k
    for (unsigned reg = 0; reg < registers; ++reg) {
        for (unsigned part = 0; part < packed; ++part) {
            for (unsigned lane = 0; lane < kLanes; ++lane) {
                const unsigned group = lane / 4, quarter = lane % 4;
                unsigned row, column, columns;
                if (which == A) {
                    const unsigned block = m == 8 ? each : 2 * each, natural = static_cast<unsigned>(m == 8 ? 1 : m / 16) * block, r = reg % natural, in = r % block;
                    row = m == 8 ? group : 16 * (r / block) + group + 8 * (in & 1);
                    column = quarter * packed + part + 4 * packed * (m == 8 ? in : in >> 1);
                    columns = static_cast<unsigned>(k);
                } else if (which == B) {
                    const unsigned natural = static_cast<unsigned>(n) / 8 * each, r = reg % natural;
                    row = quarter * packed + part + 4 * packed * (r % each);
                    column = 8 * (r / each) + group;
                    columns = static_cast<unsigned>(n);
                } else {
                    const unsigned element = reg * packed + part, block = m == 8 ? element / 2 : element / 4;
                    const unsigned down = m > 16 ? block : 0, across = m > 16 ? 0 : block;
                    row = 16 * down + group + (m == 8 ? 0 : 8 * ((element & 3) >> 1));
                    column = 8 * across + quarter * 2 + (element & 1);
                    columns = static_cast<unsigned>(n);
                }
                made.push_back(static_cast<std::uint16_t>(row * columns + column));
            }
        }
    }
    return made;
}

constexpr unsigned kMostElements = 32 * 32;

// The registers of one copy of a fragment.
unsigned registers_of(const Extra& extra, Which which, unsigned packed) {
    return static_cast<unsigned>((which == B ? extra.k : extra.m) * (which == A ? extra.k : extra.n)) / (kLanes * packed);
}

// Registers hold 32 bits, or one element of 64.
template <class E> using Register = std::conditional_t<sizeof(E) == 8, std::uint64_t, std::uint32_t>;

// Calls take(index, element) for each element of a fragment whose registers begin at extra.slots[first].
template <class E, class Take> void each_element(Warp& warp, const Extra& extra, Which which, unsigned first, unsigned registers, Take take) {
    const std::uint16_t* place = extra.places[which].data();
    for (unsigned reg = 0; reg < registers; ++reg) {
        const Register<E>* const lanes = warp.lanes<Register<E>>(extra.slots[first + reg]);
        for (unsigned part = 0; part < sizeof *lanes / sizeof(E); ++part, place += kLanes) {
            for (unsigned lane = 0; lane < kLanes; ++lane) take(place[lane], static_cast<E>(lanes[lane] >> (8 * sizeof(E) * part)));
        }
    }
}


// The halves at bit `shift` of each word.
void halves_to_floats(const std::uint32_t* words, unsigned shift, float* made) {
#if defined(__F16C__) && defined(__AVX2__)
    for (unsigned i = 0; i < kLanes; i += 8) {
        const __m256i all = _mm256_srl_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i)), _mm_cvtsi32_si128(static_cast<int>(shift)));
        const __m256i low = _mm256_and_si256(all, _mm256_set1_epi32(0xffff));
        _mm256_storeu_ps(made + i, _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1))));
    }
#else
    for (unsigned i = 0; i < kLanes; ++i) made[i] = half_to_float(static_cast<std::uint16_t>(words[i] >> shift));
#endif
}

// A fragment whose registers begin at extra.slots[first], as a whole matrix.
template <class T> void whole_matrix(Warp& warp, const Extra& extra, Which which, unsigned first, unsigned registers, Element element, T* matrix) {
    const std::uint16_t* place = extra.places[which].data();
    const unsigned packed = 32 / bits_of_element(element), bits = 32 / packed;
    alignas(64) T values[kLanes];
    const unsigned start = registers - std::min(registers, registers_of(extra, which, packed));  // the last copy counts
    place += start * packed * kLanes;
    for (unsigned reg = start; reg < registers; ++reg) {
        const std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[first + reg]);
        for (unsigned part = 0; part < packed; ++part, place += kLanes) {
            const unsigned shift = bits * part;
            if constexpr (std::is_same_v<T, float>) {
                if (element == Element::F32) for (unsigned i = 0; i < kLanes; ++i) values[i] = float_of(lanes[i]);
                else if (element == Element::F16) halves_to_floats(lanes, shift, values);
                else if (element == Element::BF16) for (unsigned i = 0; i < kLanes; ++i) values[i] = float_of(lanes[i] >> shift << 16);
                else for (unsigned i = 0; i < kLanes; ++i) values[i] = as_float(element, lanes[i] >> shift);
            } else {
                for (unsigned i = 0; i < kLanes; ++i) values[i] = as_integer(element, lanes[i] >> shift);
            }
            for (unsigned i = 0; i < kLanes; ++i) matrix[place[i]] = values[i];
        }
    }
}

// d += a * b, row by row.
template <int n, class T> void product(const T* a, const T* b, T* d, int m, int k) {
    for (int i = 0; i < m; ++i) {
        T row[n];
        std::memcpy(row, d + i * n, sizeof row);
        for (int j = 0; j < k; ++j) {
            const T x = a[i * k + j];
            for (int c = 0; c < n; ++c) {
                if constexpr (std::is_same_v<T, float>) row[c] = __builtin_fmaf(x, b[j * n + c], row[c]);
                else if constexpr (std::is_same_v<T, double>) row[c] = __builtin_fma(x, b[j * n + c], row[c]);
                else row[c] = x * b[j * n + c] + row[c];
            }
        }
        std::memcpy(d + i * n, row, sizeof row);
    }
}

// extra: m, n, k; slots: d, a, b, c; kind: elements of a, b, c, d in bytes of an int; count, bytes: registers of a and b; op.imm: of c and d.
template <bool integers> void multiply(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const Extra& extra = *op.extra;
    using T = std::conditional_t<integers, std::int32_t, float>;
    alignas(64) T a[kMostElements], b[kMostElements], d[kMostElements];
    const int m = extra.m, n = extra.n, k = extra.k;
    const auto element = [&](int index) { return static_cast<Element>(extra.kind >> (8 * index) & 255); };
    const Element ec = element(2), ed = element(3);
    const unsigned na = extra.count, nb = extra.bytes, nc = static_cast<unsigned>(op.imm & 255), nd = static_cast<unsigned>(op.imm >> 8);
    whole_matrix(warp, extra, A, nd, na, element(0), a);
    whole_matrix(warp, extra, B, nd + na, nb, element(1), b);
    whole_matrix(warp, extra, C, nd + na + nb, nc, ec, d);
    n == 8 ? product<8>(a, b, d, m, k) : n == 16 ? product<16>(a, b, d, m, k) : product<32>(a, b, d, m, k);
    const std::uint16_t* place = extra.places[C].data();
    const unsigned packed = 32 / bits_of_element(ed);
    std::vector<std::uint16_t> own;
    if (bits_of_element(ed) != bits_of_element(ec)) {
        own = layout(C, m, n, k, nd, packed);
        place = own.data();
    }
    for (unsigned reg = 0; reg < nd; ++reg) {
        std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[reg]);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (!(warp.exec >> lane & 1)) continue;
            if (packed == 1) {
                std::memcpy(lanes + lane, &d[place[lane]], 4);
            } else {
                lanes[lane] = float_to_half(static_cast<float>(d[place[lane]])) | static_cast<std::uint32_t>(float_to_half(static_cast<float>(d[place[kLanes + lane]]))) << 16;
            }
        }
        place += kLanes * packed;
    }
}

// The same for f64, one element a register.
void multiply_doubles(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const Extra& extra = *op.extra;
    double a[16 * 16], b[16 * 8], d[16 * 8];
    const unsigned na = extra.count, nb = extra.bytes, nd = static_cast<unsigned>(op.imm >> 8);
    const auto whole = [&](Which which, unsigned first, unsigned registers, double* matrix) {
        each_element<std::uint64_t>(warp, extra, which, first, registers, [&](unsigned at, std::uint64_t bits) { std::memcpy(matrix + at, &bits, sizeof bits); });
    };
    whole(A, nd, na, a);
    whole(B, nd + na, nb, b);
    whole(C, nd + na + nb, nd, d);
    product<8>(a, b, d, extra.m, extra.k);
    const std::uint16_t* place = extra.places[C].data();
    for (unsigned reg = 0; reg < nd; ++reg, place += kLanes) each_lane<double>(warp, extra.slots[reg], [&](unsigned lane) { return d[place[lane]]; });
}

bool take_shape(Modifiers& modifiers, int& m, int& n, int& k) {
    for (const auto& [name, shape] : std::map<std::string, std::array<int, 3>>{
             {"m8n8k4", {8, 8, 4}}, {"m16n8k4", {16, 8, 4}}, {"m16n8k8", {16, 8, 8}}, {"m16n8k16", {16, 8, 16}}, {"m16n8k32", {16, 8, 32}},
             {"m16n16k16", {16, 16, 16}}, {"m32n8k16", {32, 8, 16}}, {"m8n32k16", {8, 32, 16}}, {"m16n16k8", {16, 16, 8}}}) {
        if (!modifiers.take(name)) continue;
        m = shape[0];
        n = shape[1];
        k = shape[2];
        return true;
    }
    return false;
}

void list(Decoder& decoder, const Operand& operand, Extra& extra, bool result, Element element) {
    if (operand.kind != Operand::Vector) decoder.unsupported("a fragment is no list of registers");
    for (const Operand& part : operand.parts) extra.slots.push_back(result ? decoder.raw(part) : decoder.source(part, element == Element::F64 ? Type::B64 : Type::B32));
}

void emit_multiply(Decoder& decoder, Extra extra, Element a, Element b, Element c, Element d) {
    const bool doubles = a == Element::F64, all = b == a && c == a && d == a && extra.n == 8 && extra.m <= 16 && extra.k <= 16;
    if (doubles ? !all : extra.m == 8 && extra.k == 4) decoder.unsupported("these types in this shape");
    list(decoder, decoder.operand(0), extra, true, d);
    for (std::size_t i = 1; i < 4; ++i) list(decoder, decoder.operand(i), extra, false, a);
    const auto packed = [](Element element) { return std::max(32 / bits_of_element(element), 1u); };
    const auto size = [&](std::size_t i) { return static_cast<unsigned>(decoder.operand(i).parts.size()); };
    extra.count = size(1);
    extra.bytes = size(2);
    extra.places[A] = layout(A, extra.m, extra.n, extra.k, size(1), packed(a));
    extra.places[B] = layout(B, extra.m, extra.n, extra.k, size(2), packed(b));
    extra.places[C] = layout(C, extra.m, extra.n, extra.k, size(3), packed(c));
    extra.kind = static_cast<int>(static_cast<unsigned>(a) | static_cast<unsigned>(b) << 8 | static_cast<unsigned>(c) << 16 | static_cast<unsigned>(d) << 24);
    Op& op = decoder.emit(c == Element::F64 ? multiply_doubles : c == Element::S32 ? multiply<true> : multiply<false>);
    op.imm = size(3) | size(0) << 8;
    decoder.extra(op) = extra;
}

void mma(Decoder& decoder, Modifiers& modifiers) {
    Extra extra;
    modifiers.take("sync");
    modifiers.take("aligned");
    if (!take_shape(modifiers, extra.m, extra.n, extra.k)) decoder.unsupported("this shape");
    if (!modifiers.take("row") || !modifiers.take("col")) decoder.unsupported("these layouts");
    modifiers.take("satfinite");
    Element d, a, b, c;
    if (!element_named(modifiers.take_any(), d) || !element_named(modifiers.take_any(), a) || !element_named(modifiers.take_any(), b) || !element_named(modifiers.take_any(), c)) {
        decoder.unsupported("these types");
    }
    emit_multiply(decoder, extra, a, b, c, d);
}

// A row of a matrix in memory, as one access; null after a finding.
std::uint8_t* row_of(Warp& warp, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, unsigned alignment, Use use) {
    return resolve(warp, op, lane, address, bytes, op.extra->space, use, alignment);
}

// wmma.load and wmma.store of elements as wide as E. extra: kind: which; m, n, k; flags[0]: column-major, flags[1]: store; bytes: of an
// element; count: registers; op.b: the stride in elements, if it is given.
template <class E> void fragment_access(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const Extra& extra = *op.extra;
    const Which which = static_cast<Which>(extra.kind);
    const unsigned rows = static_cast<unsigned>(which == B ? extra.k : extra.m), columns = static_cast<unsigned>(which == A ? extra.k : extra.n);
    const bool by_column = extra.flags[0], stores = extra.flags[1];
    const unsigned lines = by_column ? columns : rows, across = by_column ? rows : columns;
    const unsigned first = static_cast<unsigned>(__builtin_ctz(warp.exec));
    const std::uint64_t base = address_of(warp, op, first), stride = op.b == kNowhere ? across : warp.lanes<std::uint32_t>(op.b)[first];
    constexpr unsigned packed = sizeof(Register<E>) / sizeof(E);
    E whole[kMostElements];
    if (stores) {
        each_element<E>(warp, extra, which, 0, extra.count, [&](unsigned at, E element) { whole[at] = element; });
    }
    const unsigned apart = by_column ? columns : 1;  // neighbours of a line, in the whole matrix
    const unsigned line_bytes = across * extra.bytes, alignment = std::min(16u, line_bytes);
    for (unsigned line = 0; line < lines; ++line) {
        // Lines are dealt to lanes, so that a race is found between a lane's store and another's part of the fragment.
        const unsigned lane = lines <= kLanes && (warp.exec >> line & 1) ? line : first;
        std::uint8_t* const data = row_of(warp, op, lane, base + line * stride * extra.bytes, line_bytes, alignment, stores ? Use::Write : Use::Read);
        E* const elements = whole + line * (by_column ? 1 : columns);
        for (unsigned i = 0; i < across; ++i) {
            if (data == nullptr) elements[i * apart] = 0;
            else if (stores) std::memcpy(data + i * sizeof(E), elements + i * apart, sizeof(E));
            else std::memcpy(elements + i * apart, data + i * sizeof(E), sizeof(E));
        }
    }
    if (stores) return;
    const std::uint16_t* place = extra.places[which].data();
    const unsigned copy = registers_of(extra, which, packed);
    for (unsigned reg = 0; reg < extra.count; ++reg) {
        Register<E>* const lanes = warp.lanes<Register<E>>(extra.slots[reg]);
        if (reg >= copy) {
            std::memcpy(lanes, warp.lanes<Register<E>>(extra.slots[reg - copy]), sizeof *lanes * kLanes);
            continue;
        }
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            Register<E> made = 0;
            for (unsigned part = 0; part < packed; ++part) made |= static_cast<Register<E>>(whole[place[part * kLanes + lane]]) << (8 * sizeof(E) * part);
            if (warp.exec >> lane & 1) lanes[lane] = made;
        }
        place += kLanes * packed;
    }
}

void wmma(Decoder& decoder, Modifiers& modifiers) {
    const std::string what = modifiers.take_one_of({"load", "store", "mma"});
    Extra extra;
    if (what == "mma") {
        modifiers.take("sync");
        modifiers.take("aligned");
        modifiers.take_any();  // the layouts do not change what fragments of this device hold
        modifiers.take_any();
        if (!take_shape(modifiers, extra.m, extra.n, extra.k)) decoder.unsupported("this shape");
        modifiers.take("satfinite");
        modifiers.take("rn");
        Element d, a = Element::F16, b = Element::F16, c;
        const std::string first = modifiers.take_any(), second = modifiers.take_any(), third = modifiers.take_any(), fourth = modifiers.take_any();
        bool known = element_named(first, d);
        if (third.empty()) known = known && element_named(second, c);
        else known = known && element_named(second, a) && element_named(third, b) && element_named(fourth, c);
        if (!known) decoder.unsupported("these types");
        return emit_multiply(decoder, extra, a, b, c, d);
    }
    const std::string part = modifiers.take_one_of({"a", "b", "c", "d"});
    modifiers.take("sync");
    modifiers.take("aligned");
    extra.flags[0] = modifiers.take_one_of({"row", "col"}) == "col";
    extra.flags[1] = what == "store";
    if (!take_shape(modifiers, extra.m, extra.n, extra.k)) decoder.unsupported("this shape");
    const std::string space = modifiers.take_one_of({"global", "shared", "shared::cta"});
    extra.space = space == "global" ? Space::Global : space.empty() ? Space::Generic : Space::Shared;
    Element element;
    if (!element_named(modifiers.take_any(), element)) decoder.unsupported("this type");
    extra.bytes = bits_of_element(element) / 8;
    const Which which = part == "a" ? A : part == "b" ? B : C;
    extra.kind = which;
    const std::size_t value = extra.flags[1] ? 1 : 0, address = 1 - value;
    list(decoder, decoder.operand(value), extra, !extra.flags[1], element);
    extra.count = static_cast<unsigned>(extra.slots.size());
    extra.places[which] = layout(which, extra.m, extra.n, extra.k, extra.count, std::max(4 / extra.bytes, 1u));
    const std::uint32_t stride = decoder.operands() > 2 ? decoder.source(2, Type::B32) : kNowhere;
    Op& op = decoder.emit(extra.bytes == 1 ? fragment_access<std::uint8_t> : extra.bytes == 2 ? fragment_access<std::uint16_t> : extra.bytes == 4 ? fragment_access<std::uint32_t> : fragment_access<std::uint64_t>);
    decoder.address(decoder.operand(address), op, extra);
    op.b = stride;
    decoder.extra(op) = extra;
}

// ldmatrix and stmatrix of 8 x 8 matrices of 16-bit elements; lane 8 * i + r has the address of row r of matrix i.
void eight_by_eight(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    const Extra& extra = *op.extra;
    const bool transposed = extra.flags[0], stores = extra.flags[1];
    for (unsigned matrix = 0; matrix < extra.count; ++matrix) {
        std::uint16_t whole[8][8];
        std::uint32_t* const lanes = warp.lanes<std::uint32_t>(extra.slots[matrix]);
        const auto element = [&](unsigned lane, unsigned half) -> std::uint16_t& {
            const unsigned along = lane % 4 * 2 + half, other = lane / 4;
            return transposed ? whole[along][other] : whole[other][along];
        };
        if (stores) {
            for (unsigned lane = 0; lane < kLanes; ++lane) {
                element(lane, 0) = static_cast<std::uint16_t>(lanes[lane]);
                element(lane, 1) = static_cast<std::uint16_t>(lanes[lane] >> 16);
            }
        }
        for (unsigned row = 0; row < 8; ++row) {
            const unsigned lane = 8 * matrix + row;
            std::uint8_t* const data = row_of(warp, op, lane, address_of(warp, op, lane), 16, 16, stores ? Use::Write : Use::Read);
            if (stores && data != nullptr) std::memcpy(data, whole[row], 16);
            if (!stores) data != nullptr ? std::memcpy(whole[row], data, 16) : std::memset(whole[row], 0xff, 16);
        }
        if (stores) continue;
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (warp.exec >> lane & 1) lanes[lane] = element(lane, 0) | static_cast<std::uint32_t>(element(lane, 1)) << 16;
        }
    }
}

void matrices(Decoder& decoder, Modifiers& modifiers) {
    Extra extra;
    extra.flags[1] = decoder.instruction().opcode.front() == "stmatrix";
    modifiers.take("sync");
    modifiers.take("aligned");
    if (!modifiers.take("m8n8")) decoder.unsupported("this shape");
    const std::string number = modifiers.take_one_of({"x1", "x2", "x4"});
    extra.flags[0] = modifiers.take("trans");
    const std::string space = modifiers.take_one_of({"shared", "shared::cta"});
    extra.space = space.empty() ? Space::Generic : Space::Shared;
    if (!modifiers.take("b16")) decoder.unsupported("this type");
    const std::size_t value = extra.flags[1] ? 1 : 0;
    const Operand& registers = decoder.operand(value);
    if (registers.kind == Operand::Vector) list(decoder, registers, extra, !extra.flags[1], Element::F16);
    else extra.slots.push_back(extra.flags[1] ? decoder.source(registers, Type::B32) : decoder.raw(registers));
    extra.count = static_cast<unsigned>(extra.slots.size());
    Op& op = decoder.emit(eight_by_eight);
    decoder.address(decoder.operand(1 - value), op, extra);
    decoder.extra(op) = extra;
}

void transpose(Warp& warp, const Op& op) {
    if (!warp.all_together(op)) return;
    std::uint32_t from[kLanes];
    std::memcpy(from, warp.lanes<std::uint32_t>(op.a), sizeof from);
    const auto element = [&](unsigned row, unsigned column) { return from[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff; };
    each_lane<std::uint32_t>(warp, op.d, [&](unsigned lane) { return element(lane % 4 * 2, lane / 4) | element(lane % 4 * 2 + 1, lane / 4) << 16; });
}

const OpcodeTable table = {
    {"mma", mma},
    {"wmma", wmma},
    {"ldmatrix", matrices},
    {"stmatrix", matrices},
    {"movmatrix", [](Decoder& d, Modifiers& m) {
         while (!m.empty()) m.take_any();
         emit_plain(d, transpose, Type::B32, 1);
     }},
};

}  // namespace
}  // namespace gates_cpu
