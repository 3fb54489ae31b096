"""The change of every compiled figure against the baseline, and kernels that came or went."""

from __future__ import annotations

from collections.abc import Iterator

from gates.core.kernel_names import without_parameters
from gates.core.records import Check, Status
from gates.gate.ptxas import codes
from gates.gate.ptxas.evidence import PtxasEvidence, PtxasKernel

FIGURES = {
    "registers": "registers/thread",
    "static_smem_bytes": "bytes",
    "spill_store_bytes": "bytes",
    "spill_load_bytes": "bytes",
    "stack_bytes": "bytes",
    "barriers": "barriers",
}


def changes(evidence: PtxasEvidence, baseline: PtxasEvidence) -> Iterator[Check]:
    """Informational checks for changed figures and new kernels; a failed one for a kernel that vanished.

    A kernel that the baseline's task lists and this one's does not was taken out on purpose.
    """
    for arch in evidence.archs:
        if arch not in baseline.archs or arch in evidence.missing_logs or arch in baseline.missing_logs:
            continue
        ours = [kernel for kernel in evidence.kernels if kernel.arch == arch]
        theirs = [kernel for kernel in baseline.kernels if kernel.arch == arch]
        pairs, new, gone = pair(ours, theirs)
        for kernel, before in pairs:
            yield from _figures(kernel, before)
        for kernel in new:
            yield Check("new_kernel", Status.PASS, "not in the baseline", None, "", _where(kernel))
        for kernel in gone:
            yield _vanished(kernel, evidence, baseline)


def pair(
    ours: list[PtxasKernel], theirs: list[PtxasKernel]
) -> tuple[list[tuple[PtxasKernel, PtxasKernel]], list[PtxasKernel], list[PtxasKernel]]:
    """Pairs of one kernel in two builds, then those only in ours, then those only in theirs.

    First by key; then instances of one template whose arguments changed, where both sides have
    equally many left over.
    """
    before = {kernel.key: kernel for kernel in theirs}
    pairs = [(kernel, before.pop(kernel.key)) for kernel in ours if kernel.key in before]
    matched = {id(kernel) for kernel, _ in pairs}
    new, gone = [kernel for kernel in ours if id(kernel) not in matched], list(before.values())
    for name in sorted({kernel.base_name for kernel in gone}):
        left = sorted((kernel for kernel in new if kernel.base_name == name), key=lambda kernel: kernel.key)
        right = sorted((kernel for kernel in gone if kernel.base_name == name), key=lambda kernel: kernel.key)
        if len(left) == len(right):
            pairs.extend(zip(left, right, strict=True))
            new = [kernel for kernel in new if kernel.base_name != name]
            gone = [kernel for kernel in gone if kernel.base_name != name]
    return pairs, new, gone


def _figures(kernel: PtxasKernel, before: PtxasKernel) -> Iterator[Check]:
    for figure, unit in FIGURES.items():
        old, new = _figure(before, figure), _figure(kernel, figure)
        if old != new and old is not None and new is not None:
            yield Check(f"{figure}_change", Status.PASS, f"{old} -> {new} ({new - old:+d})", None, unit, _where(kernel))
    old, new = _dynamic(before), _dynamic(kernel)
    if old != new and old is not None and new is not None:
        yield Check("dynamic_smem_bytes_change", Status.PASS, f"{old} -> {new} ({new - old:+d})", None, "bytes", _where(kernel))


def _figure(kernel: PtxasKernel, figure: str) -> int | None:
    return getattr(kernel.final, figure, getattr(kernel, figure))


def _dynamic(kernel: PtxasKernel) -> int | None:
    return max((launch.dynamic_smem_bytes for launch in kernel.launches if launch.dynamic_smem_bytes is not None), default=None)


def _vanished(kernel: PtxasKernel, evidence: PtxasEvidence, baseline: PtxasEvidence) -> Check:
    name = kernel.base_name
    if evidence.expected_kernels and name in baseline.expected_kernels and name not in evidence.expected_kernels:
        return Check("dropped_kernel", Status.PASS, "in the baseline, no longer listed", None, "", _where(kernel))
    return Check(
        "kernel",
        Status.FAIL,
        "in the baseline, not in this build",
        None,
        "",
        _where(kernel),
        codes.KERNEL_VANISHED,
        "a renamed kernel, a toggle, or a template that nothing launches any more; if intended, mend `kernels:` in task.yaml",
    )


def _where(kernel: PtxasKernel) -> str:
    return f"{without_parameters(kernel.demangled)} {kernel.arch}"
