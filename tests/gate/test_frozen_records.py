"""What the gates and the statistics keep can't be changed after it was built."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from types import ModuleType

import pytest

import gates.gate
import gates.stats

CHANGING = {"gates.gate.session.Session", "gates.stats.simulated_device.SimulatedDevice"}  # a run in progress; a device has a clock


def below(package: ModuleType) -> list[str]:
    """The modules of a package that need no torch."""
    return [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if ".runner" not in info.name]


@pytest.mark.parametrize("name", [*below(gates.gate), *below(gates.stats)])
def test_records_are_frozen(name: str) -> None:
    module = importlib.import_module(name)
    for found in vars(module).values():
        if isinstance(found, type) and found.__module__ == name and not issubclass(found, Exception):
            if dataclasses.is_dataclass(found):
                assert found.__dataclass_params__.frozen or f"{name}.{found.__name__}" in CHANGING, found  # type: ignore[attr-defined]
            else:
                assert "__annotations__" not in vars(found) or hasattr(found, "_fields"), f"{found} has fields and is no dataclass"
