"""The chips, one row each: what each offers a CTA and an SM, its peaks, and its counters; and the theoretical occupancy that follows.

Limits: CUDA C++ Programming Guide, "Compute Capabilities", tables of technical specifications. Peaks of arithmetic: NVIDIA's
architecture papers. Peaks of memory: NVIDIA's data sheets. The arithmetic is that of NVIDIA's own header ``cuda_occupancy.h``, with the
largest shared-memory carve-out; a test compares the two over a grid of values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KIB = 1024
WARP = 32  # threads
SUB_PARTITIONS = 4  # of an SM; the registers are split between them
REGISTERS_PER_WARP_STEP = 256


@dataclass(frozen=True)
class Chip:
    """Limits of one compute capability. Registers are 32 bits wide; shared memory is in bytes."""

    arch: str
    threads_per_sm: int
    ctas_per_sm: int
    smem_per_sm: int
    smem_per_cta: int  # the most that one CTA may use, after opting in with cudaFuncSetAttribute
    reserved_smem_per_cta: int  # taken by the system from the SM for each CTA, on top of what ptxas prints
    smem_step: int  # shared memory is allocated in multiples of this
    barriers_per_sm: int  # named barriers that all CTAs of an SM share; 0: they set no limit (before Hopper)
    flops_per_sm_clock: int | None  # the most over all data types, structured sparsity counted; None: in no table that was looked up
    dram_bytes_per_s: float | None  # of the fastest memory that a card of the chip has; None: as above, or shared with the host
    no_counters: str  # why ncu_metrics has no counters of it; empty if it has
    registers_per_sm: int = 65_536
    registers_per_cta: int = 65_536
    registers_per_thread: int = 255
    threads_per_cta: int = 1024
    smem_without_opt_in: int = 48 * KIB

    @property
    def number(self) -> int:
        """The compute capability without its dot, e.g. 89."""
        return number_of(self.arch)

    @property
    def warps_per_sm(self) -> int:
        """Resident warps that an SM holds."""
        return self.threads_per_sm // WARP


_INTEGRATED = "an integrated chip, which has no dram__* metrics"
_NOT_LISTED = "ncu's metrics were not listed for it yet"


def _chip(
    number: int,
    threads: int,
    ctas: int,
    smem_kib: int,
    barriers_per_cta: int = 0,
    *,
    flops: int | None = None,
    dram: float | None = None,
    no_counters: str = "",
) -> Chip:
    new = number >= 80  # from Ampere on the system keeps a kilobyte of each CTA's shared memory
    return Chip(
        f"sm_{number}",
        threads,
        ctas,
        smem_kib * KIB,
        (smem_kib - new) * KIB,
        new * KIB,
        128 if new else 256,
        barriers_per_cta * ctas,
        flops,
        dram,
        no_counters,
    )


# compute capability, threads and CTAs per SM, shared memory per SM in KiB, named barriers per CTA slot; operations of the widest kind named
CHIPS = {
    chip.arch: chip
    for chip in (
        _chip(70, 2048, 32, 96, no_counters=_NOT_LISTED),
        _chip(72, 2048, 32, 96, no_counters=_INTEGRATED),
        _chip(75, 1024, 16, 64, flops=4096, dram=0.672e12),  # int4
        _chip(80, 2048, 32, 164, flops=16384, dram=2.04e12),  # int4, sparse
        _chip(86, 1536, 16, 100, flops=8192, dram=1.01e12),
        _chip(87, 1536, 16, 164, flops=16384, no_counters=_INTEGRATED),
        _chip(89, 1536, 24, 100, flops=8192, dram=1.01e12),
        _chip(90, 2048, 32, 228, 2, flops=16384, dram=4.9e12),  # fp8, sparse
        _chip(100, 2048, 32, 228, 2, flops=65536, dram=8.0e12),  # fp4, sparse
        _chip(101, 1536, 24, 228, 1, no_counters=_INTEGRATED),
        _chip(103, 2048, 32, 228, 2, flops=98304, no_counters=_NOT_LISTED),  # fp4, sparse
        _chip(110, 1536, 24, 228, 1, no_counters=_INTEGRATED),
        _chip(120, 1536, 24, 100, 1, flops=16384, dram=1.8e12),
        _chip(121, 1536, 24, 100, 1, flops=16384, no_counters=_INTEGRATED),
    )
}


def number_of(arch: str) -> int:
    """The compute capability of ``sm_90`` or ``sm_90a`` without its dot: 90."""
    return int(re.sub(r"\D", "", arch))


def chip_of(arch: str) -> Chip | None:
    """The chip of ``sm_90``, ``sm_90a`` or ``sm_100f``; None for one that the table does not know."""
    match = re.fullmatch(r"(sm_\d+)[af]?", arch)
    return CHIPS.get(match.group(1)) if match else None


def flops_per_s(compute_capability: str, multiprocessors: int, sm_mhz: float) -> float | None:
    """The most operations a second of the whole chip at ``sm_mhz``, for refusing impossible times; None if its row has no peak.

    A bound that is too high only makes the check milder. Bytes a second come from the driver instead.
    """
    chip = CHIPS.get(f"sm_{compute_capability.replace('.', '')}")
    return None if chip is None or chip.flops_per_sm_clock is None else chip.flops_per_sm_clock * multiprocessors * sm_mhz * 1e6


@dataclass(frozen=True)
class Occupancy:
    """How many CTAs of a kernel an SM holds at once, and what keeps it from holding more."""

    active_ctas: int
    active_warps: int
    fraction: float  # of the SM's warp slots
    limiter: str  # registers, shared memory, warps, CTAs, barriers; of equal ones the first named here


def registers_per_cta(registers: int, threads: int) -> int:
    """Registers that a launch of one CTA must find: by warp in steps of 256, warps rounded up to the four sub-partitions."""
    return _round_up(registers * WARP, REGISTERS_PER_WARP_STEP) * _round_up(-(-threads // WARP), SUB_PARTITIONS)


def occupancy(chip: Chip, registers: int, threads: int, smem_bytes: int, barriers: int = 0) -> Occupancy:
    """Theoretical occupancy of a kernel; 0 CTAs where one does not fit at all.

    ``registers`` per thread, ``threads`` per CTA, ``smem_bytes`` static and dynamic together without
    the system's kilobyte, ``barriers`` as ptxas prints them.
    """
    if threads < 1 or registers < 0 or smem_bytes < 0:
        raise ValueError(f"occupancy of {registers} registers, {threads} threads, {smem_bytes} bytes")
    warps = -(-threads // WARP)
    limits = {
        "registers": _register_limit(chip, registers, threads, warps),
        "shared memory": _smem_limit(chip, smem_bytes),
        "warps": chip.warps_per_sm // warps if threads <= chip.threads_per_cta else 0,
        "CTAs": chip.ctas_per_sm,
    }
    if barriers and chip.barriers_per_sm:
        limits["barriers"] = chip.barriers_per_sm // barriers
    limiter = min(limits, key=lambda name: limits[name])
    active = limits[limiter]
    return Occupancy(active, active * warps, active * warps / chip.warps_per_sm, limiter)


def _register_limit(chip: Chip, registers: int, threads: int, warps: int) -> int:
    if registers > chip.registers_per_thread or registers_per_cta(registers, threads) > chip.registers_per_cta:
        return 0
    per_warp = _round_up(registers * WARP, REGISTERS_PER_WARP_STEP)
    if per_warp == 0:
        return chip.ctas_per_sm
    return chip.registers_per_sm // SUB_PARTITIONS // per_warp * SUB_PARTITIONS // warps


def _smem_limit(chip: Chip, smem_bytes: int) -> int:
    if smem_bytes > chip.smem_per_cta:
        return 0
    allocated = _round_up(smem_bytes + chip.reserved_smem_per_cta, chip.smem_step)
    return chip.smem_per_sm // allocated if allocated else chip.ctas_per_sm


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
