"""Check evidence of machine code: counts that must add up, whatever the verdict is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.kernel_names import misnamed
from gates.evidence.differences import differences
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.sass.evidence import TOP, count_classes


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    yield from misnamed(evidence.functions)
    for function in evidence.functions:
        if function.code and len(function.code) != function.instructions:
            yield f"{function.base_name} {function.arch} has {function.instructions} instructions, its code {len(function.code)}"
        told, top = f"{function.base_name} {function.arch}", function.top_mnemonics
        rest = function.instructions - sum(top.values())
        if rest < 0 or (rest and len(top) < TOP):
            yield f"{told} has {function.instructions} instructions, its commonest are {sum(top.values())}"
        for name, counted in count_classes(top).items():  # the others may be of the class, too
            if not counted <= function.classes.get(name, counted) <= counted + max(rest, 0):
                yield (
                    f"{told} has {function.classes[name]} instructions of the class {name}, {counted} of its commonest are, and "
                    f"{rest} others exist"
                )


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, one sentence each."""
    yield from differences([("kernels", evidence.expected_kernels, side.kernels)])
