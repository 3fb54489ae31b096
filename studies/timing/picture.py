"""The plots of docs/internals/timing-study.md: every verdict's interval by truth, and the usual ways beside the gate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timing.report import usual_ratios

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


def draw_usual(studies: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """A dot a verdict: found ratio over true ratio, by way of timing, with the share that is on the wrong side of 1.15."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for way, size, _, found in usual_ratios(studies):
        for truth, ratios in found.items():
            rows.setdefault((size, way), []).extend((ratio / float(truth), (ratio >= 1.15) != (truth == "1.17")) for ratio in ratios)
    sizes = list(dict.fromkeys(size for size, _ in rows))
    figure, axes = pyplot.subplots(1, len(sizes), figsize=(12, 4), layout="constrained", squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        ways = [(way, dots) for (found, way), dots in rows.items() if found == size]
        for place, (_, dots) in enumerate(ways):
            for wrong, colour in ((False, COLOURS["pass"]), (True, COLOURS["fail"])):
                shown = [min(1.25, max(0.75, ratio)) for ratio, is_wrong in dots if is_wrong == wrong]
                axis.plot(shown, [place] * len(shown), "o", color=colour, alpha=0.5, markersize=5)
        axis.set_yticks(
            range(len(ways)), [f"{way}: {sum(wrong for _, wrong in dots)} of {len(dots)} wrong" for way, dots in ways], fontsize=8
        )
        axis.set_ylim(len(ways) - 0.5, -0.5)
        axis.axvline(1.0, color="black", linestyle="--", linewidth=1)
        axis.set_title(f"kernels of {size}")
        axis.set_xlabel("found / true ratio (cut at 0.75 and 1.25)")
    figure.suptitle("true ratios 1.00, 1.13, 1.17 against 1.15: green right, red wrong side", fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
