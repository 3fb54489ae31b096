"""Status words are coloured where a terminal wants it, and nowhere else."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from gates.core import colour

TABLE = (
    "reject · stage3 · load.cuh:122 a wait\n  ptxas        pass          2 kernels pass within budget\n  sass         FAIL         "
    " x\n  ncu          not run       no device\n\ndecision: hold (no verdict)"
)


def test_cells_and_decisions_are_painted_and_sentences_are_not() -> None:
    painted = colour.paint(TABLE)
    assert re.findall(r"\x1b\[(\d+)m([^\x1b]+)\x1b\[0m", painted) == [
        ("31", "reject"),
        ("32", "pass"),
        ("31", "FAIL"),
        ("33", "not run"),
        ("33", "hold"),
    ]
    assert re.sub(r"\x1b\[\d+m", "", painted) == TABLE
    for sentence in ("merge conflicts of stage3", "a hold on it", "kernels pass", "the gate said: pass on"):
        assert colour.paint(sentence) == sentence


@pytest.mark.parametrize(
    ("environ", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"CLICOLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_what_a_terminal_and_its_owner_ask_for(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], terminal: bool, expected: bool
) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert colour.wanted(SimpleNamespace(isatty=lambda: terminal)) is expected
