"""Read what ``ptxas -v`` and ``nvlink -v`` print, of any toolkit from 11.8 on, in any wrapping.

The log is read line by line; a figure counts only on the line that ptxas prints it on, inside the
block of its kernel, so names, command lines and warnings can't be taken for figures. What a toolkit
does not print stays None. A block that is cut short or lacks a figure becomes a ``problem``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gates.gate.ptxas.advice import Advice, advice

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOOL = re.compile(
    r"(?:^|.*[\s>|\])])(?P<tool>ptxas|nvlink)(?:-\w+)?\s+(?:\S+, line "
    r"\d+;\s*)?(?P<kind>info|warning|error|fatal|advisory)\s*:\s?(?P<text>.*)$"
)
_CONTINUED = re.compile(r"^ptxas\s+\.\s*")  # the run-time compiler's prefix of a continuation line
_ENTRY = re.compile(r"^Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"^Function properties for '?(?P<name>[^\s':]+)'?:?$")
_SPILLS = re.compile(r"^\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads$")
_MODULE = re.compile(r"^\d+ bytes gmem(?:, \d+ bytes cmem\[\d+\])*$")
_USED = re.compile(r"^[Uu]sed \d+ registers\b")
_COMPILED = re.compile(r"^Compile time = ")
_CAP = "Overriding maximum register limit"  # says that a cap was asked for; no finding about the kernel


@dataclass(frozen=True)
class KernelBlock:
    """What ptxas printed of one kernel for one architecture. Sizes in bytes; None: not printed."""

    name: str
    arch: str
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    registers: int | None = None
    barriers: int | None = None
    static_smem: int | None = None
    cumulative_stack: int | None = None
    cmem: Mapping[str, int] = field(default_factory=dict)
    textures: int | None = None
    warnings: tuple[str, ...] = ()  # the lines that name it, but for advice


@dataclass(frozen=True)
class DeviceFunction:
    """A function that is no kernel and was not inlined; its figures belong to no kernel."""

    name: str
    arch: str | None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None


@dataclass(frozen=True)
class LinkedKernel:
    """What the device linker printed of a kernel: with relocatable code these figures count."""

    name: str
    arch: str | None
    registers: int
    barriers: int | None
    stack: int | None
    static_smem: int | None
    cmem: Mapping[str, int]
    lmem: int | None


@dataclass(frozen=True)
class Module:
    """The line that ptxas prints once for each compiled module: global and constant memory of the file."""

    arch: str | None
    figures: Mapping[str, int]


@dataclass(frozen=True)
class PtxasLog:
    """A whole log in its own order. ``relocatable``: the log shows that device code was left for a linker."""

    kernels: tuple[KernelBlock, ...]
    device_functions: tuple[DeviceFunction, ...]
    linked: tuple[LinkedKernel, ...]
    modules: tuple[Module, ...]
    other_lines: tuple[str, ...]
    problems: tuple[str, ...]
    relocatable: bool
    advice: tuple[Advice, ...] = ()  # one for each line that names a consequence


def parse_log(text: str) -> PtxasLog:
    """Read a log; never raises: what can't be right is named in ``problems``."""
    reader = _Reader()
    lines = text.splitlines(keepends=True)
    for line in lines:
        reader.read(_COLOUR.sub("", line).rstrip())
    last = lines[-1] if lines else ""
    return reader.finish("" if last.endswith(("\n", "\r")) else _COLOUR.sub("", last))


class _Reader:
    """The state between two lines: the block that is open and the function that its next figures belong to."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []
        self.functions: list[dict[str, Any]] = []
        self.linked: list[dict[str, Any]] = []
        self.modules: list[dict[str, Any]] = []
        self.other: list[tuple[str, str]] = []  # kind, line
        self.advice: dict[str, list[Advice]] = {}  # by line
        self.problems: list[str] = []
        self.open: dict[str, Any] | None = None  # the kernel whose block is not complete
        self.target: dict[str, Any] | None = None  # whose figures come next
        self.link_target: str | None = None
        self.last_used = False
        self.relocatable = False

    def read(self, line: str) -> None:
        match = _TOOL.match(line)
        if match and match["tool"] == "nvlink":
            self._nvlink(match["text"], line, match["kind"])
            return
        text = match["text"] if match else _CONTINUED.sub("", line)
        self.last_used = False
        if spills := _SPILLS.match(text):
            self._spills([int(figure) for figure in spills.groups()])
        elif not match:
            return
        elif entry := _ENTRY.match(text):
            self._entry(entry["name"], entry["arch"])
        elif properties := _PROPERTIES.match(text):
            self._properties(properties["name"])
        elif match["kind"] == "info" and _MODULE.match(text):
            self._close()
            self.modules.append({"arch": None, "figures": _figures(text)})
        elif match["kind"] == "info" and _USED.match(text):
            self._used(text)
        elif _COMPILED.match(text):
            # one line for each kernel; a function has one of its own only where it is left for the linker
            self.relocatable |= self.target is not None and self.target is not self.open
        else:
            self.other.append((match["kind"], line))
            if (found := advice(match["kind"], text)) is not None:
                self.advice.setdefault(line, []).append(found)

    def _entry(self, name: str, arch: str) -> None:
        self._close()
        self.open = self.target = {"name": name, "arch": arch}
        self.kernels.append(self.open)
        if self.modules and self.modules[-1]["arch"] is None:
            self.modules[-1]["arch"] = arch

    def _properties(self, name: str) -> None:
        if self.open is not None and self.open["name"] == name:
            self.target = self.open
            return
        self.target = {"name": name, "arch": self.kernels[-1]["arch"] if self.kernels else None}
        self.functions.append(self.target)

    def _spills(self, figures: list[int]) -> None:
        if self.target is not None and "stack" not in self.target:
            self.target["stack"], self.target["spill_stores"], self.target["spill_loads"] = figures

    def _used(self, text: str) -> None:
        if self.target is None or self.target is not self.open or "registers" in self.target:
            return  # a device function's, which some toolkits print too
        figures = _figures(text)
        self.target.update(
            registers=figures.get("registers"),
            barriers=figures.get("barriers"),
            static_smem=figures.get("smem", 0),
            cumulative_stack=figures.get("cumulative stack size"),
            textures=figures.get("textures", 0),
            cmem={key[5:-1]: value for key, value in figures.items() if key.startswith("cmem[")},
        )
        self.last_used = True

    def _nvlink(self, text: str, line: str, kind: str) -> None:
        self.other.append((kind, line))
        if properties := _PROPERTIES.match(text):
            self.link_target = properties["name"]
        elif _USED.match(text) and self.link_target is not None:
            figures = _figures(text)
            self.linked.append(
                {
                    "name": self.link_target,
                    "registers": figures["registers"],
                    "barriers": figures.get("barriers"),
                    "stack": figures.get("stack"),
                    "static_smem": figures.get("smem"),
                    "lmem": figures.get("lmem"),
                    "cmem": {key[5:-1]: value for key, value in figures.items() if key.startswith("cmem[")},
                }
            )
            self.link_target = None

    def _close(self, end: bool = False) -> None:
        """The open kernel's block is over: whatever it still lacks, it will never get."""
        kernel, self.open, self.target = self.open, None, None
        if kernel is None:
            return
        if "registers" in kernel and "stack" in kernel:
            return
        if end:
            self.problems.append(f"log ends inside the block of {kernel['name']} ({kernel['arch']})")
        else:
            lacks = "a 'Used … registers' line" if "registers" not in kernel else "spill figures"
            self.problems.append(f"the block of {kernel['name']} ({kernel['arch']}) has no {lacks}")

    def finish(self, cut_line: str) -> PtxasLog:
        """The log read so far; ``cut_line`` is its last line if that has no line end."""
        if cut_line and self.last_used and self.open is not None:
            self.open.pop("registers")  # the line may go on with shared memory that is not here
        self._close(end=True)
        if not self.problems and _is_cut(cut_line):
            after = f" after the block of {self.kernels[-1]['name']}" if self.kernels else ""
            self.problems.append(f"log ends inside a line{after}")
        if self.link_target is not None:
            self.problems.append(f"log ends inside the linker's figures of {self.link_target}")
        archs = list(dict.fromkeys(kernel["arch"] for kernel in self.kernels))
        lines = [line for kind, line in self.other if _CAP not in line and line not in self.advice]
        return PtxasLog(
            kernels=tuple(KernelBlock(**kernel, warnings=_mentioning(kernel["name"], lines)) for kernel in self.kernels),
            device_functions=tuple(DeviceFunction(**function) for function in self.functions),
            linked=tuple(LinkedKernel(arch=archs[0] if len(archs) == 1 else None, **entry) for entry in self.linked),
            modules=tuple(Module(**module) for module in self.modules),
            other_lines=tuple(line for _, line in self.other),
            problems=tuple(self.problems),
            relocatable=self.relocatable or bool(self.linked),
            advice=tuple(one for found in self.advice.values() for one in found),
        )


def _figures(text: str) -> dict[str, int]:
    """The figures of a comma-separated line: 'used 1 barriers, 512 bytes smem' gives barriers 1, smem 512."""
    figures = {}
    for item in text.split(","):
        match = re.match(r"^\s*(?:[Uu]sed )?(\d+) (?:bytes )?(.+?)\s*$", item)
        if match:
            figures[match.group(2)] = int(match.group(1))
    return figures


def _is_cut(line: str) -> bool:
    """Whether the last line, which has no line end, is a part of one of the tools' lines."""
    if not line or re.search(r"Compile time = [\d.]+ ms$|bytes lmem$", line):
        return False
    return "ptxas" in line or "nvlink" in line or "ptxas info".startswith(line) or line.startswith("    ")


def _mentioning(name: str, lines: list[str]) -> tuple[str, ...]:
    """Those warning lines that name the kernel, quoted or not, and not as a part of a longer name."""
    whole = re.compile(rf"(?<![\w$.]){re.escape(name)}(?![\w$])")
    return tuple(line for line in lines if not line.lstrip().startswith("nvlink info") and whole.search(line))
