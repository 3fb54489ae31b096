"""The CPU device: a CUDA runtime on the CPU that executes the PTX which nvcc or Triton made. No gate uses it yet."""
