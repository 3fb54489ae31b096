"""Attacks on the evaluator and accidents around it: what is kept is true, and what can't be judged is not kept."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from evolution_kit import Bench, searched
from places import RECORDED, ROOT
from sweep_kit import DEVICE

import gates
from gates.core import jsonio
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import Check, GateResult, Status
from gates.evaluation import evaluate as engine
from gates.evaluation.evolution.proposers import ByCommand, ByToggles
from gates.evaluation.overlay import Candidate
from gates.evaluation.verify import verify_evaluation
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import RunInfo, read_record
from gates.gate.correctness import step as correctness_step
from gates.gate.performance.evidence import PerformanceEvidence
from gates.gate.session import Session
from gates.launch.device import DeviceProbe

GELU = ROOT / "examples" / "torch_compile"
SOURCE = (GELU / "gelu_eager" / "kernel.py").read_text(encoding="utf-8")
BODY = "    return torch.nn.functional"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small task of plain Python, which no compiler is needed for; a process of it may take three seconds."""
    root = tmp_path_factory.mktemp("gelu")
    shutil.copy(GELU / "gelu_problem.py", root)
    folder = Path(shutil.copytree(GELU / "gelu_eager", root / "gelu_eager", ignore=shutil.ignore_patterns("__pycache__")))
    with (folder / "task.yaml").open("a", encoding="utf-8") as file:
        file.write("time_limit_s: 3\n")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


def evaluated(task: Path, results: Path, line: str = "", **more: object) -> gates.Evaluation:
    """A candidate with ``line`` before what it returns."""
    files = {"kernel.py": SOURCE.replace(BODY, f"    {line}\n{BODY}")} if line else {}
    terms = {"profile": "cpu", "stage": "numbers", "results": results, "build_dir": results / "build", **more}
    return gates.evaluate(task, files=files, **terms)  # type: ignore[arg-type]


def kept(results: Path) -> list[str]:
    return sorted(path.name for path in (results / "evaluations" / "gelu_eager").glob("[!.]*"))


def edited(results: Path, found: gates.Evaluation, copies: Path, change: Mapping[str, object]) -> Path:
    """A copy of the kept answer with ``change``. Whoever can write into the results folder can also make the manifest anew."""
    folder = Path(shutil.copytree(results / found.evidence, copies / found.evidence))
    text = folder / "evaluation.json"
    text.write_text(json.dumps({**jsonio.read(text), **change}), encoding="utf-8")
    manifest = jsonio.read(folder / "manifest.json")
    manifest["sha256"]["evaluation.json"] = jsonio.sha256(text)
    (folder / "manifest.json").write_text(jsonio.dumps(manifest), encoding="utf-8")
    return folder


# invented answers


def test_a_candidate_that_answers_for_the_judge_is_not_believed(task: Path, results: Path) -> None:
    """It prints a passing answer and writes one where answers are kept; its numbers are wrong."""
    place = results / "evaluations" / "gelu_eager"
    line = f"""print('{{"status": "pass", "score": 99.0}}'); x = x + 1
    try: open({str(place / "evaluation.json")!r}, "w").write('{{"score": 99.0}}')
    except OSError: pass"""
    found = evaluated(task, results, line)
    assert (found.status, found.valid, found.score) == ("fail", False, None) and not (place / "evaluation.json").exists()


@pytest.mark.parametrize(
    ("change", "cached"),
    [({}, True), ({"score": 9.0}, False), ({"status": "pass", "valid": True}, False), ({"score": float("nan")}, False)],
    ids=["as it was", "invented score", "invented pass", "NaN"],
)
def test_a_kept_answer_is_given_again_only_if_it_follows_from_its_evidence(
    change: Mapping[str, object], cached: bool, task: Path, results: Path, tmp_path: Path
) -> None:
    first = evaluated(task, results, "x = x + 1")
    folder = edited(results, first, tmp_path, change)
    again = evaluated(task, tmp_path, "x = x + 1")
    assert (again.cached, again.status, again.score) == (cached, "fail", None) and verify_evaluation(folder) == []


@pytest.mark.parametrize("change", [{"device": "NVIDIA H200"}, {"toggles": {"BLOCK": 1}}, {"tool_version": "9.9.9"}], ids=str)
def test_an_answer_that_says_otherwise_than_its_run_is_named(
    change: Mapping[str, object], task: Path, results: Path, tmp_path: Path
) -> None:
    (problem,) = verify_evaluation(edited(results, evaluated(task, results), tmp_path, change))
    assert problem.startswith(f"{next(iter(change))} is {next(iter(change.values()))} in evaluation.json and ")


def test_another_candidate_s_or_task_s_answer_is_no_answer(task: Path, results: Path, tmp_path: Path) -> None:
    right, wrong = evaluated(task, results), evaluated(task, results, "x = x + 1")
    place = tmp_path / wrong.evidence
    shutil.copytree(results / right.evidence, place)
    assert evaluated(task, tmp_path, "x = x + 1").status == "fail" and verify_evaluation(place) == []
    elsewhere = tmp_path / "evaluations" / "other_task" / right.id
    shutil.copytree(results / right.evidence, elsewhere)
    assert engine._kept(results / right.evidence, "numbers", None, "task") is not None
    assert engine._kept(elsewhere, "numbers", None, "task") is None


def test_a_proposer_can_give_no_score_and_no_toggle_that_is_not_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes what it likes, and one candidate."""
    program = tmp_path / "propose.py"
    lines = ('{"score": 99}', '{"toggles": {"BLOCK": NaN}}', '{"toggles": {"BLOCK": 1e999}}', "\x00\udcff", '{"toggles": {"BLOCK": 256}}')
    program.write_text(
        f"import os\nfor line in {lines!r}: os.write(1, line.encode('utf-8', 'surrogateescape') + b'\\n')\n", encoding="ascii"
    )
    bench = Bench(lambda _, toggles: toggles["BLOCK"] / 128)
    _, found = searched(monkeypatch, tmp_path, bench, ByCommand(f"{sys.executable} {program}"), generations=1)
    assert [one.toggles["BLOCK"] for one in found.members] == [128, 256] and found.member(found.champion or "").score == 2.0
    assert len(found.generations[1].refused) == 4


# the card


@pytest.mark.parametrize(
    ("prepares", "jobs", "early"),
    [(False, None, False), (True, None, True), (True, 1, False), (True, None, None)],
    ids=["nothing to prepare", "the machine to itself", "others have cores", "others have the card"],
)
def test_a_card_is_held_alone_for_a_timing_and_shared_while_something_is_built_for_nobody_else(
    prepares: bool, jobs: int | None, early: bool | None, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timing is a recorded one."""
    monkeypatch.setattr(correctness_step, "prepare", lambda _: (lambda: events.append("prepare") or MagicMock()) if prepares else None)
    monkeypatch.setattr(engine, "job_count", lambda jobs: jobs or 2)
    run = opened(next((RECORDED / "h200-examples" / "gelu_compiled").glob("*.zip")))
    evidence: PerformanceEvidence = read_record(PerformanceEvidence, run, "performance.json")
    passed = GateResult("correctness", Status.PASS, "correctness.pass", "made up", (Check("cases", Status.PASS, 1, 1, ""),))
    real, events = engine.judge_step, list[str]()

    @contextlib.contextmanager
    def card(uuid: str, *, alone: bool, wait: bool) -> Iterator[None]:
        if early is None and not wait:
            raise BlockingIOError
        events.append("alone" if alone else "together")
        yield
        events.append("free")

    def judged(session: Session, info: RunInfo, gate: str) -> GateResult:
        events.append(gate)
        return passed if gate == "correctness" else real(session, info, gate)

    def timed(session: Session, pair: str, budget_s: float, *, equal_ends: bool) -> PerformanceEvidence:
        assert equal_ends, "no more pairs of a candidate that is as fast"
        events.append(f"time {pair}")
        session.write("performance.json", evidence)
        return evidence

    monkeypatch.setattr(engine, "judge_step", judged)
    monkeypatch.setattr(engine, "choose_profile", lambda *_, **__: ("full", "made up", DEVICE))
    monkeypatch.setattr(engine, "card", card)
    monkeypatch.setattr(engine, "build_pair", lambda *_: "both")
    monkeypatch.setattr(engine, "time_pair", timed)
    found = evaluated(task, tmp_path, "pass", profile="auto", stage="speed", jobs=jobs)
    static = ["together", "prepare", "ptxas", "sass"] if early else ["ptxas", "sass", "together"]
    assert events == [*static, "correctness", "sanitizer", "free", "alone", "time both", "free"]
    assert found.valid and found.stage == "speed" and 1.5 < found.score <= found.score_high and found.p50_us > 0
    assert found.seconds["gates"] == pytest.approx(sum(gate.seconds for gate in found.gates), abs=0.01), "timing too"


# what ends early


def test_a_candidate_that_never_ends_costs_its_time_limit_and_fails(task: Path, results: Path) -> None:
    found = evaluated(task, results, "import time; time.sleep(60)")
    assert (found.status, found.code, found.valid, found.score) == ("fail", "correctness.timeout", False, None)
    assert found.seconds["gates"] < 25 and "time" in found.feedback.splitlines()[0]


def test_an_evaluator_that_is_killed_keeps_nothing_half_and_is_asked_again(task: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(SOURCE.replace(BODY, f"    import time; time.sleep(0.03)\n{BODY}"), encoding="utf-8")
    places = ["--results", str(tmp_path), "--build-dir", str(tmp_path / "build"), "--profile", "cpu", "--stage", "numbers"]
    command = [sys.executable, "-m", "gates", "evaluate", str(task), "--source", f"kernel.py={mine}", *places]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as child:
        assert child.stderr is not None and any("correctness" in line for line in child.stderr)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL and kept(tmp_path) == []
    again = gates.evaluate(
        task, files={"kernel.py": mine.read_text()}, profile="cpu", stage="numbers", results=tmp_path, build_dir=tmp_path
    )
    assert (again.status, again.cached, kept(tmp_path)) == ("pass", False, [again.id]) and verify_evaluation(
        tmp_path / again.evidence
    ) == []


@pytest.mark.parametrize("uuids", [(), ("GPU-other",), (DEVICE.uuid,)], ids=["lost", "another", "there"])
def test_a_card_that_is_lost_makes_no_candidate_wrong(
    uuids: tuple[str, ...], task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel fails on the device; only if that is still there the kernel is to blame."""
    failed = GateResult("correctness", Status.FAIL, "correctness.launch_error", "CUDA error: the GPU has fallen off the bus")
    real = engine.judge_step
    monkeypatch.setattr(engine, "judge_step", lambda session, info, gate: failed if gate == "correctness" else real(session, info, gate))
    monkeypatch.setattr(engine, "choose_profile", lambda *_, **__: ("full", "made up", DEVICE))
    monkeypatch.setattr(engine.devices, "probe", lambda: DeviceProbe(tuple(replace(DEVICE, uuid=uuid) for uuid in uuids), "no CUDA device"))
    ask = {"profile": "auto", "stage": "numbers"}
    if DEVICE.uuid in uuids:
        assert evaluated(task, tmp_path, "pass", **ask).code == "correctness.launch_error" and len(kept(tmp_path)) == 1
        return
    with pytest.raises(GatesError, match="NVIDIA Made-up was lost while gelu_eager was judged") as error:
        evaluated(task, tmp_path, "pass", **ask)
    assert error.value.exit_code == EXIT_HOLD and kept(tmp_path) == []


def test_a_search_whose_card_is_lost_continues_when_it_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Bench):
        def evaluate(self, ask: object) -> object:
            if sum(what == "evaluate" for what, _ in self.asked) == 2:
                raise GatesError("a card was lost", exit_code=EXIT_HOLD)
            return super().evaluate(ask)  # type: ignore[arg-type]

    def truth(_: Candidate, toggles: Mapping[str, int]) -> float:
        return toggles["BLOCK"] / 128

    param = ByToggles({"BLOCK": (64, 128, 256)})
    with pytest.raises(GatesError, match="a card was lost"):
        searched(monkeypatch, tmp_path, Lost(truth), param)
    after = Bench(truth)
    _, found = searched(monkeypatch, tmp_path, after, param)
    assert len(found.members) == 3 and len([what for what, _ in after.asked if what == "evaluate"]) == 1
