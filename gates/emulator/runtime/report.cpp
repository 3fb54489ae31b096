// Launches, findings and the sticky error of a run, and the C functions that hand them out.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <string>
#include <vector>

#include "gates_emulator/block.h"

namespace gates_emulator {

struct Finding {
    std::string kind, kernel, where, message;
};

struct LaunchRecord {
    std::string kernel, function;  // base name; signature with the template's arguments, as the compiler writes it
    dim3 grid, block;
    size_t dynamic_bytes = 0, static_bytes = 0, opt_in_bytes = 0;
    unsigned max_threads = 0;  // of the kernel's __launch_bounds__, or 0
    std::string error;
};

struct Report {
    std::vector<Finding> findings;
    std::vector<LaunchRecord> launches;
    size_t findings_not_kept = 0;
    cudaError_t last_error = cudaSuccess;    // cleared by cudaGetLastError
    cudaError_t sticky_error = cudaSuccess;  // cleared by gates_emulator_reset alone
    bool read_back = false;                  // the host has read what blocks that did not run would have written
    int launches_left_out = 0;               // after that
    std::string findings_json, launches_json;
};

Report report;
Settings settings;
uint64_t poison_state = 0x2545F4914F6CDD1DULL;

void fill_random(void* address, size_t bytes) {
    char* to = static_cast<char*>(address);
    for (size_t done = 0; done < bytes; done += 8) {
        poison_state ^= poison_state << 13, poison_state ^= poison_state >> 7, poison_state ^= poison_state << 17;
        memcpy(to + done, &poison_state, bytes - done < 8 ? bytes - done : 8);
    }
}
constexpr size_t kMaxFindings = 100;

// printf into a string. One out-of-line function, since chains of operator+ cost seconds of compile time.
GATES_EMULATOR_COLD __attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

GATES_EMULATOR_COLD std::string place(const char* file, int line) {
    return file && line ? format("%s:%d", file, line) : std::string();
}

GATES_EMULATOR_COLD void keep_finding(const char* kind, const std::string& kernel, const std::string& where, std::string message) {
    for (const Finding& known : report.findings)
        if (known.kind == kind && known.kernel == kernel && known.where == where) return;
    if (report.findings.size() >= kMaxFindings) {
        ++report.findings_not_kept;
        return;
    }
    report.findings.push_back({kind, kernel, where, std::move(message)});
}

void add_finding(const char* kind, const char* file, int line, const char* pattern, ...) {
    char message[4096];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message, sizeof message, pattern, arguments);
    va_end(arguments);
    keep_finding(kind, block.kernel, place(file, line), message);
}

GATES_EMULATOR_COLD std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (unsigned char c : text) {
        char escape[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            out += escape;
        } else {
            out += static_cast<char>(c);
        }
    }
    out += '"';
    return out;
}

GATES_EMULATOR_COLD std::string triple(dim3 v) { return format("[%u,%u,%u]", v.x, v.y, v.z); }

GATES_EMULATOR_COLD std::string launches_as_json() {
    std::string out = "[";
    for (const LaunchRecord& launch : report.launches) {
        if (out.size() > 1) out += ",\n";
        out += "{\"kernel\":";
        out += quoted(launch.kernel);
        out += ",\"function\":";
        out += quoted(launch.function);
        out += format(",\"grid\":%s,\"block\":%s,\"dynamic_smem_bytes\":%zu,\"static_smem_bytes\":%zu,\"opt_in_smem_bytes\":%zu,\"max_threads\":%u",
                      triple(launch.grid).c_str(), triple(launch.block).c_str(), launch.dynamic_bytes, launch.static_bytes,
                      launch.opt_in_bytes, launch.max_threads);
        out += ",\"error\":";
        out += quoted(launch.error);
        out += "}";
    }
    out += "]";
    return out;
}

GATES_EMULATOR_COLD std::string findings_as_json() {
    std::string out = "[";
    for (const Finding& finding : report.findings) {
        if (out.size() > 1) out += ",\n";
        out += "{\"kind\":";
        out += quoted(finding.kind);
        out += ",\"kernel\":";
        out += quoted(finding.kernel);
        out += ",\"where\":";
        out += quoted(finding.where);
        out += ",\"message\":";
        out += quoted(finding.message);
        out += "}";
    }
    if (report.findings_not_kept)
        out += format(",\n{\"kind\":\"more_findings\",\"kernel\":\"\",\"where\":\"\",\"message\":\"%zu more were not kept\"}",
                      report.findings_not_kept);
    out += "]";
    return out;
}

}  // namespace gates_emulator

#define GATES_EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

// JSON array of all launches since the last reset; valid until the next call.
GATES_EMULATOR_EXPORT const char* gates_emulator_launches(void) {
    using namespace gates_emulator;
    report.launches_json = launches_as_json();
    return report.launches_json.c_str();
}

// How many launches were not recorded, with "launches_only", since the host had read results that no block has written.
GATES_EMULATOR_EXPORT int gates_emulator_launches_left_out(void) { return gates_emulator::report.launches_left_out; }

// JSON array of all findings since the last reset; valid until the next call.
GATES_EMULATOR_EXPORT const char* gates_emulator_findings(void) {
    using namespace gates_emulator;
    report.findings_json = findings_as_json();
    return report.findings_json.c_str();
}

// Clears launches, findings and the sticky error. Settings and shared-memory opt-ins stay.
GATES_EMULATOR_EXPORT void gates_emulator_reset(void) {
    using namespace gates_emulator;
    report = Report();
}

// "order" 0 forward, 1 reversed, 2 shuffled; "seed"; "poison" a byte, or 256 for random bytes; "shared_limit_bytes";
// "compute_capability", e.g. 90; "launches_only" 1 to record launches without running their blocks. 0 if known and valid.
GATES_EMULATOR_EXPORT int gates_emulator_configure(const char* key, int64_t value) {
    using namespace gates_emulator;
    const auto is = [key](const char* name) { return key && strcmp(key, name) == 0; };
    if (is("order") && value >= 0 && value <= 2) {
        settings.order = static_cast<int>(value);
    } else if (is("seed")) {
        settings.seed = static_cast<uint64_t>(value);
        poison_state = (settings.seed + 1) * 0x9E3779B97F4A7C15ULL | 1;
    } else if (is("poison") && value >= 0 && value <= kRandomPoison) {
        settings.poison = static_cast<int>(value);
    } else if (is("shared_limit_bytes") && value >= 48 * 1024 && value <= 1024 * 1024) {
        settings.shared_limit_bytes = static_cast<size_t>(value);
    } else if (is("compute_capability") && value >= 50 && value < 1000) {
        settings.compute_capability = static_cast<int>(value);
    } else if (is("launches_only") && (value == 0 || value == 1)) {
        settings.launches_only = value == 1;
    } else {
        return 1;
    }
    return 0;
}
