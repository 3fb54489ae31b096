"""Whole gates on simulated devices: sample by the protocol, judge the evidence."""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gates.core.records import GateResult
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import MEASURED, OutputCheck, PerformanceEvidence, TimedDevice, Work, summaries
from gates.gate.performance.thresholds import thresholds
from gates.stats import outside
from gates.stats.calibration import Calibration
from gates.stats.samples import Block, Series
from gates.stats.sampling import WarmUp, measure
from gates.stats.simulated_device import SimulatedDevice
from gates.stats.stopping_rule import CONFIDENCE

LIMITS = {"shape": "mission", "min_speedup_pct": 15}
RIGHT = tuple(
    OutputCheck(when, side, "reference", 1.0, 8, 0, 0, 1e-4, 1e-5, 0.0)
    for when in ("before", "after")
    for side in ("candidate", "baseline")
)
DEVICE = TimedDevice("simulated", "GPU-0", "9.0", "580", 132, 50 * 2**20, 3.35e12, 4e15)


def evidence(blocks: tuple[Block, ...], control: tuple[Block, ...], **changes: Any) -> PerformanceEvidence:
    """Measured evidence around blocks; everything else is as it should be unless ``changes`` says otherwise."""
    launches = {"candidate": 50, "baseline": 50}
    made = PerformanceEvidence(
        **{
            "task": "new",
            "baseline": "old",
            "shape": "mission",
            "status": MEASURED,
            "dimensions": {"B": 1},
            "bar_pct": 15.0,
            "seed": 3,
            "device": DEVICE,
            "calibration": Calibration(0.032, 1.5, 0.5),
            "warm_up": WarmUp(0.1, 6, True, False),
            "series": (Series("cold", launches, blocks, "clear"),),
            "control": Series("control", {"baseline": 50, "control": 50}, control, "clear"),
            "outputs": RIGHT,
            "output_limits": {"max_abs_err": 0.06, "mean_abs_err": 0.02, "bad_pct": 1.0},
            "work": Work(5.4e8, 2.0e6, 5 * 10**5),
            "clock_source": "nvml",
            "other_processes": (),
            "elapsed_s": 60.0,
            **changes,
        }
    )
    return PerformanceEvidence(**{**vars(made), "figures": summaries(made)})


def fed(new: list[float], old: list[float], *, pairs: int = 12, control: list[float] | None = None, **changes: Any) -> PerformanceEvidence:
    """Evidence in which every block of a side holds the same given samples, but for a millionth a pair: no card repeats itself."""

    def block(side: str, pair: int, samples: list[float]) -> Block:
        return Block(side, pair, tuple(sample * (1 + 1e-6 * pair) for sample in samples), sm_mhz=1980.0)

    blocks = tuple(block(side, pair, samples) for pair in range(pairs) for side, samples in (("candidate", new), ("baseline", old)))
    controls = tuple(block(side, pair, samples) for pair in range(12) for side, samples in (("baseline", old), ("control", control or old)))
    return evidence(blocks, controls, **changes)


HOSTS: dict[str, Callable[[random.Random], float]] = {  # us that pass outside beyond a block's samples
    "idle": lambda chance: chance.uniform(400, 700),
    "shared": lambda chance: chance.uniform(400, 1500) if chance.random() < 0.9 else chance.uniform(1500, 20_000),
    "busy": lambda chance: chance.uniform(400, 4000) if chance.random() < 0.7 else chance.uniform(4000, 100_000),
    "swamped": lambda chance: chance.uniform(400, 400_000),
}
Forge = Callable[[str, str, list[float]], list[float]]  # (side, mode, samples in us) -> what is claimed


@functools.cache
def simulated_gate(
    truth: float, seed: int, bar_pct: float = 15.0, *, host: str = "idle", forge: Forge | None = None, **trouble: Any
) -> GateResult:
    """One gate on a device on which the baseline takes ``truth`` times as long as the candidate; what ``forge`` makes of samples is
    claimed.
    """
    record = simulated_evidence(truth, seed, bar_pct, host=host, forge=forge, **trouble)
    return performance.judge(record, {**LIMITS, "min_speedup_pct": bar_pct})


def simulated_evidence(
    truth: float,
    seed: int,
    bar_pct: float = 15.0,
    *,
    host: str = "idle",
    forge: Forge | None = None,
    shape: str = "mission",
    confidence: float = CONFIDENCE,
    least_pairs: int = 0,
    **trouble: Any,
) -> PerformanceEvidence:
    """What such a device leaves of one shape."""
    options = {name: dict(value) if isinstance(value, tuple) else value for name, value in trouble.items()}
    device = SimulatedDevice({"candidate": 10.0, "baseline": 10.0 * truth, "control": 10.0 * truth}, seed=seed, **options)
    chance, late_s = random.Random(seed), [0.0]

    def timer(side: str, mode: str) -> Callable[[int], list[float]]:
        def block(samples: int) -> list[float]:
            times = list(device.side(side)(samples))
            late_s[0] += 1e-6 * (HOSTS[host](chance) + (40.0 * samples if mode == "cold" else 0.0))
            return forge(side, mode, times) if forge else times

        return block

    def clock() -> float:
        return device.clock() + late_s[0]

    taken = measure(
        *(timer(side, "cold") for side in ("candidate", "baseline", "control")),
        bar_pct=bar_pct,
        seed=seed,
        read_state=device.read_state,
        clock=clock,
        confidence=confidence,
        least_pairs=least_pairs,
    )
    sides = ("candidate", "baseline")
    replay_us = {
        side: 50 * statistics.median(sample for block in taken.blocks if block.side == side for sample in block.samples_us)
        for side in sides
    }
    outside_blocks = outside.measure({side: timer(side, "unflushed") for side in sides}, dict.fromkeys(sides, 50), replay_us, chance, clock)
    return evidence(
        taken.blocks,
        taken.control,
        shape=shape,
        bar_pct=bar_pct,
        confidence=confidence,
        seed=seed,
        warm_up=taken.warm_up,
        outside=tuple(outside_blocks),
        elapsed_s=taken.elapsed_s,
    )


def simulated_family(truths: Mapping[str, float], limits: Mapping[str, Any], seed: int) -> GateResult:
    """One gate over several shapes, each on a device of its own with the given truth."""
    asked = thresholds(limits)
    measured = [
        simulated_evidence(
            truths[shape], 1000 * seed + number, pct or 0.0, shape=shape, confidence=asked.confidence, least_pairs=asked.least_pairs
        )
        for number, (shape, pct) in enumerate(asked.shapes.items())
    ]
    return performance.judge(replace(measured[0], further=tuple(measured[1:])), limits)
