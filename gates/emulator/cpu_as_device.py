"""Let Python code that asks for a CUDA device run on the CPU: tensors say that they are on a device, and what is made there is made here.

A function that checks ``x.is_cuda`` or makes its output with ``device="cuda"`` is judged so, and not a fallback that it has for the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gates.emulator.control import oldest
from gates.emulator.scaled_product import scaled_product
from gates.emulator.torch_device import answers

_DEVICE = torch.device("cuda", 0)


@contextlib.contextmanager
def pretended(place: str = "cpu", archs: Sequence[str] = ()) -> Iterator[None]:
    """Make torch report a device 0 inside this context, the oldest chip of ``archs``.

    Its tensors are on ``place``: "cpu", or "meta" (without memory).
    """
    here, answering = torch.device(place), answers(oldest(archs))
    own = {name: getattr(torch.cuda, name) for name in answering}
    try:
        for name, answer in answering.items():
            setattr(torch.cuda, name, answer)
        torch.Generator = _Generator
        with _Pretended(here):
            yield
    finally:
        torch.Generator = _GENERATOR
        for name, function in own.items():
            setattr(torch.cuda, name, function)


_GENERATOR = torch.Generator


class _OfCpu(type):
    def __call__(cls, device: Any = "cpu") -> Any:
        return _GENERATOR()

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _GENERATOR)


class _Generator(metaclass=_OfCpu):
    """In place of torch.Generator, which no mode sees being called: each is the CPU's, whatever device is named."""


class _Pretended(TorchFunctionMode):
    def __init__(self, place: torch.device) -> None:
        super().__init__()
        self._place = place

    def _here(self, value: Any) -> Any:
        """``value``, but the place where it names a device."""
        if isinstance(value, torch.device):
            return self._place if value.type == "cuda" else value
        return self._place if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if function == _IS_CUDA:
            return True
        if function == _WHERE:
            return _DEVICE
        if name == "get_device":
            return 0
        if name == "cuda":
            return args[0]
        if name == "_scaled_mm" and args and args[0].dtype == torch.float4_e2m1fn_x2 and args[0].device != torch.device("meta"):
            return scaled_product(*args, **kwargs)
        return function(*map(self._here, args), **{key: self._here(value) for key, value in kwargs.items()})


_IS_CUDA, _WHERE = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__
