"""The peaks that `gates calibrate` measured of a card, and the file of a results folder that keeps them with their samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.core import jsonio, records
from gates.gate.performance.evidence import Peaks, PerformanceEvidence, TimedDevice
from gates.gate.performance.limit import MEMORY
from gates.hardware.peaks import peak
from gates.stats.samples import CANDIDATE

SCHEMA_VERSION = 1
_TENSOR_MEMORY = "10."  # chips whose tensor cores reach their peak by tcgen05 only, which the calibration does not run


@dataclass(frozen=True)
class CardPeaks:
    """calibration-<uuid>.json: the evidence of one timing per unit; ``made`` is UTC."""

    schema_version: int
    tool_version: str
    made: str
    units: Mapping[str, PerformanceEvidence]

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {self.schema_version}, this version of gates reads {SCHEMA_VERSION}")
        if len({one.device for one in self.units.values()}) != 1 or None in {one.device for one in self.units.values()}:
            raise ValueError("the units were not all timed on one device")

    @property
    def device(self) -> TimedDevice:
        device = next(iter(self.units.values())).device
        assert device is not None
        return device


def peaks_of(card: CardPeaks) -> Peaks:
    """Bytes per second and operations per SM and clock, from the p50 and the clock of each unit's timing.

    All bytes of the copy count: what the L2 keeps of a launch's output, it writes back of the launch's or flush's before.
    """
    device, rate, per_clock, clocks = card.device, None, dict[str, float](), list[float]()
    for unit, evidence in card.units.items():
        series, work = evidence.series[0], evidence.work
        assert work is not None
        p50_us = statistics.median(series.samples(CANDIDATE))
        mhz = [block.sm_mhz for block in series.blocks if block.side == CANDIDATE and block.valid and block.sm_mhz]
        clocks += mhz
        if unit == MEMORY:
            rate = 1e6 * work.bytes / p50_us if work.bytes else None
        elif mhz and not (unit.startswith("tensor.") and device.compute_capability.startswith(_TENSOR_MEMORY)):
            per_clock[unit] = work.operations[unit] / (p50_us * device.multiprocessors * statistics.median(mhz))
    return Peaks(device.driver, statistics.median(clocks) if clocks else None, rate, per_clock)


def path_of(results: Path, device: TimedDevice) -> Path:
    """The file of a card."""
    return results / f"calibration-{device.uuid.removeprefix('GPU-')}.json"


def read_peaks(results: Path, device: TimedDevice | None) -> Peaks | None:
    """The peaks of ``device`` under its driver; None if it was not calibrated, or under another driver. GatesError for a broken file."""
    if device is None or not (path := path_of(results, device)).is_file():
        return None
    card = records.from_json(CardPeaks, jsonio.read(path), str(path))
    return peaks_of(card) if card.device.driver == device.driver and card.device.uuid == device.uuid else None


def summary(device: TimedDevice, peaks: Peaks) -> list[str]:
    """A line per unit: what was measured, and its share of the data sheet's peak."""
    at = f" at {peaks.sm_mhz:.0f} MHz" if peaks.sm_mhz else ""
    lines = [f"{device.name}, driver {peaks.driver}{at}"]
    if peaks.bytes_per_s:
        most = device.peak_bytes_per_s
        share = f", {100.0 * peaks.bytes_per_s / most:.0f} % of the {most * 1e-9:.0f} that its clock and bus allow" if most else ""
        lines.append(f"memory: {peaks.bytes_per_s * 1e-9:.0f} GB/s{share}")
    for unit, per_clock in peaks.per_sm_clock.items():
        most = peak(device.compute_capability, unit)
        share = f", {100.0 * per_clock / most:.0f} % of the data sheet's {most}" if most else ""
        lines.append(f"{unit}: {per_clock:.0f} operations per SM and clock{share}")
    return lines
