"""Run on the CPU what was made for a device: compiled code, Triton kernels, Python that asks for one. See docs/internals/emulator.md."""
