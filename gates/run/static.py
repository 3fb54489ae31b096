"""The raw texts that the static gates judge: ptxas's logs, disassembly, resource usage, readable names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gates.errors import GatesError
from gates.run import process
from gates.run.build import BuildResult
from gates.run.toolchain import Toolchain

_LIMIT_S = 120.0
_STATIC = re.compile(r"__nv_static_(\d+)_")
_MANGLED = re.compile(r"\b(?:__nv_static_\w+|_Z\w[\w$.]*)")


Dump = Callable[[Path, Toolchain], "str | None"]


@dataclass(frozen=True)
class StaticTexts:
    """By architecture, None where there is nothing: the build failed or the tool is missing (``reasons`` says which)."""

    logs: dict[str, str | None]
    sass: dict[str, str | None]
    resource_usage: dict[str, str | None]
    demangled: dict[str, str]  # mangled -> readable name of every function that the texts mention
    reasons: tuple[str, ...]


def collect(result: BuildResult, toolchain: Toolchain) -> StaticTexts:
    """Gather the texts of every architecture of a build."""
    logs: dict[str, str | None] = {}
    sass: dict[str, str | None] = {}
    usage: dict[str, str | None] = {}
    reasons = []
    for arch in result.archs:
        cubins = result.cubins(arch)
        failed = next((target.failure for target in cubins if target.failure), None)
        if failed or not cubins:
            logs[arch] = sass[arch] = usage[arch] = None
            hint = f"; {failed.hint}" if failed and failed.hint else ""
            reasons.append(f"{arch}: {failed.sentence if failed else 'no cubin was built'}{hint}")
            continue
        paths = [Path(target.path or "") for target in cubins]
        logs[arch] = "".join(_read_logs(paths[0].parent if result.relocatable else None, [target.log for target in cubins]))
        sass[arch], why = _each(dump_sass, paths, toolchain)
        usage[arch], _ = _each(dump_resource_usage, paths, toolchain)
        if why:
            reasons.append(f"{arch}: {why}")
    names = {name for text in logs.values() for name in _MANGLED.findall(text or "")}
    return StaticTexts(logs, sass, usage, demangle(names, toolchain), tuple(dict.fromkeys(reasons)))


def _read_logs(folder: Path | None, logs: list[str | None]) -> Iterable[str]:
    """The logs of the cubins; with relocatable code those of the sources and then the linker's."""
    paths = [Path(log) for log in logs if log]
    if folder:
        paths = sorted(folder.glob("*.ptxas.log"), key=lambda path: path.name == "linked.ptxas.log")
    for path in paths:
        yield path.read_text(encoding="utf-8", errors="replace")


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
    """The cubin's disassembly by cuobjdump, or by nvdisasm where that is missing; None without either."""
    if cuobjdump := toolchain.get("cuobjdump"):
        return _output([cuobjdump.path, "--dump-sass", str(cubin)])
    if nvdisasm := toolchain.get("nvdisasm"):
        return _output([nvdisasm.path, str(cubin)])
    return None


def dump_resource_usage(cubin: Path, toolchain: Toolchain) -> str | None:
    """What the machine code says of its registers, stack and shared memory; None without cuobjdump."""
    cuobjdump = toolchain.get("cuobjdump")
    return _output([cuobjdump.path, "--dump-resource-usage", str(cubin)]) if cuobjdump else None


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
    finished = process.run(argv, limit_s=_LIMIT_S)
    if finished.returncode != 0:
        first = finished.output.strip().splitlines()[:1]
        raise GatesError(f"{Path(argv[0]).name} failed ({finished.cause})" + (f": {first[0]}" if first else ""))
    return finished.output
