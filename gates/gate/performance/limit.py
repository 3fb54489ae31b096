"""The least time that the card allows one launch: what bounds the kernel, and what share of the limit it reaches.

A resource's time is the problem's work by its peak: operations by unit and clock, bytes read by the memory's rate, and an empty launch. The
limit is the largest of these. Peaks are those of ``gates calibrate`` if the run found some of its card, else the data sheet's.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from gates.gate.performance.evidence import MEASURED, PerformanceEvidence, TimedDevice, Work, summaries
from gates.hardware.peaks import REPLACEABLE, peak
from gates.stats.samples import CANDIDATE

LAUNCH, MEMORY, ARITHMETIC = "launch", "memory", "arithmetic"


@dataclass(frozen=True)
class Limit:
    """The least time of a launch, us by resource, at ``mhz`` of the SM clock (None: unknown), and what one side reached. ``calibrated``:
    resources whose peak is that of ``gates calibrate``.
    """

    bounds: Mapping[str, float]
    mhz: float | None
    p50_us: float
    calibrated: frozenset[str]

    @property
    def bound(self) -> str:
        """The resource that bounds the kernel."""
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def us(self) -> float:
        return self.bounds[self.bound]

    @property
    def share_pct(self) -> float:
        """The limit's share of the time that the kernel takes."""
        return 100.0 * self.us / self.p50_us

    def words(self) -> str:
        """``43 % of the limit of 2.21 us (tensor.fp16 at 1755 MHz)``."""
        at = f" at {self.mhz:.0f} MHz" if self.mhz and self.bound not in (LAUNCH, MEMORY) else ""
        whose = "calibrated " if self.bound in self.calibrated else ""
        return f"{self.share_pct:.0f} % of the {whose}limit of {self.us:.3g} us ({self.bound}{at})"


def limit_of(evidence: PerformanceEvidence, mode: str, side: str = CANDIDATE) -> Limit | None:
    """The limit of ``side``'s launches at the clock of its own blocks; None if the problem's work names no unit that the chip has, or the
    unit of its operations is open.
    """
    series, work = evidence.in_mode(mode), evidence.work
    figures = summaries(evidence).get(mode, {}).get(side) if evidence.status == MEASURED else None
    if series is None or figures is None or work is None or (work.flops and not work.operations):
        return None
    clocks = [block.sm_mhz for block in series.blocks if block.side == side and block.valid and block.sm_mhz]
    mhz = statistics.median(clocks) if clocks else evidence.device.max_sm_mhz if evidence.device else None
    if not (bounds := least_us(evidence, mode, mhz)):
        return None
    if evidence.calibration and evidence.calibration.empty_kernel_us:
        bounds[LAUNCH] = evidence.calibration.empty_kernel_us
    peaks = evidence.peaks
    calibrated = {MEMORY: peaks.bytes_per_s, **peaks.per_sm_clock} if peaks else {}
    return Limit(bounds, mhz, figures.p50_us, frozenset(name for name, found in calibrated.items() if found))


def least_us(evidence: PerformanceEvidence, mode: str, mhz: float | None, *, certain: bool = False) -> dict[str, float]:
    """The least us of a launch by resource; ``certain``: by data-sheet peaks, and without units whose work other units can do.

    With a warm L2 no byte need reach memory.
    """
    work, device, peaks = evidence.work, evidence.device, None if certain else evidence.peaks
    found: dict[str, float] = {}
    if work is None or device is None:
        return found
    rate = peaks.bytes_per_s if peaks and peaks.bytes_per_s else device.peak_bytes_per_s
    if mode == "cold" and work.bytes and rate:
        found[MEMORY] = 1e6 * moved_bytes(work, device) / rate
    for unit, operations in work.operations.items():
        per_clock = (peaks.per_sm_clock.get(unit) if peaks else None) or peak(device.compute_capability, unit)
        if per_clock and mhz and device.multiprocessors and not (certain and unit in REPLACEABLE):
            found[unit] = operations / (per_clock * device.multiprocessors * mhz)
    if certain and not found.keys() & work.operations.keys() and work.flops and device.peak_flops_per_s:
        found[ARITHMETIC] = 1e6 * work.flops / device.peak_flops_per_s
    return found


def moved_bytes(work: Work, device: TimedDevice) -> float:
    """The least bytes of a launch with a cold L2 that must cross the memory bus: all reads, and of the output what the L2 can't keep."""
    written = work.output_bytes - device.l2_bytes if device.l2_bytes else 0
    return max(0.0, (work.bytes or 0.0) - work.output_bytes) + max(0, written)


def rates(evidence: PerformanceEvidence, limit: Limit) -> dict[str, float]:
    """Rates of the work that the limit counts: TFLOP/s, and GB/s of the least traffic."""
    work, found = evidence.work, dict[str, float]()
    assert work is not None
    if arithmetic := sum(count for unit, count in work.operations.items() if unit not in REPLACEABLE):
        found["TFLOP/s"] = arithmetic / limit.p50_us * 1e-6
    if work.bytes:
        found["GB/s"] = work.bytes / limit.p50_us * 1e-3
    return found
