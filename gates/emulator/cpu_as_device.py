"""Let Python code that asks for a CUDA device run on the CPU: tensors say that they are on a device, and what is made there is made here.

A function that checks ``x.is_cuda`` or makes its output with ``device="cuda"`` is judged so, and not a fallback that it has for the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CPU, _DEVICE = torch.device("cpu"), torch.device("cuda", 0)
_QUIET = {  # of torch.cuda -> what answers instead
    "synchronize": lambda *_, **__: None,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "is_available": lambda: True,
    "set_device": lambda *_: None,
    "device": lambda *_: contextlib.nullcontext(),
    "device_of": lambda *_: contextlib.nullcontext(),
}


@contextlib.contextmanager
def pretended() -> Iterator[None]:
    """While it lasts, code finds a device 0."""
    own = {name: getattr(torch.cuda, name) for name in _QUIET}
    try:
        for name, answer in _QUIET.items():
            setattr(torch.cuda, name, answer)
        with _Pretended():
            yield
    finally:
        for name, function in own.items():
            setattr(torch.cuda, name, function)


class _Pretended(TorchFunctionMode):
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
        return function(*map(_here, args), **{key: _here(value) for key, value in kwargs.items()})


_IS_CUDA, _WHERE = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__


def _here(value: Any) -> Any:
    """``value``, but the CPU where it names a device."""
    if isinstance(value, torch.device):
        return _CPU if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value
