"""Find the stream that a kernel launches on, by its outputs and in its sources.

Correctness is judged on a separate stream, on which a kernel that uses another stream reads its inputs too early. That looks like
a race or unwritten memory. If the same kernel is right on the default stream, the stream is the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gates.run import buffers

CURRENT, DEFAULT = "current", "default"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)  # in Python // is no comment
_LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_NO_STREAM = re.compile(r"0|nullptr|NULL|cudaStreamDefault|cudaStreamLegacy|(?:\(\s*cudaStream_t\s*\)|static_cast<\s*cudaStream_t\s*>)\s*\(?\s*0\s*\)?")
_OPEN, _CLOSE = "([{", ")]}"


def on_default_stream(
    side: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], seed: int, later: Sequence[Any],
    figures: Callable[[Mapping[str, Any]], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return the ``figures`` of the outputs on the default stream; empty unless only the stream makes the difference.

    Two calls there must agree bit by bit, and each of ``later`` (the case's calls but the first, whose loading of the
    module may wait for the device) and two more calls on the current stream must differ: a race does not depend on the stream.
    """
    by_stream: dict[str, list[Any]] = {CURRENT: list(later), DEFAULT: []}
    for variant, stream in enumerate((DEFAULT, CURRENT, DEFAULT, CURRENT)):
        by_stream[stream].append(side.call(inputs, shape, variant=variant % 3, order="forward", seed=seed, stream=stream))
    right = by_stream[DEFAULT][0]
    if any(call.error or call.guards or call.mutated for call in by_stream[DEFAULT]) or not _same(*by_stream[DEFAULT]):
        return []
    return [] if any(_same(call, right) for call in by_stream[CURRENT]) else figures(right.outputs)


def _same(one: Any, other: Any) -> bool:
    """Whether two calls gave outputs of the same names, shapes and bits."""
    return one.outputs.keys() == other.outputs.keys() and all(
        one.outputs[name].shape == other.outputs[name].shape and not buffers.differing(one.outputs[name], other.outputs[name]).numel() for name in one.outputs
    )


def default_stream_launches(texts: Mapping[str, str]) -> list[str]:
    """Return ``file:line: kernel<<<grid, block>>>`` of each launch in ``texts`` (by file name) without a stream or on the default one.

    CUDA in the strings of a Python file counts too.
    """
    found = []
    for name, text in texts.items():
        plain = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
        for launch in _LAUNCH.finditer(plain):
            stream = _parts(launch[1])[3:4]
            before = plain[plain.rfind("\n", 0, launch.start()) + 1 : launch.start()]
            if "//" not in before and (not stream or _NO_STREAM.fullmatch(stream[0].strip())):
                found.append(f"{name}:{plain.count(chr(10), 0, launch.start()) + 1}: {before.strip()}<<<{' '.join(launch[1].split())}>>>"[:160])
    return found


def _parts(text: str) -> list[str]:
    """``text`` at its commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
