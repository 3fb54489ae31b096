"""The report's HTML: one file, no script, no request to anywhere, and nothing in it taken for markup but the templates.

Evidence is untrusted: every value is escaped, and characters that steer a terminal or the direction of
writing are shown as codes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gates.core.errors import GatesError
from gates.core.places import is_source
from gates.core.records import shown
from gates.core.text import plain
from gates.gate.correctness.causes import causes, elements_line, map_line
from gates.gate.correctness.evidence import Case, CorrectnessEvidence, OutputErrors
from gates.gate.performance.evidence import MEASURED
from gates.gate.ptxas.judge import advice_in
from gates.render import charts
from gates.render.compare import SHAPES, UNCHANGED, cell, change, differing, is_timed, shape_row
from gates.render.findings import fact, findings
from gates.stats.samples import CANDIDATE

if TYPE_CHECKING:
    from gates.comparison.record import Section
    from gates.review.history import Entry
    from gates.review.report.run_view import Page, RunView

MOST_MAPS = 6
SHOWN_FAULTS = 8
MOST_CHARTS = 6
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Map:
    """An error map in words and as a picture."""

    where: str
    output: str
    line: str
    elements: str
    causes: tuple[str, ...]
    chart: Markup | str


def html(page: Page) -> str:
    """The whole page; ends with a newline."""
    return made(
        "report.html.j2",
        page=page,
        runs=_ranked([_run(view) for view in page.runs]),
        chains=[(chain, _chart(charts.ladder_chart, chain)) for chain in page.chains[:MOST_CHARTS]],
        histories=list(_histories(page.entries)),
        groups=_groups(page.entries),
        shape_columns=SHAPES,
        unchanged=UNCHANGED,
        broken=[entry for entry in page.entries if entry.broken],
    )


def made(template: str, **values: Any) -> str:
    """The page of a template with these values escaped, and the shared ``style``; ends with a newline."""
    style = Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8"))
    return _environment().get_template(template).render(**values, style=style).rstrip() + "\n"


@functools.cache
def _environment() -> Environment:
    """What compiles the templates, each once: a search writes its page again and again."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.tests["source"] = is_source
    environment.filters.update(status=lambda status: status.value.replace("_", " "), shown=shown, us=_us, signed=_signed, share=_share)
    return environment


def _run(view: RunView) -> dict[str, Any]:
    """What the template of a run needs, made from its records."""
    correctness = view.evidence.get("correctness")
    sections = view.comparison.sections if view.comparison else ()
    return {
        "view": view,
        "figures": _figures(view),
        "fact": fact(view.decision, view.verdict.gates, view.reason),
        "faults": findings(view.verdict.gates),
        "shown_faults": SHOWN_FAULTS,
        "advice": advice_in(view.verdict.gates),
        "timing": _timing(view),
        "maps": list(_maps(correctness)) if correctness else [],
        "cases": list(_cases(correctness)) if correctness else [],
        "limits": view.info.task.limits.get("correctness", {}),
        "shapes": [shape_row(speed) for speed in view.comparison.shapes] if view.comparison else [],
        "machine_code": view.comparison.machine_code if view.comparison else None,
        "sections": [_section(section) for section in sections],
        "notes": view.comparison.notes if view.comparison else (),
        "setup": list(_setup(view)),
    }


def _figures(view: RunView) -> tuple[float | None, float | None, float | None]:
    """p50, speed-up and share of the card's limit as the verdict has them, for the list of runs; None where there is none."""
    performance = view.evidence.get("performance")
    p50 = performance.figures.get(performance.gated_mode, {}).get(CANDIDATE) if performance else None
    seen = {check.name: check.observed for result in view.verdict.gates for check in result.checks if result.gate == "performance"}
    speedup, share = (found if isinstance(found := seen.get(name), float) else None for name in ("speedup_p50", "share_of_limit"))
    return (None, None, None) if view.problems else (p50.p50_us if p50 else None, speedup, share)


def _ranked(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs, each with its places in the list by each of its figures: the shortest time first, the largest gain and share first; no
    figure comes last.
    """
    places = []
    for number, sign in enumerate((1.0, -1.0, -1.0)):
        keys = [sign * figure if (figure := run["figures"][number]) is not None else float("inf") for run in runs]
        order = sorted(range(len(runs)), key=lambda index: keys[index])
        places.append([order.index(index) + 1 for index in range(len(runs))])
    return [{**run, "ranks": ranks} for run, ranks in zip(runs, zip(*places, strict=True), strict=True)]


def _chart(draw: Callable[..., Markup], *arguments: Any) -> Markup | str:
    """The drawing, or one sentence on why there is none."""
    try:
        return draw(*arguments)
    except GatesError as error:
        return f"no picture: {error.what}" + (f" ({error.hint})" if error.hint else "")


def _timing(view: RunView) -> Markup | str | None:
    performance = view.evidence.get("performance")
    result = next((result for result in view.verdict.gates if result.gate == "performance"), None)
    limits = view.info.task.limits.get("performance")
    if performance is None or result is None or limits is None or performance.status != MEASURED:
        return None
    return _chart(charts.timing_chart, performance, limits, result)


def _maps(evidence: CorrectnessEvidence) -> Iterator[Map]:
    found = [(case, output) for case in evidence.cases for output in case.outputs if output.error_map is not None]
    for case, output in found[:MOST_MAPS]:
        seen = output.error_map
        assert seen is not None
        yield Map(
            case.where,
            output.name,
            map_line(seen),
            elements_line(seen),
            causes(seen, case.unwritten.get(output.name, 0)),
            _chart(charts.map_chart, seen),
        )


def _cases(evidence: CorrectnessEvidence) -> Iterator[tuple[Case, OutputErrors | None]]:
    for case in evidence.cases:
        yield from ((case, output) for output in case.outputs or (None,))


def _section(section: Section) -> dict[str, Any]:
    timed = is_timed(section)
    rows = [(row.name, row.unit, cell(row.baseline), cell(row.candidate), change(row, timed)) for row in section.rows]
    return {"title": section.title, "rows": rows, "timed": timed, "differ": differing(section)}


def _setup(view: RunView) -> Iterator[tuple[str, str]]:
    info = view.info
    yield "profile", f"{info.profile} ({info.profile_reason})"
    yield (
        "revision",
        info.git.source
        if info.git.sha is None and info.git.dirty
        else f"{(info.git.sha or 'unknown')[:12]}{', uncommitted changes' if info.git.dirty else ''}",
    )
    if info.device is not None:
        yield "device", f"{info.device.name}, compute capability {info.device.compute_capability}, driver {info.device.driver}"
    yield "platform", info.platform
    yield "toggles", _pairs(info.task.toggles)
    yield "shapes", "; ".join(f"{name}: {_pairs(sizes)}" for name, sizes in info.task.shapes.items())
    yield "seeds", ", ".join(map(str, info.task.seeds))
    for gate, limits in info.task.limits.items():
        if limits:
            yield f"limits of {gate}", _pairs(limits)
    yield from ((f"not applicable: {gate}", reason) for gate, reason in info.task.not_applicable.items())
    yield "tools", _pairs({tool: version or "missing" for tool, version in info.toolchain.items()})
    yield "command", " ".join(["gates", *info.argv])


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_pairs(value) if isinstance(value, dict) else value}" for key, value in values.items())


def _groups(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Readable entries by task and device, in the order given."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if not entry.broken:
            groups.setdefault((entry.task, entry.device), []).append(entry)
    return list(groups.values())


def _histories(entries: Sequence[Entry]) -> Iterator[tuple[str, Markup | str, int]]:
    """Device, chart of its timed runs, and how many tasks the chart leaves out (those whose last run is oldest)."""
    timed = [entry for entry in entries if not entry.broken and entry.p50_us is not None]
    for device in list(dict.fromkeys(entry.device for entry in timed))[:MOST_CHARTS]:
        mine = [entry for entry in timed if entry.device == device]
        last = {entry.task: entry.started for entry in mine}
        chosen = sorted(last, key=lambda task: last[task])[-charts.MOST_SERIES :]
        kept = [entry for entry in mine if entry.task in chosen]
        yield device, _chart(charts.history_chart, device, kept), len(last) - len(chosen)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"
