"""A ladder of stages as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gates.core.errors import GatesError
from gates.core.records import Decision
from gates.render.figures import BLUE, GREY, load_matplotlib, save
from gates.render.markdown import escape, table

if TYPE_CHECKING:
    from gates.review.ladder import Ladder, Rung


def markdown(ladder: Ladder) -> str:
    """Decision first, then a row a stage, then what is not known and why."""
    ends = f"{ladder.rungs[0].task} to {ladder.rungs[-1].task}"
    first = ladder.rungs[0]
    head, levels = interval_level([rung.confidence_pct for rung in ladder.rungs])
    rows = [
        (
            rung.task if rung.shape == first.shape else f"{rung.task} ({rung.shape})",
            rung.title,
            rung.decision.value,
            _us(rung),
            _step(rung, level),
            _times(rung.cumulative if rung.p50_us is not None else None),
        )
        for rung, level in zip(ladder.rungs, levels, strict=True)
    ]
    notes = [f"- {escape(rung.task)}: {escape(rung.note)}\n" for rung in ladder.rungs if rung.note]
    notes += [
        f"- {escape(rung.task)} is {rung.decision.value}: {escape(rung.reason)}\n"
        for rung in ladder.rungs
        if rung.decision.value != "merge"
    ]
    return "\n".join(
        [
            f"# {ladder.decision.value}: {escape(ends)}\n",
            f"{escape(ladder.rungs[0].device or 'no CUDA device')}\n",
            table(("stage", "what", "decision", "p50", f"over the stage before ({head})", "over the first"), rows, right=(3, 5)),
            *(["".join(notes)] if notes else []),
        ]
    )


def draw(ladder: Ladder, out: Path) -> None:
    """Bars of p50 by stage, of those timed on the shape of the first, each with its gain over the stage before and over the first one.

    Raises GatesError for a ladder without times, without matplotlib, and where ``out`` can't be written.
    """
    rungs = [rung for rung in ladder.rungs if rung.p50_us is not None and rung.shape == ladder.rungs[0].shape]
    if not rungs:
        raise GatesError("no run of the ladder has times", hint="runs on a CUDA device have them")
    figure_of, context = load_matplotlib()
    with context({"axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False}):
        figure = figure_of(figsize=(1.5 + 1.7 * len(rungs), 4), layout="constrained")
        axis = figure.subplots()
        names = [rung.task if rung.decision is Decision.MERGE else f"{rung.task}\n({rung.decision.value})" for rung in rungs]
        colours = [BLUE if rung.decision is Decision.MERGE else GREY for rung in rungs]
        bars = axis.bar(names, [rung.p50_us for rung in rungs], color=colours, width=0.6)
        axis.bar_label(bars, [f"{_us(rung)}\n{_times(rung.ratio) if rung.ratio else ''}" for rung in rungs], padding=3, fontsize=9)
        axis.set_ylabel("p50 of one launch (us), each in its own run")
        axis.set_ylim(0, 1.25 * max(rung.p50_us or 0.0 for rung in rungs))
        whole = (
            f"{_times(rungs[-1].cumulative)} over {rungs[0].task}"
            if rungs[-1].cumulative is not None
            else f"{rungs[0].task} to {rungs[-1].task}"
        )
        axis.set_title(f"{whole}\nover each bar: p50, and the gain over the stage before", fontsize=11)
        axis.tick_params(axis="x", labelsize=8)
    save(figure, out, context, hint="name a writable folder with --out")


def interval_level(levels_pct: Sequence[float | None]) -> tuple[str, list[str]]:
    """Return the head of a column of intervals and each row's confidence. The head has the confidence if all rows share it."""
    shown = [None if pct is None else f"{pct:.1f} %" for pct in levels_pct]
    known = set(filter(None, shown))
    if len(known) == 1:
        return f"{known.pop()} interval", [""] * len(shown)
    return "interval", [level or "" for level in shown]


def _us(rung: Rung) -> str:
    return "-" if rung.p50_us is None else f"{rung.p50_us:.2f} us"


def _step(rung: Rung, level: str) -> str:
    if rung.ratio is None or rung.low is None or rung.high is None:
        return "-"
    interval = f"{rung.low:.3f} to {rung.high:.3f}"
    return f"{rung.ratio:.3f}x ({', '.join(filter(None, (interval, level)))})"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"
