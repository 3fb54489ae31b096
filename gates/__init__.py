"""Kernel Gates: build, judge and compare CUDA kernels stage by stage."""

__version__ = "0.1.0"
