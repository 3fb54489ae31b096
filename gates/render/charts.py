"""The report's charts as inline SVG: drawn by matplotlib, coloured by the page.

Text stays text. Black becomes the page's own text colour and the palette becomes CSS variables, so one drawing
serves light and dark. Identifiers are made unique, since a page holds several drawings.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from gates.core.records import GateResult
from gates.core.text import plain, plain_lines
from gates.gate.correctness.error_map import AxisSpan, ErrorMap
from gates.gate.performance.evidence import PerformanceEvidence
from gates.render.figures import BLUE, GREY, load_matplotlib
from gates.render.plot import timing_figure

if TYPE_CHECKING:
    from gates.review.history import Entry
    from gates.review.report.ladders import Chain

# Okabe and Ito's palette, each with a marker of its own
_SERIES = ((BLUE, "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#E69F00", "P"), (GREY, "X"))
_VARIABLES = {
    "#000000": "currentColor",
    "#b0b0b0": "var(--line)",
    **{colour.lower(): f"var(--c{number})" for number, (colour, _) in enumerate(_SERIES)},
}
_CONTEXT = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}
_DRAWINGS = itertools.count(1)
MOST_SERIES = len(_SERIES)


def timing_chart(evidence: PerformanceEvidence, limits: Mapping[str, Any], result: GateResult) -> Markup:
    """The paired samples with clock and power, the pair ratios and the threshold."""
    _, context = load_matplotlib()
    with context(_CONTEXT):
        figure = timing_figure(evidence, limits, result)
    figure.set_layout_engine(None)  # fixed margins: fitting them takes longer than the drawing
    figure.set_size_inches(10, 9)
    figure.subplots_adjust(left=0.115, right=0.93, top=0.89, bottom=0.055, hspace=0.52, wspace=0.14)
    box = figure.axes[0].get_position()  # the samples need no room below for numbers
    figure.axes[0].set_position((box.x0, box.y0 - 0.035, box.width, box.height + 0.035))
    return _inline(figure, f"samples, clock and pair ratios of {evidence.task}")


def ladder_chart(chain: Chain) -> Markup:
    """One bar a stage: its p50, its gain over the stage before and over the first."""
    figure_of, context = load_matplotlib()
    with context(_CONTEXT):
        figure = figure_of(figsize=(8.6, 0.8 + 0.55 * len(chain.steps)), layout="constrained")
        axes = figure.subplots()
        times = [step.entry.p50_us or 0.0 for step in chain.steps]
        bars = axes.barh([_short(step.entry.task, 28) for step in chain.steps], times, color=BLUE, height=0.6)
        axes.bar_label(bars, [_gain(step, chain.steps[0].entry.shape) for step in chain.steps], padding=4, fontsize=9)
        axes.set_xlim(0, 2.2 * max(times))
        axes.invert_yaxis()
        axes.set_xlabel("p50 of a launch (us), each in its own run")
    return _inline(figure, f"ladder of {len(chain.steps)} stages on {chain.device}")


def history_chart(device: str, entries: Sequence[Entry]) -> Markup:
    """p50 over time, one line a task; ``entries`` are timed, of one device, of at most MOST_SERIES tasks."""
    figure_of, context = load_matplotlib()
    with context(_CONTEXT):
        figure = figure_of(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.subplots()
        tasks = list(dict.fromkeys(entry.task for entry in entries))
        for task, (colour, marker) in zip(tasks, _SERIES, strict=False):
            mine = [entry for entry in entries if entry.task == task]
            axes.plot(
                [entry.time for entry in mine],
                [entry.p50_us for entry in mine],
                f"-{marker}",
                color=colour,
                linewidth=1.2,
                markersize=4,
                label=_short(task, 28),
            )
        times = [entry.p50_us or 0.0 for entry in entries]
        if max(times) > 20 * min(times):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.1 * max(times))
        axes.set_ylabel("p50 of a launch (us)")
        _time_axis(axes, entries)
        axes.grid(axis="y", linewidth=0.3)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)
    return _inline(figure, f"history of p50 on {device}")


def map_chart(found: ErrorMap) -> Markup:
    """A strip for each axis of the output: where along it wrong elements lie, whatever the other indices are."""
    figure_of, context = load_matplotlib()
    with context(_CONTEXT):
        figure = figure_of(figsize=(7.2, 0.6 + 0.42 * len(found.axes)), layout="constrained")
        axes = figure.subplots()
        for place, axis in enumerate(found.axes):
            axes.broken_barh([(0.0, 1.0)], (place - 0.35, 0.7), facecolor="none", edgecolor="black", linewidth=0.6)
            spans = [(low / axis.size, (high + 1 - low) / axis.size) for low, high in _wrong(axis)]
            axes.broken_barh(spans, (place - 0.35, 0.7), facecolor="#D55E00", linewidth=0)
        axes.set_yticks(range(len(found.axes)), [f"{_short(axis.name, 12)} (0 to {axis.size - 1})" for axis in found.axes])
        axes.set_xlim(-0.003, 1.003)
        axes.set_ylim(len(found.axes) - 0.5, -0.5)
        axes.set_xticks([])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
    return _inline(figure, "where along each axis wrong elements lie")


def _wrong(axis: AxisSpan) -> Iterator[tuple[int, int]]:
    """Ranges of wrong indices; all repeats of a stripe, and nothing where the map holds only the first ranges."""
    if axis.whole:
        yield 0, axis.size - 1
    elif axis.stripe is not None:
        period, first, last = axis.stripe
        for start in range(0, axis.size, max(period, -(-axis.size // 512))):
            yield min(start + first, axis.size - 1), min(start + last, axis.size - 1)
    else:
        yield from axis.ranges


def _gain(step: Any, usual_shape: str) -> str:
    text = f"{step.entry.p50_us:.2f} us" + (f" on {step.entry.shape}" if step.entry.shape != usual_shape else "")
    if step.ratio is not None:
        text += f", {step.ratio:.2f}x over the stage before"
    more = step.ratio is not None and step.cumulative is not None and step.cumulative != step.ratio
    return text + (f", {step.cumulative:.2f}x in all" if more else "")


def _time_axis(axes: Any, entries: Sequence[Entry]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("start of the run (UTC)")
    axes.margins(x=0.04)


def _short(text: str, most: int) -> str:
    text = plain(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _inline(figure: Any, title: str) -> Markup:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    _, context = load_matplotlib()
    buffer = io.StringIO()
    with context(_CONTEXT), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that matplotlib's own font lacks: the browser's has them
        # savefig would draw everything twice
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = plain_lines(buffer.getvalue())
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.S)
    prefix = f"d{next(_DRAWINGS)}-"
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', lambda match: match[1].replace("xlink:href", "href") + prefix, text)
    text = re.sub(r"#[0-9a-fA-F]{6}\b", lambda match: _VARIABLES.get(match[0].lower(), match[0]), text)
    opening = re.compile(r"<svg [^>]*>")
    box = re.search(r'viewBox="[^"]*"', text)
    start = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(plain(title))}">'
    return Markup(opening.sub(lambda _: start, text, count=1))
