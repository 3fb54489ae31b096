"""The figures of docs/internals/emulator.md, from recorded files."""

from __future__ import annotations

from pathlib import Path

from gates.core import jsonio
from gates.render.markdown import table

FAMILIES = {"fp8": "stage", "fp16": "fp16_"}  # how the names of a ladder's stages begin


def thorough_sets(recorded: Path) -> list[tuple[str, ...]]:
    """For each ladder: its stages, the cases and launches of their thorough runs (cpu/stages.json), and how many stages passed."""
    stages, rows = jsonio.read(recorded / "cpu" / "stages.json")["stages"], []
    for family, start in FAMILIES.items():
        own = [row for name, row in stages.items() if name.startswith(start)]
        passed = [row for row in own if {row["gates"][gate] for gate in ("ptxas", "sass", "correctness", "sanitizer")} == {"pass"}]
        counts = (len(own), sum(row["cases"] for row in own), sum(row["launches"] for row in own), len(passed))
        rows.append((family, *(f"{count:,}" for count in counts)))
    return rows


def figures(recorded: Path) -> str:
    """What devices recorded for comparison (conformance.json.gz, random-ptx.json), the thorough runs of the shipped stages, and how fast
    the emulator is (cpu/speed.json).
    """
    compared = []
    for data in map(jsonio.read, sorted(recorded.glob("*/conformance.json.gz"))):
        compared.append(("kernels", data["device"]["name"], f"{len(data['items']):,}"))
    for data in map(jsonio.read, sorted(recorded.glob("*/random-ptx.json"))):
        for what, equal in (("instructions", "instructions_equal"), ("programs", "equal")):
            compared.append((what, data["device"]["name"], f"{data[equal]:,} of {data[what]:,}"))
    speeds = []
    for group, rates in jsonio.read(recorded / "cpu" / "speed.json")["million_a_second"].items():
        least, most = min(rates.values()), max(rates.values())
        speeds.append((group, f"{most:g}" if least == most else f"{least:g} to {most:g}"))
    return "\n".join(
        (
            table(("compared", "with", "agree"), compared, right=(2,)),
            table(("ladder", "stages", "thorough cases", "launches", "passed"), thorough_sets(recorded), right=(1, 2, 3, 4)),
            table(("one core", "million warp instructions/s"), speeds, right=(1,)),
        )
    )
