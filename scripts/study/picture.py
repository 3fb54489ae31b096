"""The plot of docs/performance-gate.md: every verdict's interval, by truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {"pass": "tab:green", "fail": "tab:red", "inconclusive": "tab:gray"}


def draw(studies: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """One panel a truth; a line is one gate's 98.3 % interval, in the order of the gates, coloured by its verdict."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {"1.00": 0.0, "1.13": 15.0, "1.17": 15.0}
    figure, axes = pyplot.subplots(1, len(panels), figsize=(12, 4), layout="constrained")
    for axis, (truth, bar) in zip(axes, panels.items(), strict=True):
        place, ticks = 0, []
        for run, study in studies.items():
            for name, gates in study["gates"].items():
                if f"truth {truth}" not in name or not gates:
                    continue
                ticks.append((place, f"{name.split(',')[0]}, {run}"))
                for gate in gates:
                    axis.vlines(place, gate["low"], gate["high"], color=COLOURS[gate["status"]], linewidth=2)
                    place += 1
        axis.axhline(1 + bar / 100, color="black", linestyle="--", linewidth=1)
        axis.set_xticks([x for x, _ in ticks], [label for _, label in ticks], rotation=20, ha="left", fontsize=7)
        axis.set_title(f"true ratio {truth}, bar {1 + bar / 100:.2f} (dashed)")
    axes[0].set_ylabel("ratio, 98.3 % interval of each gate\n(green pass, red fail, grey inconclusive)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
