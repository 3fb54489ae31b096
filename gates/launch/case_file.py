"""A case in a file: the arguments of one launch, readable without torch or numpy.

Layout: the magic line, the header's length as 8 bytes little-endian, the header as JSON, then the
buffers one after another. The header holds ``shape``, ``seed`` and ``arguments`` in C order:
``{"name", "kind": "buffer", "output": bool, "bytes": n}``, ``{"name", "kind": "int" | "float", "value"}``, or for a Python
function's other values (text, lists, None) ``{"name", "kind": "plain", "value": as gates.worker.wire writes them}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError

_MAGIC = b"kernel-gates case 1\n"
_MAX_HEADER_BYTES = 2**20


@dataclass(frozen=True)
class CaseFile:
    """A case read back: ``arguments`` as in the header, ``content`` the bytes of each buffer by name."""

    shape: str
    seed: int
    arguments: tuple[Mapping[str, Any], ...]
    content: Mapping[str, bytes]


def write(path: Path, shape: str, seed: int, arguments: list[dict[str, Any]], content: Mapping[str, bytes]) -> None:
    """Write a case; ``content`` has the bytes of every argument of kind ``buffer``."""
    header = json.dumps({"shape": shape, "seed": seed, "arguments": arguments}, allow_nan=False).encode()
    try:
        with path.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            for argument in _buffers(arguments):
                file.write(content[argument["name"]])
    except OSError as error:
        raise GatesError(
            f"can't write {path}: {error.strerror}", hint="free some space, or lift a limit on file sizes (ulimit -f unlimited)"
        ) from None


def read(path: Path) -> CaseFile:
    """Read a case; raises GatesError for a file that is no case, or is cut short."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise GatesError(f"{path} is not a case file")
            length = int.from_bytes(file.read(8), "little")
            if length > _MAX_HEADER_BYTES:
                raise GatesError(f"{path}: header of {length} bytes is too long")
            header = jsonio.loads(file.read(length).decode("utf-8", errors="replace"), str(path))
            content = {}
            for argument in _buffers(header["arguments"]):
                content[argument["name"]] = file.read(argument["bytes"])
                if len(content[argument["name"]]) != argument["bytes"]:
                    raise GatesError(f"{path} is cut short in buffer {argument['name']!r}")
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}") from None
    return CaseFile(header["shape"], header["seed"], tuple(header["arguments"]), content)


def _buffers(arguments: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (argument for argument in arguments if argument["kind"] == "buffer")
