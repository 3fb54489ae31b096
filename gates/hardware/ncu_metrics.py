"""Nsight Compute metric names by chip: the one table.

From ``ncu --query-metrics --chips …`` (which needs no GPU) and NVIDIA's metric library. A chip's row in
``gates/hardware/chips.py`` says why it has no counters, if it has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gates.hardware import chips

MOST_PCT = 100.5  # ncu's shares may pass 100 by a rounding
MOST_OF_PEAK = 2.0  # a kernel's duration and its bytes are of two replays, whose clocks may differ
_COUNT_UNITS = ("", "inst", "warp")  # what versions of ncu call the unit of a count or a ratio of counts
CHIPS = tuple(arch for arch, chip in chips.CHIPS.items() if not chip.no_counters)
_V2_SINCE = (2025, 3)  # Nsight Compute of CUDA 13.0: sm_89 lists the tensor metrics as *_v2

_ACTIVE = ".avg.pct_of_peak_sustained_active"
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
_SUM = ".sum"
_RATIO = ".ratio"


@dataclass(frozen=True)
class Metric:
    """A logical metric. ``floor``: at or below it a rise is no matter, whatever the percentage.

    ``other`` gives the base name where a chip's differs; None where it has none. ``parts`` makes a
    metric of others: (sum of the first names) / (sum of the second); a name after ``-`` is subtracted.
    """

    name: str
    what: str
    unit: str
    base: str = ""
    suffix: str = _SUM
    floor: float = 0.0
    other: Mapping[str, str | None] = field(default_factory=dict)
    v2: bool = False
    parts: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    @property
    def adds(self) -> bool:
        """Whether the values of several kernels add up; shares and ratios are weighted by duration instead."""
        return self.suffix == _SUM


def _stall(name: str, reason: str, what: str) -> Metric:
    """Warps that wait for one reason whenever an instruction is issued (Nsight Compute's section WarpStateStats)."""
    return Metric(
        f"stall_{name}",
        f"warps waiting for {what} at each issue",
        "warp",
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active",
        _RATIO,
    )


_SHARED = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
_SUBPIPE = "sm__pipe_tensor_subpipe_hmma_cycles_active"

_TABLE = (
    Metric("tensor_pipe", "tensor pipe busy", "%", "sm__pipe_tensor_cycles_active", _ACTIVE, v2=True),
    Metric(
        "tensor_hmma",
        "tensor pipe busy with half-precision and fp8 products",
        "%",
        "sm__pipe_tensor_op_hmma_cycles_active",
        _ACTIVE,
        other={"sm_100": _SUBPIPE, "sm_120": _SUBPIPE},
        v2=True,
    ),
    Metric("tensor_inst", "tensor instructions", "inst", "sm__inst_executed_pipe_tensor", v2=True),
    Metric(
        "tensor_gmma",
        "warpgroup tensor instructions",
        "inst",
        "sm__inst_executed_pipe_tensor_op_gmma",
        other=dict.fromkeys([chip for chip in CHIPS if chip != "sm_90"]),
    ),
    Metric("sm_throughput", "SM throughput", "%", "sm__throughput", _ELAPSED),
    Metric("dram_throughput", "device memory throughput", "%", "gpu__dram_throughput", _ELAPSED),
    Metric("dram_bytes", "device memory traffic", "byte", "dram__bytes", floor=64 * 1024),
    Metric("dram_read_bytes", "device memory reads", "byte", "dram__bytes_read", floor=64 * 1024, other={"sm_120": "dram__bytes_op_read"}),
    Metric(
        "dram_write_bytes", "device memory writes", "byte", "dram__bytes_write", floor=64 * 1024, other={"sm_120": "dram__bytes_op_write"}
    ),
    Metric("bank_conflict_count", "shared-memory bank conflicts", "", _SHARED, floor=100),
    Metric("shared_load_wavefronts", "shared-memory load wavefronts", "", f"{_WAVEFRONTS}_ld"),
    Metric("shared_store_wavefronts", "shared-memory store wavefronts", "", f"{_WAVEFRONTS}_st"),
    Metric("shared_load_conflicts", "shared-memory bank conflicts of loads", "", f"{_SHARED}_op_ld"),
    Metric("shared_store_conflicts", "shared-memory bank conflicts of stores", "", f"{_SHARED}_op_st"),
    Metric("local_loads", "local-memory loads", "inst", "smsp__inst_executed_op_local_ld"),
    Metric("local_stores", "local-memory stores", "inst", "smsp__inst_executed_op_local_st"),
    Metric("occupancy", "warps active", "%", "sm__warps_active", _ACTIVE),
    Metric("duration_ns", "kernel duration under the profiler, never a speed verdict", "nsecond", "gpu__time_duration"),
    _stall("global_memory", "long_scoreboard", "global or local memory"),
    _stall("shared_memory", "short_scoreboard", "shared memory or special functions"),
    _stall("memory_queue", "mio_throttle", "a place in the queue of shared memory and special functions"),
    _stall("barrier", "barrier", "other warps at a barrier"),
    _stall("math_pipe", "math_pipe_throttle", "an arithmetic pipe"),
    _stall("latency", "wait", "an instruction's fixed latency"),
    # Conflict counts grow with the work, so the judge looks at wavefronts over those that would do without a
    # conflict: 1 is conflict-free. Wavefronts over instructions would call 16-byte accesses conflicts, which need
    # four wavefronts, and smsp__inst_executed_op_shared_ld does not count ldmatrix while its wavefronts are counted.
    Metric(
        "bank_conflicts",
        "shared-memory wavefronts for one without conflicts",
        "way",
        floor=1.0,
        parts=(
            ("shared_load_wavefronts", "shared_store_wavefronts"),
            ("shared_load_wavefronts", "shared_store_wavefronts", "-shared_load_conflicts", "-shared_store_conflicts"),
        ),
    ),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


def source_name(metric: str, chip: str, version: tuple[int, ...] = ()) -> str | None:
    """The full ncu name of a logical metric on ``chip`` (``sm_90``); None where the chip has none.

    ``version`` is Nsight Compute's. Raises KeyError for a metric or chip that is not in the table.
    """
    entry = METRICS[metric]
    if chip not in CHIPS:
        raise KeyError(chip)
    base = entry.other.get(chip, entry.base)
    if not base:
        return None
    if entry.v2 and chip == "sm_89" and version >= _V2_SINCE:
        base += "_v2"
    return base + entry.suffix


def sources(chip: str, version: tuple[int, ...] = ()) -> dict[str, str]:
    """Every measured metric of ``chip``: logical name -> ncu name."""
    names = {name: source_name(name, chip, version) for name in METRICS}
    return {name: source for name, source in names.items() if source is not None}


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of Nsight Compute's version ``2025.3.1.0``."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def impossible(metric: str, value: float, unit: str, *, duration_ns: float | None, chip: str) -> str:
    """Return why no card can count ``value`` in a launch of ``duration_ns``; empty if one can."""
    if metric not in METRICS:
        return "no metric of gates has this name"
    known = METRICS[metric].unit
    if unit != known and not (known in _COUNT_UNITS and unit in _COUNT_UNITS):
        return f"its unit is {unit!r}, and not {known!r}"
    if not 0.0 <= value < math.inf:
        return "it is below zero" if value < 0.0 else "it is no number"
    if unit == "%" and value > MOST_PCT:
        return "it is a share of more than 100 %"
    if unit == "nsecond" and value == 0.0:
        return "no launch takes no time"
    peak = chips.CHIPS[chip].dram_bytes_per_s if chip in chips.CHIPS else None
    if unit == "byte" and duration_ns and peak is not None and value > MOST_OF_PEAK * peak * 1e-9 * duration_ns:
        return f"in {duration_ns / 1000.0:.3g} us no {chip} moves more than {peak * 1e-9 * duration_ns:.3g} bytes"
    return ""
