"""Run torch code in another floating-point precision than it asks for: a reference in float64, or its arithmetic in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from gates.task.honest_error import TERMS

Formats = Mapping[torch.dtype, torch.dtype]
SINGLE: Formats = {torch.float64: torch.float32, torch.complex128: torch.complex64}
DOUBLE: Formats = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}
_METHODS = {
    "double": torch.float64,
    "cdouble": torch.complex128,
    "float": torch.float32,
    "cfloat": torch.complex64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "chalf": torch.complex32,
}
_WRITES = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__ifloordiv__")


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """Compute in float64 what is computed inside, without gradients, whatever precision the code names."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # for tensors that it makes itself
    try:
        with torch.no_grad(), InPrecision(DOUBLE):
            yield
    finally:
        torch.set_default_dtype(usual)


class SingleSums(TorchFunctionMode):
    """Add up running sums and products of float32 in float32: torch's CPU does so in float64, which no kernel on a device is to match."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        combine = _RUNNING.get(getattr(function, "__name__", "").removesuffix("_"))
        given = dict(zip(("input", "dim"), args, strict=False)) | (kwargs or {})
        running = None
        if combine and (given.get("dtype") or given["input"].dtype) is torch.float32:
            running = _scanned(given["input"].to(torch.float32), given["dim"], combine)
        found = function(*args, **kwargs or {})
        return found if running is None else found.copy_(running)


_RUNNING = {"cumsum": np.add, "cumprod": np.multiply}


def _scanned(values: torch.Tensor, dim: int, combine: np.ufunc) -> torch.Tensor:
    """The running results along ``dim``: one element after the other in blocks of TERMS, and one block after the other."""
    found = values.detach().cpu().numpy().copy()
    along = np.moveaxis(found, dim, 0) if found.ndim else found[None]
    for start in range(0, len(along), TERMS):
        block = along[start : start + TERMS]
        block[...] = combine.accumulate(block, axis=0)
        if start:
            combine(block, along[start - 1], out=block)
    return torch.from_numpy(found)


class InPrecision(TorchFunctionMode):
    """Replace each format that is a key of ``formats`` by its value: of tensors that functions are given, and of formats that they name.

    A tensor that exists already and is written into keeps its own format. With ``refuse_writes`` that raises NotImplementedError.
    Formats that are no keys, such as float8, stay as they are: rounding to them is part of what is computed.
    """

    def __init__(self, formats: Formats, *, refuse_writes: bool = False) -> None:
        super().__init__()
        self._formats, self._refuse = formats, refuse_writes

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
        if name == "__get__":  # a property: code that asks for a tensor's format gets the true one
            return function(*args, **kwargs)
        if _METHODS.get(name) in self._formats and args:
            return args[0].to(self._formats[_METHODS[name]])
        writes = bool(args) and name.endswith("_") and (not name.endswith("__") or name in _WRITES) and self._is_replaced(args[0])
        if self._refuse and (writes or self._is_replaced(kwargs.get("out"))):
            raise NotImplementedError
        first = args[:1] if writes else ()
        return function(*first, *self._replaced(args[len(first) :]), **{key: self._replaced(value) for key, value in kwargs.items()})

    def _is_replaced(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype in self._formats

    def _replaced(self, value: Any) -> Any:
        if self._is_replaced(value):
            return value.to(self._formats[value.dtype])
        if isinstance(value, torch.dtype):
            return self._formats.get(value, value)
        return type(value)(self._replaced(one) for one in value) if type(value) in (list, tuple) else value
