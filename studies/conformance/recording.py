"""The recorded values of a device: results/recorded/<device>/conformance.json.gz."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.catalogue import Item, Values, decode, difference, digest, encode, largest_error, outside
from conformance.library import Outcome

from gates.core import jsonio

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Recording:
    """A recording; ``items`` maps a name to what ``entry`` made of its outcome."""

    device: str
    sources: dict[str, str]
    items: dict[str, Any]


def entry(item: Item, outcome: Outcome) -> dict[str, Any]:
    """What is stored of one outcome: plain data."""
    stored = {
        "input_sha256": digest(item.given()),
        "code": outcome.code,
        "error": outcome.error,
        "sha256": digest(outcome.values),
        "values": encode(item, outcome.values),
    }
    if item.within is not None:
        stored["largest_error_over_bound"] = round(largest_error(item, outcome.values), 4)
    return stored


def load(path: Path) -> Recording:
    """Raises GatesError, ValueError or KeyError where the file is none."""
    data = jsonio.read(path)
    if data["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"{path}: schema version {data['schema_version']}, this is for {SCHEMA_VERSION}")
    return Recording(data["device"]["name"], data["sources"], data["items"])


def values_of(item: Item, stored: dict[str, Any]) -> Values:
    """The recorded values; raises ValueError where they are of another input, or not whole."""
    if stored["input_sha256"] != digest(item.given()):
        raise ValueError(f"{item.name}: recorded with another input; record anew")
    values = decode(item, stored["values"])
    if digest(values) != stored["sha256"]:
        raise ValueError(
            f"{item.name}: the stored values don't have the stored digest; were they edited, or is the expectation another now?"
        )
    return values


def compared(item: Item, code: int, values: Values, stored: dict[str, Any]) -> list[str]:
    """How the emulator's outcome and the device's disagree, and where the device's own is not what CUDA promises."""
    if stored["error"] or stored["code"] != item.refused:
        return [f"{item.name}: the device's launcher returned {stored['code']} {stored['error']}, {item.refused} was expected"]
    if code != stored["code"]:
        return [f"{item.name}: the launcher returned {code} on the emulator, {stored['code']} on the device"]
    if item.refused:
        return []
    recorded, wanted = values_of(item, stored), item.wanted()
    if item.within is not None:
        found = [outside(item, recorded, "the device")]
    else:
        found = [difference(item, values, recorded, ("the emulator", "the device"))]
        found += [] if wanted is None else [difference(item, recorded, wanted, ("the device", "numpy"))]
    return [text for text in found if text]
