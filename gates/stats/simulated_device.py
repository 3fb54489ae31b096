"""A device whose truth is known, with the troubles of a real one: for tests of the protocol."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from gates.stats.samples import State
from gates.stats.sampling import BlockTimer


class SimulatedDevice:
    """Times kernels of ``true_us`` a launch (by side) on a card that warms up, drifts, dips and stalls.

    The card's speed falls by ``warm_up_pct`` over the first second, wanders by ``drift_pct`` and dips by
    ``dip_pct`` for 50 ms about ``dips_per_s`` times a second; ``counted`` says whether the driver's
    throttle counter shows the dips. ``order_bias_pct`` slows whatever block follows a block of another
    side. ``clock_exponent`` says by side how a time follows the clock: 1 like arithmetic, 0 like memory.
    Samples are means over ``launches`` launches and come in steps of ``step_us / launches``.
    """

    def __init__(
        self,
        true_us: Mapping[str, float],
        *,
        seed: int,
        launches: int = 50,
        jitter_pct: float = 1.2,
        outlier_share: float = 0.02,
        outlier_pct: float = 30.0,
        warm_up_pct: float = 3.0,
        drift_pct: float = 2.0,
        dips_per_s: float = 0.3,
        dip_pct: float = 15.0,
        counted: bool = False,
        order_bias_pct: float = 0.0,
        step_us: float = 0.032,
        clock_exponent: Mapping[str, float] | None = None,
        base_mhz: float = 1980.0,
        side_mhz: Mapping[str, float] | None = None,
    ) -> None:
        self._true_us, self._random, self._launches = dict(true_us), random.Random(seed), launches
        self._jitter, self._outlier_share, self._outlier = jitter_pct / 100, outlier_share, outlier_pct / 100
        self._warm_up, self._drift, self._dip = warm_up_pct / 100, drift_pct / 100, dip_pct / 100
        self._dips_per_s, self._counted, self._bias = dips_per_s, counted, order_bias_pct / 100
        self._step_us, self._exponent = step_us, dict(clock_exponent or {})
        self._base_mhz, self._side_mhz = base_mhz, dict(side_mhz or {})
        self._now_s, self._dip_until_s, self._throttled_ns = 0.0, -1.0, 0
        self._phase = self._random.uniform(0, 2 * math.pi)
        self._last_side, self._mhz = "", base_mhz

    def clock(self) -> float:
        """Seconds since the start, in the device's own time."""
        return self._now_s

    def read_state(self) -> State:
        """Clock and throttle counter at this instant."""
        return State(sm_mhz=self._mhz, mem_mhz=2619.0, power_w=400.0, temperature_c=50.0, throttle_ns={"thermal": self._throttled_ns})

    def side(self, name: str) -> BlockTimer:
        """The block timer of one side."""
        return lambda samples: self._block(name, samples)

    def _block(self, side: str, samples: int) -> Sequence[float]:
        """Return ``samples`` times of ``side``, and advance the card's clock. A study of error rates draws millions of them."""
        follows = bool(self._last_side) and side != self._last_side
        self._last_side = side
        gauss, random_share, exp, sin = self._random.gauss, self._random.random, math.exp, math.sin
        true_us, bias, exponent = self._true_us[side], 1 + self._bias if follows else 1.0, self._exponent.get(side, 1.0)
        base_mhz, side_mhz, mhz = self._base_mhz, self._side_mhz.get(side, self._base_mhz), self._mhz
        launches, now_s, taken = self._launches, self._now_s, list[float]()
        for _ in range(samples):
            dips = now_s < self._dip_until_s
            slow = self._warm_up * (1 - exp(-now_s / 0.3))
            mhz = side_mhz * ((1 - slow) * (1 + self._drift * sin(self._phase + now_s)) * (1 - self._dip if dips else 1.0))
            taken_us = true_us * (base_mhz / mhz) ** exponent * bias * exp(gauss(0, self._jitter))
            if random_share() < self._outlier_share:
                taken_us *= 1 + self._random.expovariate(1 / self._outlier)
            total_us = taken_us * launches
            taken.append(max(0.0, round(total_us / self._step_us) * self._step_us) / launches)
            seconds = total_us * 1e-6
            if dips and self._counted:
                self._throttled_ns += int(seconds * 1e9)
            now_s += seconds
            if random_share() < self._dips_per_s * seconds:
                self._dip_until_s = now_s + 0.05
        self._now_s, self._mhz = now_s, round(mhz / 15) * 15 if samples else self._mhz
        return taken
