"""Every feature that docs/internals/emulator.md lists, on the emulator, against what CUDA promises and what a device gave.

The sources and their items are in studies/conformance/; studies/record_conformance.py records a device.
"""

from __future__ import annotations

import ctypes
import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conformance import catalogue, library, recording
from conformance.items import ITEMS, SOURCES
from places import ROOT

from gates.launch.memory import HostMemory

RECORDED = ROOT / "results" / "recorded" / "h200" / "conformance.json"
HOPPER_SHARED_LIMIT = 227 * 1024

# Documented, and not in an item: why.
WITHOUT_ITEM = {
    "__managed__": "managed memory is left out of runs on a shared device",
    "__trap": "ends the CUDA context: see test_emulator_threads.py",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("conformance")
    with ThreadPoolExecutor(2) as pool:
        built = pool.map(lambda source: ctypes.CDLL(str(library.build_for_emulator(source, folder))), SOURCES)
        loaded = dict(zip(SOURCES, built, strict=True))
    for emulator in loaded.values():
        emulator.gates_emulator_findings.restype = ctypes.c_char_p
    return loaded


def run(libraries: dict[str, ctypes.CDLL], name: str, order: int = 0) -> library.Outcome:
    item = ITEMS[name]
    emulator = libraries[item.source]
    for key, value in (("order", order), ("seed", 5), ("shared_limit_bytes", HOPPER_SHARED_LIMIT)):
        assert emulator.gates_emulator_configure(key.encode(), ctypes.c_int64(value)) == 0
    emulator.gates_emulator_reset()
    outcome = library.call(emulator, item, HostMemory())
    if item.source != "host":
        assert json.loads(emulator.gates_emulator_findings()) == []
    return outcome


@pytest.mark.parametrize("name", ITEMS)
def test_the_emulator_gives_what_cuda_promises(libraries, name):
    item, outcome = ITEMS[name], run(libraries, name)
    assert outcome.code == item.refused
    wanted = item.wanted()
    if wanted is not None:
        assert catalogue.difference(item, outcome.values, wanted, ("the emulator", "numpy")) == ""
    if item.within is not None:
        assert catalogue.outside(item, outcome.values, "the emulator") == ""


@pytest.mark.parametrize("name", [name for name, item in ITEMS.items() if item.source in ("wmma", "warps", "blocks")])
def test_in_every_order(libraries, name):
    outputs = [run(libraries, name, order).values for order in (0, 1, 2)]
    assert outputs[0].tobytes() == outputs[1].tobytes() == outputs[2].tobytes()


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    if not RECORDED.is_file():
        pytest.skip(f"no recording: {RECORDED.relative_to(ROOT)} is made on a device by studies/record_conformance.py")
    return recording.load(RECORDED)


@pytest.mark.parametrize("name", ITEMS)
def test_the_emulator_agrees_with_the_device(libraries, recorded, name):
    assert name in recorded.items, "not recorded"
    outcome = run(libraries, name)
    assert recording.compared(ITEMS[name], outcome.code, outcome.values, recorded.items[name]) == []


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


def test_every_documented_feature_has_an_item():
    code = "".join(re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8")) for path in library.FOLDER.glob("*.cu*"))
    text = (ROOT / "docs" / "internals" / "emulator.md").read_text(encoding="utf-8")
    table = text[text.index("| area |") : text.index("The device is made up")]
    names = set(re.findall(r"`(?:nvcuda::)?(\w+)`", table))
    assert len(names) > 150
    pasted = {"char1": "LAYOUTS(char)"}
    missing = {name for name in names - set(WITHOUT_ITEM) if not re.search(rf"(?<!\w){re.escape(pasted.get(name, name))}(?!\w)", code)}
    assert missing == set()
    assert set(WITHOUT_ITEM) <= names


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
