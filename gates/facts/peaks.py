"""The most arithmetic a chip can do a clock, for refusing impossible times.

Upper bounds over all data types, structured sparsity counted, from NVIDIA's architecture papers; a
bound that is too high only makes the check milder. Bytes a second come from the driver instead.
"""

from __future__ import annotations

# compute capability -> floating-point or integer operations per SM and clock
FLOPS_PER_SM_CLOCK = {
    "7.5": 4096,  # int4
    "8.0": 16384,  # int4, sparse
    "8.6": 8192, "8.7": 16384, "8.9": 8192,
    "9.0": 16384,  # fp8, sparse
    "10.0": 65536, "10.3": 98304,  # fp4, sparse
    "12.0": 16384, "12.1": 16384,
}


def flops_per_s(compute_capability: str, multiprocessors: int, sm_mhz: float) -> float | None:
    """Peak of the whole chip at ``sm_mhz``; None for a chip that is not in the table."""
    rate = FLOPS_PER_SM_CLOCK.get(compute_capability)
    return None if rate is None else rate * multiprocessors * sm_mhz * 1e6
