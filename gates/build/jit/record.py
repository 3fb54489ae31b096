"""Read the answer of the process that compiled kernels: check each field, and build every command in the engine.

Of each kernel it is {"name", "arch", "variant", "tool", "options", "launches", "ptx": its text}, where a launch is [threads along x, y, z,
bytes of dynamic shared memory]; of one that its language refused {"file", "line", "arch", "kind", "message"}.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from gates.build.toolchain import newest_ptxas
from gates.core.text import plain
from gates.hardware.chips import number_of

_NAME = re.compile(r"[A-Za-z_]\w{0,199}")
_TARGET = re.compile(r"^\s*\.target\s+(sm_(\d+)[af]?)\b", re.MULTILINE)
TOOLKIT = "ptxas of a toolkit"
_TOOLS = {TOOLKIT: "", "ptxas": "TRITON_PTXAS_PATH", "ptxas-blackwell": "TRITON_PTXAS_BLACKWELL_PATH"}  # variable that names another one
# Options that say how code is made, and neither what files are read nor what files are written.
_OPTION = re.compile(
    r"-g|-v|-lineinfo|-suppress-debug-info|-O[0-4]|--?opt-level|[0-4]|--fmad=(?:true|false)|--?regAllocOptLevel=\d|--?maxrregcount=\d{1,3}"
    r"|--?(?:def-(?:load|store)-cache|allow-expensive-optimizations|disable-optimizer-constants|position-independent-code|warn-[a-z-]+)"
    r"(?:=[a-z]{1,8})?"
)
_FILE = re.compile(r"\w[\w.-]{0,100}")
_MOST_MESSAGE = 300  # characters
_MOST_THREADS, _MOST_SHARED_BYTES, _MOST_VARIANTS, _MOST_LAUNCHES = 1024, 2**20, 10_000, 10_000
_OPT_IN_BYTES = 48 * 1024  # beyond it a launch asks for its shared memory; Triton's launcher always does


class NoRecord(Exception):
    """The answer is not a valid record."""


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture: its PTX and how it is launched."""

    name: str
    arch: str
    variant: int
    tool: str
    options: tuple[str, ...]
    shapes: tuple[tuple[int, int, int, int], ...]  # of its launches: threads along x, y, z, bytes of dynamic shared memory
    text: str
    ptx: Path  # where the engine puts the text
    gpu: str

    def command(self, output: Path) -> list[str]:
        """Return the assembler's command."""
        return [_path(self.tool), *self.options, f"--gpu-name={self.gpu}", str(self.ptx), "-o", str(output)]

    def launches(self) -> list[dict[str, Any]]:
        """Return threads and shared memory of its launches, in the form of the emulator's records."""
        return [
            {
                "kernel": self.name,
                "grid": [1, 1, 1],
                "block": block,
                "dynamic_smem_bytes": shared,
                "static_smem_bytes": None,
                "opt_in_smem_bytes": shared if shared > _OPT_IN_BYTES else 0,
                "error": "",
            }
            for *block, shared in self.shapes
        ]


def checked(lines: Sequence[Any], archs: Sequence[str], home: Path) -> list[Compiled]:
    """Return the reported kernels for the requested architectures, and write their PTX to ``home``.

    Raises NoRecord for an invalid answer.
    """
    found = [_one(line, archs, home) for line in lines]
    if len({(one.name, one.arch, one.variant) for one in found}) != len(found):
        raise NoRecord("a kernel is named twice")
    return found


def wrong(told: Any, archs: Sequence[str], output: str) -> tuple[str, str]:
    """(kind of the error, ``kernel.py:12: error: its message``) of a kernel that its language refused. Raises NoRecord.

    ``output`` is what the process printed: a pass of the compiler leaves its reason there alone.
    """
    told = told if isinstance(told, dict) else {}
    file, kind = (value if isinstance(value, str) else "" for value in (told.get("file"), told.get("kind")))
    line, message = told.get("line"), told.get("message")
    if (
        not _FILE.fullmatch(file)
        or not _NAME.fullmatch(kind)
        or not isinstance(line, int)
        or isinstance(line, bool)
        or not isinstance(message, str)
        or told.get("arch") not in archs
    ):
        raise NoRecord(f"an error is {str(told)[:80]!r}")
    if (seen := re.search(rf"{re.escape(file)}\"?:(\d+)(?::\d+)?\)?: error: (.+)", output)) and "PassManager" in message:
        line, message = int(seen[1]), seen[2]
    text = next((one.strip() for one in message.splitlines() if one.strip()), "no reason given")
    if len(errors := [one.strip() for one in message.splitlines() if one.startswith("ptxas") and " error " in f"{one} "]):
        text = errors[0]
    return kind, f"{file}:{line}: error: {plain(text)[:_MOST_MESSAGE]} ({told['arch']})"


def _one(line: Any, archs: Sequence[str], home: Path) -> Compiled:
    if not isinstance(line, dict):
        raise NoRecord(f"a kernel is {str(line)[:80]!r}")
    name, arch, tool, options = (line.get(key) for key in ("name", "arch", "tool", "options"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NoRecord(f"a kernel has the name {str(name)[:80]!r}")
    if arch not in archs:
        raise NoRecord(f"{name} is for {str(arch)[:80]!r}, and {', '.join(archs)} were asked for")
    if not isinstance(tool, str) or tool not in _TOOLS:
        raise NoRecord(f"{name} is assembled by {str(tool)[:80]!r}; known are {', '.join(_TOOLS)}")
    if not isinstance(options, list) or (wrong := [one for one in options if not isinstance(one, str) or not _OPTION.fullmatch(one)]):
        raise NoRecord(f"{name} asks ptxas for {str(wrong[0] if isinstance(options, list) else options)[:80]!r}")
    variant, shapes = line.get("variant"), line.get("launches")
    if not _is_number(variant, _MOST_VARIANTS):
        raise NoRecord(f"{name} has {str(variant)[:80]!r} for variant")
    if not isinstance(shapes, list) or len(shapes) > _MOST_LAUNCHES or not all(map(_is_launch, shapes)):
        raise NoRecord(f"{name} has {str(shapes)[:80]!r} for launches")
    text = line.get("ptx")
    targets = _TARGET.findall(text) if isinstance(text, str) else []
    if not isinstance(text, str) or len(targets) != 1 or targets[0][1] != str(number_of(str(arch))):
        raise NoRecord(f"the PTX of {name} is for {', '.join(gpu for gpu, _ in targets) or 'no architecture'}, not for {arch}")
    return Compiled(
        name,
        str(arch),
        variant,
        tool,
        tuple(options),
        tuple(map(tuple, shapes)),
        text,
        home / f"{name}.{variant}.{arch}.ptx",
        targets[0][0],
    )


def _is_number(value: Any, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_launch(shape: Any) -> bool:
    most = (_MOST_THREADS,) * 3 + (_MOST_SHARED_BYTES,)
    return isinstance(shape, list) and len(shape) == len(most) and all(map(_is_number, shape, most))


def _path(tool: str) -> str:
    """The newest assembler of a CUDA toolkit; or the one that Triton brings, or that this process's environment names."""
    if tool == TOOLKIT:
        return newest_ptxas()
    spec = importlib.util.find_spec("triton")
    return os.environ.get(_TOOLS[tool]) or str(Path(spec.origin or "").parent / "backends" / "nvidia" / "bin" / tool if spec else tool)
