"""What the terminal shows while something takes long."""

from __future__ import annotations

import time

import pytest

from gates.render import console


def test_a_long_step_gives_signs_of_life_with_its_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "BEAT_S", 0.05)
    with console.Progress() as progress:
        progress.step("one launch", 20.0)
        time.sleep(0.3)
        progress.done("ended")
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].endswith("] one launch") and shown[-1].endswith("] ended")
    assert len(shown) > 2 and all("still running after 0 s: one launch (time limit per process: 20 s)" in line for line in shown[1:-1])
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_step_that_has_just_begun_is_not_told_twice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "BEAT_S", 60.0)
    with console.Progress() as progress:
        progress.step("compiling")
    assert len(capsys.readouterr().err.splitlines()) == 1
