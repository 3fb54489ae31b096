"""A sweep as a table for a terminal, as CSV, as JSON data, and as a picture of time against resources."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.core.text import plain
from gates.evidence.run_directory import require_outside_a_run
from gates.render.figures import BLUE, GREY, load_matplotlib, require_suffix, save

if TYPE_CHECKING:
    import pandas

    from gates.sweep.record import Sweep, Timing, Variant

_ORANGE = "#D55E00"
_OUT_HINT = "name a writable file with --plot"
_WHOLE = ("registers", "smem_bytes", "spill_bytes")
_WORST: dict[str, Callable[[list[float]], float]] = {**dict.fromkeys(_WHOLE, max), "occupancy_pct": min}
_MARKERS = (("left", BLUE, "o"), ("dropped", GREY, "x"), ("incumbent", "black", "s"), ("reference", "black", "D"), ("winner", _ORANGE, "*"))
_AXES = (
    ("registers", "registers per thread", 1.0),
    ("smem_bytes", "shared memory of a CTA (KiB)", 1024.0),
    ("occupancy_pct", "theoretical occupancy (%)", 1.0),
)


def frame(sweep: Sweep) -> pandas.DataFrame:
    """One row a variant, in the order tried: its swept toggles, resources, verdicts and newest timing.

    Resources are the worst over kernels and, without a device, over architectures. ``p50_us`` of the reference is the
    median over the timings against it. ``state`` is dropped, winner, incumbent, reference (where the incumbent was
    dropped) or left.
    """
    import pandas

    return pandas.DataFrame([_row(sweep, variant) for variant in sweep.variants]).astype(dict.fromkeys(_WHOLE, "Int64"))


def sweep_table(sweep: Sweep) -> str:
    """The variants as plain text, the fastest first; below, each reason with the variants dropped for it, and who won."""
    import pandas

    table = frame(sweep)
    kept = table[table["state"] != "dropped"].sort_values("p50_us", kind="stable", na_position="last")
    lines = [f"{sweep.task}: {len(table)} variants, {len(kept)} left, {len(table) - len(kept)} dropped", ""]
    if len(kept):
        lines += [f"resources: the worst of all kernels on {', '.join(_archs(sweep))}", ""]
        shown = pandas.DataFrame({name: kept[name] for name in sweep.params})
        shown["registers"] = kept["registers"].map(_figure) + _placed(sweep, kept, "registers")
        shown["spills"] = kept["spill_bytes"].map(_figure)
        shown["shared KiB"] = kept["smem_bytes"].map(lambda value: _figure(value / 1024, ".1f"))
        shown["occupancy"] = kept["occupancy_pct"].map(lambda value: _figure(value, ".0f", " %")) + _placed(sweep, kept, "occupancy_pct")
        shown["correct"] = kept["correctness"]
        if sweep.rounds:
            shown["p50 us"] = kept["p50_us"].map(lambda value: _figure(value, ".3f"))
            against = "incumbent" if sweep.reference == sweep.incumbent else sweep.reference
            shown[f"against {against}"] = [
                f"{row.ratio:.4f} ({row.low:.4f} to {row.high:.4f})" if row.low == row.low else _figure(row.ratio, ".4f")
                for row in kept.itertuples()
            ]
            if kept["limit_pct"].notna().any():
                shown["of the limit"] = kept["limit_pct"].map(lambda value: _figure(value, ".0f", " %"))
        shown["state"] = kept["state"]
        lines += [shown.to_string(index=False, justify="left"), ""]
    lines += _dropped(sweep)
    lines.append(f"ranking: {sweep.ranking or 'not over'}")
    if sweep.winner is not None:
        lines.append(f"winner: {sweep.winner} ({plain(sweep.winner_reason)})")
    if sweep.run is not None:
        lines.append(f"its run: {sweep.run}, decision {sweep.decision}")
    return "\n".join(lines)


def sweep_csv(sweep: Sweep) -> str:
    """The variants as CSV with a header line, times in full."""
    table = frame(sweep)
    return table.assign(dropped=table["dropped"].map(plain)).to_csv(index=False, lineterminator="\n")


def sweep_json(sweep: Sweep) -> Any:
    """The sweep as JSON data: what sweep.json holds."""
    return to_json(sweep)


def require_drawable(out: Path) -> None:
    """Raise GatesError where no picture could be written to ``out``, whose folder is made; a sweep may take hours before there is one."""
    require_suffix(out, "--plot")
    load_matplotlib()
    require_outside_a_run(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_file() or not out.exists():  # a pipe or a device is opened once, for the picture
            with out.open("ab") if out.exists() else tempfile.TemporaryFile(dir=out.parent):
                pass
    except OSError as error:
        raise GatesError(f"can't write {out}: {error.strerror}", hint=_OUT_HINT) from None


def draw(sweep: Sweep, out: Path) -> None:
    """Write the picture of p50 against registers, shared memory and occupancy to ``out`` (.png or .svg).

    Raises GatesError for a sweep that timed nothing, and as ``require_drawable`` does.
    """
    require_drawable(out)
    table = frame(sweep)
    timed = table[table["p50_us"].notna()]
    if not len(timed):
        raise GatesError(f"the sweep of {sweep.task} timed nothing: {sweep.ranking}", hint="a sweep on a CUDA device has times")
    figure_of, context = load_matplotlib()
    with context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "gates", "text.parse_math": False}):
        figure = figure_of(figsize=(11, 4.2), layout="constrained")
        figure.suptitle(f"{sweep.task}: {len(timed)} of {len(table)} variants timed, winner {sweep.winner or '-'}", fontsize=10)
        for axes, (column, label, unit) in zip(figure.subplots(1, 3, sharey=True), _AXES, strict=True):
            for state, colour, marker in _MARKERS:
                rows = timed[timed["state"] == state]
                axes.plot(
                    rows[column].astype(float) / unit,
                    rows["p50_us"],
                    marker,
                    color=colour,
                    markersize=11 if state == "winner" else 5,
                    label=state if len(rows) else None,
                )
            axes.set_xlabel(label)
            axes.grid(linewidth=0.3)
        figure.axes[0].set_ylabel("p50 (us)")
        figure.axes[0].legend(frameon=False, fontsize=8)
    save(figure, out, context, hint=_OUT_HINT)


def _dropped(sweep: Sweep) -> list[str]:
    """Each reason once, with how many variants were dropped for it and which."""
    reasons: dict[str, list[Variant]] = {}
    for variant in sweep.variants:
        if variant.dropped:
            reasons.setdefault(variant.dropped, []).append(variant)
    tried = {name: {variant.toggles[name] for variant in sweep.variants} for name in sweep.params}
    lines = []
    for reason, variants in sorted(reasons.items(), key=lambda item: -len(item[1])):
        which = compact(tried, [variant.toggles for variant in variants])
        lines += (
            [f"  {which}: {plain(reason)}"] if len(variants) == 1 else [f"  {len(variants)} variants: {plain(reason)}", f"      {which}"]
        )
    return ["dropped:", *lines, ""] if lines else []


def compact(tried: Mapping[str, Set[int]], variants: Sequence[Mapping[str, int]]) -> str:
    """The variants as combinations, such as ``M=16,32 N=8; M=64``: a parameter of which all
    values that were tried go along is not named.
    """
    boxes: list[tuple[tuple[int, ...], ...]] = [tuple((one[name],) for name in tried) for one in variants]
    for place in range(len(tried)):  # join what differs in this parameter alone
        joined: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}
        for box in boxes:
            rest = box[:place] + box[place + 1 :]
            joined[rest] = joined.get(rest, ()) + box[place]
        boxes = [rest[:place] + (values,) + rest[place:] for rest, values in joined.items()]
    named = [
        " ".join(f"{name}={','.join(map(str, values))}" for name, values in zip(tried, box, strict=True) if not tried[name] <= set(values))
        for box in boxes
    ]
    return "; ".join(text or "all" for text in named)


def _row(sweep: Sweep, variant: Variant) -> dict[str, Any]:
    timing = _newest(sweep, variant.name)
    against = [one.reference_p50_us for part in sweep.rounds for one in part.timings if one.reference_p50_us is not None]
    p50_us = timing.p50_us if timing else statistics.median(against) if variant.name == sweep.reference and against else None
    roles = {sweep.reference: "reference", sweep.incumbent: "incumbent", sweep.winner: "winner"}
    state = "dropped" if variant.dropped else roles.get(variant.name, "left")
    worst = {name: _worst(sweep, variant, name)[0] for name in _WORST}
    numbers = {
        **{name: None if value is None else round(value, 1) for name, value in worst.items()},
        "p50_us": p50_us,
        "ratio": timing.ratio if timing else None,
        "low": timing.low if timing else None,
        "high": timing.high if timing else None,
        "limit_pct": timing.limit_pct if timing else None,
    }
    return {
        **{name: variant.toggles[name] for name in sweep.params},
        **{name: float("nan") if value is None else float(value) for name, value in numbers.items()},
        **{
            gate: one.status.value if one else ""
            for gate, one in (("ptxas", variant.ptxas), ("sass", variant.sass), ("correctness", variant.correctness))
        },
        "rounds": sum(one.variant == variant.name for part in sweep.rounds for one in part.timings),
        "state": state,
        "dropped": variant.dropped,
    }


def _newest(sweep: Sweep, name: str) -> Timing | None:
    return next((timing for part in reversed(sweep.rounds) for timing in part.timings if timing.variant == name), None)


def _worst(sweep: Sweep, variant: Variant, name: str) -> tuple[float | None, str]:
    """The worst figure of the variant's kernels, on the device's architecture or on all where there is none, and those that have it."""
    archs = _archs(sweep)
    found = [(value, one.arch) for one in variant.resources if one.arch in archs and (value := getattr(one, name)) is not None]
    if not found:
        return None, ""
    worst = _WORST[name]([value for value, _ in found])
    return worst, ", ".join(dict.fromkeys(arch for value, arch in found if value == worst))


def _placed(sweep: Sweep, table: pandas.DataFrame, name: str) -> list[str]:
    """Behind the figures of ``table`` the architectures that have them, if it was compiled for several."""
    archs = [_worst(sweep, sweep.variants[row], name)[1] if len(_archs(sweep)) > 1 else "" for row in table.index]
    return [f" ({one})" if one else "" for one in archs]


def _archs(sweep: Sweep) -> tuple[str, ...]:
    """The architectures whose figures are shown: the device's, or all without one."""
    own = f"sm_{sweep.devices[0].compute_capability.replace('.', '')}" if sweep.devices else ""
    return tuple(arch for arch in sweep.archs if arch.rstrip("af").startswith(own))


def _figure(value: Any, form: str = "", unit: str = "") -> str:
    import pandas

    return "-" if pandas.isna(value) else f"{value:{form}}{unit}"
