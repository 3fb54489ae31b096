"""Faults that the performance gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from gates.core.records import GateResult
from gates.gate.performance import judge
from gates.gate.performance.evidence import MEASURED, Alone, OutputCheck, PerformanceEvidence
from gates.gate.plant import CLOSE, SOUND, Outcome
from gates.stats import outside
from gates.stats.calibration import Calibration
from gates.stats.samples import Series
from gates.stats.sampling import Sampler, measure
from gates.stats.simulated_device import SimulatedDevice

GATE = "performance"


def _judged_times(truth: float, bar_pct: float, claimed: float = 1.0, slowed: float = 1.0) -> GateResult:
    """Judge simulated times: the baseline takes ``truth`` times as long as the candidate, which claims ``claimed`` times its own times.

    Without the candidate, the baseline takes 1 / ``slowed`` of that.
    """
    device = SimulatedDevice({"candidate": 10.0, "baseline": 10.0 * truth, "control": 10.0 * truth}, seed=11)
    timers = {side: device.side(side) for side in ("candidate", "baseline", "control")}
    timers["candidate"] = lambda samples: [claimed * us for us in device.side("candidate")(samples)]
    taken = measure(
        timers["candidate"],
        timers["baseline"],
        timers["control"],
        bar_pct=bar_pct,
        seed=11,
        read_state=device.read_state,
        clock=device.clock,
    )
    launches = {"candidate": 50, "baseline": 50}
    long = outside.measure(
        {side: timers[side] for side in launches},
        launches,
        dict.fromkeys(launches, 500.0),
        random.Random(11),
        device.clock,
    )
    apart = SimulatedDevice({"baseline": 10.0 * truth / slowed}, seed=12)
    sampler = Sampler({"baseline": apart.side("baseline")}, read_state=apart.read_state, clock=apart.clock)
    sampler.warm_up("baseline")
    alone = Series("cold", {"baseline": 50}, tuple(sampler.block("baseline", number) for number in range(3)), "pairs")
    right = tuple(
        OutputCheck(when, side, "reference", 1.0, 8, 0, 0, 0.0, 0.0, 0.0)
        for when in ("before", "after")
        for side in ("candidate", "baseline")
    )
    evidence = PerformanceEvidence(
        task="selftest",
        baseline="selftest",
        shape="large",
        status=MEASURED,
        bar_pct=bar_pct,
        seed=11,
        calibration=Calibration(0.032, 1.5, 0.5),
        warm_up=taken.warm_up,
        outputs=right,
        output_limits=CLOSE,
        clock_source="nvml",
        series=(Series("cold", launches, taken.blocks, taken.stopped),),
        outside=tuple(long),
        alone=Alone(alone, ""),
        control=Series("control", {"baseline": 50, "control": 50}, taken.control, taken.stopped),
    )
    return judge.judge(evidence, {"shape": "large", "min_speedup_pct": bar_pct})


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, f"{SOUND}, 1.20x against 15 %", _judged_times(1.20, 15.0))
    yield Outcome(GATE, "the same kernel twice, simulated device, threshold 0 %", _judged_times(1.0, 0.0))
    yield Outcome(GATE, "that candidate slowed by 5 %: 1.143x against 15 %", _judged_times(1.20 / 1.05, 15.0))
    yield Outcome(GATE, "the same kernel twice, the candidate's times divided by four", _judged_times(1.0, 15.0, claimed=0.25))
    yield Outcome(GATE, "the same kernel twice, the baseline made slower beside the candidate", _judged_times(1.3, 15.0, slowed=1.3))
    yield Outcome(GATE, "candidate slower than its baseline by 5 %, threshold 0 %", _judged_times(1.0 / 1.05, 0.0))
