"""The raw texts that the static gates judge: ptxas's logs, disassembly, resource usage, readable names."""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gates.build import compilers
from gates.build.objects import sections
from gates.build.result import BuildResult, Target
from gates.build.toolchain import Tool, Toolchain
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.worker import process

_LIMIT_S = 120.0
_STATIC = re.compile(r"__nv_static_(\d+)_")
_DATA = re.compile(r"\.(?:nv\.constant\d+|nv\.global(?:\.init)?|nv\.shared|rodata)")
_UNIT = re.compile(rb"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_")  # nvcc's hash of the source's path in names
_SYMBOL = struct.Struct("<I2BH2Q")  # name, kind, visibility, section, value, size
_FILE = 4  # the kind of a symbol that names nvcc's temporary file
_MANGLED = re.compile(r"\b(?:__nv_static_\w+|_Z\w[\w$.]*)")


Dump = Callable[[Path, Toolchain], "str | None"]


@dataclass(frozen=True)
class StaticTexts:
    """By architecture, None where there is nothing: the build failed or the tool is missing (``reasons`` says which)."""

    logs: dict[str, str | None]
    resource_usage: dict[str, str | None]
    demangled: dict[str, str]  # mangled -> readable name of every function that the logs mention
    data: dict[str, str]  # sha256 of the constants, initial values and sizes of shared memory, of each architecture that was compiled
    host: str  # sha256 of the host code, which decides what is launched; empty if there is none
    _disassemble: Callable[[], dict[str, tuple[str | None, str]]]

    @cached_property
    def _code(self) -> dict[str, tuple[str | None, str]]:
        return self._disassemble()  # when it is asked for: it takes longer than all else here

    @property
    def sass(self) -> dict[str, str | None]:
        """The machine code."""
        return {arch: text for arch, (text, _) in self._code.items()}

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why there is no machine code of an architecture."""
        return tuple(f"{arch}: {why}" for arch, (_, why) in self._code.items() if why)


def collect(result: BuildResult, toolchain: Toolchain) -> StaticTexts:
    """Gather the texts of every architecture of a build; the cubins are taken apart when ``sass`` or ``reasons`` is first asked for."""
    logs = read_logs(result)
    usage = _of_each(dump_resource_usage, result, logs, toolchain)
    return StaticTexts(
        logs,
        {arch: text for arch, (text, _) in usage.items()},
        demangle_all(logs.values(), toolchain),
        {arch: data_digest(Path(target.path or "") for target in result.cubins(arch)) for arch in result.archs if logs[arch] is not None},
        host_digest(sorted(Path(result.folder, "emulator").glob("*.o"))) if result.path("emulator") else "",
        lambda: _of_each(dump_sass, result, logs, toolchain),
    )


def data_digest(cubins: Iterable[Path]) -> str:
    """A digest of what a cubin holds beside instructions and that a kernel computes with, whatever the kernels are called; empty where a
    cubin can't be read.
    """
    try:
        found = [
            (match[0], section.size, section.content)
            for path in cubins
            for section in sections(_content(path))
            if (match := _DATA.match(section.name))
        ]
    except GatesError:
        return ""
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def host_digest(objects: Iterable[Path]) -> str:
    """A digest of the instructions, constants and names that host objects hold, without the device code in them and wherever the sources
    lie; empty if an object can't be read.
    """
    total = hashlib.sha256()
    try:
        for path in objects:
            found = {section.name: section for section in sections(_content(path))}
            kept = {name for name, section in found.items() if section.loaded and "fatbin" not in name.lower()}
            for name, section in found.items():
                if name.removeprefix(".rela") in kept:
                    total.update(f"{name} {section.size} ".encode() + _UNIT.sub(rb"\1", section.content))
            for symbol in _symbols(found[".symtab"].content, found[".strtab"].content):
                total.update(symbol)
    except (GatesError, KeyError, struct.error):
        return ""
    return total.hexdigest()


def _symbols(table: bytes, names: bytes) -> Iterator[bytes]:
    """What each symbol is called and stands for. Its size is left out: one of them is the device code."""
    for name, kind, _, section, value, _ in _SYMBOL.iter_unpack(table):
        if kind & 0xF != _FILE:
            yield _UNIT.sub(rb"\1", names[name:].partition(b"\0")[0]) + f" {kind} {section} {value};".encode()


def _of_each(dump: Dump, result: BuildResult, logs: Mapping[str, str | None], toolchain: Toolchain) -> dict[str, tuple[str | None, str]]:
    """What ``dump`` gives for the cubins of each architecture, or None and the reason; no cubin is looked at whose log is not whole."""

    def of(arch: str) -> tuple[str | None, str]:
        if logs[arch] is None:
            return None, _why_not(result, arch)
        return _each(dump, [Path(target.path or "") for target in result.cubins(arch)], toolchain)

    with ThreadPoolExecutor() as pool:  # the tools take a good part of a second for each cubin
        return dict(zip(result.archs, pool.map(of, result.archs), strict=True))


def read_logs(result: BuildResult) -> dict[str, str | None]:
    """ptxas's log of each architecture: of all its sources, then the linker's with relocatable code; None if it is not whole."""
    logs: dict[str, str | None] = {}
    for arch in result.archs:
        cubins = result.cubins(arch)
        whole = bool(cubins) and all(target.path and target.log for target in cubins)
        logs[arch] = "".join(_log_texts(result, cubins)) if whole else None
    return logs


def _log_texts(result: BuildResult, cubins: list[Target]) -> Iterable[str]:
    paths = [Path(target.log) for target in cubins if target.log]
    if result.relocatable:
        paths = sorted(paths[0].parent.glob("*.ptxas.log"), key=lambda path: path.name == "linked.ptxas.log")
    for path in paths:
        yield path.read_text(encoding="utf-8", errors="replace")


def _why_not(result: BuildResult, arch: str) -> str:
    failure = result.failure("cubin", arch)
    return failure.advice if failure else "no cubin was built"


def _each(dump: Dump, paths: list[Path], toolchain: Toolchain) -> tuple[str | None, str]:
    texts = []
    for path in paths:
        try:
            text = dump(path, toolchain)
        except GatesError as error:
            return None, error.what
        if text is None:
            return None, f"neither cuobjdump nor nvdisasm was found; {toolchain.remedies['cuobjdump']}"
        texts.append(text)
    return "\n".join(texts), ""


def dump_sass(cubin: Path, toolchain: Toolchain) -> str | None:
    """The cubin's disassembly by cuobjdump, or by nvdisasm where that is missing; None without either.

    It is kept beside the cubin, as ptxas's log is, with a digest of itself, the cubin and the tools: an unchanged baseline is not taken
    apart again.
    """
    cuobjdump, nvdisasm = toolchain.get("cuobjdump"), toolchain.get("nvdisasm")  # the first starts the second
    if cuobjdump is None and nvdisasm is None:
        return None
    kept, made_of = cubin.with_name(f"{cubin.name}.sass.json"), f"{_identity(cuobjdump)} {_identity(nvdisasm)} ".encode() + _content(cubin)
    with contextlib.suppress(GatesError):
        match jsonio.read(kept):
            case {"digest": known, "text": str(text)} if known == _digest(made_of, text):
                return text
    text = _output([cuobjdump.path, "--dump-sass", str(cubin)] if cuobjdump else [toolchain.need("nvdisasm").path, str(cubin)])
    with contextlib.suppress(GatesError):  # what can't be kept is made again
        jsonio.write(kept, {"digest": _digest(made_of, text), "text": text})
    return text


def _identity(tool: Tool | None) -> str:
    return f"{tool.path} {compilers.file_identity(tool.path)}" if tool else ""


def _digest(made_of: bytes, text: str | None) -> str:
    return hashlib.sha256(made_of + (text or "").encode()).hexdigest()


def _content(cubin: Path) -> bytes:
    try:
        return cubin.read_bytes()
    except OSError as error:
        raise GatesError(f"can't read {cubin}: {error.strerror}") from None


def dump_resource_usage(cubin: Path, toolchain: Toolchain) -> str | None:
    """What the machine code says of its registers, stack and shared memory; None without cuobjdump."""
    cuobjdump = toolchain.get("cuobjdump")
    return _output([cuobjdump.path, "--dump-resource-usage", str(cubin)]) if cuobjdump else None


def demangle_all(texts: Iterable[str | None], toolchain: Toolchain) -> dict[str, str]:
    """Readable names of every mangled name in the texts."""
    return demangle((name for text in texts for name in _MANGLED.findall(text or "")), toolchain)


def demangle(names: Iterable[str], toolchain: Toolchain) -> dict[str, str]:
    """Readable names by c++filt; a name that it does not know, or all where it is missing, stay as they are."""
    wanted = sorted(set(names))
    tool = toolchain.get("c++filt")
    if not wanted or tool is None:
        return {name: name for name in wanted}
    # c++filt knows no device linker prefix; the name proper follows the counted part
    bare = [name[match.end() + int(match[1]) + 1 :] if (match := _STATIC.match(name)) else name for name in wanted]
    lines = process.run([tool.path, *bare], limit_s=_LIMIT_S).output.splitlines()
    return dict(zip(wanted, lines, strict=True)) if len(lines) == len(wanted) else {name: name for name in wanted}


def _output(argv: list[str]) -> str:
    finished = process.run(argv, limit_s=_LIMIT_S, whole=True)
    if finished.returncode != 0 or finished.flooded:
        first = finished.output.strip().splitlines()[:1]
        raise GatesError(f"{Path(argv[0]).name} failed ({finished.cause})" + (f": {first[0]}" if first else ""))
    return finished.output
