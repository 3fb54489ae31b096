// Functions of the device that have no PTX body: vprintf, __assertfail, malloc and free.
#include <cstdio>
#include <mutex>
#include <string>

#include "access.h"
#include "ops.h"
#include "system_calls.h"

namespace gates_cpu {
namespace {

std::mutex output;
std::uint64_t printed = 0;

// Of op.extra->slots: offsets of the parameters in local memory, and of the result.
std::uint8_t* local_at(Warp& warp, const Op& op, std::size_t which, unsigned lane) {
    const std::uint64_t deeper = op.a == kNowhere ? 0 : warp.lanes<std::uint32_t>(op.a)[lane];
    return warp.local + std::uint64_t(lane) * warp.program->local_bytes + op.extra->slots[which] + deeper;
}
std::uint64_t local_value(Warp& warp, const Op& op, std::size_t which, unsigned lane) {
    std::uint64_t value;
    std::memcpy(&value, local_at(warp, op, which, lane), 8);
    return value;
}
template <class T> void put_result(Warp& warp, const Op& op, std::size_t which, unsigned lane, T value) {
    std::uint8_t* const at = local_at(warp, op, which, lane);
    std::memcpy(at, &value, sizeof value);
    std::memset(at + std::uint64_t(warp.program->local_bytes) * kLanes, kInitialised, sizeof value);
}

std::string text_at(Warp& warp, const Op& op, unsigned lane, std::uint64_t address) {
    std::string text;
    while (text.size() < 4096) {
        const std::uint8_t* const at = resolve(warp, op, lane, address + text.size(), 1, Space::Generic, Use::Read);
        if (at == nullptr || *at == 0) break;
        text += static_cast<char>(*at);
    }
    return text;
}

void print(Warp& warp, const Op& op) {
    const std::lock_guard<std::mutex> lock(output);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::string format = text_at(warp, op, lane, local_value(warp, op, 0, lane));
        std::uint64_t at = local_value(warp, op, 1, lane);
        const auto next = [&](unsigned bytes) -> std::uint64_t {
            at = (at + bytes - 1) / bytes * bytes;
            const std::uint8_t* const from = resolve(warp, op, lane, at, bytes, Space::Generic, Use::Read);
            at += bytes;
            std::uint64_t value = 0;
            if (from != nullptr) std::memcpy(&value, from, bytes);
            return value;
        };
        std::string made;
        for (std::size_t i = 0; i < format.size(); ++i) {
            if (format[i] != '%') { made += format[i]; continue; }
            std::string part = "%";
            for (++i; i < format.size() && std::strchr("-+ #0123456789.*hlzjt", format[i]) != nullptr; ++i) {
                if (format[i] == '*') part += std::to_string(static_cast<std::int32_t>(next(4)));
                else part += format[i];
            }
            const char kind = i < format.size() ? format[i] : '%';
            const bool wide = part.find('l') != std::string::npos || part.find('z') != std::string::npos || part.find('j') != std::string::npos || part.find('t') != std::string::npos;
            char text[512] = "";
            part += kind;
            if (kind == '%') { made += '%'; continue; }
            if (std::strchr("fFeEgGaA", kind) != nullptr) {
                const std::uint64_t bits = next(8);
                double value;
                std::memcpy(&value, &bits, 8);
                std::snprintf(text, sizeof text, part.c_str(), value);
            } else if (kind == 's') {
                std::snprintf(text, sizeof text, part.c_str(), text_at(warp, op, lane, next(8)).c_str());
            } else if (kind == 'p') {
                std::snprintf(text, sizeof text, part.c_str(), reinterpret_cast<void*>(next(8)));
            } else if (wide) {
                std::snprintf(text, sizeof text, part.c_str(), static_cast<long long>(next(8)));
            } else {
                std::snprintf(text, sizeof text, part.c_str(), static_cast<int>(next(4)));
            }
            made += text;
        }
        if (++printed <= kMostPrintedLines) std::fputs(made.c_str(), stdout);
        if (op.extra->slots.size() > 2) put_result(warp, op, 2, lane, 1);
    }
}

void assertion(Warp& warp, const Op& op) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(warp.exec));
    const std::string what = text_at(warp, op, lane, local_value(warp, op, 0, lane)), file = text_at(warp, op, lane, local_value(warp, op, 1, lane));
    std::uint32_t line;
    std::memcpy(&line, local_at(warp, op, 2, lane), 4);
    warp.cta->report_here(warp, op, "cpu.assertion", "assertion " + what + " failed at " + file + ":" + std::to_string(line));
}

void allocate(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        put_result(warp, op, 1, lane, DeviceMemory::get().allocate(local_value(warp, op, 0, lane), {}));
    }
}

void release(Warp& warp, const Op& op) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (!(warp.exec >> lane & 1)) continue;
        const std::uint64_t address = local_value(warp, op, 0, lane);
        if (address != 0 && !DeviceMemory::get().release(address)) warp.cta->launch->report(&warp, op.place, lane, "cpu.bad_free", "free of an address that malloc did not give");
    }
}

}  // namespace

bool call_system(Decoder& decoder, const std::string& name, const std::vector<std::pair<Space, std::uint64_t>>& results,
                 const std::vector<std::pair<Space, std::uint64_t>>& arguments) {
    const Handler handler = name == "vprintf" ? print : name == "__assertfail" ? assertion : name == "malloc" ? allocate : name == "free" ? release : nullptr;
    if (handler == nullptr) return false;
    Op& op = decoder.emit(handler);
    Extra& extra = decoder.extra(op);
    // Offsets of local memory, not slots: kept in `slots` with a mark, so that they are not moved.
    for (const auto& list : {arguments, results}) {
        for (const auto& [space, offset] : list) {
            extra.slots.push_back(static_cast<std::uint32_t>(offset));  // without kByDepth
            if (offset & kByDepth) op.a = decoder.depth();
        }
    }
    extra.kind = kOffsets;
    return true;
}

std::uint64_t printed_lines() { return printed; }
void forget_printed_lines() { printed = 0; }

}  // namespace gates_cpu
