"""Compile Numba-CUDA's kernels instead of launching them, and say why Numba refuses one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gates.build.jit.record import TOOLKIT
from gates.build.jit.variants import numbered
from gates.emulator import numba_alone

_PLACE = re.compile(r" at (\S.*?) \((\d+)\)|File \"(.+?)\", line (\d+)")
_STEP = re.compile(r"Failed in \w+ mode pipeline")  # what Numba puts before its reason
_REFUSALS = ("numba.cuda.errors", "numba.cuda.core.errors", "numba.core.errors")


class Recorder:
    """Compiles for ``arch`` instead of launching, and keeps what was compiled. Raises NotHere if numba-cuda does not work.

    ``wrong``: what Numba refused last, and where.
    """

    def __init__(self, folder: Path) -> None:
        self.arch = ""
        self.wrong: dict[str, Any] | None = None
        self._folder = folder
        self._found: dict[tuple[str, int], tuple[Any, str, list[list[int]]]] = {}  # by architecture and compiled kernel
        numba_alone.use(self._number, self._keep)
        from numba.cuda.dispatcher import CUDADispatcher

        self._compiled = CUDADispatcher.compile
        CUDADispatcher.compile = lambda dispatcher, signature: self._compile(dispatcher, signature)

    def lines(self) -> list[dict[str, Any]]:
        """What the engine needs of each kernel."""
        kernels = [(numba_alone.name_of(kernel), arch, text) for (arch, _), (kernel, text, _) in self._found.items()]
        return [
            {**line, "tool": TOOLKIT, "options": ["-v", "-lineinfo", *_registers(kernel)], "launches": launches}
            for line, (kernel, _, launches) in zip(numbered(kernels), self._found.values(), strict=True)
        ]

    def _number(self) -> int:
        return int(re.sub(r"\D", "", self.arch))

    def _keep(self, kernel: Any, values: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> None:
        """Keep a kernel and the form of this launch; the kernel itself is kept, too, so that no other gets its id."""
        key = self.arch, id(kernel)
        if key not in self._found:
            self._found[key] = kernel, numba_alone.ptx_of(kernel, self._number()), []
        if (shape := [*map(int, block), int(shared_bytes)]) not in self._found[key][2]:
            self._found[key][2].append(shape)

    def _compile(self, dispatcher: Any, signature: Any) -> Any:
        self.wrong = None
        try:
            return self._compiled(dispatcher, signature)
        except Exception as error:
            if type(error).__module__ in _REFUSALS or type(error).__name__ == "NvvmError":
                self.wrong = {**self._refused(error, dispatcher.py_func), "arch": self.arch}
            raise

    def _refused(self, error: Exception, function: Any) -> dict[str, Any]:
        """The file, line, kind and message of an error: the innermost place in the task's folder, else the kernel's ``def``."""
        said = [one.strip() for one in str(error).splitlines() if one.strip() and not _STEP.match(one.strip())]
        places = [(Path(one[0] or one[2]).resolve(), int(one[1] or one[3])) for one in _PLACE.findall(str(error))]
        own = [(file, line) for file, line in places if file.is_relative_to(self._folder)]
        file, line = own[0] if own else (Path(function.__code__.co_filename), function.__code__.co_firstlineno)
        return {"file": file.name, "line": line, "kind": type(error).__name__, "message": (said or [str(error)])[0]}


def _registers(kernel: Any) -> list[str]:
    """The limit of ``cuda.jit(max_registers=…)``."""
    most = kernel.library._max_registers
    return [f"--maxrregcount={int(most)}"] if most else []
