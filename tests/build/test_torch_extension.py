"""A torch extension that is not built for the CPU: excused, unless the compilers refuse its sources for a device too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gates.build import torch_extension
from gates.build.failure import Failure
from gates.build.result import Target

REFUSED = Failure("nvcc k.cu", "exit 1", ('k.cu(3): error: identifier "z" is undefined',))
TASK: Any = SimpleNamespace(script="model.py")


def emulator(*others: Target) -> Failure | None:
    targets = torch_extension.on_cpu(TASK, [*others, Target("emulator", None, failure=REFUSED)], ("cubin", "emulator"))
    return targets[-1].failure


@pytest.mark.parametrize("kind", ["cubin", "binding"])
def test_sources_that_no_compiler_takes_are_the_kernels_fault(kind: str) -> None:
    failure = Failure("g++ k.cpp", "exit 1", ("k.cpp:1: error: expected ;",))
    assert emulator(Target(kind, None, failure=failure)) == failure


@pytest.mark.parametrize(
    "other",
    [Target("cubin", "k.cubin"), Target("cubin", None, failure=Failure("", "nvcc is not installed", missing_tool="nvcc"))],
    ids=["built for a device", "no compiler"],
)
def test_what_only_the_cpu_lacks_is_not(other: Target) -> None:
    failure = emulator(other)
    assert failure is not None and failure.unsupported.startswith("this torch extension can't be built for the CPU: k.cu(3): error")
