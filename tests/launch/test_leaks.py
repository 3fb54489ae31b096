"""What a function's calls leave allocated is a leak, but for what a cycle of Python objects holds until it is collected."""

from __future__ import annotations

import weakref
from typing import Any

from gates.launch import replay
from gates.launch.case_file import CaseFile
from gates.launch.memory import TorchMemory


class Buffer:
    own: Any = None


class Emulator:
    """Counts the buffers that are alive, each as eight bytes."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self.kept: list[Buffer] = []

    def prepare(self, order: str, seed: int) -> None:
        pass

    def allocated_bytes(self) -> int:
        return 8 * len(self.alive)

    def collect(self) -> tuple[list[Any], list[Any]]:
        return [], []

    def cycle(self) -> None:
        one = Buffer()
        one.own = one
        self.alive.add(one)

    def leak(self) -> None:
        self.cycle()
        self.kept += self.alive


def found(call: str) -> list[str]:
    emulator = Emulator()
    job = {"side": {"emulated": True, "kind": "triton"}, "launches": 2}
    result = replay._replay_one(CaseFile("small", 0, (), {}), job, getattr(emulator, call), TorchMemory(), emulator)
    return [one["message"] for one in result["findings"]]


def test_what_a_cycle_holds_is_no_leak_and_what_is_kept_is_one() -> None:
    assert found("cycle") == []
    assert found("leak") == ["8 bytes that later calls of the launcher allocated were never freed"]
