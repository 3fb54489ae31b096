"""The raw texts that the static gates judge: ptxas's logs, disassembly, resource usage, readable names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gates.errors import GatesError
from gates.run import process
from gates.run.built import BuildResult, Target
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
    logs = read_logs(result)
    sass: dict[str, str | None] = dict.fromkeys(result.archs)
    usage: dict[str, str | None] = dict.fromkeys(result.archs)
    reasons = []
    with ThreadPoolExecutor() as pool:  # the tools take a good part of a second for each cubin
        jobs = {}
        for arch in result.archs:
            if logs[arch] is None:
                reasons.append(f"{arch}: {_why_not(result, arch)}")
                continue
            paths = [Path(target.path or "") for target in result.cubins(arch)]
            jobs[arch] = [pool.submit(_each, dump, paths, toolchain) for dump in (dump_sass, dump_resource_usage)]
        for arch, (disassembly, figures) in jobs.items():
            sass[arch], why = disassembly.result()
            usage[arch], _ = figures.result()
            if why:
                reasons.append(f"{arch}: {why}")
    return StaticTexts(logs, sass, usage, demangle_all(logs.values(), toolchain), tuple(dict.fromkeys(reasons)))


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
    if failure is None:
        return "no cubin was built"
    return f"{failure.sentence}; {failure.hint}" if failure.hint else failure.sentence


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
