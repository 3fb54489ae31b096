"""Random PTX programs: made by a seed, run on the CPU device and on a CUDA device, compared bit for bit."""
