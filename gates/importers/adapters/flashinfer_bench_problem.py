"""A flashinfer-bench definition (problem_data.py, from definition.json) as a problem of Kernel Gates.

Inputs are drawn as the format draws them. The reference is the definition's own, run on the CPU in float64.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import torch

from gates.task.precision import exactly

from . import problem_data as data
from . import problem_needs as needs
from . import problem_reference

SHAPES = {name: {"workload": number, **axes} for number, (name, (axes, *_)) in enumerate(data.WORKLOADS.items(), start=1)}
NEEDS = needs.NEEDS  # of a case: bytes of memory, and seconds on one core
DIMS: dict[str, Any] = {}  # the format's workloads are its contract
RULE_FOR_ALL = not data.ADDED  # SOL-ExecBench asks 99 % of the elements to keep its rule
_STORED = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"},
}
_INTEGERS = {torch.int8: (-128, 128)}  # range of random integers; all wider types: -1024 to 1024


def make_inputs(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
    """Random tensors, and the scalars of the workload, by name in the definition's order."""
    axes, given, custom, _ = _workload(shape)
    generator, made = torch.Generator().manual_seed(seed), {}
    if custom:
        scalars = {name: value for name, value in given.items() if not isinstance(value, tuple)}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = getattr(problem_reference, data.CUSTOM)({**axes, **scalars}, torch.device("meta" if device == "meta" else "cpu"))
    for name, (names, dtype) in data.INPUTS.items():
        if isinstance(given.get(name), tuple):
            made[name] = _stored(*given[name])
        elif name in given:
            made[name] = given[name]
        elif name not in made:
            drawn = _random(_sizes(names, shape), getattr(torch, dtype), generator)
            made[name] = drawn.item() if names is None else drawn
    return {name: value.to(device) if isinstance(value := made[name], torch.Tensor) else value for name in data.INPUTS}


def make_outputs(shape: dict[str, int], device: str) -> dict[str, Any]:
    """Tensors with the outputs' shapes and formats."""
    return {
        name: torch.empty(_sizes(axes, shape), dtype=getattr(torch, dtype), device=device) for name, (axes, dtype) in data.OUTPUTS.items()
    }


def reference(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of the definition's ``run`` in float64."""
    if _last.get("inputs") is not inputs:
        given = _given(inputs)
        with exactly():
            found = _run(given)
        _last.update(inputs=inputs, outputs={name: value.double() for name, value in found.items()})
    return _last["outputs"]


def honest(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The outputs of the definition's ``run`` in the precision that it asks for, in the formats of the definition."""
    with torch.no_grad():
        return {name: value.to(getattr(torch, data.OUTPUTS[name][1])) for name, value in _run(_given(inputs)).items()}


def check(outputs: Any, expected: Any) -> str:
    """The format asks for the very formats of the definition, not for near enough numbers in others."""
    given = {"out": outputs} if isinstance(outputs, torch.Tensor) else outputs  # a lone output of that name comes by itself
    wrong = [
        f"{name} is {given[name].dtype}, not {dtype}"
        for name, (_, dtype) in data.OUTPUTS.items()
        if given[name].dtype != getattr(torch, dtype)
    ]
    return "; ".join(wrong)


def rule(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The format's tolerance, element by element."""
    atol, rtol = _workload(shape)[3]
    outputs = reference(inputs, shape).items()
    return {name: atol + rtol * value.abs() if data.ADDED else torch.clamp(rtol * value.abs(), min=atol) for name, value in outputs}


def backends(inputs: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    """The definition's own reference, eager and compiled."""
    given = [inputs[name] for name in data.INPUTS]
    return {"eager": lambda: problem_reference.run(*given), "torch_compile": lambda: _compiled()(*given)}


_last: dict[str, Any] = {}  # reference and rule are asked about the same inputs, one after the other


@functools.lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(problem_reference.run)


def _given(inputs: dict[str, Any]) -> list[Any]:
    """Copies: a reference may change its inputs."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in (inputs[name] for name in data.INPUTS)]


def _run(given: list[Any]) -> dict[str, Any]:
    found = problem_reference.run(*given)
    if not isinstance(found, dict):
        values = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(values) != len(data.OUTPUTS):
            raise TypeError(f"the reference gives {len(values)} outputs, the definition has {len(data.OUTPUTS)}")
        found = dict(zip(data.OUTPUTS, values, strict=True))
    return {name: torch.as_tensor(found[name]).cpu() for name in data.OUTPUTS}


def _workload(shape: dict[str, int]) -> Any:
    return list(data.WORKLOADS.values())[shape["workload"] - 1]


def _sizes(axes: Any, shape: dict[str, int]) -> list[int]:
    return [int(axis) if axis.isdecimal() else shape[axis] for axis in axes or ()]


def _stored(file: str, key: str) -> torch.Tensor:
    """A tensor of a safetensors file: the length of a JSON header, the header, and the bytes of all tensors."""
    content = Path(__file__).with_name("inputs").joinpath(Path(file).name).read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    told = json.loads(content[8:start])[key]
    first, end = told["data_offsets"]
    dtype = getattr(torch, _STORED[told["dtype"]])
    return torch.frombuffer(bytearray(content[start + first : start + end]), dtype=torch.uint8).view(dtype).reshape(told["shape"])


def _random(size: Any, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, size, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(*_INTEGERS.get(dtype, (-1024, 1024)), size, generator=generator, dtype=dtype)
    drawn = torch.randn(size, generator=generator)
    return (drawn.clamp(-2.0, 2.0) if dtype.itemsize == 1 else drawn).to(dtype)
