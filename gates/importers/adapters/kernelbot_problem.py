"""A kernelbot problem (reference.py and the files that it imports, unchanged) as a problem of Kernel Gates.

Shapes are the tests of task.yml, and the benchmark that is timed. Inputs are drawn on the CPU, also where the problem names a device,
so that they are the same everywhere. Tensors among them that are buffers for outputs are made anew for each call.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any

import torch

from gates.core.python_path import add_folder
from gates.emulator.cpu_as_device import pretended
from gates.task.precision import SINGLE, InPrecision, exactly
from gates.task.problem import tensors_named

from . import problem_data as data
from . import problem_needs as needs
from .data_form import built, role, taken_apart

add_folder(Path(__file__).parent)  # the format's files import each other by their names

import reference as original  # noqa: E402

_SEEDS = 65521  # how far a case's seed goes from the test's own: some problems use it as a number
_PROBED = 3  # tests: on the smallest alone an input may not matter
SHAPES = {
    name: {**{key: value for key, value in case.items() if type(value) is int and value > 0 and key != "seed"}, "case_number": number}
    for number, (name, case) in enumerate(data.CASES.items(), start=1)
}
NEEDS = needs.NEEDS  # of a case: bytes of memory, and seconds on one core
OUT_OF_CONTRACT = data.OUT_OF_CONTRACT
DIMS: dict[str, Any] = {}  # the format's tests are its contract


def make_inputs(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
    """The form of what generate_input gives, and its tensors by name."""
    form, tensors = taken_apart(_generated(list(data.CASES.values())[shape["case_number"] - 1], seed, device), _buffers())
    return {"form": form, **{name: value.to(device) for name, value in tensors.items()}}


def reference(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of ref_kernel in float64."""
    if _last.get("inputs") is not inputs:
        with pretended(), exactly():
            found = tensors_named(original.ref_kernel(_data(inputs, exact=True)), "ref_kernel")
        _last.update(inputs=inputs, outputs={name: value.double() for name, value in found.items()})
    return _last["outputs"]


def honest(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of ref_kernel in its inputs' precision: a reference that widens float32 inputs asks no kernel for float64."""
    tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    wide = any(value.dtype is torch.float64 for value in tensors)
    where = tensors[0].device.type if tensors else "cpu"
    with torch.no_grad(), pretended(where), contextlib.nullcontext() if wide else InPrecision(SINGLE):
        return tensors_named(original.ref_kernel(_data(inputs)), "ref_kernel")


if data.RULE is not None:

    def rule(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
        """The format's tolerance, element by element."""
        return {name: data.RULE[0] + data.RULE[1] * value.abs() for name, value in reference(inputs, shape).items()}


def backends(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The problem's own ref_kernel, eager and compiled."""
    return {"eager": lambda: _call(original.ref_kernel, inputs), "torch_compile": lambda: _call(_compiled(), inputs)}


_last: dict[str, Any] = {}  # reference and rule are asked about the same inputs, one after the other


@functools.lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(original.ref_kernel)


def _call(function: Any, inputs: dict[str, Any]) -> Any:
    given = _data(inputs)
    on_cpu = all(value.device.type == "cpu" for value in inputs.values() if isinstance(value, torch.Tensor))
    with torch.no_grad(), pretended() if on_cpu else contextlib.nullcontext():
        return function(given)


def _generated(case: dict[str, Any], seed: int, device: str) -> Any:
    given = {**case, "seed": case["seed"] + seed % _SEEDS} if "seed" in case else case
    with torch.random.fork_rng(devices=[]), pretended("meta" if device == "meta" else "cpu"):
        torch.manual_seed(seed)
        return original.generate_input(**given)


def _data(inputs: dict[str, Any], *, exact: bool = False) -> Any:
    """Copies: ref_kernel may change its inputs."""
    return built(inputs["form"], [value.clone() for name, value in inputs.items() if name != "form"], exact=exact)


@functools.lru_cache(maxsize=1)
def _buffers() -> set[str]:
    """Roles of the tensors that are buffers for outputs: of an output's size and kind, and what they hold changes no output."""
    with torch.device("cpu"):  # also where a case is followed on tensors without memory
        return _probed(sorted(SHAPES.values(), key=lambda sizes: sum(sizes.values()))[:_PROBED])


def _probed(smallest: list[dict[str, int]]) -> set[str]:
    found, others = set(), set()
    for sizes in smallest:
        given = _first(sizes)
        tensors = taken_apart(given)[1]
        numbers = [(value.numel(), value.is_floating_point()) for value in _outputs(given)]
        for name, tensor in tensors.items():
            like_one = (tensor.numel(), tensor.is_floating_point()) in numbers
            ignored = like_one and all(map(torch.equal, *(_outputs_with(sizes, name, seed) for seed in (0, 1))))
            (found if ignored else others).add(role(name))
    return found - others


def _first(sizes: dict[str, int]) -> Any:
    return _generated(list(data.CASES.values())[sizes["case_number"] - 1], 0, "cpu")


def _outputs_with(sizes: dict[str, int], name: str, seed: int) -> list[torch.Tensor]:
    """The outputs if this tensor holds other numbers."""
    given = _first(sizes)
    tensor = taken_apart(given)[1][name]
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))
    tensor.copy_(noise if tensor.is_floating_point() else noise > 0)
    return _outputs(given)


def _outputs(given: Any) -> list[torch.Tensor]:
    with torch.no_grad(), pretended():
        return [value.clone() for value in tensors_named(original.ref_kernel(given), "ref_kernel").values()]
