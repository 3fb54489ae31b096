// As much of torch as the bindings of the templates and examples use: its own headers take g++ half a minute.
#pragma once

#include <cstdint>
#include <vector>

namespace torch {
enum ScalarType { kFloat32 };
struct Tensor {
    bool is_cuda() const;
    bool is_contiguous() const;
    ScalarType scalar_type() const;
    std::vector<int64_t> sizes() const;
    int64_t dim() const;
    int64_t size(int64_t at) const;
    int64_t numel() const;
    template <typename T>
    T* data_ptr() const;
};
Tensor empty_like(const Tensor& other);
struct Module {
    template <typename F>
    void def(const char* name, F function);
};
}  // namespace torch

#define TORCH_CHECK(condition, ...) ((void)(condition))
#define PYBIND11_MODULE(name, m) void name##_module(torch::Module m)
