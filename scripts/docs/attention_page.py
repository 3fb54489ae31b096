"""The table of attention's speed in docs/internals/ladder.md, from the recorded answer of studies/attention_speed.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.render.markdown import table

STAGE = "fp16_v11_pingpong"
OTHERS, FA4 = ("cudnn", "flash"), "fa4"
LARGE = 2**30  # products of a query, a key and an element of D: smaller shapes of D = 64 are in other tables


def speed_table(recorded: Path) -> str:
    """One row per shape of D = 128, and per large one of D = 64: p50 of the stage and of others in the same run, in us."""
    data = jsonio.read(recorded / "h200" / "attention.json")
    head = ("B·H·Sq·Sk·D, us", STAGE, "best of PyTorch", "FlashAttention-4", "best over ours")
    return table(head, [_row(row) for row in data["rows"] if _is_told(*row["shape"])], right=(1, 2, 3, 4))


def _is_told(batch: int, heads: int, queries: int, keys: int, width: int, _: bool) -> bool:
    return width == 128 or batch * heads * queries * keys >= LARGE


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    found = {name: one["us"] for name, one in row["contenders"].items() if "us" in one}
    best = min((name for name in OTHERS if name in found), key=found.__getitem__)
    *sizes, causal = row["shape"]
    shape = "·".join(map(str, sizes)) + " causal" * causal
    others = [found[name] for name in (best, FA4) if name in found]
    fa4 = f"{found[FA4]:.1f}" if FA4 in found else "-"
    return shape, f"{found[STAGE]:.1f}", f"{found[best]:.1f} {best}", fa4, f"{min(others) / found[STAGE]:.2f}x"
