"""Compile Triton kernels without a device, and keep what launches them."""
