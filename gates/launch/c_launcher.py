"""A compiled kernel behind the C ABI that device and emulator libraries share.

    int entry(<arguments>, void* stream, char* error, int64_t error_bytes)

Pointers are passed for tensors, ``int64_t`` for Python ints, ``float`` for Python floats. The
launcher enqueues on ``stream`` and returns without waiting: 0, or an error code with a message in
``error`` that names the argument.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError

_ERROR_BYTES = 1024


class KernelError(Exception):
    """The launcher refused or failed; ``code`` is its return value."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"launcher returned {code}")
        self.code = code


def require_built(path: Path, sha256: str | None) -> None:
    """Raise GatesError where the product at ``path`` is not the one that was built; ``sha256`` None or empty: it is not known which that
    is.
    """
    if sha256 and (found := jsonio.sha256(path)) != sha256:
        raise GatesError(
            f"{path} is from another build: its sha256 is {found[:16]}…, the file built here has {sha256[:16]}…",
            hint="another program wrote it after the build: run again with a build folder of your own (--build-dir)",
        )


class Kernel:
    """The launcher ``entry`` of the shared library at ``path``; call it with the C arguments in order. Another ``sha256`` is refused."""

    def __init__(self, path: Path, entry: str, sha256: str | None = None) -> None:
        require_built(path, sha256)
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            raise GatesError(f"can't load {path}: {error}") from None
        self._name, self._entry = entry, getattr(self.library, entry, None)
        if self._entry is not None:
            self._entry.restype = ctypes.c_int

    def __call__(self, *arguments: Any, stream: int = 0) -> None:
        """Enqueue one launch; raises KernelError with the launcher's message."""
        if self._entry is None:  # the linker found it, but it is hidden
            raise KernelError(1, f"the library shows no function {self._name!r}; give the launcher default visibility")
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        code = self._entry(
            *(_as_c(argument) for argument in arguments),
            ctypes.c_void_p(stream),
            message,
            ctypes.c_int64(_ERROR_BYTES),
        )
        if code != 0:
            raise KernelError(code, message.value.decode("utf-8", errors="replace"))


def _as_c(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, bool) or not isinstance(value, (int, float, ctypes.c_void_p)):
        raise TypeError(f"kernel argument of type {type(value).__name__}; expected a tensor, int or float")
    if isinstance(value, int):
        return ctypes.c_int64(value)
    return ctypes.c_float(value) if isinstance(value, float) else value
