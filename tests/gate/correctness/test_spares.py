"""Processes of the cases that start before the kernel is compiled: what they do until then, and what becomes of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from correctness_kit import gate, side

from gates.core.records import Status
from gates.gate.correctness import step
from gates.launch import answering, isolated_launch
from gates.worker import isolated, process, wire
from gates.worker.job import Spares
from gates.worker.process import ToolThreads

BEGIN = {"kind": "correctness", "device": "cpu", "side": {"name": "saxpy", "kind": "cuda", "emulated": True}}


def spares(aside: ToolThreads, work: Path, *names: str) -> Spares:
    """Such processes, all of which have started."""
    found = Spares(names, BEGIN, work, work, limit_s=60, aside=aside)
    end = time.monotonic() + 60
    while not all((work / f"scratch.saxpy.{name}").exists() for name in names):
        assert time.monotonic() < end, "it never started"
        time.sleep(0.01)
    return found


def test_they_get_the_cases_and_leave_nothing_for_the_kernel_to_read(library: Path, tmp_path: Path) -> None:
    with ToolThreads(2) as aside:
        ready = spares(aside, tmp_path, "candidate.0.0", "candidate.1.0")
        evidence, result = gate(tmp_path, side(library, "honest"), shapes=("small",), seeds=(0,), processes=2, spares=ready)
    assert result.status is Status.PASS, result.sentence
    assert len(evidence.processes) == 2 and ready.run("candidate.0.0", {}) is None
    assert not [path.name for path in tmp_path.iterdir() if path.suffix in (".turn", ".json")], "no seed is there to be read"


def test_what_a_crash_leaves_goes_to_an_ordinary_process(library: Path, tmp_path: Path) -> None:
    with ToolThreads(1) as aside:
        ready = spares(aside, tmp_path, "candidate.0")
        evidence, _ = gate(tmp_path, side(library, "crashes_in_seed_1"), shapes=("small",), quick=False, spares=ready)
    assert [case.status for case in evidence.cases] == ["ok", "crash", "ok"] and len(evidence.processes) == 2


def test_one_that_ended_by_itself_says_nothing_of_the_kernel(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, run = list[int](), process.run

    def noted(*arguments: Any, **options: Any) -> Any:
        begin = options["popen"]
        return run(*arguments, **{**options, "popen": lambda *a, **k: (child := begin(*a, **k), pids.append(child.pid))[0]})

    monkeypatch.setattr(process, "run", noted)
    with ToolThreads(1) as aside:
        ready = spares(aside, tmp_path, "candidate.0")
        os.kill(pids[0], signal.SIGKILL)
        aside.shutdown()
        _, result = gate(tmp_path, side(library, "honest"), shapes=("small",), seeds=(0,), spares=ready)
    assert result.status is Status.PASS, result.sentence


def test_a_kernel_s_process_that_ended_before_it_knew_its_kernel_says_nothing_of_it(library: Path, tmp_path: Path) -> None:
    with ToolThreads(1) as aside:
        ready = spares(aside, tmp_path, "candidate.0")
        os.kill(pid := _newest_descendant(), signal.SIGKILL)
        while ") Z" not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)
        _, result = gate(tmp_path, side(library, "honest"), shapes=("small",), seeds=(0,), spares=ready)
    assert result.status is Status.PASS, result.sentence


def _newest_descendant() -> int:
    """The last in the line of this process's children: server, keeper, runner, kernel's process."""
    pid = os.getpid()
    while children := [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]:
        pid = max(children)
    return pid


def test_one_whose_end_nobody_has_noticed_yet_says_nothing_of_it_either(tmp_path: Path) -> None:
    child = SimpleNamespace(submit=lambda *_, **__: SimpleNamespace(done=lambda: False, result=lambda: "ended by itself"))
    assert Spares(["candidate.0"], BEGIN, tmp_path, tmp_path, limit_s=60, aside=child).run("candidate.0", {}) is None
    taken = Spares(["candidate.0"], BEGIN, tmp_path, tmp_path, limit_s=60, aside=child)
    (tmp_path / "candidate.0.turn").unlink()
    assert taken.run("candidate.0", {}) == "ended by itself"


def test_those_that_nobody_needs_end_at_once(tmp_path: Path) -> None:
    with ToolThreads(2) as aside:
        ready = spares(aside, tmp_path, "candidate.0", "candidate.1")
        began = time.monotonic()
        ready.close()
        assert time.monotonic() - began < 10
    with ToolThreads(1) as aside:
        spares(aside, tmp_path / "other", "candidate.0")
        aside.stop()


def test_the_kernel_s_process_confines_itself_and_wakes_the_device_before_it_is_told_its_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "confine", lambda *_, **__: {"calls": "made up"})
    monkeypatch.setattr(isolated_launch, "wake", lambda device: (tmp_path / "woke").write_text(device))
    child = isolated.Fork(answering.serve)
    job = {**BEGIN, "device": "cuda:0", "result": str(tmp_path / "result"), "turn": "a", "side": {**BEGIN["side"], "emulated": False}}
    try:
        wire.send(child.stdin, answering.first_question(job))
        assert wire.receive(child.stdout) == {"held": {"calls": "made up"}}
        end = time.monotonic() + 20
        while not (tmp_path / "woke").exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert (tmp_path / "woke").read_text() == "cuda:0"
        wire.send(child.stdin, {"side": {**job["side"], "library": str(tmp_path / "none.so"), "entry": "e"}})
        assert "none.so" in wire.receive(child.stdout)["text"]
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 4), ({"emulated": True}, 0), ({"cores": 8}, 0), ({"aside": None}, 0), ({"kind": "triton"}, 0)],
    ids=["device", "no device", "few cores", "no threads", "compiles itself"],
)
def test_they_start_on_a_device_of_a_large_machine(
    changes: dict[str, Any], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[str]()
    monkeypatch.setattr(step, "Spares", lambda names, *_, **__: begun.extend(names) or "begun")
    task = SimpleNamespace(name="t", kind=changes.pop("kind", "cuda"), folder=tmp_path, time_limit_s=9.0)
    session = SimpleNamespace(
        **{"emulated": False, "cores": 16, "aside": MagicMock(), "hangs": False, "cuda": "cuda:0", "scratch": tmp_path, **changes},
        task=task,
    )
    start = step.prepare(session)
    assert begun == [] and (start() if start else None) == ("begun" if count else None)
    assert begun == [f"candidate.{share}.0" for share in range(count)]
    session.prepared = {"correctness": "begun"} if count else {}
    session.missing = lambda *_: None
    assert (step.ahead(session) is not None) == bool(count), "the cases begin ahead where their processes did"
