"""Execute PTX of nvcc or Triton on the CPU, as a CUDA runtime."""
