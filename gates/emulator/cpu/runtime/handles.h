// What a program was given a handle of. Handles are numbers that are never given twice, so one that is null, destroyed or garbage is unknown.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace gates_cpu {

std::uint64_t next_handle();  // no canonical address, so a host that follows one faults

template <class T> class Handles {
  public:
    static Handles& get() {
        static Handles* const made = new Handles;  // outlives every library's destructors
        return *made;
    }
    void* add(T value) {
        const std::lock_guard<std::mutex> lock(mutex_);
        void* const handle = reinterpret_cast<void*>(next_handle());
        live_[handle] = std::make_shared<T>(std::move(value));
        return handle;
    }
    std::shared_ptr<T> find(const void* handle) const {  // null: no such handle
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = live_.find(handle);
        return found == live_.end() ? nullptr : found->second;
    }
    bool remove(const void* handle) {  // false: no such handle
        const std::lock_guard<std::mutex> lock(mutex_);
        return live_.erase(handle) != 0;
    }

  private:
    mutable std::mutex mutex_;
    std::map<const void*, std::shared_ptr<T>> live_;
};

}  // namespace gates_cpu
