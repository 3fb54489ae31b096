"""Who may use a card when: timings alone and first, everything else together."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sweep_kit import DEVICE

from gates.evidence.phases import Phases
from gates.launch.device import card
from gates.pipeline.run import alone_on_card

WAIT_S = 60.0


class Job:
    """A thread that wants the card, and holds it until it is let go; ``log`` has the names of those that began."""

    def __init__(self, log: list[str], name: str, *, alone: bool, asks: Callable[[], object] = lambda: None) -> None:
        self.began, self._let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with card("GPU-0", alone=alone):
                log.append(name)
                self.began.set()
                assert self._let_go.wait(WAIT_S)

        self.thread = threading.Thread(target=hold, daemon=True)
        self.thread.start()

    def ends(self) -> None:
        self._let_go.set()
        self.thread.join(WAIT_S)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return []


def test_checks_share_a_card_and_a_timing_has_it_alone(log: list[str]) -> None:
    checks = [Job(log, "check", alone=False) for _ in range(2)]
    assert all(one.began.wait(WAIT_S) for one in checks), "together"
    timing = Job(log, "timing", alone=True)
    assert not timing.began.wait(0.2)
    checks[0].ends()
    assert not timing.began.wait(0.2)
    checks[1].ends()
    assert timing.began.wait(WAIT_S)
    another = Job(log, "another", alone=True)
    assert not another.began.wait(0.2)
    timing.ends()
    another.ends()


def test_a_timing_that_waits_goes_before_a_check_that_comes_later(log: list[str]) -> None:
    first = Job(log, "check", alone=False)
    assert first.began.wait(WAIT_S)
    timings = [Job(log, "timing", alone=True) for _ in range(2)]
    assert not timings[0].began.wait(0.2)
    later = Job(log, "later check", alone=False)
    assert not later.began.wait(0.2), "a check of the same kind holds the card, but a timing waits"
    first.ends()
    while timings:
        while not (running := [one for one in timings if one.began.wait(0.02)]):
            assert not later.began.is_set()
        timings.remove(running[0])
        running[0].ends()
    assert later.began.wait(WAIT_S)
    later.ends()
    assert log == ["check", "timing", "timing", "later check"]


@pytest.mark.parametrize(("held", "alone", "free"), [(True, False, False), (False, False, True), (False, True, False)])
def test_what_does_not_wait_is_told_that_the_card_is_held(log: list[str], held: bool, alone: bool, free: bool) -> None:
    other = Job(log, "other", alone=held)
    assert other.began.wait(WAIT_S)
    try:
        with card("GPU-0", alone=alone, wait=False):
            log.append("mine")
    except BlockingIOError:
        log.append("held")
    other.ends()
    assert log == ["other", "mine" if free else "held"]


def test_a_run_waits_for_the_card_and_says_so(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said, clock, device = list[str](), Phases(), replace(DEVICE, uuid="GPU-0")
    progress = cast(Any, SimpleNamespace(step=lambda text: (said.append(text), timing.ends())))
    with alone_on_card(device, progress, clock):
        timing = Job(log, "timing", alone=True)
        assert not timing.began.wait(0.2), "a run has the card to itself"
    assert timing.began.wait(WAIT_S) and not said and not clock.seconds
    with alone_on_card(device, progress, clock):
        assert said == ["waiting for the card: another program of gates uses it"] and list(clock.seconds) == ["wait"]
    with alone_on_card(None, progress, clock):
        assert len(said) == 1, "without a card there is nothing to wait for"
