// Products of wgmma that run: they end as late as their wait allows. Until then they own their accumulators, and what they read in
// shared memory must stay.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "warp.h"

namespace gates_cpu {

// The 16 rows of a warp, which a chain of products adds to; in registers again when the last of them has ended.
struct Accumulators {
    std::vector<float> values;                  // row by row
    unsigned users = 0;
    bool half = false;                          // two to a register
};

struct Product {
    const Op* op = nullptr;
    std::uint32_t group = 0;
    std::shared_ptr<Accumulators> d;
    bool keeps = false;                         // adds to D
    std::vector<float> a;                       // from registers, as they were at the issue; else empty
    std::vector<std::uint32_t> a_chunks, b_chunks;   // addresses of 16 bytes each
    std::vector<std::uint8_t> seen;             // what lay there at the issue
};

// Of one warp.
class Products {
  public:
    void begin(const Program& program);
    void touch(Warp& warp, const Op& op);       // another operation than wgmma uses registers that products may own
    std::shared_ptr<Accumulators> take(Warp& warp, const Op& op);  // D's registers become the product's
    void add(Warp& warp, Product product);
    void fence();
    void commit() { ++committed_; }
    bool wait(Warp& warp, const Op& op, unsigned kept);            // false: the warp has to wait
    void release() { released_ = true; }
    void end(Warp& warp);                       // the warp has ended
    std::uint64_t issued() const { return issued_; }
    std::uint64_t calls() const { return calls_; }                 // a digest of them
    std::int32_t last() const { return last_; }                    // operation

  private:
    struct Owned {
        std::shared_ptr<Accumulators> d;
        std::uint16_t reg = 0;
    };
    const Program* program_ = nullptr;
    std::deque<Product> running_;
    std::vector<Owned> owned_;                  // a watched register each
    std::vector<std::uint16_t> feeding_;        // products that have it as A
    std::vector<std::int32_t> unfenced_;        // the operation that wrote it after the last fence, or -1
    std::uint32_t committed_ = 0;
    bool fenced_ = false, released_ = false;
    std::uint64_t issued_ = 0, calls_ = 0;
    std::int32_t last_ = -1;

    std::uint16_t number(std::uint32_t slot) const;
    void use(Warp& warp, const Op& op);
    void check_fence(Warp& warp, const Op& op, std::uint32_t slot, bool& said);
    void finish(Warp& warp, std::uint32_t before);                 // groups
    void deliver(Warp& warp, const std::shared_ptr<Accumulators>& d);
    bool has_another_name(std::size_t at) const;
};

// Finds the registers of `program` that have to be watched.
void watch_products(Program& program);

// Adds A·B to the product's accumulators; says what is wrong with its operands. Of ops_wgmma.
void multiply(Warp& warp, const Product& product);

// Where register `reg` of D lies for `lane`: row and column.
inline std::size_t accumulator_at(unsigned reg, unsigned lane, int n) {
    return (lane / 4 + 8 * (reg >> 1 & 1)) * static_cast<unsigned>(n) + reg / 4 * 8 + lane % 4 * 2 + (reg & 1);
}

}  // namespace gates_cpu
