"""How long the stream of a launch waits, so that work on another stream comes before the inputs."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from gates.launch import guarded_buffers, isolated_launch
from gates.launch.isolated_launch import Launcher, next_delay_s


@pytest.mark.parametrize(
    ("enqueuing_s", "ahead", "expected"),
    [(0.00005, True, 0.001), (0.0005, True, 0.004), (0.5, True, 0.01), (0.00005, False, 0.01)],
    ids=["at once", "slower", "as slow as a compiler", "too late"],
)
def test_a_delay_is_several_times_what_enqueuing_takes(enqueuing_s: float, ahead: bool, expected: float) -> None:
    assert next_delay_s(enqueuing_s, ahead=ahead) == pytest.approx(expected)


def test_the_first_delay_is_long_then_short_and_long_again_after_a_launch_that_came_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with a clock of its own: each launch is enqueued in 0.2 ms; the third one's stream has gone on before."""
    slept, late, now = list[int](), [False, False, True, False, False], iter(0.0002 * (number // 2 + number % 2) for number in range(100))
    monkeypatch.setattr(isolated_launch, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    for name, made in (
        ("device", lambda device: nullcontext()),
        ("stream", lambda stream: nullcontext()),
        ("synchronize", lambda device: None),
        ("Stream", lambda device: SimpleNamespace(cuda_stream=7)),
        ("Event", lambda: SimpleNamespace(record=lambda stream: None, query=lambda: late[len(slept) - 1])),
        ("_sleep", slept.append),
    ):
        monkeypatch.setattr(torch.cuda, name, made, raising=False)
    launcher = object.__new__(Launcher)
    launcher._device, launcher._on_device, launcher._emulated, launcher._filled = "cpu", True, None, False
    launcher._delay_s = isolated_launch._MOST_DELAY_S
    launcher._kernel = lambda x, *, stream: None
    buffer = {"image": guarded_buffers.guarded(torch.arange(4.0), 3).image, "dtype": "float32", "shape": [4], "strides": [1]}
    question = {"buffers": {"x": buffer}, "arguments": [{"buffer": "x"}], "names": [], "given": ["x"], "stream": "current"}
    answers = [launcher.launch(question) for _ in late]
    assert [answer["ahead"] for answer in answers] == [not one for one in late]
    assert [cycles / isolated_launch._CYCLES_PER_S for cycles in slept] == pytest.approx([0.01, 0.0016, 0.0016, 0.01, 0.0016])
