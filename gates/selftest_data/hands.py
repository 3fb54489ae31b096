"""A forger for `gates selftest`: the process with the kernels, which claims a quarter of the candidate's times."""

from __future__ import annotations

from gates.run import timing_hands


class Forging(timing_hands.Hands):
    """Times the candidate's blocks and claims less."""

    def do_block(self, side: str, mode: str, samples: int) -> list[float]:
        """Times in us a launch, the candidate's divided by four."""
        times = super().do_block(side, mode, samples)
        return [time / 4.0 for time in times] if side == "candidate" else times


def serve() -> None:
    """The process; see ``timing_hands.serve``."""
    timing_hands.serve(Forging)
