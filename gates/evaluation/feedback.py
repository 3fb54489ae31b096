"""What a search loop reads of an evaluation: the same text for the same input, 4 KiB at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gates.core.records import GateResult, Status, shown
from gates.render.findings import findings
from gates.review.insights.rules import Step

MOST_BYTES = 4096
_FAULTS = 4
_OPEN = (Status.NOT_RUN, Status.INCONCLUSIVE)


def feedback(gates: Sequence[GateResult], metrics: Mapping[str, float], speed: str, steps: Sequence[Step], archs: Mapping[str, str]) -> str:
    """The faults, causes first, with what to do about the first; of a candidate without any, its figures that are not zero, with the
    architectures of those in ``archs``, and what the evidence speaks for next.
    """
    found = findings(gates)
    lines = []
    for one in found[:_FAULTS]:
        lines.append(f"{one.gate}: {one.head} {one.elsewhere()} [{one.code}]".replace("  ", " "))
        if one is found[0] and one.checks:
            lines += [f"  {line}" for line in (one.checks[0].hint, *one.checks[0].notes) if line]
    if len(found) > _FAULTS:
        lines.append(f"and {len(found) - _FAULTS} more: {', '.join(dict.fromkeys(one.code for one in found[_FAULTS:]))}")
    if not found:
        for gate in gates:
            if gate.status in _OPEN:
                lines.append(f"{gate.gate}: {gate.status.value.replace('_', ' ')}: {gate.sentence}")
                lines += [f"  {check.hint}" for check in gate.checks if check.hint][:1]
        lines.append("no check failed" + (f"; {speed}" if speed else ""))
        figures = {name: f"{name} {value:g}" for name, value in metrics.items() if value}
        lines.append(", ".join(f"{text} ({archs[name]})" if name in archs else text for name, text in figures.items()))
        lines += map(_next, steps)
    return cut("\n".join(lines))


def _next(step: Step) -> str:
    """A step with its ceiling and the figures that speak for it."""
    gain = f", {step.gain_pct:+.1f} % at most" if step.gain_pct is not None else ""
    ceiling = f"ceiling {step.ceiling_us:.4g} us{gain}: {step.basis}" if step.ceiling_us is not None else step.basis
    figures = ", ".join(f"{fact.what} {shown(fact.value)} {fact.unit}".strip() for fact in step.evidence)
    return f"next: {step.step} ({ceiling}; {figures})"


def cut(text: str) -> str:
    """The text, or as much of it as is allowed, with a word that it was cut."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MOST_BYTES:
        return data.decode("utf-8")
    return data[: MOST_BYTES - 8].decode("utf-8", "ignore").rstrip() + " [cut]"
