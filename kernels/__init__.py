"""Attention kernels with a PyTorch function (``attention``) and what compiles them (``loader``). Apache-2.0, as all of Kernel Gates."""
