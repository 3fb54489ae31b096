"""Find out by its outputs whether a kernel launches on the default stream.

Correctness is judged on a separate stream, on which a kernel that uses another stream reads its inputs too early. That looks like
a race or unwritten memory. If the same kernel is right on the default stream, the stream is the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gates.launch import guarded_buffers
from gates.task.sources.default_stream import CURRENT, DEFAULT

_TRIES = 5  # of a call, to get one that was enqueued in time


def on_default_stream(
    side: Any,
    inputs: Mapping[str, Any],
    shape: Mapping[str, int],
    seed: int,
    later: Sequence[Any],
    figures: Callable[[Mapping[str, Any]], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return the ``figures`` of the outputs on the default stream; empty unless only the stream makes the difference.

    Two calls there must agree bit by bit, and each of ``later`` (the case's calls but the first, whose loading of the
    module may wait for the device) and two more calls on the current stream must differ: a race does not depend on the stream.
    A call on the current stream counts if the launcher returned before that stream went on; a busy machine may need several.
    """
    by_stream: dict[str, list[Any]] = {CURRENT: [call for call in later if call.ahead], DEFAULT: []}
    for variant, stream in enumerate((DEFAULT, CURRENT, DEFAULT, CURRENT)):
        for _ in range(_TRIES):
            call = side.call(inputs, shape, variant=variant % 3, order="forward", seed=seed, stream=stream)
            if call.ahead or stream == DEFAULT:
                break
        by_stream[stream].append(call)
    right = by_stream[DEFAULT][0]
    if any(call.error or call.guards or call.mutated for call in by_stream[DEFAULT]) or not _same(*by_stream[DEFAULT]):
        return []
    return [] if any(_same(call, right) for call in by_stream[CURRENT]) else figures(right.outputs)


def _same(one: Any, other: Any) -> bool:
    """Whether two calls gave outputs of the same names, shapes and bits."""
    return one.outputs.keys() == other.outputs.keys() and all(
        one.outputs[name].shape == other.outputs[name].shape
        and not guarded_buffers.differing(one.outputs[name], other.outputs[name]).numel()
        for name in one.outputs
    )
