"""Do the compiled kernels keep within their budget, and can the chip run them?

What: per kernel and architecture, the compiler's own figures: registers per thread, static and dynamic shared memory, spill stores
and loads. The chip adds its limits: the registers of a CTA (65,536), shared memory, and the 48 KiB that a launch may use without opting
in. A launched kernel that task.yaml does not name fails. Occupancy, changes against the baseline and the compiler's remarks are
listed, not judged.

Why: a spill or a lost CTA per SM is the most common cause of a slow kernel, and the compiler reports both without a device.

Example: `max_registers: 128` and a kernel at 168 registers gives
    registers (tile_kernel sm_89): 168 registers/thread, limit 128 registers/thread

Limits: ptxas does not know dynamic shared memory. It comes from recorded launches; without one the gate is inconclusive. The emulator
records what the launcher launches for each shape, with the limits of each architecture's chip and 58 SMs. It misses launches that
need more SMs or results that were read back. If only a device can show the launch, it is that of the smallest
shape. An instance of a template is judged with its own launches if records tell instances apart. With relocatable device code the linker's
figures are judged. Spills of called functions are listed only. A limit is met when observed <= limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gates.core.kernel_names import missing_kernels, without_parameters
from gates.core.reason_code import Code
from gates.core.records import Check, GateResult, Status, conclude
from gates.gate.ptxas import codes
from gates.gate.ptxas.change import changes
from gates.gate.ptxas.evidence import Launch, PtxasEvidence, PtxasKernel
from gates.hardware.chips import Chip, chip_of, registers_per_cta

ADVICE = "advice"  # the check that holds a remark of the compiler on what code costs
_NO_CAP = "Overriding global maxrregcount"  # what ptxas says where a kernel's own __launch_bounds__ decides


def judge(evidence: PtxasEvidence, limits: Mapping[str, Any], baseline: PtxasEvidence | None = None) -> GateResult:
    """The verdict on a build. ``limits``: max_registers, max_smem_bytes, max_spill_bytes (any may be absent)."""
    checks = [*_presence(evidence)]
    for kernel in evidence.kernels:
        checks.extend(_kernel(kernel, evidence, limits))
    for function in evidence.called_functions:
        if function.spill_store_bytes or function.spill_load_bytes:
            checks.append(
                Check(
                    "called_function_spills",
                    Status.PASS,
                    function.spill_store_bytes,
                    None,
                    "bytes stored",
                    f"{without_parameters(function.demangled)} {function.arch or ''}".strip(),
                    hint="spills of a function that was not inlined; they are in no kernel's figures",
                )
            )
    for line in dict.fromkeys(line.partition("Overriding ")[2] for line in evidence.other_lines if _NO_CAP in line):
        checks.append(
            Check(
                "register_cap",
                Status.PASS,
                f"no effect: {line}",
                None,
                "",
                hint="__launch_bounds__ of the kernel wins over -maxrregcount; not judged",
            )
        )
    checks += [
        Check(ADVICE, Status.PASS, one.sentence(), None, "", one.kernel, hint="the compiler's own remark; not judged")
        for one in evidence.advice
    ]
    if baseline is not None:
        checks.extend(changes(evidence, baseline))
    count = len(evidence.kernels)
    note = "; -maxrregcount has no effect" if any(check.name == "register_cap" for check in checks) else ""
    return conclude(
        "ptxas", checks, passed=f"{count} compiled kernel{'s' * (count != 1)} within budget on {', '.join(evidence.archs)}{note}"
    )


def advice_in(gates: Sequence[GateResult]) -> list[str]:
    """Return the compiler's remarks on costly code that the gate kept, each once."""
    return [str(check.observed) for result in gates if result.gate == "ptxas" for check in result.checks if check.name == ADVICE]


def where(kernel: PtxasKernel) -> str:
    """A kernel as the checks name it: readable name without parameters, and architecture."""
    return f"{without_parameters(kernel.demangled)} {kernel.arch}"


def _presence(evidence: PtxasEvidence) -> Iterator[Check]:
    for arch in evidence.missing_logs:
        yield Check("log", Status.NOT_RUN, None, None, "", arch, codes.NO_LOG, codes.NO_LOG.next_step)
    for problem in evidence.problems:
        yield Check("log", Status.FAIL, problem, None, "", "", codes.LOG_INCOMPLETE, codes.LOG_INCOMPLETE.next_step)
    for arch in evidence.archs:
        if arch in evidence.missing_logs:
            continue
        present = {kernel.base_name for kernel in evidence.kernels if kernel.arch == arch}
        for name in missing_kernels(evidence.expected_kernels, present):
            yield Check(
                "kernel",
                Status.FAIL,
                "not in the log",
                None,
                "",
                f"{name} {arch}",
                codes.KERNEL_MISSING,
                f"the log has {', '.join(sorted(present)) or 'no kernel'}; check toggles and template instances",
            )


def _kernel(kernel: PtxasKernel, evidence: PtxasEvidence, limits: Mapping[str, Any]) -> Iterator[Check]:
    place = where(kernel)
    if kernel.launches and not _listed(kernel, evidence):
        yield Check(
            "kernel",
            Status.FAIL,
            "launched, but not named in task.yaml",
            None,
            "",
            place,
            codes.UNLISTED_KERNEL,
            f"task.yaml names {', '.join(evidence.expected_kernels)}; a launcher must not fall back to another kernel",
        )
    if kernel.arch in evidence.relocatable and kernel.linked is None:
        yield Check(
            "registers",
            Status.INCONCLUSIVE,
            None,
            limits.get("max_registers"),
            "registers/thread",
            place,
            codes.RELOCATABLE,
            codes.RELOCATABLE.next_step,
        )
    else:
        yield from _limit(
            "registers",
            kernel.final.registers,
            limits.get("max_registers"),
            "registers/thread",
            place,
            codes.REGISTERS,
        )
    for name, spilled in (("spill_stores", kernel.spill_store_bytes), ("spill_loads", kernel.spill_load_bytes)):
        yield from _limit(
            name,
            spilled,
            limits.get("max_spill_bytes"),
            "bytes",
            place,
            codes.SPILLS,
        )
    yield from _smem(kernel, evidence, limits.get("max_smem_bytes"))
    chip = chip_of(kernel.arch)
    if chip is None:
        yield Check("chip", Status.INCONCLUSIVE, kernel.arch, None, "", place, codes.UNKNOWN_CHIP, codes.UNKNOWN_CHIP.next_step)
    else:
        for launch in kernel.launches:
            yield from _launch(kernel, launch, chip, evidence)
    if kernel.cross_check not in ("agrees", "not available"):
        yield Check("cubin", Status.FAIL, kernel.cross_check, "agrees", "", place, codes.CUBIN_DIFFERS, codes.CUBIN_DIFFERS.next_step)
    elif kernel.cross_check == "agrees":
        yield Check("cubin", Status.PASS, "agrees", None, "", place)
    for warning in kernel.warnings:
        yield Check("warning", Status.PASS, warning, None, "", place, hint="a remark of the compiler; not judged")


def _limit(name: str, observed: int | None, limit: int | None, unit: str, place: str, code: Code, hint: str = "") -> Iterator[Check]:
    if observed is None:
        yield Check(name, Status.FAIL, None, limit, unit, place, codes.LOG_INCOMPLETE, "the log does not print this figure of the kernel")
    elif limit is not None and not (observed <= limit):
        yield Check(name, Status.FAIL, observed, limit, unit, place, code, hint or code.next_step or code.causes)
    else:
        yield Check(name, Status.PASS, observed, limit, unit, place)


def _listed(kernel: PtxasKernel, evidence: PtxasEvidence) -> bool:
    """Whether the kernel is one of the stage's; all are where task.yaml names none."""
    return not evidence.expected_kernels or kernel.base_name in evidence.expected_kernels


def _smem(kernel: PtxasKernel, evidence: PtxasEvidence, limit: int | None) -> Iterator[Check]:
    place, static = where(kernel), kernel.final.static_smem_bytes
    dynamic = [launch.dynamic_smem_bytes for launch in kernel.launches]
    if static is not None and not dynamic and evidence.launches_recorded and not _listed(kernel, evidence):
        dynamic = [0]  # not a kernel of the stage, and no launch used it: only its own share is judged
    unknown = not dynamic or None in dynamic
    least = None if static is None else static + max((size for size in dynamic if size is not None), default=0)
    if least is None or not unknown or (limit is not None and not (least <= limit)):
        yield from _limit("smem", least, limit, "bytes", place, codes.SMEM)
        if evidence.launches_note and kernel.launches:
            yield Check(
                "dynamic_smem",
                Status.PASS,
                max((size or 0 for size in dynamic), default=0),
                None,
                "bytes",
                place,
                hint=evidence.launches_note,
            )
    else:
        missing = evidence.launches_note or "no launch of this kernel was recorded"
        seen = f"not observed ({evidence.launches_note})" if evidence.launches_note else None
        yield Check(
            "smem",
            Status.INCONCLUSIVE,
            seen,
            limit,
            "" if seen else "bytes",
            place,
            codes.SMEM_UNKNOWN,
            f"{static} bytes static; the dynamic part is unknown: {missing}",
        )
    declared = [launch.declared_smem_bytes for launch in kernel.launches if launch.declared_smem_bytes is not None]
    threads = max((launch.threads_per_cta or 0 for launch in kernel.launches), default=0)
    if static is not None and declared and static - max(declared) >= 4 * max(threads, 1):
        yield Check(
            "smem_beyond_source",
            Status.PASS,
            static - max(declared),
            None,
            "bytes",
            place,
            hint="registers may be spilled to shared memory: the source declares less than ptxas uses",
        )


def _finds_registers(kernel: PtxasKernel, launch: Launch, chip: Chip) -> bool:
    registers, threads = kernel.final.registers, launch.threads_per_cta
    return registers is not None and threads is not None and registers_per_cta(registers, threads) <= chip.registers_per_cta


def _of_another_instance(kernel: PtxasKernel, launch: Launch, chip: Chip, evidence: PtxasEvidence) -> bool:
    """Whether a launch, of which an instance of a template may be given all, can't be of this one.

    ptxas fits a kernel's registers to the CTA of its __launch_bounds__, so a launch within those of the instance that it
    started has its registers. Where this instance lacks them and another one does not, it is the other one's.
    """
    if not (launch.max_threads and launch.threads_per_cta and launch.threads_per_cta <= launch.max_threads):
        return False
    instances = (other for other in evidence.kernels if (other.base_name, other.arch) == (kernel.base_name, kernel.arch))
    return not _finds_registers(kernel, launch, chip) and any(_finds_registers(other, launch, chip) for other in instances)


def _launch(kernel: PtxasKernel, launch: Launch, chip: Chip, evidence: PtxasEvidence) -> Iterator[Check]:
    """What this launch asks of the chip; figures that are unknown were reported by the smem check."""
    static, dynamic, threads = kernel.final.static_smem_bytes, launch.dynamic_smem_bytes, launch.threads_per_cta
    registers = kernel.final.registers
    place = where(kernel)
    if threads is not None:
        yield from _limit("threads_per_cta", threads, chip.threads_per_cta, "threads", place, codes.THREADS)
    if threads is not None and registers is not None and not _of_another_instance(kernel, launch, chip, evidence):
        yield from _limit(
            "registers_per_cta",
            registers_per_cta(registers, threads),
            chip.registers_per_cta,
            "registers",
            place,
            codes.REGISTERS_PER_CTA,
            f"{registers} registers x {threads} threads, rounded up as they are allocated",
        )
    if static is None or dynamic is None:
        return
    total = static + dynamic
    yield from _limit(
        "smem_chip",
        total,
        chip.smem_per_cta,
        "bytes",
        place,
        codes.SMEM_CHIP,
        f"{chip.arch} gives a CTA at most {chip.smem_per_cta} bytes",
    )
    if total > chip.smem_without_opt_in and launch.opt_in_smem_bytes is not None and launch.opt_in_smem_bytes < dynamic:
        yield Check(
            "smem_opt_in",
            Status.FAIL,
            total,
            chip.smem_without_opt_in,
            "bytes",
            place,
            codes.SMEM_OPT_IN,
            f"{dynamic} bytes dynamic and {static} static need cudaFuncSetAttribute(MaxDynamicSharedMemorySize); "
            f"the launcher asked for {launch.opt_in_smem_bytes}",
        )
    if (found := kernel.occupancy_of(launch)) is not None and found.active_ctas:
        yield Check(
            "occupancy",
            Status.PASS,
            round(100 * found.fraction, 2),
            None,
            "%",
            place,
            hint=f"{found.active_ctas} CTAs of {threads} threads an SM, limited by {found.limiter}",
        )
