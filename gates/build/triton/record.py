"""Read the answer of the process that compiled a Triton kernel: check each field, and build every command in the engine.

Of each kernel it is {"name", "arch", "variant", "tool", "options", "num_warps", "shared_bytes", "ptx": its text}; of one that Triton
refused {"file", "line", "arch", "kind", "message"} (``gates.build.triton.error``).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core.text import plain

_NAME = re.compile(r"[A-Za-z_]\w{0,199}")
_TARGET = re.compile(r"^\s*\.target\s+(sm_(\d+)[af]?)\b", re.MULTILINE)
_TOOLS = {"ptxas": "TRITON_PTXAS_PATH", "ptxas-blackwell": "TRITON_PTXAS_BLACKWELL_PATH"}  # name: variable that names another one
# Options that say how code is made, and neither what files are read nor what files are written.
_OPTION = re.compile(
    r"-g|-v|-lineinfo|-suppress-debug-info|-O[0-4]|--?opt-level|[0-4]|--fmad=(?:true|false)|--?regAllocOptLevel=\d|--?maxrregcount=\d{1,3}"
    r"|--?(?:def-(?:load|store)-cache|allow-expensive-optimizations|disable-optimizer-constants|position-independent-code|warn-[a-z-]+)"
    r"(?:=[a-z]{1,8})?"
)
_FILE = re.compile(r"\w[\w.-]{0,100}")
_MOST_MESSAGE = 300  # characters
_MAX_WARPS, _MAX_SHARED_BYTES, _MAX_VARIANTS = 32, 2**20, 10_000
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
    num_warps: int
    shared_bytes: int
    text: str
    ptx: Path  # where the engine puts the text
    gpu: str

    def command(self, output: Path) -> list[str]:
        """Return the assembler's command."""
        return [_path(self.tool), *self.options, f"--gpu-name={self.gpu}", str(self.ptx), "-o", str(output)]

    def launch(self) -> dict[str, Any]:
        """Return threads and shared memory of its launches, in the form of the emulator's records."""
        return {
            "kernel": self.name,
            "grid": [1, 1, 1],
            "block": [32 * self.num_warps, 1, 1],
            "dynamic_smem_bytes": self.shared_bytes,
            "static_smem_bytes": 0,
            "opt_in_smem_bytes": self.shared_bytes if self.shared_bytes > _OPT_IN_BYTES else 0,
            "error": "",
        }


def checked(lines: Sequence[Any], archs: Sequence[str], home: Path) -> list[Compiled]:
    """Return the reported kernels for the requested architectures, and write their PTX to ``home``.

    Raises NoRecord for an invalid answer.
    """
    found = [_one(line, archs, home) for line in lines]
    if len({(one.name, one.arch, one.variant) for one in found}) != len(found):
        raise NoRecord("a kernel is named twice")
    return found


def wrong(told: Any, archs: Sequence[str], output: str) -> tuple[str, str]:
    """(kind of the error, ``kernel.py:12: error: Triton's message``) of a kernel that Triton refused. Raises NoRecord.

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
    variant, num_warps, shared = (
        _number(line, key, most, name)
        for key, most in (("variant", _MAX_VARIANTS), ("num_warps", _MAX_WARPS), ("shared_bytes", _MAX_SHARED_BYTES))
    )
    text = line.get("ptx")
    targets = _TARGET.findall(text) if isinstance(text, str) else []
    if not isinstance(text, str) or len(targets) != 1 or targets[0][1] != re.sub(r"\D", "", str(arch)):
        raise NoRecord(f"the PTX of {name} is for {', '.join(gpu for gpu, _ in targets) or 'no architecture'}, not for {arch}")
    return Compiled(
        str(name), str(arch), variant, tool, tuple(options), num_warps, shared, text, home / f"{name}.{variant}.{arch}.ptx", targets[0][0]
    )


def _number(line: Mapping[str, Any], key: str, most: int, name: str) -> int:
    value = line.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise NoRecord(f"{name} has {str(value)[:80]!r} for {key}")
    return value


def _path(tool: str) -> str:
    """The assembler that Triton brings, or that this process's environment names."""
    spec = importlib.util.find_spec("triton")
    return os.environ.get(_TOOLS[tool]) or str(Path(spec.origin or "").parent / "backends" / "nvidia" / "bin" / tool if spec else tool)
