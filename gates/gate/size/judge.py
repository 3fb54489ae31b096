"""Is the compiled code no larger than it may be?

What: the bytes that a device loads, summed over the cubins of an architecture: code and constants, without line tables. At most
`max_bytes`, and at most `max_growth_pct` percent more than the baseline's. Only a task that names `size` under `gates` has this gate.

Why: code that outgrows the instruction cache stalls, and each module takes time to load.

Example: `max_growth_pct: 10` and a loop that is now unrolled 64 times gives
    growth (sm_90): 401.4 %, limit 10 %

Limits: instances that are never launched count, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.records import Check, GateResult, Status, conclude
from gates.gate.size import codes
from gates.gate.size.evidence import SizeEvidence


def judge(evidence: SizeEvidence, limits: Mapping[str, Any], baseline: SizeEvidence | None = None) -> GateResult:
    """The verdict. ``limits``: max_bytes, max_growth_pct (either may be absent)."""
    checks = [
        Check("cubin", Status.INCONCLUSIVE, problem, None, "", "", codes.UNREADABLE, codes.UNREADABLE.next_step)
        for problem in evidence.problems
    ]
    for arch in evidence.archs:
        checks += _arch(arch, evidence.of(arch), limits, baseline.of(arch) if baseline else None)
    if not limits:
        checks.append(Check("limits", Status.INCONCLUSIVE, None, None, "", "", codes.NO_LIMITS, codes.NO_LIMITS.next_step))
    sizes = ", ".join(f"{evidence.of(arch):,} bytes on {arch}" for arch in evidence.archs if evidence.of(arch) is not None)
    return conclude("size", checks, passed=f"compiled code within its limits: {sizes}")


def _arch(arch: str, seen: int | None, limits: Mapping[str, Any], before: int | None) -> Iterator[Check]:
    most, growth = limits.get("max_bytes"), limits.get("max_growth_pct")
    if seen is None:
        yield Check("bytes", Status.NOT_RUN, None, most, "bytes", arch, codes.NO_BINARY, codes.NO_BINARY.next_step)
        return
    if most is not None and not (seen <= most):
        yield Check("bytes", Status.FAIL, seen, most, "bytes", arch, codes.TOO_LARGE, codes.TOO_LARGE.causes)
    else:
        yield Check("bytes", Status.PASS, seen, most, "bytes", arch)
    if growth is None:
        return
    if not before:
        yield Check("growth", Status.INCONCLUSIVE, None, growth, "%", arch, codes.NO_BASELINE, codes.NO_BASELINE.next_step)
        return
    more = 100.0 * (seen - before) / before
    if not (100.0 * seen <= before * (100.0 + growth)):
        yield Check("growth", Status.FAIL, more, growth, "%", arch, codes.GREW, f"{before:,} -> {seen:,} bytes. {codes.GREW.causes}")
    else:
        yield Check("growth", Status.PASS, more, growth, "%", arch, hint=f"{before:,} -> {seen:,} bytes")
