#include "findings.h"

#include <cstdio>
#include <mutex>
#include <vector>

namespace gates_cpu {
namespace {

struct Counted {
    Finding finding;
    std::uint64_t count;
};
std::mutex mutex;
std::vector<Counted> found;
constexpr std::size_t kMost = 200;

std::string triple(const std::int64_t (&values)[3]) {
    if (values[0] < 0) return "null";
    return "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) + "]";
}

}  // namespace

std::string json_text(const std::string& text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            made += '\\';
            made += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            made += escaped;
        } else {
            made += c;
        }
    }
    return made + '"';
}

void add_finding(const Finding& finding) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (Counted& known : found) {
        if (known.finding.code == finding.code && known.finding.where == finding.where && known.finding.kernel == finding.kernel &&
            known.finding.other == finding.other) {
            ++known.count;
            return;
        }
    }
    if (found.size() < kMost) found.push_back({finding, 1});
}

bool any_findings() {
    const std::lock_guard<std::mutex> lock(mutex);
    return !found.empty();
}

void clear_findings() {
    const std::lock_guard<std::mutex> lock(mutex);
    found.clear();
}

std::string findings_json() {
    const std::lock_guard<std::mutex> lock(mutex);
    std::string text = "[";
    for (const auto& [finding, count] : found) {
        if (text.size() > 1) text += ", ";
        text += "{\"code\": " + json_text(finding.code) + ", \"message\": " + json_text(finding.message) + ", \"kernel\": " +
                json_text(finding.kernel) + ", \"where\": " + (finding.where.empty() ? "null" : json_text(finding.where)) +
                ", \"other\": " + (finding.other.empty() ? "null" : json_text(finding.other)) + ", \"block\": " + triple(finding.block) +
                ", \"thread\": " + triple(finding.thread) + ", \"count\": " + std::to_string(count) + "}";
    }
    return text + "]";
}

}  // namespace gates_cpu
