"""Streams and the host wait for what they need: each wait that a launcher leaves out is a finding, and with it there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cpu_kit
import pytest
import torch
from conftest import OnceASession

from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.sources.default_stream import CURRENT, DEFAULT

SOURCE = cpu_kit.DATA / "streams.cu"
NOT_BEFORE, NEVER_AFTER, HOST = "does not wait for the caller's stream", "the caller's stream never waits", "host code in "


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-streams", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "streams.so", flags=["-w"])) / "streams.so"


def found(library: Path, entry: str, mode: int, stream: str = CURRENT, kind: str = "stream_order", archs: Sequence[str] = ()) -> list[str]:
    """What is found in two calls, whose numbers are right: the same in both."""
    kernel, x, out = EmulatedKernel(library, entry, archs=archs, stream=stream), torch.arange(1.0, 101.0), torch.zeros(100)
    messages = []
    for _ in range(2):
        kernel(x, out, 100, mode)
        assert torch.equal(out, x + 1) and {finding["kind"] for finding in kernel.findings} <= {kind}
        messages.append([finding["message"] for finding in kernel.findings])
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    ("entry", "mode", "message"),
    [
        ("halves", 1, NOT_BEFORE),
        ("halves", 2, NEVER_AFTER),
        ("by_default", 1, NOT_BEFORE),
        ("by_default", 2, NEVER_AFTER),
        ("graph", 1, NOT_BEFORE),
        ("scratch", 1, NOT_BEFORE),
        ("managed", 1, HOST),
        ("pinned", 1, HOST),
        ("places", 1, HOST),
    ],
)
def test_a_wait_that_is_left_out(library: Path, entry: str, mode: int, message: str) -> None:
    messages = found(library, entry, mode)
    assert any(message in one for one in messages), messages
    assert found(library, entry, 0) == []


def test_a_kernel_that_begins_early(library: Path) -> None:
    assert [found(library, "overlapping", mode) for mode in (0, 2, 3)] == [[], [], []]
    (message,) = found(library, "overlapping", 1, kind="race_global")
    assert "never calls cudaGridDependencySynchronize" in message
    assert found(library, "overlapping", 1, archs=("sm_89", "sm_90")) == [], "the attribute does nothing on a chip of sm_89"


def test_a_task_of_the_default_stream(library: Path) -> None:
    assert found(library, "blocking", 0, stream=DEFAULT) == []
    for mode, stream in ((1, DEFAULT), (0, CURRENT)):
        (message,) = found(library, "blocking", mode, stream=stream)
        assert NOT_BEFORE in message
