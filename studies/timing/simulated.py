"""A stand-in for the card: the protocol runs for real, on gates.stats's simulated device."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

from gates.gate.performance.evidence import MEASURED, OutputCheck, PerformanceEvidence, TimedDevice, Work, summaries
from gates.gate.performance.thresholds import thresholds
from gates.stats.calibration import Calibration
from gates.stats.samples import Series
from gates.stats.sampling import WarmUp, measure
from gates.stats.simulated_device import SimulatedDevice
from gates.stats.stopping_rule import CONFIDENCE
from timing import plan, verdict

FLOOR_US, STEP_US = 1.6, 0.00203
_DEVICE = TimedDevice("simulated", "GPU-0", "9.0", "580", 132, 50 * 2**20, 3.35e12, 4e15)
_OUTPUTS = tuple(
    OutputCheck(when, side, "reference", 1.0, 8, 0, 0, 0.0, 0.0, 0.0) for when in ("before", "after") for side in ("candidate", "baseline")
)


class SimulatedLab:
    """The methods of ``lab.Lab`` without a card, on kernels that take 1.6 us + 2.03 ns a step."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def build_chains(self, steps: Iterable[int]) -> None:
        pass

    def build_stages(self) -> None:
        pass

    def device(self) -> dict[str, Any]:
        return {"name": "simulated", "uuid": "", "driver": "", "torch": "", "cuda": ""}

    def rounds(self, steps: Mapping[str, int], count: int) -> list[dict[str, float]]:
        return [{name: self._us(number) * self._random.gauss(1.0, 0.001) for name, number in steps.items()} for _ in range(count)]

    def cycles(self, steps: int) -> int:
        return round(steps * STEP_US * 1980)

    def gate(self, candidate: int, baseline: int, bar_pct: float, seed: int) -> dict[str, Any]:
        started = time.monotonic()
        evidence = self._evidence(candidate, baseline, bar_pct, seed, "wide")
        return verdict.of_evidence(evidence, {**plan.LIMITS, "min_speedup_pct": bar_pct}, time.monotonic() - started)

    def family(self, chains: Mapping[str, int], seed: int) -> dict[str, Any]:
        started, confidence = time.monotonic(), thresholds(plan.family_limits(chains)).confidence
        every = {name: self._evidence(n, n, 0.0, seed + place, name, confidence) for place, (name, n) in enumerate(chains.items())}
        return verdict.of_family(every, time.monotonic() - started)

    def _evidence(
        self, candidate: int, baseline: int, bar_pct: float, seed: int, shape: str, confidence: float = CONFIDENCE
    ) -> PerformanceEvidence:
        old, launches = self._us(baseline), max(1, round(500 / self._us(candidate)))
        device = SimulatedDevice({"candidate": self._us(candidate), "baseline": old, "control": old}, seed=seed, launches=launches)
        taken = measure(
            device.side("candidate"),
            device.side("baseline"),
            device.side("control"),
            bar_pct=bar_pct,
            seed=seed,
            read_state=device.read_state,
            clock=device.clock,
            confidence=confidence,
        )
        counts = {"candidate": launches, "baseline": launches}
        made: dict[str, Any] = {
            "task": "new",
            "baseline": "old",
            "shape": shape,
            "status": MEASURED,
            "bar_pct": bar_pct,
            "seed": seed,
            "device": _DEVICE,
            "calibration": Calibration(0.032, 1.3, 0.97),
            "warm_up": WarmUp(0.1, 6, True, False),
            "series": (Series("cold", counts, taken.blocks, taken.stopped),),
            "control": Series("control", {"baseline": launches, "control": launches}, taken.control, taken.stopped),
            "outputs": _OUTPUTS,
            "output_limits": plan.OUTPUT_LIMITS,
            "work": Work(3e4, 1.3e5, 65536),
            "clock_source": "nvml",
            "other_processes": (),
            "elapsed_s": taken.elapsed_s,
        }
        return PerformanceEvidence(**{**made, "figures": summaries(PerformanceEvidence(**made))})

    def stage_gate(self, seed: int) -> dict[str, Any]:
        return self.gate(4000, 6000, plan.BAR_PCT, seed)

    def stage_process(self, seed: int) -> dict[str, Any]:
        return self.stage_gate(seed)

    def usual(self, candidate: int, baseline: int) -> dict[str, float]:
        """The ways of ``usual`` by name; their errors here are made up."""
        ratio = self._us(baseline) / self._us(candidate)
        ways = {"event pair a call, p50 of 500": 0.1, "triton do_bench, mean": 0.02, "graph of 200 launches, p50 of 40": 0.01}
        return {name: ratio * self._random.gauss(1.0, error) for name, error in ways.items()}

    def times(self, steps: int) -> dict[str, Any]:
        us = self._us(steps)
        return {"gate, cold": us, "gate, warm": us - 0.6, "gate, single launches": us + 1.3}

    def other_tools(self, steps: Iterable[int]) -> list[dict[int, dict[str, Any]]]:
        by_us = {number: self._us(number) for number in steps}
        cupti = {number: {"CUPTI, warm": us - 1.2, "CUPTI, cold": us - 0.5} for number, us in by_us.items()}
        nvbench = {number: {"NVBench, cold": us + 1.0, "NVBench, batch": us - 0.6} for number, us in by_us.items()}
        return [{**cupti, 0: {"CUPTI, warm": 0.5}}, nvbench]

    def empty(self) -> dict[str, Any]:
        return dict(vars(Calibration(0.032, 1.3, 0.97)))

    def torch_start(self) -> float:
        return 0.0

    def _us(self, steps: int) -> float:
        return FLOOR_US + STEP_US * steps
