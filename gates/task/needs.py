"""Estimate what a case of a problem takes, before it takes it: the problem's honest evaluation runs on tensors without memory."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import types
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gates.task.torch_mode import TorchMode

_COPIES = 3.0  # of the evaluation's memory: float64 beside float32
_BYTES_PER_OUTPUT = 100.0  # of an output's element: its errors, bounds and comparisons in float64
_FLOPS_PER_S = 2e9  # of one core in float64, with room for what is not a product
_EVALUATIONS = 6.0  # of a case: the reference twice, the honest one, the kernel's calls


_SMALL, _SHORT = 2**24, 1024  # the product of a small problem's sizes, and each of them: N may be the side of a matrix


class Needs(NamedTuple):
    """Memory in bytes, and seconds on one core."""

    bytes: float
    core_s: float


_known: dict[Any, Needs | None] = {}  # by problem and sizes
_opaque: set[str] = set()  # problems that were not followed once: another try may take as long as the case


def estimate(problem: Any, shape: Mapping[str, int]) -> Needs | None:
    """Return what a case of ``shape`` takes at most, roughly; None if the problem can't be followed without memory."""
    try:
        with _no_compiler(), torch.device("meta"), torch.no_grad(), _Followed() as followed:
            outputs = problem.honest(problem.make_inputs(shape, 0, "meta"), shape)
    except Exception:  # the user's code, on tensors that hold nothing
        return None
    values = outputs.values() if isinstance(outputs, Mapping) else outputs if isinstance(outputs, (tuple, list)) else [outputs]
    elements = sum(value.numel() for value in values)
    return Needs(_COPIES * followed.most + _BYTES_PER_OUTPUT * elements, _EVALUATIONS * followed.flops / _FLOPS_PER_S)


@contextlib.contextmanager
def _no_compiler() -> Iterator[None]:
    """Stand in for torch's compiler, which takes two seconds to import, unless it is there. Torch's functions on tensors without memory
    import it to be left alone by it; it is asked for nothing else.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return
    stand_in: Any = types.ModuleType(name)
    stand_in.disable = lambda function, *_, **__: function
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        if torch.__dict__.get("_dynamo") is stand_in:
            del torch._dynamo


def free_bytes() -> int:
    """Return the memory that this machine and this process's control group have left."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")]
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) * 1024]
    limit, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        cached = sum(int(line.split()[1]) for line in _read("/sys/fs/cgroup/memory.stat").splitlines() if line.startswith("inactive_file "))
        found.append(int(limit) - int(used) + cached)
    return max(0, min(found))


def known(problem: Any, shape: Mapping[str, int], *, small: bool = False) -> Needs | None:
    """Return what a case of ``shape`` takes: what the problem's NEEDS says, or an estimate. None if it can't be known, or if its sizes
    look small and it is not asked for ``small`` shapes, too.

    To follow a problem loads much of torch, which takes half a second. So an import writes the estimates down, also for shapes that look
    small.
    """
    sizes = [size for size in shape.values() if type(size) is int]
    if not hasattr(problem, "honest"):
        return None
    for name, written in getattr(problem, "NEEDS", {}).items():
        if problem.SHAPES.get(name) == shape:
            return Needs(*written)
    if not small and sizes and math.prod(sizes) <= _SMALL and max(sizes) <= _SHORT:
        return None
    place = (problem.__name__, tuple(shape.items()))
    if place not in _known and problem.__name__ not in _opaque:
        _known[place] = estimate(problem, shape)
        if _known[place] is None:
            _opaque.add(problem.__name__)
    return _known.get(place)


def refusal(problem: Any, shape: Mapping[str, int], seconds: float, *, small: bool = False) -> str:
    """Return why a case can't be tried within ``seconds`` and the free memory; empty if it can, or if that is not ``known``."""
    if (needed := known(problem, shape, small=small)) is None:
        return ""
    if needed.bytes > (free := free_bytes()):
        return f"needs about {needed.bytes / 2**30:.3g} GiB of memory, and {free / 2**30:.3g} GiB are free"
    needed_s = needed.core_s / len(os.sched_getaffinity(0))
    return f"takes about {needed_s:.3g} s on this CPU, and {seconds:g} s are allowed" if needed_s > seconds else ""


def draws_within(problem: Any, shape: Mapping[str, int], elements: int) -> bool:
    """Return whether every tensor that the problem makes for its inputs of ``shape`` has at most so many ``elements``; larger ones are not
    drawn.

    Inputs that can't be made count as small: whoever needs them tells why. Torch's random numbers go on as if nothing was drawn.
    """
    try:
        with torch.random.fork_rng(devices=[]), _Bounded(elements), torch.no_grad():
            problem.make_inputs(shape, 0, "cpu")
    except _TooLargeError:
        return False
    except KeyboardInterrupt:
        raise
    except BaseException:  # the user's code, which may also raise SystemExit
        return True
    return True


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


class _TooLargeError(BaseException):  # so that a problem's `except Exception` does not catch it
    pass


class _Bounded(TorchMode):
    """Raises _TooLargeError for an operation that is asked for a tensor of more than ``most`` elements, before it is made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for given in args:
            sizes = given if isinstance(given, (list, tuple)) else ()
            if sizes and all(type(size) is int for size in sizes) and math.prod(sizes) > self.most:
                raise _TooLargeError
        made = function(*args, **(kwargs or {}))
        if any(isinstance(one, torch.Tensor) and one.numel() > self.most for one in (made if isinstance(made, (tuple, list)) else [made])):
            raise _TooLargeError
        return made


class _Followed(TorchMode):
    """The most bytes of storages that are alive at once, in ``most``; floating-point operations by torch's own formulas, in ``flops``.

    FlopCounterMode would import torch's compiler.
    """

    def __init__(self) -> None:
        super().__init__()
        from torch.utils.flop_counter import flop_registry  # imports Triton, which small problems need not wait for

        self.most = self._now = self.flops = 0
        self._formulas = flop_registry
        self._seen: dict[int, Any] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:  # what is made of simpler operations is counted as these
            made = function.decompose(*args, **kwargs)
        if made is not NotImplemented:
            return made
        made = function(*args, **kwargs)
        if formula := self._formulas.get(function.overloadpacket):
            self.flops += formula(*args, **kwargs, out_val=made)
        for value in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(value, torch.Tensor):
                self._hold(value.untyped_storage())
        return made

    def _hold(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        size = storage.nbytes()
        self._seen[key] = weakref.finalize(storage, self._release, key, size)
        self._now += size
        self.most = max(self.most, self._now)

    def _release(self, key: int, size: int) -> None:
        self._seen.pop(key, None)
        self._now -= size
