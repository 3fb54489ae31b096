"""A robust-kbench task (problem_original.py is func_forward.py, unchanged) as a problem of Kernel Gates.

The kernel replaces forward_fn: its inputs are what Model.forward hands to ``fn``, weights included. Weights and
inputs are drawn under the case's seed, as the format does.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from gates.task.precision import exactly

from . import problem_data as data
from . import problem_needs as needs
from . import problem_original as original

ATOL = RTOL = 1e-3  # the format's rule, as its run_kernel.py has it: |out - reference| <= ATOL + RTOL * |reference|
SHAPES = {
    name: {"setting": index, **{key: value for key, value in {**init, **given}.items() if type(value) is int}}
    for index, (name, (init, given)) in enumerate(data.SETTINGS.items())
}
NEEDS = needs.NEEDS  # of a case: bytes of memory, and seconds on one core
DIMS: dict[str, Any] = {}  # the format's settings are its contract


def make_inputs(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
    """The arguments of forward_fn by name."""
    init, given = list(data.SETTINGS.values())[shape["setting"]]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inputs = original.get_inputs(**given)
        torch.manual_seed(seed)
        model = original.Model(**init)
    try:
        with torch.no_grad():
            model(*inputs, fn=_stop)
    except _Asked as asked:
        bound = inspect.signature(original.forward_fn).bind(*asked.args, **asked.named)
        bound.apply_defaults()
        return {name: _on(value, device) for name, value in bound.arguments.items()}
    raise TypeError("Model.forward does not call the function that it is given as fn")


def reference(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of forward_fn in float64."""
    if _last.get("inputs") is not inputs:
        with exactly():
            found = _named(original.forward_fn(*_given(inputs)))
        _last.update(inputs=inputs, outputs={name: value.double() for name, value in found.items()})
    return _last["outputs"]


def honest(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of forward_fn in its own precision."""
    with torch.no_grad():
        return _named(original.forward_fn(*_given(inputs)))


def rule(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The format's tolerance, element by element."""
    return {name: ATOL + RTOL * value.abs() for name, value in reference(inputs, shape).items()}


def backends(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The task's own forward_fn, eager and compiled."""
    given = list(inputs.values())
    return {"eager": lambda: original.forward_fn(*given), "torch_compile": lambda: _compiled()(*given)}


_last: dict[str, Any] = {}  # reference and rule are asked about the same inputs, one after the other


@functools.lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(original.forward_fn)


def _named(found: Any) -> dict[str, Any]:
    values = list(found) if isinstance(found, (tuple, list)) else [found]
    names = ["out"] if len(values) == 1 else [f"out{index}" for index in range(len(values))]
    return dict(zip(names, values, strict=True))


class _Asked(Exception):
    """What Model.forward called its function with."""

    def __init__(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__("the arguments are known")
        self.args, self.named = args, named


def _stop(*args: Any, **named: Any) -> Any:
    raise _Asked(args, named)


def _given(inputs: dict[str, Any]) -> list[Any]:
    """Copies: forward_fn may change its inputs."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs.values()]


def _on(value: Any, device: str) -> Any:
    return value.detach().contiguous().to(device) if isinstance(value, torch.Tensor) else value
