"""The catalogue of conformance items and its recording: whole, of these sources, and noticed where it is edited.

The sources and their items are in studies/conformance/; studies/record_conformance.py records a device.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from conformance import catalogue, library, recording
from conformance.items import ITEMS, SOURCES
from places import ROOT

RECORDED = ROOT / "results" / "recorded" / "h200" / "conformance.json.gz"


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    if not RECORDED.is_file():
        pytest.skip(f"no recording: {RECORDED.relative_to(ROOT)} is made on a device by studies/record_conformance.py")
    return recording.load(RECORDED)


def test_the_recording_is_of_these_sources(recorded):
    assert recorded.sources == {source: library.source_digest(source) for source in SOURCES}


def test_every_launcher_is_an_item_and_every_item_has_one():
    launchers = {
        name
        for source in SOURCES
        for name in re.findall(
            r"^(?:LAUNCHER|ELEMENTWISE)\((\w+)", (library.FOLDER / f"{source}.cu").read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert launchers == {item.entry for item in ITEMS.values()}


def test_values_survive_storing_and_edits_are_noticed():
    item = ITEMS["half_to_fp8"]
    wanted = item.wanted()
    stored = recording.entry(item, library.Outcome(0, "", wanted))
    assert recording.values_of(item, stored).tobytes() == wanted.tobytes() and len(stored["values"]) < 2000
    other = wanted.copy()
    other[77] ^= 1
    edited = recording.entry(item, library.Outcome(0, "", other))
    assert recording.values_of(item, edited).tobytes() == other.tobytes()
    assert "1 of" in catalogue.difference(item, other, wanted, ("a", "b"))
    assert recording.compared(item, 0, wanted, edited)
    with pytest.raises(ValueError, match="stored digest"):
        recording.values_of(item, {**stored, "values": edited["values"]})
    with pytest.raises(ValueError, match="another input"):
        recording.values_of(item, {**stored, "input_sha256": "0"})


@pytest.mark.parametrize("name", [name for name, item in ITEMS.items() if item.within is not None])
def test_a_bound_can_be_broken(name):
    item = ITEMS[name]
    with np.errstate(all="ignore"):
        exact = item.within.exact(item.given())
    exact = np.broadcast_to(exact, (item.length // len(item.columns), len(item.columns)))
    finite = int(np.flatnonzero(np.isfinite(exact.reshape(-1)) & (exact.reshape(-1) != 0))[-1])
    allowed = np.broadcast_to(item.within.tolerance(item.given(), exact), exact.shape).reshape(-1)[finite]
    assert allowed < 0.6 * max(abs(exact.reshape(-1)[finite]), 0.1), "a bound that anything meets is none"
