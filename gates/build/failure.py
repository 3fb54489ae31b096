"""Say why a product was not built: the command, how it ended, the compiler's first lines, what to do."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.build import missing_header
from gates.build.graph import Edge
from gates.build.toolchain import OLDEST_GXX, Toolchain
from gates.worker import machine_fault

_ERROR = re.compile(
    r"\b(error|fatal|undefined reference|required symbol|multiple definition|died due to|cannot allocate|exhausted)\b", re.IGNORECASE
)
_CRASH = re.compile(
    r"died due to signal|terminated with signal|internal compiler error|Segmentation fault|returned \d+ exit status|exit \d+"
)
_DIED = re.compile(r"'?(?P<tool>[\w+./-]+)'? died due to signal (?P<number>\d+)|[Kk]illed signal terminated program (?P<program>\w+)")
_HOST = re.compile(r"unsupported GNU version|Failed to preprocess host compiler|unsupported (Clang|clang) version|host compiler targets")
_PLACE = re.compile(
    r"^(?P<file>[^\s:(][^:(]*)(?::(?P<line>\d+)(?::\d+)?:|\((?P<number>\d+)\)\s*:)\s*(?P<text>(?:\w+ )?error\b.*)$", re.IGNORECASE
)
_LINKED = re.compile(r"(?P<how>undefined reference to|required symbol|multiple definition of) [`'‘](?P<name>[^'’]+)['’]")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:'\"`()]+/)+")
_CUDA_NAME = re.compile(
    r"undefined reference to [`'‘](?P<name>(?:__cuda|cuda|cu)[A-Z]\w*)['’]"
)  # a function of CUDA's that the emulator lacks
_OUT_OF_REACH = re.compile(
    r"undefined reference to [`'‘]__wrap_(?P<name>\w+)['’]"
)  # of what ``gates.emulator.cpu.build`` keeps from launchers
_DEVICE_RUNTIME = "'__cudaCDP"  # of its functions nvlink names those that a kernel calls to launch another
_ON_A_DEVICE = "run the task on a CUDA device, or leave these calls to the caller of the launcher"
_IN_HEADER = " is defined in header "  # g++, about a name of the C++ library
_FORGOTTEN = re.compile(rf"\bnote: (?P<note>.*{_IN_HEADER}.*)")
_LINES = 5
_SENTENCE = 200  # characters


@dataclass(frozen=True)
class Failure:
    """``cause``: exit status or signal. ``errors``: the compiler's first error lines. ``log``: its whole output."""

    command: str
    cause: str
    errors: tuple[str, ...] = ()
    log: str | None = None
    hint: str = ""
    missing_tool: str = ""  # set where nothing failed: there is no such tool here
    unsupported: str = ""  # set where the emulator, or a build, lacks a feature: what

    @property
    def sentence(self) -> str:
        """The failure in one sentence of at most 200 characters, with the compiler's first ``file:line`` where it gave one."""
        return _shortened(self._sentence())

    @property
    def advice(self) -> str:
        """The sentence, and what to do about it where that is known."""
        return f"{self.sentence}; {self.hint}" if self.hint else self.sentence

    def _sentence(self) -> str:
        if self.missing_tool:
            return self.cause
        if self.unsupported:
            return self.unsupported
        what = self.command.split(" ", 1)[0].rsplit("/", 1)[-1] if self.command else "ninja"
        if " gates.build.objects " in self.command:
            what = "taking the cubin out of its object"
        return f"{what} failed ({self.cause})" + (f": {first_error(self.errors)}" if self.errors else "")


def first_error(errors: Sequence[str]) -> str:
    """``k.cu:12: error: …`` of the first line that names a place, else the first line; folders are left out."""
    if link := _LINKED.search("\n".join(errors)):
        return f"{link['name']} is defined {'more than once' if link['how'].startswith('multiple') else 'in no source'}"
    placed = next((match for match in map(_PLACE.match, errors) if match), None)
    if placed is None:
        return _FOLDERS.sub("", errors[0])
    name = placed["file"].replace("\\", "/").rpartition("/")[2]
    return f"{name}:{placed['line'] or placed['number']}: {_FOLDERS.sub('', placed['text'])}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SENTENCE else f"{text[: _SENTENCE - 1].rstrip()}…"


def missing_tool(name: str, toolchain: Toolchain) -> Failure | None:
    """The failure of whatever needs the tool, where it is missing."""
    if toolchain.get(name) is not None:
        return None
    return Failure("", f"{name} was not found", hint=toolchain.remedies[name], missing_tool=name)


def printed(folder: Path, edge: Edge) -> str:
    """What the edge's command printed when it last ran, whether it succeeded or not."""
    for path in (folder / edge.log, folder / f"{edge.output}.failed.log"):
        if path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return ""


def describe(folder: Path, edges: Sequence[Edge], ninja_output: str, toolchain: Toolchain) -> Failure:
    """Why the product of ``edges`` is not there: the first of its commands that failed.

    Raises MachineFault if this machine is the reason, which says nothing about the sources; no source stops ninja itself.
    """
    for edge in edges:
        record = _record(folder, edge)
        if record.is_file():
            data = json.loads(record.read_text(encoding="utf-8"))
            text, cause = printed(folder, edge), _cause(data["cause"], printed(folder, edge))
            command = shlex.join(data["command"])
            refuse_machine_fault(text, data["cause"], folder, Path(data["command"][0]).name)
            log = str(folder / f"{edge.output}.failed.log")
            if " gates.emulator.cpu.runtime_object " in command:  # no source of the task is in it
                what = f"g++ can't compile the emulator's runtime: {(first_errors(text) or (cause,))[0]}"
                return Failure(command, what, log=log, hint=f"set CXX to a g++ {OLDEST_GXX} or newer", missing_tool="g++")
            if header := missing_header.find(text, toolchain):
                return Failure(
                    command,
                    f"{_first_place(text)}{header.owner}'s {header.name} was not found",
                    log=log,
                    hint=header.remedy,
                    missing_tool=header.name,
                )
            lacking, hint = _lacking(text) if edge.output == "emulator.so" else ("", "")
            if _DEVICE_RUNTIME in text:
                lacking, hint = "kernels that launch kernels (dynamic parallelism) are not judged", "launch the inner kernel from the host"
            return Failure(command, cause, first_errors(text), log, hint or hint_for(text, cause, toolchain), unsupported=lacking)
    refuse_machine_fault(ninja_output, "", folder, "ninja")
    said = (first_errors(ninja_output) or ("without a message",))[-1]
    raise machine_fault.MachineFault(
        f"ninja ended before the build did: {said} (building in {folder})",
        hint="start it again; `gates doctor` names the ninja that is used",
    )


def refuse_machine_fault(text: str, cause: str, folder: Path, tool: str) -> None:
    """Raise MachineFault if ``text``, which ``tool`` printed for a build in ``folder``, or its end ``cause`` tells of this machine.

    A failure that no error message explains is also compared with what the machine has left.
    """
    found = machine_fault.fault_in(text, cause)
    explained = any(_ERROR.search(line) and not _CRASH.search(line) for line in text.splitlines())
    if found is None and not explained and (short := machine_fault.shortage((folder, Path(tempfile.gettempdir())))):
        found = f"{(first_errors(text) or (cause,))[0]} ({short[0]})", short[1]
    if found is not None:
        raise machine_fault.MachineFault(f"this machine could not run {tool} to its end: {found[0]} (building in {folder})", hint=found[1])


def _lacking(text: str) -> tuple[str, str]:
    """What the emulator's runtime lacks, where the linker names functions of CUDA's, and what to do; empty where it names others."""
    if sought := list(dict.fromkeys(_OUT_OF_REACH.findall(text))):
        reach = "it could reach the emulator's records, which are evidence"
        return f"the CPU emulator takes no launcher that calls {', '.join(sought)}: {reach}", _ON_A_DEVICE
    names = list(dict.fromkeys(_CUDA_NAME.findall(text)))
    if any(name.startswith("__cudaRegisterLinkedBinary") for name in names):
        return "the CPU emulator has no linker for relocatable device code (-rdc=true)", _ON_A_DEVICE
    return (f"the CPU emulator does not have {', '.join(names)}", _ON_A_DEVICE) if names else ("", "")


def _forgotten(text: str) -> str:
    """What g++ notes about the first error, where the name in it is in a header that was not included; else nothing."""
    _, _, rest = text.partition("error: ")
    note = _FORGOTTEN.search(rest.partition("error: ")[0])
    return note["note"] if note else ""


def _first_place(text: str) -> str:
    """``k.cu:12: ``, or nothing."""
    placed = next((match for match in map(_PLACE.match, text.splitlines()) if match), None)
    return f"{placed['file'].rpartition('/')[2]}:{placed['line'] or placed['number']}: " if placed else ""


def _record(folder: Path, edge: Edge) -> Path:
    return folder / f"{edge.output}.failed.json"


def _cause(cause: str, text: str) -> str:
    """How the command ended; a signal that killed one of its own programs is named too."""
    died = _DIED.search(text)
    if died is None:
        status = int(cause[5:]) if re.fullmatch(r"exit \d+", cause) else 0
        number = status - 128  # as a shell reports a signal
        return f"killed by {signal.Signals(number).name}" if number in set(signal.Signals) else cause
    tool = died["tool"] or died["program"]
    return f"{tool} killed by signal {died['number']}" if died["number"] else f"{tool} killed"


def first_errors(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [line for line in lines if _ERROR.search(line)]
    return tuple((found or lines[-_LINES:])[:_LINES])


def hint_for(text: str, cause: str, toolchain: Toolchain) -> str:
    if "killed" in cause:
        return (
            "the compiler itself crashed: remove parts of the source to find the cause, or try another version (`gates doctor` lists them)"
        )
    version = toolchain.nvcc.version if toolchain.nvcc else "?"
    if "required symbol" in text:
        return 'declare the launcher extern "C", with the name that entry has in task.yaml'
    if "Unsupported gpu architecture" in text:
        return f"nvcc {version} does not know this architecture: change `arch:` in task.yaml, or install a newer CUDA toolkit"
    if _HOST.search(text):
        compiler = toolchain.host_compiler or shutil.which("g++") or "the g++ on PATH"
        return f"nvcc {version} does not take {compiler} as host compiler: set NVCC_CCBIN to a g++ that it supports"
    return _forgotten(text)
