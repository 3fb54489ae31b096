"""The evidence of the ptxas gate: each kernel's compiled resources with the launches that use them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gates.core.kernel_names import base_name, instance_of, instance_of_signature, kernel_key, plain_name
from gates.gate.ptxas.advice import Advice, merged
from gates.gate.ptxas.log import DeviceFunction, KernelBlock, LinkedKernel, parse_log
from gates.gate.ptxas.resource_usage import FunctionUsage, parse_resource_usage
from gates.hardware.chips import Occupancy, chip_of, occupancy

RESERVED_SMEM_BYTES = 1024  # in a cubin's figure from sm_90 on, in a kernel that uses shared memory; not in the log


@dataclass(frozen=True)
class Launch:
    """One way in which a kernel was launched (recorded or declared). None: not known."""

    threads_per_cta: int | None
    dynamic_smem_bytes: int | None
    opt_in_smem_bytes: int | None  # what the launcher asked cudaFuncSetAttribute for; 0: it did not ask
    declared_smem_bytes: int | None = None  # static shared memory as the source declares it
    max_threads: int | None = None  # of the launched instance's __launch_bounds__; 0: it has none


@dataclass(frozen=True)
class Linked:
    """The device linker's figures, which count where device code is relocatable."""

    registers: int
    static_smem_bytes: int | None
    stack_bytes: int | None
    barriers: int | None


@dataclass(frozen=True)
class PtxasKernel:
    """One kernel for one architecture. None: this toolkit does not print it."""

    name: str
    key: str  # the name without what depends on the source's folder: the same in every build
    base_name: str
    demangled: str
    arch: str
    registers: int | None
    static_smem_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    stack_bytes: int | None
    cumulative_stack_bytes: int | None
    barriers: int | None
    textures: int | None
    constant_bytes: Mapping[str, int] = field(default_factory=dict)  # bank -> bytes
    warnings: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    linked: Linked | None = None
    cross_check: str = "not available"  # or "agrees", or the difference between log and cubin

    @property
    def final(self) -> PtxasKernel | Linked:
        """Return the kernel's final figures: registers, static shared memory, stack and barriers of the linker, or else of ptxas."""
        return self.linked or self

    @property
    def smem_bytes(self) -> int | None:
        """Return the most shared memory per CTA, static and dynamic together, bytes; None if a part is unknown."""
        dynamic = [launch.dynamic_smem_bytes for launch in self.launches if launch.dynamic_smem_bytes is not None]
        if self.final.static_smem_bytes is None or not dynamic or len(dynamic) < len(self.launches):
            return None
        return self.final.static_smem_bytes + max(dynamic)

    def occupancy_of(self, launch: Launch) -> Occupancy | None:
        """Return the occupancy of an SM under this launch; None if a figure is unknown."""
        chip, found = chip_of(self.arch), self.final
        if (
            chip is None
            or found.registers is None
            or found.static_smem_bytes is None
            or launch.dynamic_smem_bytes is None
            or not launch.threads_per_cta
        ):
            return None
        return occupancy(
            chip, found.registers, launch.threads_per_cta, found.static_smem_bytes + launch.dynamic_smem_bytes, found.barriers or 0
        )

    @property
    def tightest(self) -> int | None:
        """Return the launch with the fewest resident warps, of those that fit; None if one is unknown."""
        found = {index: self.occupancy_of(launch) for index, launch in enumerate(self.launches) if launch.threads_per_cta}
        fractions = {index: seen.fraction for index, seen in found.items() if seen is not None}
        if not found or len(fractions) < len(found) or self.smem_bytes is None:
            return None
        return min(fractions, key=lambda index: fractions[index] or 2.0)

    @property
    def occupancy_pct(self) -> float | None:
        """Return the theoretical occupancy of that launch."""
        seen = None if self.tightest is None else self.occupancy_of(self.launches[self.tightest])
        return 100.0 * seen.fraction if seen else None


@dataclass(frozen=True)
class CalledFunction:
    """A device function that was not inlined; its spills are in no kernel's figures."""

    name: str
    demangled: str
    arch: str | None
    stack_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None


@dataclass(frozen=True)
class PtxasEvidence:
    """What the compiler said of a task's kernels, for every architecture that was asked for."""

    archs: tuple[str, ...]
    expected_kernels: tuple[str, ...]  # base names, from task.yaml
    kernels: tuple[PtxasKernel, ...]
    called_functions: tuple[CalledFunction, ...] = ()
    missing_logs: tuple[str, ...] = ()  # architectures without a log
    relocatable: tuple[str, ...] = ()  # architectures whose device code is left to a linker
    problems: tuple[str, ...] = ()  # what is wrong with a log: cut short, figures absent
    other_lines: tuple[str, ...] = ()  # warnings, advice and linker lines, as printed
    launches_recorded: bool = False
    launches_note: str = ""  # what the launches are known from, where nothing was launched, or which ones are missing
    schema_version: int = 1
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    advice: tuple[Advice, ...] = ()  # the compiler's remarks on what code costs, each once; earlier runs have none


def gather(
    logs: Mapping[str, str | None],
    launches: Sequence[Mapping[str, Any]] | None,
    expected_kernels: Sequence[str],
    resource_usage: Mapping[str, str | None],
    *,
    demangled: Mapping[str, str] | None = None,
    relocatable: bool = False,
    launches_note: str = "",
) -> PtxasEvidence:
    """Bring together what is known of a build.

    ``logs``: architecture -> ptxas's log, or None where there is none. ``launches``: launch records
    as the emulator gives them (or a launcher's declared ones), or None where none were recorded; one with an ``arch`` is of
    that one alone.
    ``resource_usage``: architecture -> cuobjdump's text. ``demangled``: mangled -> readable name.
    ``relocatable``: the build used relocatable device code, so that the linker's figures count.
    ``launches_note``: what the records are known from, where nothing was launched, or what is missing.
    """
    readable = demangled or {}
    kernels: list[PtxasKernel] = []
    functions: list[CalledFunction] = []
    problems: list[str] = []
    other: list[str] = []
    left_to_linker: list[str] = []
    advised: list[tuple[str, Advice]] = []
    for arch, text in logs.items():
        if text is None:
            continue
        log = parse_log(text)
        seen = _Launches([record for record in launches or () if record.get("arch", arch) == arch], log.kernels, readable)
        usage = parse_resource_usage(resource_usage.get(arch) or "")
        for block in log.kernels:
            if block.arch != arch and block.arch in logs:
                continue  # a log of several architectures: that one's own entry has it
            linked = _linked(block, log.linked)
            kernel = _kernel(block, linked, readable, seen.of(block))
            kernels.append(replace(kernel, cross_check=_cross_check(kernel, usage.get(block.name))))
        functions.extend(_function(function, readable) for function in log.device_functions)
        problems.extend(f"{arch}: {problem}" for problem in log.problems)
        other.extend(log.other_lines)
        advised.extend((arch, one) for one in log.advice)
        if relocatable or log.relocatable:
            left_to_linker.append(arch)
    return PtxasEvidence(
        archs=tuple(logs),
        expected_kernels=tuple(expected_kernels),
        kernels=tuple(kernels),
        called_functions=tuple(functions),
        missing_logs=tuple(arch for arch, text in logs.items() if text is None),
        relocatable=tuple(left_to_linker),
        problems=tuple(problems),
        other_lines=tuple(other),
        launches_recorded=launches is not None,
        launches_note=launches_note,
        advice=merged(advised),
    )


def _kernel(block: KernelBlock, linked: Linked | None, readable: Mapping[str, str], launches: Sequence[Mapping[str, Any]]) -> PtxasKernel:
    return PtxasKernel(
        name=block.name,
        key=kernel_key(block.name),
        base_name=base_name(block.name),
        demangled=readable.get(block.name, block.name),
        arch=block.arch,
        registers=block.registers,
        static_smem_bytes=block.static_smem,
        spill_store_bytes=block.spill_stores,
        spill_load_bytes=block.spill_loads,
        stack_bytes=block.stack,
        cumulative_stack_bytes=block.cumulative_stack,
        barriers=block.barriers,
        textures=block.textures,
        constant_bytes=block.cmem,
        warnings=block.warnings,
        linked=linked,
        launches=_distinct(_launch(record, block.static_smem) for record in launches),
    )


def _function(function: DeviceFunction, readable: Mapping[str, str]) -> CalledFunction:
    return CalledFunction(
        function.name,
        readable.get(function.name, function.name),
        function.arch,
        function.stack,
        function.spill_stores,
        function.spill_loads,
    )


class _Launches:
    """Launch records by the kernels of one architecture's log: a template's instances get their own where records tell them apart.

    The emulator gives an instance's signature, a device its readable name. An instance without launches of its own, and
    each instance where a record names none of them, gets the launches of all: it is judged as if it were launched so.
    """

    def __init__(self, records: Sequence[Mapping[str, Any]], blocks: Sequence[KernelBlock], readable: Mapping[str, str]) -> None:
        self._of_all: dict[str, list[Mapping[str, Any]]] = {}
        self._own: dict[str, list[Mapping[str, Any]]] = {}
        names = {instance_of(readable[block.name]): block.name for block in blocks if block.name in readable}
        self._unclear: set[str] = set()
        for record in records:
            base = plain_name(str(record["kernel"]))
            self._of_all.setdefault(base, []).append(record)
            name = names.get(instance_of_signature(str(record.get("function", "")))) or names.get(instance_of(str(record["kernel"])))
            if name:
                self._own.setdefault(name, []).append(record)
            else:
                self._unclear.add(base)

    def of(self, block: KernelBlock) -> Sequence[Mapping[str, Any]]:
        base = base_name(block.name)
        own = [] if base in self._unclear else self._own.get(block.name, [])
        return own or self._of_all.get(base, [])


def _distinct(launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """Each launch once, with what its source declares where a launch like it shows that."""
    found = dict.fromkeys(launches)
    known = {replace(launch, declared_smem_bytes=None) for launch in found if launch.declared_smem_bytes is not None}
    return tuple(launch for launch in found if launch not in known)


def _launch(record: Mapping[str, Any], static_smem: int | None) -> Launch:
    """A launch record; one of a device says static and dynamic shared memory together."""
    block, dynamic = record.get("block"), record.get("dynamic_smem_bytes")
    if "smem_bytes" in record and static_smem is not None:
        dynamic = max(0, record["smem_bytes"] - static_smem)
    threads = block[0] * block[1] * block[2] if block else None
    return Launch(threads, dynamic, record.get("opt_in_smem_bytes"), record.get("static_smem_bytes"), record.get("max_threads"))


def _linked(block: KernelBlock, entries: Sequence[LinkedKernel]) -> Linked | None:
    for entry in entries:
        if entry.name == block.name and entry.arch in (block.arch, None):
            return Linked(entry.registers, entry.static_smem, entry.stack, entry.barriers)
    return None


def _cross_check(kernel: PtxasKernel, usage: FunctionUsage | None) -> str:
    """Compare the log's figures (the linker's, where there are any) with the cubin's own."""
    if usage is None:
        return "not available"
    source = kernel.final
    with_callees = kernel.cumulative_stack_bytes  # what the cubin has of a kernel that calls functions by their address
    stack = with_callees if usage.stack_bytes == with_callees else source.stack_bytes
    pairs = [("registers", source.registers, usage.registers), ("stack", stack, usage.stack_bytes)]
    number = re.match(r"sm_(\d+)", kernel.arch)
    shared = usage.shared_bytes
    if shared and number and int(number[1]) >= 90:
        shared -= RESERVED_SMEM_BYTES
    pairs.append(("shared memory", source.static_smem_bytes, shared))
    differences = [f"{name}: log {ours}, cubin {theirs}" for name, ours, theirs in pairs if None not in (ours, theirs) and ours != theirs]
    return "; ".join(differences) or "agrees"
