"""Compile the kernels of languages in Python (Triton, Numba-CUDA, Warp) without a device, and keep what launches them."""
