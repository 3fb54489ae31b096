"""What is begun ahead of its gate's turn: where, beside which gate, and how it ends if nobody wants it any more."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from gates.core.records import GateResult, Status
from gates.gate import session as sessions
from gates.gate.ncu import step as ncu_step
from gates.gate.registry import GATES, ROWS
from gates.gate.sanitizer import step
from gates.worker import process, turn
from gates.worker.process import ToolThreads


def made(folder: Path, aside: ToolThreads | None, **changes: Any) -> sessions.Session:
    task = SimpleNamespace(name="t", gates=dict.fromkeys(GATES, {}), time_limit_s=9.0, kind="cuda")
    device = SimpleNamespace(index=0) if changes.pop("device", True) else None
    found = sessions.Session(task, None, ("s",), (0,), MagicMock(), device, MagicMock(), folder, folder, 16, MagicMock(), aside=aside)
    found.builds["t"] = MagicMock(failure=lambda *_: None, archs=())
    for name, value in changes.items():
        setattr(found, name, value)
    return found


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled when the memory checks run on a device; no gate is judged, and nothing is asked of a task's builds."""
    ran = list[str]()
    monkeypatch.setattr(sessions, "untried", lambda *_: None)
    monkeypatch.setattr(step, "_on_device", lambda session: ran.append("ran") or {"of": session.task.name})
    return ran


@pytest.mark.parametrize("prepared", [False, True], ids=["", "beside the launches"])
@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({}, True),
        ({"device": False}, False),  # two cores are busy with the cases
        ({"jobs": 8}, False),
        ({"hangs": True}, False),
        ({"judged": ("ptxas", "sass", "correctness")}, False),  # a question that ends with the numbers
    ],
    ids=["device", "no device", "few cores", "hangs", "not asked"],
)
def test_memory_checks_begin_beside_the_cases_where_cores_are_free_and_they_are_wanted(
    changes: dict[str, Any], begins: bool, prepared: bool, raw: list[str], tmp_path: Path
) -> None:
    with ToolThreads(2) as aside:
        session = made(tmp_path, aside, **changes)
        session.prepared = {"correctness": MagicMock()} if prepared else {}
        session.begin_beside("ptxas", MagicMock())
        assert raw == [] or prepared, "nothing runs on the device yet"
        session.results["ptxas"] = MagicMock()
        session.begin_beside("correctness", MagicMock())
        aside.shutdown()
        assert raw == ["ran"] * begins
        assert session.begun("sanitizer", lambda: step._on_device(session)) == {"of": "t"} and raw == ["ran"], "once, now or then"


def test_a_session_without_threads_of_its_own_begins_nothing(raw: list[str], tmp_path: Path) -> None:
    made(tmp_path, None).begin_beside("correctness", MagicMock())
    assert raw == []


def test_what_was_begun_and_failed_is_raised_at_its_gate_s_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_: sessions.Session) -> None:
        raise sessions_error

    sessions_error = RuntimeError("the card was lost")
    monkeypatch.setattr(sessions, "untried", lambda *_: None)
    monkeypatch.setattr(step, "_on_device", fails)
    with ToolThreads(1) as aside:
        session = made(tmp_path, aside, results={"ptxas": MagicMock()})
        session.begin_beside("correctness", MagicMock())
        with pytest.raises(RuntimeError, match="lost"):
            session.begun("sanitizer", dict)


def test_each_gate_that_runs_ahead_stands_after_the_one_beside_which_it_begins() -> None:
    rows = [row for row in ROWS.values() if row.beside]
    assert {row.name for row in rows} == {"sass", "correctness", "sanitizer", "ncu"} and all(callable(row.beginning()) for row in rows)
    assert all(GATES.index(gate) < GATES.index(row.name) for row in rows for gate in row.beside)


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({}, True),
        ({"results": {"correctness": GateResult("correctness", Status.FAIL, "correctness.limits", "made up")}}, False),
        ({"device": False}, False),
        ({"jobs": 2}, False),  # the clock's process and that with the kernels need both
    ],
    ids=["not wrong", "wrong", "no device", "few cores"],
)
def test_profilers_of_a_right_kernel_begin_beside_the_timing_and_wait_for_its_end(
    changes: dict[str, Any], begins: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order = list[str]()

    def profiled(_: sessions.Session, held: turn.Turn | None) -> dict[str, Any]:
        if held is not None:
            order.append("begun")
            turn.wait(str(held.path))
        order.append("profiled")
        return {}

    monkeypatch.setattr(sessions, "untried", lambda *_: None)
    monkeypatch.setattr(ncu_step, "_profiled", profiled)
    right = {"correctness": GateResult("correctness", Status.INCONCLUSIVE, "correctness.undecided", "made up")}
    with ToolThreads(1) as aside:
        session = made(tmp_path, aside, **{"results": right, **changes})
        session.begin_beside("performance", MagicMock())
        time.sleep(0.05)
        order.append("timed")
        session.begun("ncu", lambda: profiled(session, None))
    assert order == ["begun"] * begins + ["timed", "profiled"]


def test_the_step_begins_what_runs_beside_its_gate(raw: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged = GateResult("correctness", Status.FAIL, "correctness.limits", "made up")
    monkeypatch.setattr(sessions, "rejudge", lambda *_: judged)
    monkeypatch.setattr(sessions.ROWS["correctness"].__class__, "collecting", lambda _: lambda _: time.sleep(0.2))
    with ToolThreads(1) as aside:
        session = made(tmp_path, aside, results={"ptxas": MagicMock()})
        assert sessions.judge_step(session, MagicMock(), "correctness") is judged
        assert raw == ["ran"], "while the cases ran"


def test_stopping_ends_tools_at_once_those_of_threads_that_these_made_too(tmp_path: Path) -> None:
    began = tmp_path / "began"

    def nested() -> None:
        with ToolThreads(2) as together:
            list(together.map(lambda _: process.run(["sh", "-c", f"touch {began}; sleep 60"], limit_s=60), range(2)))

    started = time.monotonic()
    with ToolThreads(1) as aside:
        done = aside.submit(nested)
        while not began.exists() and time.monotonic() - started < 20:
            time.sleep(0.01)
        aside.stop()
        assert isinstance(done.exception(), KeyboardInterrupt) and time.monotonic() - started < 30
