"""Compile unmodified CUDA source with g++ and run it on the CPU: see docs/internals/emulator.md."""
