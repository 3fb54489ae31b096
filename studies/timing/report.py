"""The tables of docs/internals/timing-study.md, from the JSON files of a study. Only A/A families are pooled, since cards differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.render.markdown import table
from gates.stats import stopping_rule
from timing import plan

START, END = "<!-- generated: timing study -->", "<!-- end of timing study -->"
TRUTHS = ("1.00", "1.13", "1.17")
EMPTY_PAIR_US = 1.25  # the least that the recorded stage runs on this model of card show (calibration.empty_pair_us)
Studies = Mapping[str, Mapping[str, Any]]


def load(*folders: Path) -> dict[str, dict[str, Any]]:
    """Studies by file name, with what their folder's runs.json says of them (commit, note)."""
    studies = {}
    for folder in folders:
        known = jsonio.read(folder / "runs.json")
        for path in sorted(folder.glob("*.json*")):
            if (name := path.name.partition(".")[0]) != "runs":
                studies[name] = {**jsonio.read(path), **known.get(name, {})}
    return studies


def into_page(page: str, studies: Studies) -> str:
    """The page with its generated part made anew."""
    head, _, rest = page.partition(START)
    _, found, tail = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no lines {START} and {END}")
    return f"{head}{START}\n{tables(studies)}{END}{tail}"


def tables(studies: Studies) -> str:
    """All tables, and what was left out."""
    parts = [
        "\n".join(
            f"- run **{name}**: {study['device']['name']}, commit {study.get('commit', 'unknown')}. {study.get('note', '')}".rstrip()
            for name, study in studies.items()
        ),
        "A/A gates must call at most 1 of 50 copies faster, and A/A families at most 5 % of them faster or slower. At a true ratio of "
        "1.13 no gate may pass; at 1.17 none may fail and 95 % must pass.",
        table(("asked", "run", "measured", "holds"), [*_answers(studies), *_families(studies)]),
        "The true ratios of the chains are known in three ways: interleaved rounds at a study's start, the straight line time = floor "
        "+ steps x step, "
        f"and the clock cycles that the kernel counts plus that floor. They agree within {_truths_agree_pct(studies):.1f} %.",
    ]
    if usual := list(_usual(studies)):
        parts += [
            f"Ratios by the usual ways at {plan.MAIN[0]}, all of A and then all of B, with (wrong side of 1.15 / number of ratios):",
            table(("way", "run", *(f"true {truth}" for truth in TRUTHS)), usual),
        ]
    if checks := list(_crosscheck(studies)):
        parts += [
            "One kernel's time by another tool in us, and how far the gate's time is above it:",
            table(("tool", "gate's mode", "size", *(f"run {run}" for run, study in studies.items() if "crosscheck" in study)), checks),
        ]
    parts.append("Left out for lack of device time: " + "; ".join(_left_out(studies)) + ".")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def redecided(gate: Mapping[str, Any]) -> str:
    """The ruling on a stored gate at bar 0 % with the event pair's share counted: above, below or open."""
    taken = [math.log(two / one) for one, two in gate["block_medians_us"]]
    samples_us = (
        min(gate["launches"]["candidate"] * one for one, _ in gate["block_medians_us"]),
        min(gate["launches"]["baseline"] * two for _, two in gate["block_medians_us"]),
    )
    share_pct = sum(100.0 * EMPTY_PAIR_US / sample_us for sample_us in samples_us)
    found = stopping_rule.rule(taken, 0.0, gate["floor_pct"] + share_pct, gate["seed"])
    return found.outcome if found else stopping_rule.OPEN


def _answers(studies: Studies) -> Iterator[tuple[str, ...]]:
    for run, study in studies.items():
        gates = {name: found for name, found in study["gates"].items() if found}
        for size in plan.SIZES_US:
            if found := gates.get(f"{size}, truth 1.00, bar 0 %"):
                wrong = [one["status"] for one in found].count("pass")
                yield (f"A/A at {size}", run, f"{wrong} of {len(found)} faster", _holds(wrong <= 1, len(found) >= 25))
                if wrong:
                    again = sum(redecided(one) == stopping_rule.ABOVE for one in found)
                    yield ("the same by today's rule", run, f"{again} of {len(found)} faster", _holds(again <= 1, True))
            for truth, right in ((1.13, "fail"), (1.17, "pass")):
                if found := gates.get(f"{size}, truth {truth:.2f}, bar 15 %"):
                    statuses = [one["status"] for one in found]
                    good = (
                        "pass" not in statuses
                        if right == "fail"
                        else "fail" not in statuses and statuses.count("pass") >= 0.95 * len(statuses)
                    )
                    yield (f"truth {truth:.2f} at {size}", run, _tally(statuses), _holds(good, len(found) >= 20))
        for name, what in (("stage pair", "one process for all"), ("stage pair, own process", "a process each")):
            if len(found := gates.get(name, [])) > 1:
                statuses, seconds = [one["status"] for one in found], statistics.median(one["wall_s"] for one in found)
                ratios = [one["ratio"] for one in found]
                if name == "stage pair":
                    yield (
                        f"stage2 against stage3, mission, {len(found)} gates, {what}",
                        run,
                        f"{_tally(statuses)}; ratio {min(ratios):.3f} to {max(ratios):.3f}",
                        _holds(len(set(statuses)) == 1, len(found) >= 20),
                    )
                extra = (
                    f" (importing torch and starting CUDA alone: {study['torch_start_s']:.1f} s)"
                    if name != "stage pair" and "torch_start_s" in study
                    else ""
                )
                yield (
                    f"time of one verdict, mission, {what}, {len(found)} gates",
                    run,
                    f"{seconds:.1f} s, asked 5 s{extra}",
                    _holds(seconds < 5, True),
                )


def _families(studies: Studies) -> Iterator[tuple[str, ...]]:
    """The A/A families of all runs in one row: what a run's device time left undone, another one adds."""
    taken = {run: found for run, study in studies.items() if (found := study["gates"].get("family"))}
    if every := [one for found in taken.values() for one in found]:
        decided = sum(one["status"] in ("pass", "fail") for one in every)
        yield (
            f"A/A families of {len(plan.FAMILY)} shapes",
            ", ".join(taken),
            f"{decided} of {len(every)} faster or slower",
            _holds(decided <= 0.05 * len(every), len(every) >= plan.FAMILIES),
        )


def _truths_agree_pct(studies: Studies) -> float:
    """The largest difference between two of a chain's three true ratios, in percent."""
    apart = 0.0
    for study in studies.values():
        floor = study["fit"]["floor_us"]
        for sides in study["truth"].values():
            base = sides["1.00"]
            for side in (sides["1.13"], sides["1.17"]):
                by_cycles = (floor + side["cycles"] / 1980.0) / (floor + base["cycles"] / 1980.0)
                ratios = (side["ratio"], side["ratio_by_fit"], by_cycles)
                apart = max(apart, 100 * (max(ratios) / min(ratios) - 1))
    return apart


def usual_ratios(studies: Studies) -> Iterator[tuple[str, str, str, dict[str, list[float]]]]:
    """(way, size, run, {truth: ratios found}) of the usual ways, and of the gate itself at the same sizes."""
    for run, study in studies.items():
        for size, by_truth in study["usual"].items():
            for way in next(iter(by_truth.values()))[0]:
                yield way, size, run, {name: [one[way] for one in found] for name, found in by_truth.items()}
    for run, study in studies.items():
        for size in plan.MAIN:
            names = {f"{truth:.2f}": f"{size}, truth {truth:.2f}, bar {bar} %" for truth, bar in ((1.0, 0), (1.13, 15), (1.17, 15))}
            found = {truth: [one["ratio"] for one in study["gates"].get(name, [])] for truth, name in names.items()}
            if any(found.values()):
                yield "this gate", size, run, found


def _usual(studies: Studies) -> Iterator[tuple[str, ...]]:
    """A row per way and run that has all three true ratios, at the shortest size; the plot shows the others too."""
    for way, size, run, found in usual_ratios(studies):
        if size == plan.MAIN[0] and all(found.get(truth) for truth in TRUTHS):
            yield way, run, *(_span(found[truth], truth) for truth in TRUTHS)


def _span(ratios: list[float], truth: str) -> str:
    wrong = sum((ratio >= 1.15) != (truth == "1.17") for ratio in ratios)
    return f"{min(ratios):.3f}-{max(ratios):.3f} ({wrong}/{len(ratios)})"


def _crosscheck(studies: Studies) -> Iterator[tuple[str, ...]]:
    """A row a tool and size: for each run the tool's time and how far the gate's of the same kind is above it."""
    pairs = (
        ("CUPTI, cold", "gate, cold"),
        ("CUPTI, warm", "gate, warm"),
        ("NVBench, cold", "gate, single launches"),
        ("NVBench, batch", "gate, warm"),
    )
    checked = {run: study["crosscheck"] for run, study in studies.items() if "crosscheck" in study}
    for other, own in pairs:
        for size in next(iter(checked.values()), {}):
            cells = [_above(found.get(size, {}), other, own) for found in checked.values()]
            if any(cells):
                yield other, own.removeprefix("gate, "), size, *cells


def _above(found: Mapping[str, Any], other: str, own: str) -> str:
    us = found.get(other)
    return f"{us:.2f}, {100 * (found[own] / us - 1):+.1f}%" if isinstance(us, float) else ""


def _left_out(studies: Studies) -> list[str]:
    have = {name: max(len(study["gates"].get(name, [])) for study in studies.values()) for name in _wanted()}
    have["family"] = sum(len(study["gates"].get("family", [])) for study in studies.values())
    left = [f"{name}: {count - have[name]} of {count} gates" for name, count in _wanted().items() if have[name] < count]
    for what, key in (("the usual ways of timing", "usual"), ("times by CUPTI and NVBench", "crosscheck")):
        if not any(study.get(key) for study in studies.values()):
            left.append(what)
    return left or ["nothing"]


def _wanted() -> dict[str, int]:
    return {cell.name: cell.gates for cell in (*plan.same(1.0), *plan.cells(1.0, list(plan.SIZES_US)))} | {
        "stage pair": 20,
        "family": plan.FAMILIES,
    }


def _holds(good: bool, complete: bool) -> str:
    return ("yes" if complete else "so far") if good else "no"


def _tally(statuses: list[str]) -> str:
    return ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))
