"""A KernelBench problem (problem_original.py, unchanged) as a problem of Kernel Gates.

Shapes (problem_data.py) are values of the module's whole numbers (batch_size, dim, …), which get_inputs and get_init_inputs
read at each call. "given" is the format's own shape; the import made the others.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from gates.task.precision import exactly
from gates.task.problem import tensors_named

from . import problem_computed as computed
from . import problem_data as data
from . import problem_needs as needs
from . import problem_original as original

ATOL = RTOL = 1e-4  # the format's rule for float32: |out - reference| <= ATOL + RTOL * |reference|
WEIGHTS_SEED = 42  # the format draws the weights of Model and of ModelNew under this seed
torch.backends.cudnn.allow_tf32 = False  # the problem's precision is float32, also in convolutions
SHAPES = data.SIZES
NEEDS = needs.NEEDS  # of a case: bytes of memory, and seconds on one core
ODD_SHAPES = tuple(name for name in SHAPES if name == "tail")
OFFERED = tuple(name for name in SHAPES if name != "given")
DIMS: dict[str, Any] = {}  # the format's sizes are its contract


def make_inputs(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
    """What ModelNew is made of (``init_inputs``), and the inputs of its forward by name."""
    for name, value in shape.items():
        setattr(original, name, value)
    for name, text in computed.COMPUTED.items():
        setattr(original, name, eval(text, vars(original)))  # noqa: S307  the problem's own code
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        init, given = original.get_init_inputs(), original.get_inputs()
    names = [name for name in inspect.signature(original.Model.forward).parameters][1:]
    if len(names) < len(given):
        names = [f"input{index}" for index in range(len(given))]
    return {"init_inputs": tuple(init), **{name: _on(value, device) for name, value in zip(names, given, strict=False)}}


def reference(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of Model in float64, with the weights that float32 drew."""
    if _last.get("inputs") is not inputs:
        model = _model(*inputs["init_inputs"]).double()  # a recurrent layer compares its weights' format with its input's
        with exactly():
            found = model(*_given(inputs))
        _last.update(inputs=inputs, outputs={name: value.double() for name, value in tensors_named(found, "Model.forward").items()})
    return _last["outputs"]


def honest(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of Model in its own precision."""
    return tensors_named(_call(_model(*inputs["init_inputs"]), _given(inputs)), "Model.forward")


def rule(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The format's tolerance, element by element."""
    return {name: ATOL + RTOL * value.abs() for name, value in reference(inputs, shape).items()}


def backends(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The problem's own Model, eager and compiled."""
    given = [value for name, value in inputs.items() if name != "init_inputs"]
    device = next((str(value.device) for value in given if isinstance(value, torch.Tensor)), "cpu")
    init = inputs["init_inputs"]
    return {
        "eager": lambda: _call(_placed(init, device), given),
        "torch_compile": lambda: _call(_placed(init, device, compiled=True), given),
    }


_models: dict[str, Any] = {}
_last: dict[str, Any] = {}  # reference and rule are asked about the same inputs, one after the other


def _model(*init: Any) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(WEIGHTS_SEED)
        return original.Model(*init)


def _placed(init: tuple[Any, ...], device: str, *, compiled: bool = False) -> Any:
    key = repr((init, device, compiled))  # lists among them can't be keys
    if key not in _models:
        _models[key] = torch.compile(_placed(init, device)) if compiled else _model(*init).to(device)
    return _models[key]


def _call(model: Any, given: list[Any]) -> Any:
    with torch.no_grad():
        return model(*given)


def _given(inputs: dict[str, Any]) -> list[Any]:
    """Copies: forward may change its inputs."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items() if name != "init_inputs"]


def _on(value: Any, device: str) -> Any:
    return value.detach().contiguous().to(device) if isinstance(value, torch.Tensor) else value
