"""Compile the kernels of a language instead of launching them, and keep how they would be launched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gates.build.jit.record import TOOLKIT
from gates.build.jit.variants import numbered
from gates.hardware.chips import number_of


class Recorder:
    """Compiles for ``arch``; ``wrong`` is what the language refused last, and where, as ``record`` reads it.

    ``alone`` is the language without a driver: ``numba_alone`` or ``warp_alone``. Raises NotHere if the language does not work.
    """

    def __init__(self, alone: ModuleType, folder: Path) -> None:
        self.arch = ""
        self.wrong: dict[str, Any] | None = None
        self._alone, self._folder = alone, folder
        self._found: dict[tuple[str, Any], tuple[str, list[list[int]]]] = {}  # by architecture and kernel
        alone.use(lambda: number_of(self.arch), self._keep, self._refused)

    def lines(self) -> list[dict[str, Any]]:
        """What the engine needs of each kernel."""
        kernels = [(self._alone.name_of(kernel), arch, text) for (arch, kernel), (text, _) in self._found.items()]
        return [
            {**line, "tool": TOOLKIT, "options": ["-v", "-lineinfo", *self._alone.options_of(kernel)], "launches": launches}
            for line, ((_, kernel), (_, launches)) in zip(numbered(kernels), self._found.items(), strict=True)
        ]

    def _keep(self, kernel: Any, values: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> None:
        if (self.arch, kernel) not in self._found:
            self._found[self.arch, kernel] = self._alone.ptx_of(kernel, number_of(self.arch)), []
        if (shape := [*map(int, block), int(shared_bytes)]) not in (shapes := self._found[self.arch, kernel][1]):
            shapes.append(shape)

    def _refused(self, error: Exception, places: Sequence[tuple[str, int]], message: str, function: Any) -> None:
        """Keep what the language refused and where: the first of ``places`` (file, line) in the task's folder.

        If none lies there, it is the line of the kernel's ``def``.
        """
        resolved = [(Path(file).resolve(), line) for file, line in places]
        own = [(file, line) for file, line in resolved if file.is_relative_to(self._folder)]
        file, line = own[0] if own else (Path(function.__code__.co_filename), function.__code__.co_firstlineno)
        self.wrong = {"file": file.name, "line": line, "kind": type(error).__name__, "message": message, "arch": self.arch}
