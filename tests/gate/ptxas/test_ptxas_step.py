"""Candidate and baseline show their launches at the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from gates.gate import session as sessions
from gates.gate.ptxas import step


def test_the_launches_of_both_are_asked_for_at_once_and_each_is_in_its_own_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    together, written = threading.Barrier(2), dict[str, Any]()
    tasks = [(SimpleNamespace(name=name, kernels=()), folder) for name, folder in (("new", ""), ("old", "baseline/"))]

    def launches_of(session: Any, task: Any) -> tuple[list[str], str]:
        together.wait(60)
        return [task.name], f"of {task.name}"

    monkeypatch.setattr(step, "launches_of", launches_of)
    monkeypatch.setattr(step.evidence, "gather", lambda logs, launches, *_, launches_note, **__: (launches, launches_note))
    session = MagicMock(
        without_code=lambda *_: None,
        compiled=lambda _: tasks,
        write_evidence=lambda name, record, task: written.update({name: (record, task.name)}),
    )
    assert step.collect(session) is None
    assert written == {"ptxas.json": ((["new"], "of new"), "new"), "baseline/ptxas.json": ((["old"], "of old"), "old")}


def test_tasks_of_the_same_arguments_that_ask_at_once_share_their_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Path]()

    def write(side: Any, shapes: Any, *, work: Path, **_: Any) -> list[dict[str, Any]]:
        time.sleep(0.05)
        made.append(work)
        return [{"path": str(work)}]

    monkeypatch.setattr(sessions, "write_memory_cases", write)
    monkeypatch.setattr(sessions.Session, "side", lambda *_: {})
    mock = MagicMock()
    session = sessions.Session(mock, None, ("small",), (0,), mock, None, mock, tmp_path, tmp_path, 1, mock)
    tasks = [SimpleNamespace(arguments=arguments, time_limit_s=1.0) for arguments in (("x", "y"), ("x", "y"), ("y", "x"))]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(session.cases, tasks))
    assert found[0] is found[1] and found[0] is not found[2] and len(set(made)) == len(made) == 2
