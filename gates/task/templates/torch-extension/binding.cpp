// What torch sees: checks, the output, the current stream. Change first: the function's arguments and its name at the end.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

void silu_mul_launch(const float* x, const float* y, float* out, int64_t n, cudaStream_t stream);

torch::Tensor silu_mul(torch::Tensor x, torch::Tensor y) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.scalar_type() == torch::kFloat32, "x must be a dense float32 CUDA tensor");
  TORCH_CHECK(y.is_cuda() && y.is_contiguous() && y.scalar_type() == torch::kFloat32, "y must be a dense float32 CUDA tensor");
  TORCH_CHECK(x.sizes() == y.sizes(), "x and y must have the same shape");
  auto out = torch::empty_like(x);
  silu_mul_launch(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel(), at::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu_mul", &silu_mul); }
