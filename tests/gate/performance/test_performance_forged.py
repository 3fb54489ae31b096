"""Claimed times that are not the card's: each is refused by what it contradicts; honest cards and busy hosts are not called forgers."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from performance_gates import LIMITS, evidence, fed, simulated_gate
from runs_kit import PLACES
from timing_fakes import CLOCK, DATA, build_library, install, run_job

from gates.core.errors import GatesError
from gates.core.records import Status
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import read_record
from gates.gate.performance import collect as timing
from gates.gate.performance import consistency
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import MEASURED, Alone, PerformanceEvidence, parse
from gates.gate.performance.runner.hands import Hands
from gates.stats.outside import OutsideBlock, steady
from gates.stats.samples import Block, Series

BAR = {"shape": "tiny", "min_speedup_pct": 15}
REFUSED = ("performance.inconsistent", "performance.implausible")


# A process with the kernels that claims something else than it measured


def dividing(factor: float, *modes: str, sides: tuple[str, ...] = ("candidate",)) -> Hands:
    class Forging(Hands):
        def do_block(self, **how):
            times = super().do_block(**how)
            return [time / factor for time in times] if how["side"] in sides and how["mode"] in modes else times

    return Forging()


class Constant(Hands):
    def do_block(self, **how):
        return [8.0] * len(super().do_block(**how)) if how["side"] == "candidate" else super().do_block(**how)


class Skipping(Hands):
    """Launches nothing for the candidate and answers at once: what is claimed has passed, but no output is there."""

    def do_block(self, **how):
        if how["side"] != "candidate":
            return super().do_block(**how)
        CLOCK.now_s += 1e-6 * (600.0 + 290.0 * how["samples"])
        return [5.0 + 1e-4 * number for number in range(how["samples"])]


class Senseless(Hands):
    def do_block(self, **how):
        return {"speedup": 100.0}


FORGED = {
    "all claims divided by four": lambda: dividing(4.0, "cold", "warm", "single", "unflushed"),
    "by 1.25": lambda: dividing(1.25, "cold", "warm", "single", "unflushed"),
    "those of pairs alone": lambda: dividing(4.0, "cold"),
    "those of pairs alone, by 1.25": lambda: dividing(1.25, "cold"),
    "a slower baseline": lambda: dividing(1 / 1.3, "cold", "single", sides=("baseline", "control")),
    "one number": Constant,
}


@pytest.fixture
def equal(monkeypatch, tmp_path):
    """Two kernels of the same speed, of which a forger makes a pass."""
    install(monkeypatch, {"new": 10.0, "old": 10.0, "control": 10.0})
    libraries = build_library(tmp_path, "new"), build_library(tmp_path, "old")
    return lambda hands: performance.judge(parse(run_job(tmp_path, *libraries, hands)), BAR)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_claim_is_refused(equal, name) -> None:
    result = equal(FORGED[name]())
    assert result.status is Status.INCONCLUSIVE and result.code == "performance.inconsistent", result.sentence


def test_without_a_forger_the_same_two_kernels_are_just_not_faster(equal) -> None:
    assert equal(Hands()).code == "performance.too_slow"


def test_work_that_is_skipped_leaves_no_output(equal) -> None:
    result = equal(Skipping())
    assert (result.status, result.code) == (Status.FAIL, "performance.wrong_output"), result.sentence


def test_an_answer_that_is_no_list_of_times_ends_the_timing(equal) -> None:
    result = equal(Senseless())
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.runner_died")
    assert "a list that does not have 20 times" in result.sentence


# A candidate that really slows what it is measured against


def slowing(factor: float) -> type[Hands]:
    class Slowing(Hands):
        """Where the candidate is loaded, the baseline's launches take ``factor`` times as long on the card."""

        def do_open(self, **how):
            found = super().do_open(**how)
            for name in ("baseline", "control") if "candidate" in self._sides else ():
                self._sides[name].kernel.us *= factor
            return found

    return Slowing


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """A gate on a candidate and a baseline of so many us a launch, with these processes."""

    def gate(new: float, old: float, hands: type[Hands], alone: type[Hands]):
        install(monkeypatch, {"new": new, "old": old, "control": old})
        record = parse(run_job(tmp_path, build_library(tmp_path, "new"), build_library(tmp_path, "old"), hands(), alone()))
        return record, performance.judge(record, BAR)

    return gate


@pytest.mark.parametrize("factor", [4.0, 1.2])
def test_a_candidate_that_slows_the_baseline_is_refused(timed, factor) -> None:
    record, result = timed(10.0, 10.0, slowing(factor), slowing(factor))
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.inconsistent"), result.sentence
    assert f"the baseline takes {10.01 * factor:.2g}" in result.sentence and "us alone" in result.sentence, result.sentence
    assert performance.judge(dataclasses.replace(record, alone=None), BAR).status is Status.PASS  # nothing else would refuse it


@pytest.mark.parametrize(
    ("beside", "alone"), [(1.0, 1.0), (1.05, 1.0), (1.0, 1.5)], ids=["as fast", "the other of two speeds", "slower alone"]
)
def test_a_baseline_that_is_not_slowed_passes(timed, beside, alone) -> None:
    class Slower(Hands):
        def do_block(self, **how):
            return [time * alone for time in super().do_block(**how)]

    record, result = timed(10.0, 14.0, slowing(beside), Slower)
    assert result.status is Status.PASS, result.sentence
    assert (
        record.alone
        and [block.side for block in record.alone.series.blocks] == ["baseline"] * 3
        and record.alone.series.launches == {"baseline": record.series[0].launches["baseline"]}
    )


def test_the_process_of_the_baseline_alone_is_told_of_nothing_else(timed) -> None:
    asked: list[dict] = []

    class Listening(Hands):
        def answer(self, question):
            asked.append(dict(question))
            return super().answer(question)

    timed(10.0, 14.0, Hands, Listening)
    assert [question["do"] for question in asked][:4] == ["open", "sets", "estimate", "prepare"] and list(asked[0]["sides"]) == ["baseline"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError("CUDA error: the GPU was lost"), "the GPU was lost"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
        (GatesError("old.so is of another build"), "another build"),
    ],
)
def test_a_baseline_that_can_not_be_timed_alone_decides_nothing(timed, error, why) -> None:
    class Failing(Hands):
        def do_sets(self, **how):
            raise error

    result = timed(10.0, 14.0, Hands, Failing)[1]
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.not_alone") and why in next(
        check.hint for check in result.checks if check.code == result.code
    )


def test_a_card_that_is_slower_by_its_clock_slows_nobody() -> None:
    """Beside the candidate the card ran at a lower clock: counted in cycles the baseline takes as long alone."""
    record = fed([10.0] * 20, [12.0] * 20)
    alone = tuple(Block("baseline", number, (us,) * 20, sm_mhz=mhz) for number, (us, mhz) in enumerate([(10.0, 2376.0)] * 3))
    assert (
        performance.judge(dataclasses.replace(record, alone=Alone(Series("cold", {"baseline": 50}, alone, "pairs"), "")), LIMITS).status
        is Status.PASS
    )
    same = tuple(dataclasses.replace(block, sm_mhz=1980.0) for block in alone)
    for series in (
        Series("cold", {"baseline": 50}, same, "pairs"),
        Series("cold", {"baseline": 50}, tuple(dataclasses.replace(block, sm_mhz=None) for block in same), "pairs"),
    ):
        assert performance.judge(dataclasses.replace(record, alone=Alone(series, "")), LIMITS).code == "performance.inconsistent"


def test_its_process_is_a_real_one(tmp_path, monkeypatch) -> None:
    """The engine begins it as any other runner; without a device it says so."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    side = {
        "name": "old",
        "library": str(build_library(tmp_path, "old")),
        "entry": "scale",
        "folder": str(DATA),
        "problem": "scaling",
        "emulated": False,
    }
    job = timing.job_of(side, side, control=tmp_path / "control.so", device="cuda:0", shapes={"tiny": 15.0}, output_limits={})
    measured = {"series": [{"mode": "cold", "launches": {"candidate": 5, "baseline": 5}}], "seed": 3, "inputs": {"sets": 5}}
    found = timing._alone(job, {"tiny": measured}, tmp_path / "work", 60.0, sys.executable, timing.HANDS)
    assert found == {"tiny": {"series": None, "message": "torch sees no CUDA device"}}


def test_every_input_and_count_is_the_judge_s(monkeypatch, tmp_path) -> None:
    """The process with the kernels is never told a seed, a limit, a reference or a problem before the measurement is over."""
    install(monkeypatch, {"new": 10.0, "old": 14.0, "control": 14.0})
    asked: list[dict] = []

    class Listening(Hands):
        def answer(self, question):
            asked.append(dict(question))
            return super().answer(question)

    run_job(tmp_path, build_library(tmp_path, "new"), build_library(tmp_path, "old"), Listening())
    until = [question["do"] for question in asked].index("replaced")
    told = {key for question in asked[:until] for key in question}
    assert told == {
        "do",
        "device",
        "sides",
        "slots",
        "count",
        "made",
        "names",
        "in_place",
        "shape",
        "side",
        "mode",
        "launches",
        "samples",
        "indices",
        "slot",
        "values",
        "number",
    }
    lengths = {question["samples"] for question in asked if question.get("mode") == "unflushed"}
    assert len(lengths) > 1  # drawn, each anew


# The same on simulated cards, with jitter, dips and hosts that answer late


@pytest.mark.parametrize("host", ["idle", "shared", "busy", "swamped"])
def test_an_honest_card_is_never_called_a_forger(host) -> None:
    seen = Counter(simulated_gate(1.17, seed, host=host).code for seed in range(60))
    assert not set(seen) & set(REFUSED), seen
    assert seen["performance.pass"] >= {"idle": 58, "shared": 54, "busy": 0, "swamped": 0}[host], seen
    assert set(seen) <= {"performance.pass", "performance.host_busy", "performance.bar_within_interval", "performance.control_off"}, seen


def test_dips_and_drift_are_no_forgery() -> None:
    for trouble in ({"dips_per_s": 3.0}, {"drift_pct": 6.0}, {"outlier_share": 0.2}, {"jitter_pct": 4.0}, {"warm_up_pct": 12.0}):
        seen = Counter(simulated_gate(1.3, seed, **trouble).code for seed in range(20))
        assert not set(seen) & set(REFUSED), (trouble, seen)


def by(factor: float, *modes: str):
    return lambda side, mode, times: [time / factor for time in times] if side == "candidate" and mode in modes else times


@pytest.mark.parametrize("host", ["idle", "busy"])
@pytest.mark.parametrize(
    "forge",
    [by(4.0, "cold", "unflushed"), by(1.2, "cold", "unflushed"), by(4.0, "cold"), by(1.2, "cold")],
    ids=["quarter", "a sixth off", "quarter in pairs", "a sixth off in pairs"],
)
def test_a_forger_on_a_simulated_card_never_passes(host, forge) -> None:
    seen = Counter(simulated_gate(1.0, seed, host=host, forge=forge).code for seed in range(20))
    assert set(seen) <= {"performance.inconsistent", "performance.host_busy"}, seen
    assert host == "busy" or seen["performance.inconsistent"] == 20, seen


def test_a_busy_host_and_a_factor_are_told_apart() -> None:
    assert steady([OutsideBlock("candidate", 10, 50, us, 4 * us) for us in (5e4, 1e5, 2e5, 3e5)])
    assert not steady([OutsideBlock("candidate", 10, 50, us, us + 1e5) for us in (5e4, 1e5, 2e5, 3e5)])


# Files that were edited: recorded runs of real cards, with one thing changed


def changed(
    record: PerformanceEvidence, change: Callable, side: str = "candidate", modes: tuple[str, ...] = ("cold",)
) -> PerformanceEvidence:
    def of(series):
        blocks = [
            dataclasses.replace(block, samples_us=tuple(change(block.samples_us))) if block.side == side else block
            for block in series.blocks
        ]
        return dataclasses.replace(series, blocks=tuple(blocks)) if series.mode in modes else series

    return dataclasses.replace(record, series=tuple(map(of, record.series)))


EDITS: dict[str, Callable[[PerformanceEvidence], PerformanceEvidence]] = {
    "series divided by four": lambda record: changed(record, lambda times: [time / 4 for time in times]),
    "both series divided by four": lambda record: changed(record, lambda times: [time / 4 for time in times], modes=("cold", "warm")),
    "one number throughout": lambda record: changed(record, lambda times: [times[0] * 0 + 5.0] * len(times)),
    "added up": lambda record: changed(record, itertools.accumulate),
    "baseline times four": lambda record: changed(record, lambda times: [time * 4 for time in times], "baseline"),
    "baseline times a thousand": lambda record: changed(
        record, lambda times: [time * 1000 for time in times], "baseline", ("cold", "warm")
    ),
}


@functools.cache
def recorded() -> list[PerformanceEvidence]:
    runs = [run for run in map(opened, PLACES) if (run / "performance.json").is_file()]
    found: list[PerformanceEvidence] = [read_record(PerformanceEvidence, run, "performance.json") for run in runs]
    return [record for record in found if record.status == MEASURED]


def refused(record: PerformanceEvidence) -> set[str]:
    series = record.in_mode(record.gated_mode)
    return {check.code for check in consistency.checks(record, series, 15.0) if check.status is not Status.PASS}


def test_no_recorded_run_contradicts_itself() -> None:
    assert len(recorded()) >= 21
    for record in recorded():
        assert not refused(record), record.task


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_record_is_refused(edit) -> None:
    pairs = [record for record in recorded() if record.baseline]
    assert len(pairs) >= 18
    for record in pairs:
        assert refused(EDITS[edit](record)) & set(REFUSED), record.task


def test_claims_that_do_not_fit_into_the_run_are_refused() -> None:
    record = fed([10.0] * 20, [12.0] * 20)
    assert performance.judge(dataclasses.replace(record, elapsed_s=0.3), LIMITS).code == "performance.inconsistent"
    assert performance.judge(dataclasses.replace(record, process_s=0.3), LIMITS).code == "performance.inconsistent"
    assert performance.judge(dataclasses.replace(record, process_s=3.0), LIMITS).status is Status.PASS


def test_a_run_whose_outside_clock_saw_nothing_is_refused() -> None:
    assert performance.judge(dataclasses.replace(fed([10.0] * 20, [12.0] * 20), outside=()), LIMITS).code == "performance.inconsistent"


@pytest.mark.parametrize(
    ("factor", "bar", "code"),
    [
        (1000.0, 15.0, "performance.implausible"),
        (101.0, 15.0, "performance.implausible"),
        (30.0, 15.0, "performance.pass"),
        (150.0, 2000.0, "performance.pass"),  # whose task expects as much
        (1000.0, 2000.0, "performance.implausible"),
    ],
)
def test_a_baseline_that_is_slower_beyond_belief(factor, bar, code) -> None:
    record = fed([10.0] * 20, [10.0 * factor] * 20, elapsed_s=1e4)
    result = performance.judge(record, {**LIMITS, "min_speedup_pct": bar})
    assert result.code == code, result.sentence


def test_functions_hold_the_host_s_time_in_single_launches() -> None:
    """A launch from Python may take longer than the kernel does: that is no contradiction."""
    blocks = [Block(side, pair, (us,) * 24 + (us + pair,)) for pair in range(12) for side, us in (("candidate", 60.0), ("baseline", 14.0))]
    single = Series("single", {"candidate": 1, "baseline": 1}, tuple(blocks), "pairs")
    record = dataclasses.replace(fed([10.0] * 20, [12.0] * 20), single=single)
    assert performance.judge(record, LIMITS).code == "performance.inconsistent"
    assert performance.judge(dataclasses.replace(record, functions=("candidate", "baseline", "control")), LIMITS).status is Status.PASS
    assert evidence(record.series[0].blocks, record.control.blocks).functions == ()
