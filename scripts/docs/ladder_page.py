"""The ladders: what each rung was predicted to do (docs/internals/ladder.yaml) beside what its recorded run measured.

A rung without a recorded run is "not measured yet", and stays in every table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate.performance.reading import read
from gates.gate.performance.thresholds import thresholds
from gates.render.ladder import draw, interval_level
from gates.render.markdown import table
from gates.review.ladder import ladder_of
from gates.stats.samples import BASELINE, CANDIDATE

PREDICTIONS = Path(__file__).resolve().parents[2] / "docs" / "internals" / "ladder.yaml"
NOT_YET = "not measured yet"
SLOW = ("math", "efficient")  # never the best of PyTorch's: not in the table


@dataclass(frozen=True)
class Rung:
    """One rung: its prediction, as low and high, and its newest recorded run."""

    name: str
    shape: str
    p50_us: tuple[float, float] | None
    speedup_pct: tuple[float, float] | None
    run: Path | None
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """What a run says of its rung; a figure is None where the run has none."""

    shape: str
    before_us: float | None
    p50_us: float | None
    speedup_pct: tuple[float, float, float] | None  # and the interval's ends
    confidence_pct: float | None  # of the interval
    registers: int | None
    smem_bytes: int | None
    decision: str


def rungs_of(family: str, recorded: Path) -> list[Rung]:
    """The rungs of ``family`` in their order: those of ladder.yaml, and those that only have a run."""
    told = yaml.safe_load(PREDICTIONS.read_text(encoding="utf-8"))[family]
    prefix, folder = told["prefix"], recorded / told["recorded"]
    names = {*told["rungs"], *(path.name for path in folder.glob(f"{prefix}[0-9]*"))}
    in_order = sorted(names, key=lambda name: int(name.removeprefix(prefix).split("_")[0]))
    return [_rung(name, told["rungs"].get(name, {}), folder) for name in in_order]


def _rung(name: str, told: Mapping[str, Any], folder: Path) -> Rung:
    ranges = [tuple(told[key]) if key in told else None for key in ("p50_us", "speedup_pct")]
    return Rung(name, told.get("shape", "mission"), *ranges, next(reversed(list_runs(folder / name)), None), told.get("note", ""))


def measured(run: Path) -> Measured:
    """The figures of a recorded run."""
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    evidence = load_evidence(run)
    performance, ptxas = evidence.get("performance"), evidence.get("ptxas")
    figures = performance.figures.get(performance.gated_mode, {}) if performance else {}
    ruling, limits = None, info.task.limits.get("performance")
    if performance and performance.baseline:
        pct = thresholds(limits).shapes.get(performance.shape) or 0.0
        ruling = read(performance, performance.gated_mode, pct, performance.confidence).ruling
    kernels = [kernel for kernel in ptxas.kernels if kernel.arch.rstrip("af") == "sm_90"] if ptxas else []
    smem = [(k.static_smem_bytes or 0) + max((launch.dynamic_smem_bytes or 0 for launch in k.launches), default=0) for k in kernels]
    return Measured(
        thresholds(limits).first if limits else "",
        *(figures[side].p50_us if side in figures else None for side in (BASELINE, CANDIDATE)),
        tuple((x - 1) * 100 for x in (ruling.interval.ratio, ruling.interval.low, ruling.interval.high)) if ruling else None,
        100.0 * performance.confidence if performance and ruling else None,
        max((kernel.registers or 0 for kernel in kernels), default=None),
        max(smem, default=None),
        verdict.decision.value,
    )


def result_table(family: str, recorded: Path) -> str:
    """One row per rung: its time and its gain over the rung before, each with its prediction, its resources, its decision."""
    rungs = rungs_of(family, recorded)
    found = [measured(rung.run) if rung.run else None for rung in rungs]
    interval, levels = interval_level([one.confidence_pct if one else None for one in found])
    head = ("rung", "before", "p50", "predicted", "gain", interval, "predicted", "registers", "shared memory", "decision")
    rows = [_result(*row, rungs[0].shape) for row in zip(rungs, found, levels, strict=True)]
    return table(head, rows, right=(1, 2, 4, 7, 8))


def _result(rung: Rung, found: Measured | None, level: str, usual_shape: str) -> tuple[str, ...]:
    name = rung.name if rung.shape == usual_shape else f"{rung.name} ({rung.shape})"
    gain = found.speedup_pct[0] if found and found.speedup_pct else None
    predicted_us = _predicted(rung.p50_us, found.p50_us if found else None, "{:g} to {:g} us")
    predicted_pct = _predicted(rung.speedup_pct, gain, "{:+g} to {:+g} %")
    if found is None:
        return name, "-", NOT_YET, predicted_us, "-", "-", predicted_pct, "-", "-", "-"
    reached, interval = _gain(found)
    return (
        name,
        _us(found.before_us),
        _us(found.p50_us),
        predicted_us,
        reached,
        "; ".join(filter(None, (f"{interval} ({level})" if level else interval, rung.note))),
        predicted_pct,
        "-" if found.registers is None else str(found.registers),
        "-" if found.smem_bytes is None else f"{found.smem_bytes / 1024:.1f} KiB",
        found.decision,
    )


def _predicted(span: tuple[float, float] | None, value: float | None, form: str) -> str:
    """The predicted range, and where the measured value lies: below, within or above."""
    if span is None:
        return "-"
    place = _place(value, span)
    return form.format(*span) + (f", {place}" if place else "")


def _place(value: float | None, span: tuple[float, float] | None) -> str:
    if value is None or span is None:
        return ""
    return "below" if value < span[0] else "above" if value > span[1] else "within"


def context_table(family: str, recorded: Path) -> str:
    """One row a shape: its fastest rung and the other implementations timed in that rung's run, cold; they decide nothing."""
    fastest: dict[str, tuple[float, str, Mapping[str, float | None]]] = {}
    for rung in rungs_of(family, recorded):
        for shape, found_us, others in context_times(rung.run) if rung.run else ():
            if shape not in fastest or found_us < fastest[shape][0]:
                fastest[shape] = found_us, rung.name, others
    names = [name for name in dict.fromkeys(name for _, _, others in fastest.values() for name in others) if name not in SLOW]
    if not names:
        return f"Other implementations beside these rungs: {NOT_YET}.\n"
    head = ("shape, cold L2", "fastest rung", "us", *(f"SDPA {name}" for name in names), "best SDPA over rung")
    return table(head, [_context(shape, *fastest[shape], names) for shape in fastest], right=range(2, len(head)))


def _context(shape: str, found_us: float, rung: str, others: Mapping[str, float | None], names: Sequence[str]) -> tuple[str, ...]:
    best = min((us for us in others.values() if us), default=None)
    times = (found_us, *(others.get(name) for name in names))
    return shape, rung, *("-" if us is None else f"{us:.2f}" for us in times), f"{best / found_us:.2f}x" if best else "-"


def context_times(run: Path) -> Iterator[tuple[str, float, dict[str, float | None]]]:
    """(shape, p50 of the rung, p50 of each other implementation) of each shape that the run timed beside others, in us, cold."""
    performance = load_evidence(run).get("performance")
    if performance is None or not performance.backends:
        return
    for shape, rows in performance.rows().items():
        if (found_us := rows[CANDIDATE].cold_us if CANDIDATE in rows else None) is not None:
            yield shape, found_us, {name: row.cold_us for name, row in rows.items() if name not in (CANDIDATE, BASELINE)}


def goals_table(recorded: Path) -> str:
    """One row a goal of ladder.yaml: what is asked, what the rung's recorded run measured, and whether that is enough."""
    told = yaml.safe_load(PREDICTIONS.read_text(encoding="utf-8"))
    rungs = {rung.name: rung for family in ("fp8", "fp16") for rung in rungs_of(family, recorded)}
    head = ("shape", "rung", "L2", "goal", "limit", "measured", "")
    return table(head, [_goal(goal, rungs[goal["rung"]]) for goal in told["goals"]], right=(4, 5))


def _goal(goal: Mapping[str, Any], rung: Rung) -> tuple[str, ...]:
    than, times = goal.get("than"), goal.get("times", 1)
    asked = f"p50 at most {goal['most_us']:g} us" if than is None else f"below {'' if times == 1 else f'{times:g} x '}{than}"
    row = goal["shape"], rung.name, goal["cache"], asked
    performance = load_evidence(rung.run).get("performance") if rung.run else None
    found, other = _times(performance, goal["shape"], goal["cache"], than) if performance else (None, None)
    if found is None:
        return *row, "", NOT_YET, ""
    limit = goal["most_us"] if than is None else other and other * times
    if limit is None:
        return *row, _us(limit), _us(found), ""
    return *row, *_told_apart(limit, found), "met" if found <= limit else "missed"


def _told_apart(limit: float, found: float) -> tuple[str, str]:
    """Both times with two decimals, or as many more as tell them apart."""
    places = next((places for places in range(2, 6) if f"{limit:.{places}f}" != f"{found:.{places}f}"), 2)
    return f"{limit:.{places}f} us", f"{found:.{places}f} us"


def _times(performance: Any, shape: str, cache: str, than: str | None) -> tuple[float | None, float | None]:
    """p50 of the rung and of the other implementation on ``shape``, which is the run's own or one that it timed beside."""
    rows = performance.rows().get(shape, {})
    found, other_row = rows.get(CANDIDATE), rows.get(than)
    return getattr(found, f"{cache}_us", None), getattr(other_row, f"{cache}_us", None)


def chart(family: str, recorded: Path, folder: str = "") -> str:
    """The line of markdown that shows the picture in ``folder``."""
    runs = _charted(family, recorded)
    if not runs:
        return f"Chart: {NOT_YET}; it takes three recorded rungs.\n"
    return f"![p50 of {runs[0].parent.name} to {runs[-1].parent.name}]({folder}{picture_name(family)})\n"


def draw_chart(family: str, recorded: Path, docs: Path) -> None:
    """Draw the picture that ``chart`` shows, as `gates compare A B C … --plot` does."""
    if runs := _charted(family, recorded):
        draw(ladder_of(runs), docs / picture_name(family))


def picture_name(family: str) -> str:
    return f"ladder-{family}.png"


def _charted(family: str, recorded: Path) -> list[Path]:
    """The runs with times on the shape of the family's first rung; none where they are fewer than three, which make no ladder."""
    shape = rungs_of(family, recorded)[0].shape
    runs = [rung.run for rung in rungs_of(family, recorded) if rung.run]
    timed = [run for run in runs if (found := measured(run)).p50_us is not None and found.shape == shape]
    return timed if len(timed) > 2 else []


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} us"


def _gain(found: Measured) -> tuple[str, str]:
    if found.speedup_pct is None:
        return "-", "-"
    gain, low, high = found.speedup_pct
    return f"{gain:+.1f} %", f"{low:+.1f} to {high:+.1f} %"
