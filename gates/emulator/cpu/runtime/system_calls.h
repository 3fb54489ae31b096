#pragma once

#include <cstdint>

namespace gates_cpu {

constexpr std::uint64_t kMostPrintedLines = 1000;  // printf calls of threads whose text is shown
std::uint64_t printed_lines();
void forget_printed_lines();

}  // namespace gates_cpu
