"""The gate's session without what the verdict on p50 does not rest on: so more verdicts fit into the time."""

from __future__ import annotations

from typing import Any

from gates.gate.performance.runner.session import Session


class ShortSession(Session):
    """Calibration, control, pairs, looks and output checks are the gate's own; the context beside them is left out."""

    def _other_mode(self, mode: str, launches: Any, sample_us: float, limited: bool) -> list[Any]:
        return []

    def _single(self, launches: Any, gated: Any, kernel_us: float, limited: bool) -> None:
        return None
