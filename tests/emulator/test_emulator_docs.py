"""docs/internals/emulator.md names what the emulator has, no more and no less."""

from __future__ import annotations

import re

from places import ROOT

from gates.emulator import unsupported
from gates.emulator.flags import INCLUDE_DIR
from gates.emulator.runtime_object import SOURCE

TEXT = (ROOT / "docs" / "internals" / "emulator.md").read_text(encoding="utf-8")
HEADERS = "\n".join(path.read_text(encoding="utf-8") for path in (*INCLUDE_DIR.rglob("*.h"), *SOURCE.parent.iterdir()))
REWRITER = "\n".join(path.read_text(encoding="utf-8") for path in INCLUDE_DIR.parent.glob("*.py"))


def section(start: str, end: str) -> str:
    return TEXT[TEXT.index(start) : TEXT.index(end, TEXT.index(start))]


def test_documented_headers_are_the_headers() -> None:
    documented = set(re.findall(r"`([\w./]+)`", section("Supported headers:", "| area |")))
    own = INCLUDE_DIR / "gates_emulator"
    assert documented == {
        path.relative_to(INCLUDE_DIR).as_posix() for path in INCLUDE_DIR.rglob("*") if path.is_file() and own not in path.parents
    }


def test_every_documented_name_exists() -> None:
    table = section("| area |", "The device is made up")
    names = {name for name in re.findall(r"`(\w+)`", table) if not re.fullmatch(r"char1|double4|printf", name)}
    assert len(names) > 150
    # vector types and fp8 types are made by macros that paste their names together
    pasted = {"make_float4": "make_##name##4"}
    for name in names:
        known = pasted.get(name, re.sub(r"^(__nv_fp8(?:x[24])?_)e[45]m[32]$", r"\1##suffix", name))
        assert re.search(rf"(?<!\w){re.escape(known)}(?!\w)", HEADERS + REWRITER), name


def test_unsupported_features_are_the_documented_ones() -> None:
    listed = " ".join(section("Not supported, each", "### A host version").split())
    features = {feature for feature, _ in (*unsupported.IDENTIFIERS.values(), *unsupported.HEADERS.values())}
    assert sorted(feature for feature in features if feature.removeprefix("the ") not in listed) == []


def test_finding_kinds_are_the_documented_ones() -> None:
    table = section("| kind |", "The library exports")
    documented = {kind for row in table.splitlines()[2:] for kind in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
    raised = set(re.findall(r'fatal\(\w+, "(\w+)"', HEADERS)) | set(re.findall(r'(?:add|keep)_finding\("(\w+)"', HEADERS))
    assert documented == raised | {"barrier_divergence", "deadlock", "more_findings"}


def test_configuration_keys_are_the_documented_ones() -> None:
    sentence = section("`gates_emulator_configure(key, value)`", "## Sanitizers")
    assert set(re.findall(r"`(\w+)`", sentence)) == set(re.findall(r'is\("(\w+)"\)', HEADERS))
