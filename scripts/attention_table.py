"""kernels/attention.json: the fastest kernel at each shape that studies/attention_speed.py measured, by which attention(q, k, v) picks.

python scripts/attention_table.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gates.core import jsonio
from kernels.loader import KERNELS

ROOT = Path(__file__).resolve().parent.parent
RECORDED = {"9.0": "h200/attention.json"}  # by compute capability, below results/recorded/
TABLE = ROOT / "kernels" / "attention.json"


def table(recorded: Path) -> dict[str, Any]:
    """By compute capability: the card, and a row for each measured shape."""
    found = {}
    for capability, name in RECORDED.items():
        data = jsonio.read(recorded / name)
        found[capability] = {"card": data["device"], "rows": [_row(row) for row in data["rows"]]}
    return found


def _row(row: dict[str, Any]) -> dict[str, Any]:
    batch, heads, queries, keys, width, causal = row["shape"]
    times = {name: one["us"] for name, one in row["contenders"].items() if name in KERNELS and "us" in one}
    fastest = min(times, key=times.__getitem__)
    return {"heads": batch * heads, "queries": queries, "keys": keys, "width": width, "causal": causal, "fastest": fastest}


if __name__ == "__main__":
    jsonio.write(TABLE, table(ROOT / "results" / "recorded"))
