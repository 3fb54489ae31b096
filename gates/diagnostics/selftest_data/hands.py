"""Forge times for `gates selftest`: this process with the kernels claims a quarter of the candidate's times."""

from __future__ import annotations

from gates.gate.performance.runner import hands as timing_hands


class Forging(timing_hands.Hands):
    """Time the candidate's blocks and claim less."""

    def do_block(self, side: str, mode: str, samples: int) -> list[float]:
        """Return times in us per launch, the candidate's divided by four."""
        times = super().do_block(side, mode, samples)
        return [time / 4.0 for time in times] if side == "candidate" else times


def serve() -> None:
    """Run in the process; see ``gates.gate.performance.runner.hands.serve``."""
    timing_hands.serve(Forging)
