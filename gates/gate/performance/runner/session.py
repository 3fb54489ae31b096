"""Run the timing protocol on a CUDA device, from calibration to evidence, in the judge's process.

The kernels and the device's clock are in another process, which does everything on the device (``ask``, see
``gates.gate.performance.runner.ask``). This process draws the input values, chooses launches and their order, times every block by its own
clock, and compares the outputs.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gates.core.records import from_json, to_json
from gates.evidence.phases import Phases
from gates.gate.performance import codes
from gates.gate.performance.runner import ask as timing_ask
from gates.gate.performance.runner import nvml
from gates.gate.performance.runner import outputs as timing_outputs
from gates.gate.performance.runner.ask import Ask
from gates.gate.performance.runner.cuda_graphs import settled
from gates.gate.performance.runner.protocol import MAX_SEED, SINGLE_PAIRS, Stopped
from gates.gate.performance.runner.values import Values
from gates.hardware.chips import flops_per_s
from gates.hardware.peaks import REPLACEABLE, UNITS
from gates.launch.entry_point import is_c
from gates.stats import calibration as calibrate
from gates.stats import outside, sampling, stopping_rule
from gates.stats.calibration import Calibration
from gates.stats.samples import Series
from gates.task.problem import call_arguments

_CONTEXT_BUDGET_US = 10e6  # figures beside the verdict are left out where they would take longer


class AskedSide:
    """One side, which the other process holds."""

    def __init__(self, name: str, arguments: Sequence[str], ask: Ask) -> None:
        self.name, self.arguments, self.ask = name, tuple(arguments), ask
        self.launches: dict[str, int] = {}
        self.returned_bytes = 0

    def estimate(self) -> float:
        """us a launch, warm, from a few launches on set 0."""
        found = self.ask("estimate", side=self.name)
        self.returned_bytes = int(found["returned_bytes"])
        return float(found["us"])

    def prepare(self, mode: str, launches: int) -> Callable[[int], list[float]]:
        """The block timer of a cache mode, or of single launches (``single``)."""
        self.ask("prepare", side=self.name, mode=mode, launches=launches)
        self.launches[mode] = launches
        return self.timer(mode)

    def timer(self, mode: str) -> Callable[[int], list[float]]:
        return lambda samples: timing_ask.times(self.ask("block", side=self.name, mode=mode, samples=samples), samples)


class Session:
    """Time one shape. ``before``: the result of nvml.processes_by_uuid before the other process started CUDA; ``pid``: that process;
    ``first``: the session of that process which knew from the start what else ran on the card, and calibrated its clock.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        problem: Any,
        ask: Ask,
        before: Mapping[str, frozenset[int]],
        pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        first: Session | None = None,
    ) -> None:
        self.job, self.problem, self.ask, self.clock = job, problem, ask, clock
        self.shape = dict(problem.SHAPES[job["shape"]])
        self._chance = random.SystemRandom()  # what the other process must not foresee
        self.seed = self._chance.randrange(MAX_SEED) if job["seed"] is None else int(job["seed"])
        twin = job["baseline"] or job["candidate"]
        given = {"candidate": (job["candidate"], None), "baseline": (job["baseline"], None), "control": (twin, job["control_library"])}
        sides = {
            name: {"side": dict(side), "library": library, "arguments": list(side.get("arguments") or problem.ARGUMENTS)}
            for name, (side, library) in given.items()
            if side is not None
        }
        self.phases = Phases(clock)
        self.device = ask("open", device=job["device"], sides=sides)
        self.card: nvml.Nvml = first.card if first else nvml.open_device(self.device["uuid"], before, pid)
        self.others: set[int] = set(self.card.other_processes() or ())
        self.functions = [name for name, one in sides.items() if not is_c(one["side"])]
        made = {name: AskedSide(name, one["arguments"], ask) for name, one in sides.items()}
        self.candidate, self.baseline, self.control = made["candidate"], made.get("baseline"), made["control"]
        self.sides = list(made.values())
        self.phases.ended("open")
        self.calibration: Calibration = first.calibration if first else from_json(Calibration, ask("calibrate"), "calibration")
        self.phases.ended("calibrate")

    def measure(self) -> dict[str, Any]:
        """The whole protocol; returns the evidence as plain data."""
        job, mode = self.job, str(self.job["cache"])
        estimates = self._estimates(self.shape, self.sides)
        launches = self._launches(estimates)
        values = self.values = self._make_sets(max(launches.values()), self.shape, self.sides)
        timers = {side.name: side.prepare(mode, launches[side.name]) for side in self.sides}
        self.phases.ended("prepare")
        outputs = self._check("before", mode)
        self.phases.ended("outputs_before")
        slowest_us = max(estimates[name] * count for name, count in launches.items())
        result = sampling.measure(
            timers["candidate"],
            timers.get("baseline"),
            timers["control"],
            bar_pct=job["bar_pct"],
            seed=self.seed,
            read_state=self.card.state,
            refresh=self._refresh,
            samples=sampling.block_samples(slowest_us),
            budget_s=job["budget_s"],
            launches=launches,
            empty_pair_us=self.calibration.empty_pair_us,
            clock=self.clock,
            confidence=job["confidence"],
            least_pairs=job["least_pairs"],
            equal_ends=job["equal_ends"],
        )
        self.phases.ended("pairs")
        self._refresh(stopping_rule.LOOKS[-1])
        outside_blocks = self._outside(mode, launches, result.blocks or result.control)
        self.phases.ended("outside")
        outputs += self._check("after", mode)
        self.phases.ended("outputs_after")
        series = [_series(mode, launches, result.blocks or _of(result.control, "candidate"), result.stopped)]
        control = _series("control", launches, result.control, result.stopped)
        limited = result.warm_up.power_limited
        other = self._other_mode("warm" if mode == "cold" else "cold", launches, slowest_us, limited) if job["others"] else []
        single = self._single(launches, series[0], max(estimates.values()), limited)
        if replaced := self.ask("replaced"):
            raise Stopped(codes.TAMPERED, f"{', '.join(map(str, replaced[:5]))}: replaced since the kernels were loaded")
        self.others |= set(self.card.other_processes() or ())
        self.phases.ended("context")
        return {
            "dimensions": self.shape,
            "bar_pct": job["bar_pct"],
            "confidence": job["confidence"],
            "seed": self.seed,
            "device": self._device(),
            "torch_version": self.device["torch_version"],
            "calibration": to_json(self.calibration),
            "warm_up": to_json(result.warm_up),
            "gated_mode": mode,
            "series": to_json([*series, *other]),
            "control": to_json(control),
            "single": to_json(single),
            "outside": to_json(outside_blocks),
            "functions": self.functions,
            "outputs": outputs,
            "output_limits": job["output_limits"],
            "inputs": {
                "seeds": values.seeds,
                "sets": self.count,
                "set_bytes": self.set_bytes,
                "digest": values.digest,
                "refreshed": values.refreshed,
            },
            "work": self._work(),
            "clock_source": self.card.source,
            "other_processes": None if self.card.processes() is None else sorted(self.others),
            "elapsed_s": result.elapsed_s,
            "phase_s": self.phases.seconds,
        }

    def backends(self, *, again: bool) -> dict[str, Any]:
        """p50 of the problem's other implementations, cold, by the same mechanism. A failure is a message in its row and not raised.
        ``again``: another shape was timed meanwhile, so the input sets are made anew.
        """
        if not hasattr(self.problem, "backends"):
            return {}
        if again:
            self._sets(Values(self.problem, self.shape, self.count, self.seed), self.count, self.sides)
        job = self.job["candidate"]
        found = self.ask("backends", problem=job["problem"], folder=str(job["folder"]), shape=self.shape)
        return {name: {"p50_us": _number(row.get("us")), "message": str(row.get("message", ""))} for name, row in found.items()}

    def _estimates(self, shape: Mapping[str, int], sides: list[AskedSide]) -> dict[str, float]:
        """us a launch of each side, warm, from a few launches on one set."""
        self._sets(Values(self.problem, shape, 1, self.seed), 1, sides)
        return {side.name: side.estimate() for side in sides}

    def _sets(self, values: Values, count: int, sides: list[AskedSide]) -> None:
        for side in sides:  # what a name lacks is said here, where the problem is known
            call_arguments(self.problem, values.slots[0], values.made, values.shape, side.arguments)
        self.ask("sets", sides={side.name: list(side.arguments) for side in sides}, **values.question(count))

    def _launches(self, estimates: Mapping[str, float]) -> dict[str, int]:
        """Launches a sample by side; the control's are its twin's, or it would be another measurement."""
        found = {
            name: calibrate.launches(us, self.calibration.timer_step_us, self.calibration.empty_pair_us) for name, us in estimates.items()
        }
        return {**found, "control": found["baseline" if self.baseline else "candidate"]}

    def _make_sets(self, wanted: int, shape: Mapping[str, int], sides: list[AskedSide]) -> Values:
        """As many input sets as a graph has launches, within half of the free memory."""
        values = Values(self.problem, shape, wanted, self.seed)
        self.set_bytes = sum(side.returned_bytes for side in sides) + values.set_bytes(len(sides))
        self.count = max(1, min(wanted, int(self.ask("free_bytes")) // 2 // max(self.set_bytes, 1)))
        if self.count < len(values.slots):
            values = Values(self.problem, shape, self.count, self.seed)
        self._sets(values, self.count, sides)
        return values

    def _refresh(self, number: int) -> None:
        changed = self.values.refresh(number)
        self.ask("poison") if changed is None else self.ask("change", **changed)

    def _outside(self, mode: str, launches: Mapping[str, int], taken: Any) -> list[outside.OutsideBlock]:
        """Long blocks of both sides by this process's clock, on fresh values and poisoned outputs."""
        sides = [side for side in (self.candidate, self.baseline) if side is not None]
        sample_us = {
            side.name: launches[side.name]
            * settled([one for block in taken if block.side == side.name for one in block.samples_us] or [0.0])
            for side in sides
        }
        timers = {side.name: side.timer("unflushed") for side in sides if sample_us[side.name] > 0}
        return outside.measure(timers, {name: launches[name] for name in timers}, sample_us, self._chance, self.clock)

    def _check(self, when: str, mode: str) -> list[dict[str, Any]]:
        """Outputs of candidate and baseline; before timing, those of one replay on poisoned buffers."""
        checked = [side for side in (self.candidate, self.baseline) if side is not None]
        if when == "before":
            self.ask("poison")
            for side in checked:
                self.ask("replay", side=side.name, mode=mode)
        in_place = bool(self.values.in_place)  # such a kernel has changed its inputs many times by now: one untimed launch stands for all
        used = 1 if in_place or mode == "warm" else min([self.count, *(side.launches[mode] for side in checked)])
        looked = timing_outputs.Looked(self.values, used, self.set_bytes, self._chance)
        wanted = list(looked.wanted(looked.indices))
        found: list[dict[str, Any]] = []
        for side in checked:
            left = self._fetched(side, looked.indices, wanted[0], fresh=in_place)
            found.append(timing_outputs.compare(when, side.name, left, wanted, self.job["output_limits"].get("bad_atol")))
            if when == "before" and found[-1]["unwritten_sets"]:
                code = codes.NOT_CAPTURED if side is self.candidate else codes.BASELINE_FAILED
                raise Stopped(code, f"{side.name}: replaying the captured launches leaves outputs unwritten")
        return found

    def _fetched(self, side: AskedSide, indices: Sequence[int], exact: Mapping[str, Any], *, fresh: bool = False) -> dict[str, Any]:
        answer = (
            self.ask("fresh", side=side.name, index=indices[0]) if fresh else self.ask("outputs", side=side.name, indices=list(indices))
        )
        return timing_ask.rows(answer, len(indices), exact)

    def _other_mode(self, mode: str, launches: Mapping[str, int], sample_us: float, limited: bool) -> list[Any]:
        """The cache mode that is not gated: twelve pairs for context, left out where they would take too long."""
        samples = sampling.block_samples(sample_us)
        if sample_us * samples * 2 * stopping_rule.LOOKS[0] > _CONTEXT_BUDGET_US:
            return []
        timers = {side.name: side.prepare(mode, launches[side.name]) for side in self.sides if side is not self.control}
        blocks, stopped = sampling.fixed_pairs(
            timers["candidate"],
            timers.get("baseline"),
            pairs=stopping_rule.LOOKS[0],
            samples=samples,
            seed=self.seed,
            read_state=self.card.state,
            power_limited=limited,
            clock=self.clock,
        )
        return [_series(mode, launches, blocks, stopped)]

    def _single(self, launches: Mapping[str, int], gated: Any, kernel_us: float, limited: bool) -> Any:
        """Single cold launches in twelve pairs; a slow kernel's samples are single launches already."""
        if gated.mode == "cold" and all(count == 1 for count in launches.values()):
            return _series("single", launches, gated.blocks, gated.stopped)
        wanted = min(self.job["singles_a_block"], int(_CONTEXT_BUDGET_US / (2 * SINGLE_PAIRS * kernel_us)))
        blocks, stopped = sampling.fixed_pairs(
            self.candidate.prepare("single", 1),
            self.baseline.prepare("single", 1) if self.baseline else None,
            pairs=SINGLE_PAIRS,
            samples=max(5, wanted),
            seed=self.seed + 1,
            read_state=self.card.state,
            power_limited=limited,
            clock=self.clock,
        )
        return _series("single", dict.fromkeys(launches, 1), blocks, stopped)

    def _device(self) -> dict[str, Any]:
        sm_mhz, count, capability = self.card.max_sm_mhz(), int(self.device["multiprocessors"]), str(self.device["compute_capability"])
        return {
            **{name: value for name, value in self.device.items() if name != "torch_version"},
            "driver": self.card.driver(),
            "peak_bytes_per_s": self.card.peak_bytes_per_s(),
            "peak_flops_per_s": flops_per_s(capability, count, sm_mhz) if sm_mhz else None,
            "max_sm_mhz": sm_mhz,
        }

    def _work(self) -> dict[str, Any]:
        least: Mapping[str, Any] = {}
        if hasattr(self.problem, "work"):
            with contextlib.suppress(KeyError, TypeError):  # a work() that does not fit says nothing
                least = dict(self.problem.work(self.shape))
        operations = {unit: found for unit in UNITS if (found := _number(least.get(unit))) is not None}
        return {
            "flops": _number(least.get("flops")) or math.fsum(operations[unit] for unit in operations if unit not in REPLACEABLE) or None,
            "bytes": _number(least.get("bytes")),
            "output_bytes": self.values.output_bytes() or self.candidate.returned_bytes,
            "operations": operations,
        }


def _series(mode: str, launches: Mapping[str, int], blocks: Any, stopped: str) -> Any:
    present = {block.side for block in blocks}
    return Series(mode, {name: count for name, count in launches.items() if name in present}, tuple(blocks), stopped)


def _of(blocks: Any, side: str) -> tuple[Any, ...]:
    return tuple(block for block in blocks if block.side == side)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
