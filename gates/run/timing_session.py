"""One timing run on a CUDA device: the whole protocol, from calibration to evidence. Runs in the runner process."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gates.facts import peaks
from gates.measure import calibrate, sampling
from gates.measure.records import Series
from gates.records import to_json
from gates.run import nvml, timing_cuda, timing_outputs
from gates.run.timing import SINGLE_PAIRS
from gates.run.timing_cuda import Stopped, first_line

_CONTEXT_BUDGET_US = 10e6  # figures beside the verdict are left out where they would take longer
_BACKEND_SETS = 32
_CONTEXT_SAMPLES = 25


class Session:
    """One timing run on one device; ``before`` is what nvml.processes_by_uuid said before CUDA started."""

    def __init__(self, job: Mapping[str, Any], problem: Any, device: Any, before: Mapping[str, frozenset[int]]) -> None:
        self.job, self.problem, self.device = job, problem, device
        self.shape = dict(problem.SHAPES[job["shape"]])
        self.clockwork = timing_cuda.Clockwork(device)
        properties = torch.cuda.get_device_properties(device)
        self.properties = properties
        self.card = nvml.open_device(str(getattr(properties, "uuid", "")), before)
        self.others: set[int] = set(self.card.other_processes() or ())
        twin = job["baseline"] or job["candidate"]
        self.candidate = timing_cuda.TimedSide("candidate", job["candidate"], problem, self.clockwork)
        self.baseline = timing_cuda.TimedSide("baseline", job["baseline"], problem, self.clockwork) if job["baseline"] else None
        self.control = timing_cuda.TimedSide("control", twin, problem, self.clockwork, job["control_library"])
        self.sides = [side for side in (self.candidate, self.baseline, self.control) if side is not None]

    def measure(self) -> dict[str, Any]:
        """The whole protocol; returns the evidence as plain data."""
        job, mode = self.job, str(self.job["cache"])
        calibration = self.calibration = self.clockwork.calibration()
        estimates = self._estimates(self.shape, self.sides)
        launches = self._launches(estimates, calibration)
        sets = self.sets = self._make_sets(max(launches.values()), self.shape, self.sides)
        timers = {side.name: side.prepare(sets, mode, launches[side.name]) for side in self.sides}
        outputs = self._check("before", mode)
        slowest_us = max(estimates[name] * count for name, count in launches.items())
        result = sampling.measure(
            timers["candidate"], timers.get("baseline"), timers["control"], bar_pct=job["bar_pct"], seed=job["seed"],
            read_state=self.card.state, refresh=self._refresh, samples=sampling.block_samples(slowest_us),
            budget_s=job["budget_s"], launches=launches, empty_pair_us=calibration.empty_pair_us,
        )
        outputs += self._check("after", mode)
        series = [_series(mode, launches, result.blocks or _of(result.control, "candidate"), result.stopped)]
        control = _series("control", launches, result.control, result.stopped)
        limited = result.warm_up.power_limited
        other = self._other_mode("warm" if mode == "cold" else "cold", launches, slowest_us, limited)
        single = self._single(launches, series[0], max(estimates.values()), limited)
        self.others |= set(self.card.other_processes() or ())
        return {
            "dimensions": self.shape, "bar_pct": job["bar_pct"], "seed": job["seed"], "device": self._device(),
            "torch_version": torch.__version__, "calibration": to_json(calibration), "warm_up": to_json(result.warm_up),
            "gated_mode": mode, "series": to_json([*series, *other]), "control": to_json(control), "single": to_json(single),
            "outputs": outputs, "output_limits": job["output_limits"],
            "inputs": {"seeds": sets.seeds, "sets": sets.count, "set_bytes": self.set_bytes, "digest": sets.digest,
                       "refreshed": sets.refreshed},
            "work": self._work(), "clock_source": self.card.source,
            "other_processes": None if self.card.processes() is None else sorted(self.others), "elapsed_s": result.elapsed_s,
        }

    def backends(self) -> dict[str, Any]:
        """p50 of the problem's other implementations, cold, by the same mechanism; failures are told, not raised."""
        return {name: {"p50_us": row["cold_us"], "message": row["message"]} for name, row in self._others(self.sets, self.shape, ("cold",)).items()}

    def also(self) -> dict[str, dict[str, Any]]:
        """p50 of both sides and of the other implementations on the job's further shapes, cold and warm; failures are told, not raised."""
        found: dict[str, dict[str, Any]] = {}
        for name in self.job.get("also", ()):
            try:
                found[name] = self._beside(dict(self.problem.SHAPES[name]))
            except Exception as error:  # a kernel that refuses the shape, memory that does not suffice, or the user's module
                found[name] = {"all": _row(f"{type(error).__name__}: {first_line(error)}")}
        return found

    def _beside(self, shape: dict[str, int]) -> dict[str, Any]:
        sides = [side for side in (self.candidate, self.baseline) if side is not None]
        launches = self._launches(self._estimates(shape, sides), self.calibration)
        sets = self._make_sets(max(launches.values()), shape, sides)
        sets.poison()
        self.clockwork.synchronize()
        rows = {side.name: _row() for side in sides}
        for side in sides:
            for mode in ("cold", "warm"):
                rows[side.name][f"{mode}_us"] = _settled(side.prepare(sets, mode, launches[side.name])(_CONTEXT_SAMPLES))
        if self.baseline is not None:
            most = timing_outputs.difference(sets.outputs["candidate"], sets.outputs["baseline"])
            if not most <= 2 * self.job["output_limits"].get("max_abs_err", math.inf):
                rows["candidate"] = _row(f"its outputs and the baseline's differ by {most:.3g}")
        return rows | self._others(sets, shape, ("cold", "warm"))

    def _others(self, sets: Any, shape: Mapping[str, int], modes: tuple[str, ...]) -> dict[str, Any]:
        """A row for each of the problem's other implementations."""
        if not hasattr(self.problem, "backends"):
            return {}
        count = min(sets.count, _BACKEND_SETS)
        found: dict[str, Any] = {}
        try:
            with torch.cuda.stream(self.clockwork.stream):
                calls = [self.problem.backends(sets.device_inputs(index), shape) for index in range(count)]
            self.clockwork.synchronize()
        except Exception as error:  # the user's module: whatever it raises is told in the row
            return {"all": _row(f"{type(error).__name__}: {first_line(error)}")}
        for name in calls[0]:
            try:
                of_name = [one[name] for one in calls]
                times = {f"{mode}_us": self._backend_us(of_name if mode == "cold" else of_name[:1] * count, mode == "cold") for mode in modes}
                found[name] = _row() | times
            except Exception as error:  # an unsupported shape or device, by the backend's own choice of exception
                found[name] = _row(f"{type(error).__name__}: {first_line(error)}")
        return found

    def _backend_us(self, calls: list[Callable[[], Any]], flush: bool) -> float:
        with torch.cuda.stream(self.clockwork.stream):
            for call in (*calls[:1] * 2, *calls):
                call()
        self.clockwork.synchronize()
        graph = self.clockwork.capture([lambda stream, call=call: call() for call in calls])
        return _settled(self.clockwork.elapsed_us(lambda number: graph.replay(), _CONTEXT_SAMPLES, flush=flush)) / len(calls)

    def _estimates(self, shape: Mapping[str, int], sides: list[Any]) -> dict[str, float]:
        """us a launch of each side, warm, from a few launches on one set."""
        probe = self._sets(1, shape, sides)
        return {side.name: side.estimate(probe, side.try_launch(probe)) for side in sides}

    def _sets(self, count: int, shape: Mapping[str, int], sides: list[Any]) -> Any:
        sets = timing_cuda.Sets(self.problem, shape, count, self.job["seed"], self.device, {side.name: side.arguments for side in sides})
        self.clockwork.synchronize()
        return sets

    def _launches(self, estimates: Mapping[str, float], calibration: Any) -> dict[str, int]:
        """Launches a sample by side; the control's are its twin's, or it would be another measurement."""
        found = {
            name: calibrate.launches(us, calibration.timer_step_us, calibration.empty_pair_us) for name, us in estimates.items()
        }
        return {**found, "control": found["baseline" if self.baseline else "candidate"]}

    def _make_sets(self, wanted: int, shape: Mapping[str, int], sides: list[Any]) -> Any:
        """As many input sets as a graph has launches, within half of the free memory."""
        self.set_bytes = sum(side.returned_bytes for side in sides) + timing_cuda.Sets.bytes_of_one(self.problem, shape, len(sides))
        free, _ = torch.cuda.mem_get_info(self.device)
        return self._sets(max(1, min(wanted, free // 2 // max(self.set_bytes, 1))), shape, sides)

    def _refresh(self, number: int) -> None:
        self.sets.refresh(number)
        self.clockwork.synchronize()  # copies run on another stream than the launches

    def _check(self, when: str, mode: str) -> list[dict[str, Any]]:
        """Outputs of candidate and baseline; before timing, those of one replay on poisoned buffers."""
        checked = [side for side in (self.candidate, self.baseline) if side is not None]
        if when == "before":
            self.clockwork.synchronize()  # whatever ran during capture, on a stream of its own, is over
            self.sets.poison()
            self.clockwork.synchronize()
            for side in checked:
                side.replay(mode)
        self.clockwork.synchronize()
        used = self.sets.count if mode == "cold" else 1
        bad_atol = self.job["output_limits"].get("bad_atol")
        exact = self.problem.reference(self.sets.host_inputs(0), self.sets.shape)  # slow, and the same for both sides
        found: list[dict[str, Any]] = []
        for side in checked:
            reached = min(used, side.launches[mode])
            mine = timing_outputs.check(when, side, self.sets, reached, exact, self.baseline, self.clockwork, bad_atol)
            if when == "before" and any(one["unwritten_sets"] for one in mine):
                code = "performance.not_captured" if side is self.candidate else "performance.baseline_failed"
                raise Stopped(code, f"{side.name}: replaying the captured launches leaves outputs unwritten")
            found += mine
        return found

    def _other_mode(self, mode: str, launches: Mapping[str, int], sample_us: float, limited: bool) -> list[Any]:
        """The cache mode that is not gated: twelve pairs for context, left out where they would take too long."""
        samples = sampling.block_samples(sample_us)
        if sample_us * samples * 2 * sampling.decision.LOOKS[0] > _CONTEXT_BUDGET_US:
            return []
        timers = {side.name: side.prepare(self.sets, mode, launches[side.name]) for side in self.sides if side is not self.control}
        blocks, stopped = sampling.fixed_pairs(
            timers["candidate"], timers.get("baseline"), pairs=sampling.decision.LOOKS[0], samples=samples,
            seed=self.job["seed"], read_state=self.card.state, power_limited=limited,
        )
        return [_series(mode, launches, blocks, stopped)]

    def _single(self, launches: Mapping[str, int], gated: Any, kernel_us: float, limited: bool) -> Any:
        """Single cold launches in twelve pairs; a slow kernel's samples are single launches already."""
        if gated.mode == "cold" and all(count == 1 for count in launches.values()):
            return _series("single", launches, gated.blocks, gated.stopped)
        wanted = min(self.job["singles_a_block"], int(_CONTEXT_BUDGET_US / (2 * SINGLE_PAIRS * kernel_us)))
        blocks, stopped = sampling.fixed_pairs(
            self.candidate.single(self.sets), self.baseline.single(self.sets) if self.baseline else None,
            pairs=SINGLE_PAIRS, samples=max(5, wanted), seed=self.job["seed"] + 1, read_state=self.card.state,
            power_limited=limited,
        )
        return _series("single", dict.fromkeys(launches, 1), blocks, stopped)

    def _device(self) -> dict[str, Any]:
        capability = f"{self.properties.major}.{self.properties.minor}"
        sm_mhz = self.card.max_sm_mhz()
        count = int(self.properties.multi_processor_count)
        return {
            "name": self.properties.name, "uuid": str(getattr(self.properties, "uuid", "")), "compute_capability": capability,
            "driver": self.card.driver(), "multiprocessors": count, "l2_bytes": self.clockwork.l2_bytes,
            "peak_bytes_per_s": self.card.peak_bytes_per_s(),
            "peak_flops_per_s": peaks.flops_per_s(capability, count, sm_mhz) if sm_mhz else None,
        }

    def _work(self) -> dict[str, Any]:
        least: Mapping[str, Any] = {}
        if hasattr(self.problem, "work"):
            with contextlib.suppress(KeyError, TypeError):  # a work() that does not fit says nothing
                least = dict(self.problem.work(self.shape))
        written = sum(room.size for room in self.sets.outputs["candidate"].values())
        return {"flops": _number(least.get("flops")), "bytes": _number(least.get("bytes")), "output_bytes": written}


def _row(message: str = "") -> dict[str, Any]:
    return {"cold_us": None, "warm_us": None, "message": message}


def _settled(times: list[float]) -> float:
    """The median without the first fifth."""
    return statistics.median(times[len(times) // 5 :])


def _series(mode: str, launches: Mapping[str, int], blocks: Any, stopped: str) -> Any:
    present = {block.side for block in blocks}
    return Series(mode, {name: count for name, count in launches.items() if name in present}, tuple(blocks), stopped)


def _of(blocks: Any, side: str) -> tuple[Any, ...]:
    return tuple(block for block in blocks if block.side == side)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
