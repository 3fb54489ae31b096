// What is wrong with a kernel, by stable codes: the same finding at the same place is counted, not repeated.
#pragma once

#include <cstdint>
#include <string>

namespace gates_cpu {

struct Finding {
    std::string code, message, kernel, where, other;  // where, other: FILE:LINE, empty if unknown
    std::int64_t block[3] = {-1, -1, -1}, thread[3] = {-1, -1, -1};
};

void add_finding(const Finding& finding);
std::string findings_json();
bool any_findings();
void clear_findings();
std::string json_text(const std::string& text);

}  // namespace gates_cpu
