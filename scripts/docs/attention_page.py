"""The table of attention's speed in docs/internals/ladder.md, from the recorded answer of studies/attention_speed.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.render.markdown import table

STAGES = ("fp16_v10_hopper", "fp16_v11_pingpong")
OTHERS = ("cudnn", "flash")
WIDTH = 128  # D of the rows: those of 64 are in other tables


def speed_table(recorded: Path) -> str:
    """One row per shape of D = 128: p50 of the stages and of the best of PyTorch's backends in the same run, in us."""
    data = jsonio.read(recorded / "h200" / "attention.json")
    head = ("B·H·Sq·Sk·D, us", *STAGES, "best of PyTorch", "over it")
    return table(head, [_row(row) for row in data["rows"] if row["shape"][4] == WIDTH], right=(1, 2, 3, 4))


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    found = {name: one["us"] for name, one in row["contenders"].items() if "us" in one}
    best = min((name for name in OTHERS if name in found), key=found.__getitem__)
    *sizes, causal = row["shape"]
    shape = "·".join(map(str, sizes)) + " causal" * causal
    ours = found[STAGES[-1]]
    return shape, *(f"{found[name]:.1f}" for name in STAGES), f"{found[best]:.1f} {best}", f"{found[best] / ours:.2f}x"
