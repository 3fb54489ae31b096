"""Numba-CUDA without a driver: kernels are compiled for a named chip, and launches go to a function of ours.

Its arrays are tensors of the CPU that pass for a device's (``cpu_as_device``).
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import re
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from gates.core.errors import DoesNotWork, GatesError, NotHere

_PLACE = re.compile(r" at (\S.*?) \((\d+)\)|File \"(.+?)\", line (\d+)")
_STEP = re.compile(r"Failed in \w+ mode pipeline")  # what Numba puts before its reason
_REFUSALS = ("numba.cuda.errors", "numba.cuda.core.errors", "numba.core.errors")
_HINT = "pip install 'kernel-gates[numba]'"
_BLOCK = 256  # threads, where the driver would choose: kernel.forall(n)


class Refused(Exception):
    """A kernel that Numba can't compile, for which it raised an error of Python and none of its own."""


def use(number: Callable[[], int], launch: Callable[..., None], refused: Callable[..., None] = lambda *_: None) -> None:
    """Compile from now on for the chip ``number()``, such as 90, and call ``launch(kernel, values, grid, block, shared bytes)``.

    ``refused(error, places, message, function)`` is called before Numba raises its refusal of a kernel; a place is (file, line), the
    innermost first. Raises NotHere if numba-cuda does not work here.
    """
    import torch

    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("_numba_cuda_redirector")  # Python imports it by itself only from site-packages, not from PYTHONPATH
        import numba_cuda  # noqa: F401  the numba.cuda of Numba itself is another, older one
        from numba import cuda
        from numba.cuda import types
        from numba.cuda.core import config
        from numba.cuda.cuda_paths import get_cuda_paths
        from numba.cuda.cudadrv import devices, nvrtc, nvvm
        from numba.cuda.dispatcher import CUDADispatcher, ForAll, _Kernel

        get_cuda_paths()  # looks for the compiler's libraries
        nvvm.NVVM()
    except Exception as error:
        raise DoesNotWork("numba-cuda", error, _HINT) from error

    made = CUDADispatcher.__init__

    def with_lines(self: Any, function: Any, targetoptions: dict[str, Any], *more: Any, **others: Any) -> None:
        made(self, function, {**targetoptions, "lineinfo": not targetoptions.get("debug")}, *more, **others)

    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # it warns of grids that leave a device's processors idle
    compiled = CUDADispatcher.compile

    def compile_or_refuse(self: Any, signature: Any) -> Any:
        try:
            return compiled(self, signature)
        except Exception as error:
            if type(error).__module__ in _REFUSALS or type(error).__name__ == "NvvmError":
                refused(error, *_told(error), self.py_func)
            elif isinstance(error, GatesError):
                raise
            elif not plain_compiles():
                raise DoesNotWork("numba-cuda", error, _HINT) from error
            elif places := _stumbled(error):
                said = f"{type(error).__name__}: {error}"
                refused(error, places, said, self.py_func)
                raise Refused(said) from error
            raise

    @cache
    def plain_compiles() -> bool:
        """Whether Numba compiles a plain kernel: what it raises of another one is then about that one."""
        with contextlib.suppress(Exception):
            return compiled(CUDADispatcher(_plain, {}), (types.float32[:],)) is not None
        return False

    devices._runtime = _Runtime(number)
    nvrtc.get_supported_ccs = lambda: [_capability(number())]  # libNVVM refuses a chip that it does not know
    CUDADispatcher.__init__ = with_lines
    CUDADispatcher.compile = compile_or_refuse
    CUDADispatcher.enable_caching = lambda self: None
    ForAll._compute_thread_per_block = lambda self, dispatcher: self.thread_per_block or _BLOCK
    _Kernel.bind = lambda self: None
    _Kernel.launch = lambda self, values, grid, block, stream=0, sharedmem=0: launch(self, values, grid, block, sharedmem)
    cuda.is_available = lambda: True
    cuda.as_cuda_array = lambda array, sync=True: array
    cuda.to_device = _to_device
    cuda.device_array = _empty
    torch.Tensor.copy_to_host = _to_host
    torch.Tensor.copy_to_device = lambda self, array, *_, **__: self.copy_(_tensor(array))
    cuda.device_array_like = lambda array, *_, **__: _tensor(array).new_empty(array.shape)


def ptx_of(kernel: Any, number: int) -> str:
    """Return the PTX of a compiled kernel for the chip ``number``, where it has its Python name. Raises NotHere if PTX is not all of it."""
    library = kernel.library
    for needed, what in (
        (kernel.debug, "debug=True"),
        (library._linking_files, "other code (link=)"),
        (library.needs_cudadevrt, "a launch of all blocks at once (grid.sync)"),
    ):
        if needed:
            raise NotHere(f"{name_of(kernel)} needs {what}", hint="judge the stage on a CUDA device", reason="not_emulated")
    text = library.get_asm_str(cc=(*_capability(number), "a" if number >= 90 else ""))
    return re.sub(rf"\b{re.escape(kernel.entry_name)}\b", name_of(kernel), text)


def name_of(kernel: Any) -> str:
    """Return the name of a compiled kernel's Python function."""
    return str(kernel.py_func.__name__)


def options_of(kernel: Any) -> list[str]:
    """Return what else a kernel asks of the assembler."""
    most = kernel.library._max_registers
    return [f"--maxrregcount={int(most)}"] if most else []


def _told(error: Exception) -> tuple[list[tuple[str, int]], str]:
    """The places of an error, (file, line), and what it says."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not _STEP.match(line)]
    return [(one[0] or one[2], int(one[1] or one[3])) for one in _PLACE.findall(str(error))], (said or [str(error)])[0]


def _stumbled(error: Exception) -> list[tuple[str, int]]:
    """The places that Numba was compiling when it raised an error of Python, (file, line), the innermost first.

    Empty for an error that tells nothing of them: a missing file, or a name that Numba itself misses in another package.
    """
    if isinstance(error, (OSError, ImportError)):
        return []
    values = [value for frame, _ in traceback.walk_tb(error.__traceback__) for value in frame.f_locals.values()][::-1]
    places = [(loc.filename, loc.line) for loc in (getattr(value, "loc", None) for value in values) if loc and hasattr(loc, "filename")]
    missing = error.name if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) else None
    return places if missing is None or any(missing in linecache.getline(*place) for place in places) else []


def _plain(x: Any) -> None:
    x[0] = x[0] + x[1]


def parameters(kernel: Any, values: Sequence[Any], place_of: Callable[[Any], int]) -> list[Any]:
    """Return what a launch hands to the kernel as Numba lays it out; ``place_of`` gives the address of a tensor's first element."""
    given: list[Any] = []
    for kind, value in zip(kernel.argument_types, values, strict=True):
        kernel._prepare_args(kind, _placed(kind, value, place_of), 0, [], given)
    return given


def _placed(kind: Any, value: Any, place_of: Callable[[Any], int]) -> Any:
    """``value``, of Numba's type ``kind``, with its arrays as Numba reads those of a device."""
    from numba.cuda import types
    from numba.cuda.args import ArgHint

    if isinstance(kind, types.BaseTuple):
        return tuple(_placed(part, one, place_of) for part, one in zip(kind, value, strict=True))
    if not isinstance(kind, types.Array):
        return value
    tensor = _tensor(value.value if isinstance(value, ArgHint) else value)
    strides = tuple(step * tensor.element_size() for step in tensor.stride())
    layout = SimpleNamespace(strides_in_bytes=strides, is_contiguous_c=True, is_contiguous_f=True)  # the flags count without dimensions
    array = SimpleNamespace(
        size=tensor.numel(),
        dtype=SimpleNamespace(itemsize=tensor.element_size()),
        ptr=place_of(tensor),
        shape=tuple(tensor.shape),
        _layout=layout,
    )
    hint = ArgHint(array)
    hint.to_device = lambda *_, **__: array
    return hint


def _tensor(array: Any) -> Any:
    import torch

    return torch.as_tensor(array)


def _empty(shape: Any, dtype: Any = "float64", *_: Any, **__: Any) -> Any:
    import numpy as np
    import torch

    return torch.empty(shape, dtype=dtype) if isinstance(dtype, torch.dtype) else _tensor(np.empty(shape, dtype))


def _to_device(array: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    return _tensor(array).clone() if to is None else to.copy_(_tensor(array))


def _to_host(array: Any, ary: Any = None, stream: Any = 0) -> Any:
    if ary is None:
        return array.numpy().copy()
    _tensor(ary).copy_(array)
    return ary


def _capability(number: int) -> tuple[int, int]:
    major, minor = divmod(number, 10)
    return major, minor


class _Stream:
    """Numba's only stream: work is done when a call returns."""

    handle = 0

    def __bool__(self) -> bool:
        return False  # as Numba's default stream

    def synchronize(self) -> None:
        pass

    def auto_synchronize(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class _Runtime:
    """In place of Numba's contexts and devices: one device, whose context has streams and nothing else."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self.gpus = [self]
        self.id, self.name = 0, b"emulator"

    @property
    def compute_capability(self) -> tuple[int, int]:
        return _capability(self._number())

    @property
    def device(self) -> _Runtime:
        return self

    def get_or_create_context(self, number: int | None = None) -> _Runtime:
        return self

    def ensure_context(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def synchronize(self) -> None:
        pass

    def create_stream(self, *_: Any) -> _Stream:
        return _Stream()

    create_external_stream = get_default_stream = get_legacy_default_stream = get_per_thread_default_stream = create_stream

    def __getattr__(self, name: str) -> Any:
        raise NotHere(f"the emulator has no {name} of numba.cuda's device", hint="judge the stage on a CUDA device", reason="not_emulated")
