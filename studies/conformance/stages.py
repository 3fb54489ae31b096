"""Outputs of the shipped stages on a device beside those of the emulator: how far apart, and how they are stored."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

SMALL_SHAPES, ALL_SHAPES, SEEDS = ("small", "tail", "odd"), ("small", "tail", "odd", "mission"), (0, 1, 2)
KEPT_SEED = 0  # whose raw outputs are stored
LEAST_WITHIN_1_ULP = 0.999
Values = np.ndarray


def places(bits: Values) -> Values:
    """Halves, given as uint16 patterns, counted along the number line: neighbours are 1 apart, both zeros are 0."""
    magnitude = (bits & 0x7FFF).astype(np.int32)
    return np.where(bits & 0x8000, -magnitude, magnitude)


def compared(device: Values, emulator: Values, exact: Values) -> dict[str, Any]:
    """How far two outputs (uint16 patterns of halves) are from each other and from the exact float64 result.

    NaN in both is no agreement: it counts as the largest distance.
    """
    apart = np.abs(places(device) - places(emulator))
    numbers = [bits.view(np.float16).astype(np.float64) for bits in (device, emulator)]
    finite = np.isfinite(numbers[0]) & np.isfinite(numbers[1])
    apart = np.where(finite, apart, 65535)
    return {
        "elements": int(device.size),
        "equal": float(np.mean(apart == 0)),
        "within_1_ulp": float(np.mean(apart <= 1)),
        "largest_ulp": int(apart.max()),
        "largest_difference": _largest(numbers[0] - numbers[1]),
        "device_max_abs_err": _largest(numbers[0] - exact),
        "emulator_max_abs_err": _largest(numbers[1] - exact),
    }


def passes(figures: Mapping[str, Any], max_abs_err: float) -> bool:
    """Whether the two agree as they must: nearly everywhere within one step, everywhere within the gate's limit."""
    return (
        figures["within_1_ulp"] >= LEAST_WITHIN_1_ULP
        and figures["device_max_abs_err"] <= max_abs_err
        and figures["emulator_max_abs_err"] <= max_abs_err
        and figures["largest_difference"] <= max_abs_err
    )


def _largest(values: Values) -> float:
    return float(np.abs(values).max()) if np.isfinite(values).all() else 1e30


def encode(bits: Values, base: Values | None) -> str:
    """Patterns, less those of another stage: stages differ in few elements."""
    words = bits if base is None else bits - base
    return base64.b64encode(zlib.compress(words.astype("<u2").tobytes(), 9)).decode("ascii")


def decode(text: str, base: Values | None, count: int) -> Values:
    """What ``encode`` stored; raises ValueError where it is not ``count`` halves."""
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 2 * count + 1)
    if len(raw) != 2 * count:
        raise ValueError(f"{len(raw)} bytes stored, {2 * count} expected")
    words = np.frombuffer(raw, "<u2").astype(np.uint16)
    return words if base is None else words + base
