"""The figures of docs/internals/emulator.md, from recorded files."""

from __future__ import annotations

from pathlib import Path

from gates.core import jsonio
from gates.render.markdown import table


def figures(recorded: Path) -> str:
    """What devices recorded for comparison (conformance.json, random-ptx.json), and how fast the emulator is (cpu/speed.json)."""
    compared = []
    for data in map(jsonio.read, sorted(recorded.glob("*/conformance.json"))):
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
            table(("one core", "million warp instructions/s"), speeds, right=(1,)),
        )
    )
