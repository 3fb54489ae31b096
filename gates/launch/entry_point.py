"""A stage's kernel, whatever it is written in, as one thing to call: a C launcher, or a Python function.

A function is that of a Python source (kinds triton, numba, warp and python) or of a torch extension. It takes its
arguments in order and either writes into the outputs among them or returns its outputs. It launches
on torch's current stream, which is the one that callers make current.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from gates.core.errors import GatesError, NotHere
from gates.core.python_path import TextLoader, add_folder
from gates.launch.c_launcher import Kernel, KernelError, require_built
from gates.launch.packages import is_own, needs_device, unusable
from gates.task.load import CUDA, JIT

T = TypeVar("T")
# What torch, its extension loader, Triton and the CUDA runtime say where there is no device.
_NO_DEVICE = re.compile(
    r"not compiled with CUDA enabled|No CUDA GPUs are available|Found no NVIDIA driver|CUDA_HOME environment variable is not set"
    r"|no CUDA-capable device|\b0 active drivers|CUDA driver version is insufficient|libcuda\.so|'torch\._C' has no attribute '_[cC]uda"
    r"|accelerator device when none is available|NVTX functions not installed|instantiate dummy base class|Stream requires CUDA support"
    r"|not linked with support for cuda|Could not run '[\w:.]+' with arguments from the 'CPU' backend"
)


class NeedsDevice(NotHere):
    """A function that can't run on the CPU: a finding about this machine, not about the function."""

    def __init__(self, said: str) -> None:
        super().__init__(said, hint="the kernel runs only on a CUDA device", reason="no_device")


class SourceError(KernelError):
    """What the function raised, or a file of its ``folder`` while it was imported: the error's kind and message, and the innermost place
    in the folder, if any, else ``beside``: ``file`` and ``line``.
    """

    def __init__(self, error: Exception, folder: Path, beside: Path | None = None) -> None:
        self.kind, self.message = type(error).__name__, _message(error)
        places: list[tuple[str, int | None]] = [(str(beside), 1)] if beside else []
        places += [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places.append((str(error.filename), error.lineno))
        own = [(Path(file).name, line or 1) for file, line in places if is_own(file, folder)]
        self.file, self.line = own[-1] if own else ("", 0)
        place = f"{self.file}:{self.line}: " if own else ""
        super().__init__(1, f"{place}{_first_line(error)}")


class Place(NamedTuple):
    """Where a function is called: ``on_cpu`` is without a device.

    There it gets a CPU that passes for a device, the oldest chip of ``archs``: if it asks for one, or from the start if it is
    ``on_emulator``.
    """

    on_cpu: bool = False
    on_emulator: bool = False
    archs: Sequence[str] = ()


class Function:
    """The function ``entry`` of the module at ``path``: Python source, or a compiled extension.

    Raises NotHere, when it is loaded and when it is called: NeedsDevice if it asks for a device that there is none of,
    NeedsPackage if a package that it needs is missing or broken. ``broken`` is what its files raised when they were imported, or that they
    lack the function; each call raises it.
    """

    def __init__(self, path: Path, entry: str, place: Place) -> None:
        self._place, self._folder = place, path.parent
        self.broken: SourceError | None = None
        try:
            found = getattr(_module(path, place), entry, None)
        except SourceError as error:
            self.broken = error
            return
        if not callable(found):
            lacks = f"no function {entry!r}" if found is None else f"{entry!r} is not a function but {type(found).__name__}"
            self.broken = SourceError(AttributeError(f"{lacks}; rename the function, or entry in task.yaml"), path.parent, path)
            return
        self._call: Callable[..., Any] = found

    def __call__(self, *arguments: Any, stream: int = 0) -> Any:
        """What the function returns: its outputs, or None where it wrote into its arguments. Raises KernelError for what it raises."""
        if self.broken:
            raise self.broken
        try:
            return _called(lambda: self._call(*arguments), self._place)
        except (MemoryError, NotHere):
            raise
        except Exception as error:  # the user's code: whatever it raises is a finding about it
            if type(error).__name__ == "OutOfMemoryError":  # torch's, which is a RuntimeError
                raise
            if self._place.on_cpu and _NO_DEVICE.search(str(error)):
                raise NeedsDevice(_first_line(error)) from error
            if package := unusable(error, self._folder):
                raise package from error
            if self._place.on_cpu and needs_device(error, self._place.on_emulator):
                raise NeedsDevice(_first_line(error)) from error
            raise SourceError(error, self._folder) from error


def load(side: Mapping[str, Any], library: str | None = None) -> Kernel | Function:
    """The kernel of a job's ``side``; of the file ``library`` instead of its own, where that is given.

    Raises GatesError where the file can't be loaded, or has no such entry.
    """
    path = Path(library or side["library"])
    if is_c(side):
        return Kernel(path, side["entry"], side.get("sha256"))
    require_built(path, side.get("sha256"))
    if side.get("script"):
        script = Path(side["script"])
        _provide(partial(_built, path, script.parent), lambda *_, built=path, **__: _module(built, Place()))
        path = script
    elif side["emulated"] and any(
        "cpp_extension" in text.read_text(encoding="utf-8", errors="replace") for text in path.parent.glob("*.py")
    ):
        _provide(_refuse, _refuse)
    return Function(path, side["entry"], Place(bool(side["emulated"]), on_emulator(side), side.get("arch", ())))


def _provide(of_texts: Callable[..., Any], of_files: Callable[..., Any]) -> None:
    """Let Python code that compiles an extension have the one that was built of the same texts or files instead."""
    from torch.utils import cpp_extension

    cpp_extension.load_inline, cpp_extension.load = of_texts, of_files


def _built(library: Path, folder: Path, name: str = "", cpp_sources: Any = (), cuda_sources: Any = (), *_: Any, **__: Any) -> Any:
    """The extension in ``library``, in place of one of these texts, which the task's files must have. Raises KernelError if they differ."""
    texts = [text for given in (cpp_sources, cuda_sources) for text in ([given] if isinstance(given, str) else given or ())]
    files = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.c*"))}
    for text in texts:
        if not any(text in file for file in files.values()):
            raise KernelError(
                1,
                f"load_inline gets another text than was compiled, which is in {' and '.join(files)}: change both alike, or import again",
            )
    return _module(library, Place())


def _refuse(*_: Any, **__: Any) -> Any:
    raise NeedsDevice("an extension whose sources are known only when the code runs is compiled on a CUDA device alone")


def on_emulator(side: Mapping[str, Any]) -> bool:
    """Whether the side's kernels run on the emulator: those of a C launcher, of a language in Python, of an extension that Python calls."""
    return bool(side["emulated"]) and (side.get("kind", CUDA) in (CUDA, *JIT) or bool(side.get("script")))


def is_c(side: Mapping[str, Any]) -> bool:
    """Whether the side's entry is a C launcher."""
    return side.get("kind", CUDA) == CUDA


def _called(call: Callable[[], T], place: Place) -> T:
    """What ``call`` returns; without a device it is called again with a CPU that passes for one, if it asked for a device."""
    if not place.on_cpu:
        return call()
    if not place.on_emulator:
        try:
            return call()
        except NotHere:
            raise
        except Exception as error:  # the user's code
            if not (isinstance(error, AssertionError) or "cuda" in str(error).lower() or _NO_DEVICE.search(str(error))):
                raise
    from gates.emulator.cpu_as_device import pretended  # needs torch

    with pretended(archs=place.archs):
        return call()


def _module(path: Path, place: Place) -> ModuleType:
    name = path.name.partition(".")[0]
    if path.suffix == ".py":
        add_folder(path.parent)  # what the source imports from beside it
        name = f"gates_kernel_{name}"  # so that it hides no module of that name
    else:
        import torch  # noqa: F401  its libraries must be loaded before an extension's
    spec = importlib.util.spec_from_file_location(name, path, loader=TextLoader(name, str(path)) if path.suffix == ".py" else None)
    if spec is None or spec.loader is None:
        raise GatesError(f"can't load {path}: neither Python source nor a compiled extension")
    before = sys.modules.get(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # compilers look their functions' module up
    try:
        _called(partial(spec.loader.exec_module, module), place)
        if path.suffix != ".py":  # an extension has its task's name, which is also that of the folder in which a problem can lie
            del sys.modules[name]
            sys.modules |= {name: before} if before else {}
    except NotHere:
        raise
    except Exception as error:  # the user's code
        if place.on_cpu and _NO_DEVICE.search(str(error)):
            raise NeedsDevice(_first_line(error)) from error
        if package := unusable(error, path.parent):
            raise package from error
        if place.on_cpu and needs_device(error, place.on_emulator):
            raise NeedsDevice(_first_line(error)) from error
        if path.suffix == ".py" and not isinstance(error, MemoryError):
            raise SourceError(error, path.parent) from error
        raise GatesError(
            f"can't import {path.name}: {type(error).__name__}: {error}", hint="run it by itself to see where it fails"
        ) from error
    return module


def _first_line(error: Exception) -> str:
    lines = _message(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


def _message(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error).strip()
