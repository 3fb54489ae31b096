"""The timing job end to end, on the host with simulated times."""

from __future__ import annotations

import io
import json
import sys
import weakref
from pathlib import Path

import pytest
import torch
from timing_fakes import CLOCK, DATA, LIMITS, build_library, install, run_job

from gates.core.errors import GatesError
from gates.core.records import Status, to_json
from gates.gate.performance import collect as timing
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import parse
from gates.gate.performance.runner import alone
from gates.gate.performance.runner.ask import here
from gates.gate.performance.runner.hands import Hands, turn
from gates.stats.samples import Block, Series
from gates.task import problem as problems
from gates.worker import wire
from gates.worker.job import FinishedJob, ResultWriter

BAR = {"shape": "tiny", "min_speedup_pct": 15, "metrics": ["p50", "p90", "mean"], "max_std_us": 10}


def verdict(monkeypatch, tmp_path: Path, fault: int = 0, baseline_fault: int = 0, us=(10.0, 12.0), limits=BAR, **changes):
    install(monkeypatch, {"new": us[0], "old": us[1], "control": us[1]})
    raw = run_job(tmp_path, build_library(tmp_path, "new", fault), build_library(tmp_path, "old", baseline_fault), **changes)
    evidence = parse(raw)
    return evidence, performance.judge(evidence, limits)


@pytest.mark.parametrize(("us", "status"), [((10.0, 12.0), Status.PASS), ((10.0, 11.0), Status.FAIL)])
def test_a_whole_run(monkeypatch, tmp_path, us, status) -> None:
    evidence, result = verdict(monkeypatch, tmp_path, us=us)
    assert result.status is status, result.sentence
    assert evidence.inputs.sets == 50 and evidence.inputs.refreshed
    assert evidence.series[0].stopped == "clear"
    assert list(evidence.phase_s) == ["open", "calibrate", "prepare", "outputs_before", "pairs", "outside", "outputs_after", "context"]
    assert evidence.phase_s["pairs"] == pytest.approx(evidence.elapsed_s, abs=0.01)
    assert [series.mode for series in evidence.series] == ["cold", "warm"]
    assert set(evidence.figures) == {"cold", "warm", "control", "single"}
    if status is Status.PASS:  # others are timed where the candidate gains what was asked for
        assert evidence.backends["torch"].p50_us > 0
        assert "no kernel for this shape" in evidence.backends["broken"].message
    else:
        assert not evidence.backends
    assert "clock unknown" in result.sentence


def test_the_slow_reference_is_computed_for_two_inputs_before_and_after_timing(monkeypatch, tmp_path) -> None:
    problems.load("scaling", DATA)
    exact, calls = sys.modules["scaling"].reference, []
    monkeypatch.setattr(sys.modules["scaling"], "reference", lambda inputs, shape: calls.append(shape) or exact(inputs, shape))
    evidence, _ = verdict(monkeypatch, tmp_path)
    assert len(calls) == 4
    assert {(check.when, check.side) for check in evidence.outputs if check.against == "reference"} == {
        (when, side) for when in ("before", "after") for side in ("candidate", "baseline")
    }


def test_warm_can_be_gated(monkeypatch, tmp_path) -> None:
    evidence, result = verdict(monkeypatch, tmp_path, limits={**BAR, "cache": "warm"}, cache="warm")
    assert evidence.gated_mode == "warm" and result.status is Status.PASS, result.sentence


def test_a_first_rung_is_measured(monkeypatch, tmp_path) -> None:
    install(monkeypatch, {"new": 10.0, "control": 10.0})
    evidence = parse(run_job(tmp_path, build_library(tmp_path, "new"), None))
    result = performance.judge(evidence, BAR, not_applicable_reason="first rung")
    assert result.status is Status.NOT_APPLICABLE and "p50 10.0" in result.sentence
    assert performance.judge(evidence, BAR).code == "performance.no_baseline"


def test_a_shape_that_is_not_there_is_refused(monkeypatch, tmp_path) -> None:
    with pytest.raises(GatesError, match="no shape 'mor'"):
        verdict(monkeypatch, tmp_path, shape="mor")


def test_a_mean_takes_24_pairs_of_a_shape_that_is_clear_after_twelve(monkeypatch, tmp_path) -> None:
    evidence, _ = verdict(monkeypatch, tmp_path, least_pairs=24, confidence=0.99)
    assert len(evidence.series[0].pairs()) == 24 and evidence.confidence == 0.99


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (1, Status.FAIL, "performance.wrong_output"),
        (2, Status.FAIL, "performance.wrong_output"),
        (3, Status.FAIL, "performance.launch_failed"),
        (4, Status.FAIL, "performance.not_captured"),
    ],
)
def test_a_faulty_candidate_is_no_pass(monkeypatch, tmp_path, fault, status, code) -> None:
    _, result = verdict(monkeypatch, tmp_path, fault)
    assert (result.status, result.code) == (status, code), result.sentence


def test_wrong_only_after_many_launches_is_seen_only_afterwards(monkeypatch, tmp_path) -> None:
    evidence, _ = verdict(monkeypatch, tmp_path, 1)
    wrong = {check.when for check in evidence.outputs if check.side == "candidate" and check.max_abs_err > 0.5}
    assert "after" in wrong


@pytest.mark.parametrize("fault", [2, 3, 4])
def test_a_faulty_baseline_decides_nothing(monkeypatch, tmp_path, fault) -> None:
    _, result = verdict(monkeypatch, tmp_path, 0, fault)
    assert result.status in (Status.INCONCLUSIVE, Status.FAIL) and "speedup" not in result.code
    assert result.status is not Status.PASS


def test_unknown_shape_names_the_nearest(monkeypatch, tmp_path) -> None:
    with pytest.raises(GatesError) as caught:
        verdict(monkeypatch, tmp_path, shape="tinny")
    assert "tiny" in caught.value.hint


@pytest.mark.parametrize("iters", [0, -5])
def test_iterations_below_one_are_refused(tmp_path, iters) -> None:
    with pytest.raises(GatesError, match="at least 1"):
        timing.run_timing({"name": "a"}, shape="tiny", work=tmp_path, limit_s=1, bar_pct=15, iters=iters)


def test_iterations_are_kept_within_bounds() -> None:
    assert timing.singles_a_block(1) == 10
    assert timing.singles_a_block(10**12) == timing.MAX_SINGLES_A_BLOCK


def _task(folder: Path) -> dict:
    (folder / "new.so").write_bytes(b"")
    return {
        "name": "new",
        "library": str(folder / "new.so"),
        "entry": "scale",
        "folder": str(folder),
        "problem": "scaling",
        "emulated": False,
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "performance.runner_died"),
        ('print(\'{"type": "measured", "evidence": {}}\')', "performance.runner_died"),
        ("import time; time.sleep(60)", "performance.time_limit"),
    ],
)
def test_a_runner_without_a_result_is_inconclusive(tmp_path, engine_entry, body, code) -> None:
    engine_entry(body)
    raw = timing.run_timing(_task(tmp_path), shape="tiny", work=tmp_path / "work", limit_s=2, bar_pct=15)
    result = performance.judge(parse(raw), BAR)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, code)


def test_no_device_is_not_run(tmp_path) -> None:
    task = _task(tmp_path)
    (tmp_path / "scaling.py").write_text((DATA / "scaling.py").read_text())

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is present")
    raw = timing.run_timing(task, shape="tiny", work=tmp_path / "work", limit_s=60, bar_pct=15)
    result = performance.judge(parse(raw), BAR)
    assert (result.status, result.code) == (Status.NOT_RUN, "performance.no_device")
    span = parse(raw).span
    assert span is not None and span.seconds >= raw["process_s"] - 0.05
    with pytest.raises(ValueError, match="the card was used from"):
        parse({**raw, "span": {"began": span.ended, "ended": span.began}})


@pytest.mark.parametrize(
    ("candidate_us", "always", "asked"),
    [
        (10.0, True, ["timing", "timing_alone"]),
        (10.0, False, ["timing", "timing_alone"]),
        (12.0, False, ["timing"]),
        (None, False, ["timing", "timing_alone"]),
    ],
    ids=["a run", "a search, faster", "a search, slower", "a search, no pair"],
)
def test_a_search_times_the_baseline_alone_only_for_a_candidate_that_looks_faster(
    monkeypatch, tmp_path, candidate_us: float | None, always: bool, asked: list[str]
) -> None:
    """One that slows the baseline to look faster does; a slower one would gain nothing."""
    blocks = [Block(side, 0, (us,) * 20) for side, us in (("candidate", candidate_us), ("baseline", 11.0)) if us is not None]
    series = to_json(Series("cold", {"candidate": 5, "baseline": 5}, tuple(blocks), "clear"))
    measured = {"gated_mode": "cold", "series": [series], "seed": 3, "inputs": {"sets": 5}}
    names: list[str] = []

    def run_job(folder, job, work, *, name, **_):
        names.append(name)
        line = (
            {"type": "measured", "nonce": "n", "evidence": measured}
            if name == "timing"
            else {"type": "alone", "nonce": "n", "series": None}
        )
        return FinishedJob("n", 0, "exit 0", False, 1.0, (json.dumps(line),), "")

    monkeypatch.setattr(timing, "run_job", run_job)
    side = _task(tmp_path)
    timing.run_timing(side, baseline=side, shape="tiny", work=tmp_path / "work", limit_s=1, bar_pct=0.0, always_alone=always)
    assert names == asked


def test_two_shapes_of_one_process_are_two_measurements(monkeypatch, tmp_path) -> None:
    """The kernels' process loads the problem when both are over, and gives back what the first one had."""
    install(monkeypatch, {"new": 10.0, "old": 14.0, "control": 14.0})
    asked: list[tuple[str, str]] = []

    class Listening(Hands):
        def answer(self, question):
            asked.append((question["do"], str(question.get("problem", ""))))
            return super().answer(question)

        def _forget(self) -> None:
            super()._forget()
            assert not self._timers and not self._sides and self._sets is None

    side = {"entry": "scale", "folder": str(DATA), "problem": "scaling", "emulated": False}
    new, old, control = (build_library(tmp_path, name) for name in ("new", "old", "control"))
    job = timing.job_of(
        {**side, "name": "new", "library": str(new)},
        {**side, "name": "old", "library": str(old)},
        control=control,
        device="cpu",
        shapes={"tiny": 15.0, "more": 0.0},
        output_limits=LIMITS,
        iters=120,
    ) | {"nonce": "n", "result": str(tmp_path / "result.jsonl")}

    def done(measure, job):
        Path(job["result"]).unlink(missing_ok=True)
        with ResultWriter(job) as writer:
            measure(job, writer, lambda: here(Listening().answer), {}, None, lambda: CLOCK.now_s)
        return FinishedJob("n", 0, "exit 0", False, 60.0, tuple(Path(job["result"]).read_text().splitlines()), "")

    reads = timing._reached(done(timing.measure, job), ["tiny", "more"])
    measured = {shape: read["measured"] for shape, read in reads.items()}
    own = alone.job_of(job, measured)
    lone = done(alone.measure, own)
    head = {"task": "new", "baseline": "old", "span": None}
    found = {shape: parse({**head, "shape": shape, **read, "alone": alone.read(lone, shape)}) for shape, read in reads.items()}
    assert [one.dimensions["count"] for one in found.values()] == [64, 200]
    assert found["tiny"].seed != found["more"].seed and [one.bar_pct for one in found.values()] == [15.0, 0.0]
    for shape, one in found.items():
        result = performance.judge(one, {"shape": shape, "min_speedup_pct": one.bar_pct})
        assert result.status is Status.PASS and one.alone.series.samples("baseline"), result.sentence
        assert one.backends["torch"].p50_us > 0 and 0 < one.process_s < 60.0
    names = [name for name, _ in asked]
    assert names.count("calibrate") == 1
    assert names.index("backends") > max(index for index, name in enumerate(names) if name == "replaced"), "nothing of the problem before"
    assert [name for name, problem in asked if problem] == ["backends"] * 2


def test_a_questions_tensors_are_freed_before_the_judges_clock_runs_on():
    asks, given = io.BytesIO(), list[weakref.ref[torch.Tensor]]()
    wire.send(asks, {"do": "change", "values": torch.zeros(8)})
    asks.seek(0)

    class Noting(Hands):
        def answer(self, question):
            given.append(weakref.ref(question["values"]))
            return {"is": None}

    class Answers(io.BytesIO):
        def write(self, content):
            assert given[0]() is None, "to free large inputs takes milliseconds, which the next block would be charged"
            return super().write(content)

    hands, answers = Noting(), Answers()
    assert turn(hands, asks, answers) and answers.getvalue() and not turn(hands, asks, answers)
