"""Items of more.cu: what the emulator was given after the device's recording was made."""

from __future__ import annotations

from functools import lru_cache

import mpmath
import numpy as np
from conformance import inputs as data
from conformance.catalogue import Item, Values, Within
from conformance.elementwise import GUIDE, columns, exact, pairs, steps


def _tail_places() -> Values:
    return data.between(-13, 9, 600, 21)  # below -13 a float's tail is subnormal, above 9 it is 1


def _far_places() -> Values:
    return np.concatenate([_tail_places(), data.between(-37, -13, 300, 22)]).astype(np.float64)


@lru_cache(maxsize=4)
def _tails(places: tuple[float, ...]) -> Values:
    with mpmath.workdps(40):
        return np.array([float(mpmath.ncdf(mpmath.mpf(x))) for x in places])


def _normal_tail(given: Values) -> Values:
    return _tails(tuple(given.astype(np.float64).tolist()))[:, None]


MORE = [
    Item("normal_tail", "more", _tail_places, "f4", len(_tail_places()), ("normcdff",), within=Within(_normal_tail, steps(5), GUIDE)),
    Item(
        "normal_tail_double",
        "more",
        _far_places,
        "f8",
        len(_far_places()),
        ("normcdf",),
        within=Within(_normal_tail, steps(5.5, np.float64), GUIDE),
    ),
    exact(
        "bfloat_pair",
        "more",
        lambda: pairs(data.any_floats(3000, 23), data.any_floats(3000, 24)),
        "u2",
        "__float22bfloat162_rn.x __float22bfloat162_rn.y",
        lambda given: np.stack([data.to_bfloat(given[:, 0]), data.to_bfloat(given[:, 1])], axis=1),
    ),
    exact("assumption", "more", lambda: data.between(-9, 9, 100), "f4", "__builtin_assume", columns(np.abs)),
    exact(
        "libcu",
        "more",
        lambda: np.concatenate([data.between(-9, 9, 100), np.array([3.4028235e38, np.inf], np.float32)]),
        "f4",
        "limits cstdint",
        columns(lambda x: np.where(x < np.float32(3.4028235e38), x, np.float32(0)), lambda x: np.full_like(x, 2)),
    ),
]
