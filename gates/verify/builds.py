"""Check what a run says of its builds: build.json against run.json, ptxas.json against the
compiler's output, and sass.json against both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from gates.core import jsonio
from gates.core.kernel_names import base_name
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.ptxas.evidence import PtxasKernel, gather
from gates.gate.registry import ROWS
from gates.task.load import JIT, PYTHON
from gates.task.sources.architectures import cubin_archs, device_archs
from gates.task.sources.identity import identity_of, product_name
from gates.task.sources.optimisation import unoptimised

_KINDS = ("cubin", "device", "emulator", "emulator_asan", "binding", "runtime")  # of products
_CUBIN, _LOG = ".cubin", ".ptxas.log"
_COMMAND = re.compile(r"^\$ ", re.M)  # begins each command in build.log
_ARCH = re.compile(r" (?:-arch|--gpu-name)=(sm_\d+[a-z]?)")


def build_problems(run: Path, info: RunInfo, evidence: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield one sentence for each contradiction about a build; ``evidence`` (gate -> record) is by folder: "" or "baseline/"."""
    for folder, side in (("", info.task), ("baseline/", info.baseline)):
        if side is None:
            continue
        if bool(side.build) != (side.digest_rule > 1):
            yield f"run.json names {'a' if side.build else 'no'} build of {side.name}, its digest_rule is {side.digest_rule}"
        records = evidence.get(folder, {})
        for gate, record in records.items():
            if record.build != side.build:
                yield f"{folder}{gate}.json is from build {_short(record.build)}, run.json names {_short(side.build)} for {side.name}"
        if not (run / folder / "build.json").is_file():
            continue
        build, path = jsonio.read(run / folder / "build.json"), run / folder / "build.log"
        log = jsonio.read_text(path) if path.is_file() else None
        found = [*_of_side(side, info, build), *_targets(side, build)]
        if log is not None and not side.debug_build and _built_for_debugging(log):
            found.append("build.log shows a debug build (nvcc -G), run.json does not say so")
        for gate, record in records.items():
            if ROWS[gate].of_binaries and list(record.archs) != build["archs"]:
                found.append(f"{gate}.json covers {', '.join(record.archs)}, build.json {', '.join(build['archs'])}")
        if log is not None and "ptxas" in records:
            found += _not_as_logged(build, log, records["ptxas"])
        if "sass" in records:
            found += _machine_code(records["sass"], records.get("ptxas"))
        yield from (f"{folder}{text}" for text in found)
    if info.baseline is not None:
        for gate, record in evidence.get("", {}).items():
            other = getattr(record, "baseline_build", "")
            if getattr(record, "baseline", None) is not None and other != info.baseline.build:
                yield (
                    f"{gate}.json compares with build {_short(other)}, run.json names {_short(info.baseline.build)} for "
                    f"{info.baseline.name}"
                )


def _of_side(side: TaskInfo, info: RunInfo, build: Mapping[str, Any]) -> Iterator[str]:
    """Yield what build.json says otherwise than run.json."""
    if (build["task"], build["toggles"]) != (side.name, side.toggles):
        yield (
            f"build.json is of {build['task']} with {_toggles(build['toggles'])}, run.json names {side.name} with {_toggles(side.toggles)}"
        )
    identity = build.get("identity", "")
    if identity != side.build:
        yield f"build.json is build {_short(identity)}, run.json names {_short(side.build)} for {side.name}"
    elif identity and identity != identity_of(side.digest, build["digest"]):
        yield f"build.json: its identity does not follow from its digest and that of {side.name} in run.json"
    if not re.fullmatch(r"[0-9a-f]{64}", build["digest"]) or build["folder"] != build["digest"][:16]:
        yield f"build.json: its folder {build['folder']} is not named by its digest"
    device = f"sm_{info.device.compute_capability.replace('.', '')}" if info.device else None
    cubins = cubin_archs(side.arch, device)
    library = cubins if side.kind in (*JIT, PYTHON) else device_archs(side.arch, device)
    for key, expected in (("archs", cubins), ("device_archs", library)):
        if build[key] != list(expected):
            yield f"build.json: {key} is {', '.join(build[key])}; run.json and its device give {', '.join(expected)}"


def _targets(side: TaskInfo, build: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the list of products."""
    for number, target in enumerate(build["targets"]):
        kind, path, arch = target["kind"], target["path"], target["arch"]
        if kind not in _KINDS or (arch in build["archs"]) != (kind == "cubin") or (arch is not None and kind != "cubin"):
            yield f"build.json: target {number} is a {kind} for {arch}"
        if (path is None) == (target["failure"] is None):
            yield f"build.json: target {number} needs a product or the failure that left none"
        if (
            kind == "cubin"
            and path is not None
            and (PurePosixPath(path).parent.name != arch or target["log"] != path.removesuffix(_CUBIN) + _LOG)
        ):
            yield f"build.json: target {number} is {path} with the log {target['log']}, not a cubin and its log in the folder of {arch}"
    if side.kind != PYTHON and (missing := set(build["archs"]) - {target["arch"] for target in build["targets"]}):
        yield f"build.json has no cubin for {', '.join(sorted(missing))}"
    if {
        product_name(target["path"]): target["sha256"] for target in build["targets"] if target["path"] and target.get("sha256")
    } != side.products:
        yield f"build.json has other products than run.json names for {side.name}"


def _not_as_logged(build: Mapping[str, Any], log: str, evidence: Any) -> Iterator[str]:
    """Yield what ptxas.json has otherwise than the compiler printed into build.log."""
    printed: dict[str, str | None] = dict.fromkeys(evidence.archs)
    for section in _COMMAND.split(log)[1:]:
        command, _, text = section.partition("\n")
        found = _ARCH.search(command)
        arch = next((name for name in (found[1], found[1][:-1]) if name in printed), None) if found else None
        if arch is not None and command.rstrip("'").endswith(_CUBIN):
            printed[arch] = (printed[arch] or "") + text
    readable = {one.name: one.demangled for one in (*evidence.kernels, *evidence.called_functions)}
    again = gather(printed, None, evidence.expected_kernels, {}, demangled=readable, relocatable=build["relocatable"])
    if again.missing_logs != evidence.missing_logs or again.relocatable != evidence.relocatable:
        yield (
            f"ptxas.json: no log of {', '.join(evidence.missing_logs) or 'none'}, relocatable {', '.join(evidence.relocatable) or 'none'}; "
            f"build.log gives {', '.join(again.missing_logs) or 'none'} and {', '.join(again.relocatable) or 'none'}"
        )
    ours, theirs = Counter(map(_figures, evidence.kernels)), Counter(map(_figures, again.kernels))
    for name, arch in dict.fromkeys((figures[1], figures[0]) for figures in (ours - theirs) + (theirs - ours)):
        yield f"ptxas.json: {base_name(name)} {arch} has not the figures that build.log shows"
    if Counter(evidence.called_functions) != Counter(again.called_functions):
        yield "ptxas.json has other called functions than build.log shows"


def _figures(kernel: PtxasKernel) -> tuple[Any, ...]:
    """Return what the compiler's output alone decides."""
    bare = replace(kernel, constant_bytes={}, warnings=(), launches=(), cross_check="")
    return kernel.arch, kernel.name, tuple(sorted(kernel.constant_bytes.items())), repr(bare)


def _machine_code(sass: Any, ptxas: Any) -> Iterator[str]:
    """Yield the compiled kernels that sass.json lacks, and other readable names."""
    if ptxas is None:
        return
    found = {(one.key, one.arch): one.demangled for one in sass.functions}
    for one in ptxas.kernels:
        if one.arch in sass.missing_dumps or one.arch in ptxas.missing_logs:
            continue
        if (one.key, one.arch) not in found:
            yield f"sass.json has no machine code of {one.base_name} {one.arch}, which ptxas.json has"
        elif found[one.key, one.arch] != one.demangled:
            yield f"sass.json calls {one.base_name} {found[one.key, one.arch]}, ptxas.json {one.demangled}"


def _built_for_debugging(log: str) -> bool:
    """Return whether a command in ``log`` compiles device code for a debugger or without optimisation."""
    return any(line.startswith("$ ") and unoptimised(line.split()) for line in log.splitlines() if "nvcc" in line)


def _toggles(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "no toggles"


def _short(identity: str) -> str:
    return identity[:12] or "(none)"
