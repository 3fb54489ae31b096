"""One planted defect: what it does, and which gates must turn red."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("numerics", "tails", "indexing", "memory", "contract", "resources")


@dataclass(frozen=True)
class Defect:
    """A defect and what is expected of the gates.

    ``cpu`` and ``device`` name the gates that must be red in that profile, the cheapest first; others may be red
    too. ``only``: "speed" or "stream" where the defect can't show without a device's clock or streams, so
    that it does not count against the ``cpu`` profile.

    A defect is either a patch of the attention kernel at ``stage`` (``edits``: file, text, replacement; the text
    occurs once), or a launcher of the toolbox (``entry``, with the ``kernels`` that its task names).
    """

    name: str
    kind: str
    what: str
    cpu: tuple[str, ...]
    device: tuple[str, ...]
    only: str = ""
    stage: str = ""
    edits: tuple[tuple[str, str, str], ...] = ()
    toggles: tuple[tuple[str, int], ...] = ()  # other than the stage's
    entry: str = ""
    kernels: tuple[str, ...] = ()
    source: str = "mix.cu"  # of the toolbox
    shapes: tuple[str, ...] = ("small",)  # tried with seed 0, beside the problem's odd shapes and input families
    alone: bool = False  # needs the device to itself
    process: bool = False  # ends the process that calls it, or never returns
    time_limit_s: int = 120

    def __post_init__(self) -> None:
        assert self.kind in KINDS and self.only in ("", "speed", "stream"), self.name
        assert bool(self.stage) == bool(self.edits) != bool(self.entry) == bool(self.kernels), self.name
        assert self.cpu or (self.only and self.device), f"{self.name}: no gate must be red"


def patch(
    name: str,
    kind: str,
    what: str,
    stage: str,
    *edits: tuple[str, str, str],
    cpu: tuple[str, ...] = ("correctness",),
    device: tuple[str, ...] = ("correctness",),
    **more: object,
) -> Defect:
    """A patch of the kernel at ``stage``; the correctness gate is red, unless other gates are named."""
    return Defect(name, kind, what, cpu, device, stage=stage, edits=edits, **more)  # type: ignore[arg-type]
