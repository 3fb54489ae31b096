"""Let Python code that asks for a CUDA device run on the CPU: tensors say that they are on a device, and what is made there is made here.

A function that checks ``x.is_cuda`` or makes its output with ``device="cuda"`` is judged so, and not a fallback that it has for the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial, wraps
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
    mode = _Pretended(torch.device(place))
    answering: list[tuple[Any, str, Any]] = [
        *((torch.cuda, name, answer) for name, answer in answers(oldest(archs)).items()),
        (torch, "Generator", _Generator),
        (torch, "set_default_device", lambda device: _SET_DEFAULT(mode.here(device))),
        *((torch.library, make.__name__, partial(_operator, make, mode)) for make in _OPERATORS),
        (torch.Tensor, "record_stream", lambda *_: None),  # no mode sees this called either
    ]
    own = [(owner, name, getattr(owner, name)) for owner, name, _ in answering]
    try:
        for one in answering:
            setattr(*one)
        with mode:
            yield
    finally:
        for one in own:
            setattr(*one)


_SET_DEFAULT, _GENERATOR = torch.set_default_device, torch.Generator
_OPERATORS = (torch.library.custom_op, torch.library.triton_op)


def _operator(make: Any, mode: Any, name: str, function: Any = None, /, *, device_types: Any = None, **more: Any) -> Any:
    """An operator of torch's that runs here, whatever device it is for, with ``mode``, which torch leaves out inside of one."""

    def made(function: Any) -> Any:
        @wraps(function)
        def pretending(*given: Any, **named: Any) -> Any:
            with mode:
                return function(*given, **named)

        return make(name, pretending, **more)

    return made if function is None else made(function)


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

    def here(self, value: Any, is_device: bool = False) -> Any:
        """``value``, but the place where it names a device, as a number does that ``is_device``."""
        if is_device and isinstance(value, int):
            return self._place
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
        if name in ("cuda", "pin_memory"):
            return args[0]
        if function is torch.device:
            return function("cuda", *args) if args and isinstance(args[0], int) else function(*args, **kwargs)
        if name == "_scaled_mm" and args and args[0].dtype == torch.float4_e2m1fn_x2 and args[0].device != torch.device("meta"):
            return scaled_product(*args, **kwargs)
        kwargs = {key: self.here(value, key == "device") for key, value in kwargs.items() if key != "pin_memory"}
        return function(*(self.here(value, name == "to" and at == 1) for at, value in enumerate(args)), **kwargs)


_IS_CUDA, _WHERE = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__
