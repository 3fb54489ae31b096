"""Execute what nvcc compiled on the CPU: see docs/internals/emulator.md."""
