"""The picture of a timing run: its samples in time order with clock and power, and its pair ratios against the threshold.

Sides differ in colour (Okabe and Ito's palette, told apart by colour-blind readers) and in marker, so the
picture also works in grey.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.core.records import GateResult
from gates.gate.performance.evidence import MEASURED, PerformanceEvidence
from gates.gate.performance.reading import Reading, read
from gates.gate.performance.thresholds import thresholds
from gates.render.figures import BLUE, GREY, load_matplotlib, require_suffix, save
from gates.stats.samples import BASELINE, CANDIDATE, CONTROL, Block, Series
from gates.stats.sampling import differences

_ORANGE, _GREEN = "#D55E00", "#009E73"
_STYLE = {CANDIDATE: (BLUE, "o"), BASELINE: (_ORANGE, "s"), CONTROL: (_GREEN, "^")}


def draw(evidence: PerformanceEvidence, limits: Mapping[str, Any], result: GateResult, out: Path) -> None:
    """Write the picture of ``evidence`` to ``out`` (.png or .svg); ``result`` is the gate's verdict on it.

    Raises GatesError for a run without timing samples, for another suffix, without matplotlib, and
    where the file can't be written.
    """
    require_suffix(out, "-o")
    save(timing_figure(evidence, limits, result), out, load_matplotlib()[1], hint="name a writable file with -o")


def timing_figure(evidence: PerformanceEvidence, limits: Mapping[str, Any], result: GateResult) -> Any:
    """The picture as a matplotlib figure; raises as ``draw`` does for a run without samples and without matplotlib."""
    if evidence.status != MEASURED:
        raise GatesError(f"the run has no timing samples: {evidence.message} ({evidence.code})", hint="a run on a CUDA device has them")
    bar_pct = thresholds(limits).shapes.get(evidence.shape) or 0.0
    reading = read(evidence, limits.get("cache", "cold"), bar_pct, evidence.confidence)
    blocks = _in_time_order(evidence, reading.mode)
    if not any(block.samples_us for block in blocks):
        raise GatesError(f"the run has no timing samples in mode {reading.mode}", hint="run the stage again on a CUDA device")
    return _figure(evidence, bar_pct, result, reading, blocks)


def _in_time_order(evidence: PerformanceEvidence, mode: str) -> list[Block]:
    """The blocks of the mode; the control's pair n was taken right after pair n."""
    series = evidence.in_mode(mode)
    taken = list(series.blocks) if series and (evidence.baseline is not None or evidence.control is None) else []
    control = list(evidence.control.blocks) if evidence.control and mode == evidence.gated_mode else []
    return sorted([*taken, *control], key=lambda block: block.pair)  # stable, so the order within a pair stays


def _figure(
    evidence: PerformanceEvidence,
    bar_pct: float,
    result: GateResult,
    reading: Reading,
    blocks: Sequence[Block],
) -> Any:
    figure_of, context = load_matplotlib()
    with context({"font.size": 9, "axes.spines.top": False, "svg.hashsalt": "gates", "text.parse_math": False}):
        figure = figure_of(figsize=(10, 8.4), layout="constrained")
        grid = figure.add_gridspec(3, 2, height_ratios=(3.2, 1.4, 2.6))
        samples = figure.add_subplot(grid[0, :])
        state = figure.add_subplot(grid[1, :], sharex=samples)
        against = f" against {evidence.baseline}" if evidence.baseline else ""
        figure.suptitle(
            f"{evidence.task}{against}: {result.status.value.replace('_', ' ')}\n{_wrapped(result.sentence)}",
            fontsize=10,
        )
        _samples(samples, evidence, blocks)
        _state(state, blocks)
        _ratios(figure.add_subplot(grid[2, 0]), evidence, reading, bar_pct)
        _close(figure.add_subplot(grid[2, 1]), evidence, reading, bar_pct)
    return figure


def _samples(axes: Any, evidence: PerformanceEvidence, blocks: Sequence[Block]) -> None:
    names = {
        CANDIDATE: f"{evidence.task} ({CANDIDATE})",
        BASELINE: f"{evidence.baseline or ''} ({BASELINE})",
        CONTROL: "control: a second load of one library",
    }
    for side in dict.fromkeys(block.side for block in blocks):
        colour, marker = _STYLE[side]
        axes.plot([], [], marker, color=colour, markersize=2.6, markerfacecolor=_face(side), markeredgewidth=0.6, label=names[side])
        for valid in (True, False):  # one artist for many blocks: drawing takes its time by the artist
            placed = [
                point for place, block in enumerate(blocks) if (block.side, block.valid) == (side, valid) for point in _points(place, block)
            ]
            axes.plot(
                [x for x, _ in placed],
                [y for _, y in placed],
                marker,
                color=colour,
                markersize=2.6,
                markerfacecolor=_face(side),
                markeredgewidth=0.6,
                alpha=1.0 if valid else 0.3,
            )
    sampled = [(place, block.median_us) for place, block in enumerate(blocks) if block.samples_us]
    axes.hlines(
        [median for _, median in sampled],
        [place + 0.1 for place, _ in sampled],
        [place + 0.9 for place, _ in sampled],
        color="black",
        linewidth=1.2,
    )
    for place, block in enumerate(blocks):
        if not block.valid:
            axes.axvspan(place, place + 1, color=GREY, alpha=0.15, hatch="///", linewidth=0)
    axes.plot([], [], color="black", linewidth=1.2, label="median of a block")
    if any(not block.valid for block in blocks):
        axes.fill_between([], [], color=GREY, alpha=0.15, hatch="///", label="disturbed, taken again")
    _limit_times(axes, blocks)
    axes.set_ylabel("time of a launch (us)")
    axes.tick_params(labelbottom=False)
    _legend_above(axes, 3)
    axes.grid(axis="y", linewidth=0.3)


def _points(place: int, block: Block) -> list[tuple[float, float]]:
    """The block's samples, spread over its place on the axis."""
    count = len(block.samples_us)
    return [(place + 0.1 + 0.8 * (index + 0.5) / count, sample) for index, sample in enumerate(block.samples_us)]


def _face(side: str) -> str:
    return _STYLE[side][0] if side == CANDIDATE else "none"


def _limit_times(axes: Any, blocks: Sequence[Block]) -> None:
    """Room around the samples; a few stalls must not flatten all others, so they are counted, not drawn."""
    samples = [sample for block in blocks for sample in block.samples_us]
    medians = [block.median_us for block in blocks if block.samples_us]
    low, high = min(samples), max(samples)
    if high > 1.5 * max(medians):
        high = 1.2 * max(medians)
        above = sum(sample > high for sample in samples)
        axes.text(
            0.995,
            0.97,
            f"{above} slower samples above, up to {max(samples):.4g} us",
            ha="right",
            va="top",
            fontsize=8,
            transform=axes.transAxes,
        )
    margin = max(0.15 * (high - low), 0.02 * high)
    axes.set_ylim(max(0.0, low - margin), high + margin)


def _state(axes: Any, blocks: Sequence[Block]) -> None:
    places = [place + 0.5 for place in range(len(blocks))]
    axes.set_xlabel("blocks in the order in which they were taken")
    axes.set_xlim(0, len(blocks))
    clocks = [block.sm_mhz for block in blocks]
    power = [block.power_w for block in blocks]
    if not any(value is not None for value in [*clocks, *power]):
        axes.set_yticks([])
        axes.text(0.5, 0.5, "the driver told neither clock nor power", ha="center", va="center", transform=axes.transAxes)
        return
    lines = []
    if any(value is not None for value in clocks):
        lines += axes.plot(places, _gaps(clocks), "-o", color="black", markersize=2.5, linewidth=1, label="SM clock")
        known = [value for value in clocks if value is not None]
        axes.set_ylim(min(known) * 0.95, max(known) * 1.03)
    axes.set_ylabel("SM clock (MHz)")
    if any(value is not None for value in power):
        right = axes.twinx()
        lines += right.plot(places, _gaps(power), "--", color=_ORANGE, linewidth=1.2, label="power (right)")
        right.set_ylim(0, max(value for value in power if value is not None) * 1.25)
        right.set_ylabel("power (W)")
    _legend_above(axes, 2, handles=lines)


def _ratios(axes: Any, evidence: PerformanceEvidence, reading: Reading, bar_pct: float) -> None:
    """Everything on one axis: noise floor, threshold, control pairs, and where the pairs lie."""
    bar = 1.0 + bar_pct / 100.0
    rows: list[str] = []
    if reading.floor_pct is not None:
        floor = reading.floor_pct / 100.0
        axes.axvspan(1 - floor, 1 + floor, color=_GREEN, alpha=0.35, linewidth=0, label=f"noise floor 1 ± {floor:.4f}")
    if evidence.control is not None:
        control = _pair_ratios(evidence.control, BASELINE if evidence.baseline else CANDIDATE, CONTROL)
        axes.plot(control, [len(rows)] * len(control), "^", color=_GREEN, markerfacecolor="none", markersize=5)
        rows.append("control pairs")
    series = evidence.in_mode(reading.mode)
    if series is not None and evidence.baseline is not None:
        ratios = _pair_ratios(series)
        axes.axvline(bar, color="black", linestyle="--", linewidth=1.4, label=f"threshold {bar:.3f}")
        axes.plot(ratios, [len(rows)] * len(ratios), "o", color=BLUE, markersize=5, alpha=0.7)
        rows.append("pairs")
    if reading.ruling is not None:
        found = reading.ruling.interval
        axes.errorbar(
            [found.ratio],
            [len(rows)],
            xerr=[[found.ratio - found.low], [found.high - found.ratio]],
            fmt="D",
            color="black",
            capsize=5,
            markersize=4,
        )
        rows.append("ratio, interval")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("ratio: baseline's time / candidate's time" if evidence.baseline else "ratio: control's time / candidate's time")
    axes.ticklabel_format(axis="x", useOffset=False)
    _legend_above(axes, 2)


def _close(axes: Any, evidence: PerformanceEvidence, reading: Reading, bar_pct: float) -> None:
    """The distribution of the pair ratios, close up."""
    series = evidence.in_mode(reading.mode)
    if reading.ruling is None or series is None:
        axes.set_axis_off()
        text = "too few pairs for an interval" if evidence.baseline else "no baseline, so there is no ratio to judge"
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
        return
    found, bar, ratios = reading.ruling.interval, 1.0 + bar_pct / 100.0, _pair_ratios(series)
    low, high = min(*ratios, found.low), max(*ratios, found.high)
    margin = max((high - low) * 0.12, 1e-4)
    bins = {"bins": min(24, max(6, len(ratios) // 2)), "range": None if max(ratios) - min(ratios) > 1e-9 else (low - margin, high + margin)}
    label = f"{100 * reading.confidence:.1f} % interval {found.low:.4f} to {found.high:.4f}"
    axes.hist(ratios, **bins, color=BLUE, alpha=0.45, edgecolor=BLUE, label=f"{len(ratios)} pairs")
    axes.axvspan(found.low, found.high, color=GREY, alpha=0.22, linewidth=0, label=label)
    axes.axvline(found.ratio, color="black", linewidth=1.4, label=f"ratio {found.ratio:.4f}")
    axes.plot(ratios, [-0.3] * len(ratios), "|", color=BLUE, markersize=9)
    if low - margin <= bar <= high + margin:
        axes.axvline(bar, color="black", linestyle="--", linewidth=1.4, label=f"threshold {bar:.3f}")
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(bottom=-0.6)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_xlabel("ratio, close up")
    axes.set_ylabel("pairs")
    _legend_above(axes, 2)


def _legend_above(axes: Any, columns: int, **options: Any) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False, fontsize=8, **options)


def _pair_ratios(series: Series, first: str = CANDIDATE, second: str = BASELINE) -> list[float]:
    return [math.exp(difference) for difference in differences(series, first, second)]


def _gaps(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 120))
