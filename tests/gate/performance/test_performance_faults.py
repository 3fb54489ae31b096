"""Faults in the middle of timing, on the host: each ends in a reason code and never in a pass."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import timing_fakes
from performance_gates import LIMITS, fed
from timing_fakes import FakeClockwork, build_library, install, run_job

from gates.core.records import Status
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import parse
from gates.gate.performance.runner import cuda_graphs, nvml, values
from gates.gate.performance.runner.hands import Hands
from gates.launch.c_launcher import KernelError

BAR = {"shape": "tiny", "min_speedup_pct": 15, "metrics": ["p50", "p90", "mean"], "max_std_us": 10}
LOST = "CUDA error: the GPU was lost\nCompile with TORCH_USE_CUDA_DSA"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    build_library(folder, "new"), build_library(folder, "old")
    return folder


@pytest.fixture
def fast(monkeypatch):
    """A candidate that is faster than the threshold by far, so that only the fault can keep it from passing."""
    install(monkeypatch, {"new": 10.0, "old": 14.0, "control": 14.0})


def verdict(folder: Path, libraries: Path, candidate: Path | None = None, **changes):
    evidence = parse(run_job(folder, candidate or libraries / "new.so", libraries / "old.so", **changes))
    return evidence, performance.judge(evidence, BAR)


def test_without_a_fault_it_passes(fast, tmp_path, libraries) -> None:
    assert verdict(tmp_path, libraries)[1].status is Status.PASS


@pytest.mark.parametrize("call", [1, 5, 20, 60], ids=["first launch", "estimate", "warm-up", "pairs"])
def test_a_gpu_lost_in_the_middle(fast, monkeypatch, tmp_path, libraries, call) -> None:
    calls = iter(range(1, 10**6))

    class Lost(FakeClockwork):
        def elapsed_us(self, *arguments, **options):
            if next(calls) >= call:
                raise RuntimeError(LOST)
            return super().elapsed_us(*arguments, **options)

    monkeypatch.setattr(cuda_graphs, "Clockwork", Lost)
    _, result = verdict(tmp_path, libraries)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.device_error"), result.sentence
    assert "the GPU was lost" in result.sentence and "DSA" not in result.sentence


def test_a_gpu_lost_after_the_samples_before_the_outputs_were_checked(fast, monkeypatch, tmp_path, libraries) -> None:
    asked, outputs = iter(range(10)), Hands.do_outputs

    def lost(self, **how):
        if next(asked) >= 2:  # both sides were looked at before timing
            raise RuntimeError(LOST)
        return outputs(self, **how)

    monkeypatch.setattr(Hands, "do_outputs", lost)
    assert verdict(tmp_path, libraries)[1].code == "performance.device_error"


def test_a_gpu_lost_while_other_implementations_are_timed_leaves_the_measurement(fast, monkeypatch, tmp_path, libraries) -> None:
    def lost(self, calls):
        raise RuntimeError(LOST)

    monkeypatch.setattr(Hands, "_backend_us", lost)
    evidence, result = verdict(tmp_path, libraries)
    assert result.status is Status.PASS and "the GPU was lost" in evidence.backends["torch"].message


def test_the_driver_stops_telling_the_clock(fast, monkeypatch, tmp_path, libraries) -> None:
    from gates.stats.samples import State

    asked = iter(range(10**6))

    class Card(nvml.Nvml):
        def state(self) -> State:
            return State(sm_mhz=1980.0 if next(asked) < 60 else None)

    monkeypatch.setattr(nvml, "open_device", lambda *_: Card("nvml"))
    _, result = verdict(tmp_path, libraries)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.clock_lost"), result.sentence


def test_one_block_without_a_clock_decides_nothing() -> None:
    record = fed([10.0] * 20, [14.0] * 20)
    series = record.series[0]
    blocks = (dataclasses.replace(series.blocks[0], sm_mhz=None), *series.blocks[1:])
    result = performance.judge(dataclasses.replace(record, series=(dataclasses.replace(series, blocks=blocks),)), LIMITS)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.clock_lost")


def test_no_driver_library_is_said(fast, monkeypatch, tmp_path, libraries) -> None:
    """Clocks and throttling are then unknown: the control and the pairs alone stand guard, and the line says so."""
    monkeypatch.setattr(nvml, "open_device", lambda *_: nvml.Nvml("unknown: nvidia-ml-py is not installed"))
    evidence, result = verdict(tmp_path, libraries)
    assert evidence.clock_source.startswith("unknown") and evidence.other_processes is None
    assert "clock unknown: nvidia-ml-py is not installed" in result.sentence


@pytest.mark.parametrize(("moment", "expected"), [("before", (4711,)), ("after", (4711,))])
def test_another_process_at_either_end_of_the_timing(fast, monkeypatch, tmp_path, libraries, moment, expected) -> None:
    asked = iter(range(10**6))

    class Card(nvml.Nvml):
        def processes(self) -> frozenset[int]:
            first = next(asked) == 0
            return frozenset({4711}) if first == (moment == "before") else frozenset()

    monkeypatch.setattr(nvml, "open_device", lambda *_: Card("nvml"))
    evidence, result = verdict(tmp_path, libraries)
    assert evidence.other_processes == expected
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.other_process"), result.sentence


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("operation not permitted when stream is capturing"),
        KernelError(900, "stream is capturing"),
    ],
    ids=["driver", "launcher"],
)
def test_launches_that_can_not_be_captured(fast, monkeypatch, tmp_path, libraries, error) -> None:
    class Refusing(FakeClockwork):
        def capture(self, calls):
            raise error

    monkeypatch.setattr(cuda_graphs, "Clockwork", Refusing)
    _, result = verdict(tmp_path, libraries)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.capture_failed")
    assert "capturing" in result.sentence


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (1, "performance.wrong_output"),  # right at first, wrong later
        (4, "performance.not_captured"),  # the work is on another stream
        (5, "performance.wrong_output"),  # returns before it is done
        (6, "performance.wrong_output"),  # replays a stored answer
    ],
    ids=["wrong after many launches", "side stream", "returns before it is done", "stored answer"],
)
def test_a_candidate_that_cheats_fails(fast, tmp_path, libraries, fault, code) -> None:
    _, result = verdict(tmp_path, libraries, build_library(tmp_path, "new", fault))
    assert (result.status, result.code) == (Status.FAIL, code), result.sentence


def test_a_stored_answer_is_right_until_the_inputs_change(fast, monkeypatch, tmp_path, libraries) -> None:
    """What finds it is the refresh: with the same inputs throughout the stored answer would be right."""
    kept = []

    class Unchanging(cuda_graphs.Sets):
        def __init__(self, *arguments, **options) -> None:
            super().__init__(*arguments, **options)
            kept.append(self)  # memory that another set got would hold other inputs at an address that the kernel knows

    monkeypatch.setattr(values.Values, "refresh", lambda self, number: None)
    monkeypatch.setattr(cuda_graphs, "Sets", Unchanging)
    evidence, _ = verdict(tmp_path, libraries, build_library(tmp_path, "new", 6))
    after = [check for check in evidence.outputs if (check.when, check.side) == ("after", "candidate")]
    assert all(check.max_abs_err < 0.01 for check in after)


@pytest.mark.parametrize("budget_s", [0.0, 1e-6])
def test_a_time_budget_that_runs_out(fast, tmp_path, libraries, budget_s) -> None:
    evidence, result = verdict(tmp_path, libraries, budget_s=budget_s)
    assert evidence.series[0].stopped == "budget"
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.too_few_pairs"), result.sentence
    assert "stopped: budget" in result.sentence


@pytest.mark.parametrize("singles", [10, 1000])
def test_the_least_and_the_most_single_launches(fast, tmp_path, libraries, singles) -> None:
    evidence, result = verdict(tmp_path, libraries, singles_a_block=singles)
    assert result.status is Status.PASS
    assert {len(block.samples_us) for block in evidence.single.blocks} == {singles}


def test_no_memory_for_the_input_sets(fast, monkeypatch, tmp_path, libraries) -> None:
    import torch

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(timing_fakes.FakeClockwork, "calibration", full)
    _, result = verdict(tmp_path, libraries)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.no_memory")
