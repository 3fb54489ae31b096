"""The kill matrix as a page: defect x gate, and what it adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from defects.catalogue import DEFECTS, HONEST, counts_for_cpu
from defects.record import KINDS, Defect
from gates.render.markdown import escape
from gates.task import GATES

CPU_GATES = ("ptxas", "sass", "correctness", "sanitizer")
LEAST_CPU_SHARE = 0.85
_MARKS = {"pass": "·", "inconclusive": "?", "not_run": "–", "not_applicable": "–", "error": "error"}
_ORDER = ("correctness.cases",)  # says nothing that another code does not

Half = Mapping[str, Any]


def rows(half: Half) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in half["rows"]}


def united(halves: list[Half]) -> dict[str, Any]:
    """Files of one profile and device as one: a row of a later file stands where the earlier one tells less."""
    first, found = halves[0], rows(halves[0])
    for later in halves[1:]:
        if (later["profile"], later["device"]) != (first["profile"], first["device"]):
            raise ValueError(f"a kill matrix of {later['profile']} on {later['device']} beside one of {first['profile']} on {first['device']}")
        found |= {name: row for name, row in rows(later).items() if len(row["gates"]) > len(found.get(name, {"gates": {}})["gates"])}
    in_order = [found[name] for name in (*DEFECTS, *HONEST) if name in found]
    return {**first, "rows": in_order, "wall_s": sum(half["wall_s"] for half in halves)}


def killers(row: Mapping[str, Any]) -> list[str]:
    """The gates that turned red, in the order of the gates."""
    return [gate for gate in GATES if row["gates"].get(gate, {}).get("status") == "fail"]


def survivors(half: Half) -> list[str]:
    """Defects that no gate of this half turned red, though the catalogue says that one does, which was tried."""
    found = {name: row for name, row in rows(half).items() if name in DEFECTS and not killers(row)}
    return [name for name, row in found.items() if set(declared(half, name)) & set(row["gates"])]


def untried(half: Half) -> list[str]:
    """Defects that nothing turned red because the gates that would were not tried, for lack of time."""
    found = {name: row for name, row in rows(half).items() if name in DEFECTS and not killers(row)}
    return [name for name, row in found.items() if declared(half, name) and not set(declared(half, name)) & set(row["gates"])]


def declared(half: Half, name: str) -> tuple[str, ...]:
    """The gates that the catalogue says turn red on this half's profile."""
    return DEFECTS[name].cpu if half["profile"] == "cpu" else DEFECTS[name].device


def emulator_alone(halves: Sequence[Half]) -> list[str]:
    """Defects red on the emulator that a card was given and no gate need, or did, turn red there."""
    red = {half["device"]: {name for name, row in rows(half).items() if killers(row)} for half in halves}
    tried = {name for half in halves if half["profile"] != "cpu" for name in rows(half)}
    on_a_card = set().union(*(names for device, names in red.items() if device != "emulator"))
    return [name for name, defect in DEFECTS.items() if name in red.get("emulator", ()) and name in tried - on_a_card and not defect.device]


def false_kills(half: Half) -> list[str]:
    """Honest stages with a red gate."""
    return [name for name, row in rows(half).items() if name in HONEST and killers(row)]


def sound(half: Half) -> bool:
    """Whether no honest stage was refused, and (cpu) enough defects were killed, or (device) all."""
    if half["profile"] == "cpu":
        return not false_kills(half) and cpu_share(half) >= LEAST_CPU_SHARE
    return not false_kills(half) and not survivors(half)


def cpu_share(half: Half) -> float:
    """Killed by the cpu profile among the defects that it could see; 1 where none of those was run."""
    seen = [row for name, row in rows(half).items() if name in DEFECTS and counts_for_cpu(DEFECTS[name])]
    return sum(bool(killers(row)) for row in seen) / len(seen) if seen else 1.0


def summary(half: Half) -> str:
    """A few lines for the terminal."""
    planted = [row for name, row in rows(half).items() if name in DEFECTS]
    lines = [
        f"{half['profile']} on {half['device']}: {sum(bool(killers(row)) for row in planted)} of {len(planted)} defects killed "
        f"in {half['wall_s']:.0f} s; without those about speed or a real stream {100 * cpu_share(half):.1f} %",
        f"let through: {', '.join(survivors(half)) or 'none'}",
        *([f"not tried where they show: {', '.join(untried(half))}"] if untried(half) else []),
        f"honest stages refused: {', '.join(false_kills(half)) or 'none'}",
    ]
    for name, row in rows(half).items():
        expected = declared(half, name) if name in DEFECTS else ()
        missed = [gate for gate in expected if gate in row["gates"] and gate not in killers(row)]
        if missed:
            lines.append(f"not red as declared: {name}: {', '.join(missed)}")
        lines += [f"error: {name}: {gate}: {entry['sentence']}" for gate, entry in row["gates"].items() if entry["status"] == "error"]
        lines += [f"error: {name}: {row['error']}"] if row.get("error") else []
    return "\n".join(lines)


def page(halves: Sequence[Half]) -> str:
    """docs/internals/kill-matrix.md from what was recorded on each machine; of several devices the last one's row stands."""
    known: dict[str, dict[str, Any]] = {"cpu": {}, "full": {}}
    for half in halves:
        known[half["profile"]] |= rows(half)
    parts = [_INTRODUCTION, _totals(halves)]
    for kind in KINDS:
        parts.append(f"## {kind.capitalize()}\n")
        parts.append(_table([defect for defect in DEFECTS.values() if defect.kind == kind], known))
    parts.append("## Honest kernels\n\nAll gates of the kernels that defects are planted in, on all their shapes and seeds; none may be red.\n")
    parts.append(_table(list(HONEST), known))
    return "\n".join(parts)


def _totals(halves: Sequence[Half]) -> str:
    killed = {name for half in halves for name, row in rows(half).items() if killers(row)} & set(DEFECTS)
    lines = ["| what | asked | found |", "|---|---|---|"]
    lines.append(f"| defects killed by at least one gate | {len(DEFECTS)} of {len(DEFECTS)} | {len(killed)} of {len(DEFECTS)} |")
    for half in halves:
        tried = {name: row for name, row in rows(half).items() if name in DEFECTS}
        if half["profile"] == "cpu":
            seen = [name for name in tried if counts_for_cpu(DEFECTS[name])]
            count = sum(bool(killers(tried[name])) for name in seen)
            lines.append(
                f"| killed by the `cpu` profile alone, of those not about speed or a real stream | at least 85 % | "
                f"{count} of {len(seen)} ({100 * count / len(seen):.1f} %) |")
        else:
            seen = [name for name in tried if declared(half, name)]
            rest = f", {len(untried(half))} not tried with the gate that shows them" if untried(half) else ""
            lines.append(f"| killed by the {_where(half)}, of those that must show there | {len(seen)} | {len(seen) - len(survivors(half)) - len(untried(half))}{rest} |")
        honest = [name for name in HONEST if name in rows(half)]
        if honest:
            lines.append(f"| honest kernels refused, {_where(half)} | 0 | {len(false_kills(half))} of {len(honest)} |")
    lines.append(f"| shown by the emulator alone: passed by the gates on a card, whose timing hides them | | {len(emulator_alone(halves))} |")
    lines.append("")
    lines += [f"- {_where(half)}: {half['started'][:10]}, {half['wall_s']:.0f} s: `{_command(half['profile'])}`" for half in halves]
    return "\n".join(lines) + "\n"


def _command(profile: str) -> str:
    return f"python scripts/kill_matrix.py run --profile {profile} --out FILE"


def _where(half: Half) -> str:
    return "`cpu` profile" if half["profile"] == "cpu" else f"`full` profile on {half['device']}"


def _table(wanted: list[Defect] | list[str], known: Mapping[str, Mapping[str, Any]]) -> str:
    head = ["defect", *(f"{gate} (cpu)" for gate in CPU_GATES), *(f"{gate} (device)" for gate in GATES)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for item in wanted:
        name = item if isinstance(item, str) else item.name
        what = "" if isinstance(item, str) else f": {item.what}{f' ({item.only})' if item.only else ''}"
        cells = [f"`{name}`{escape(what)}"]
        for profile, gates in (("cpu", CPU_GATES), ("full", GATES)):
            row = known.get(profile, {}).get(name)
            cells += ["not run" if row is None else _mark(row["gates"].get(gate)) for gate in gates]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mark(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return ""
    if entry["status"] != "fail":
        return _MARKS[entry["status"]]
    codes = [code for code in entry["codes"] if code not in _ORDER] or entry["codes"]
    code = entry["code"] if entry["code"] in codes else codes[0]
    more = f" +{len(codes) - 1}" if len(codes) > 1 else ""
    return f"**{code.partition('.')[2]}**{more}"


_INTRODUCTION = """# The kill matrix

Each row is a kernel with one planted defect (`tests/defects/`), each column a gate. Bold: the gate is red,
with its reason code (`gates explain GATE.CODE` says what it means) and how many more it gave. `·` passed, `?`
inconclusive, `–` not run because an earlier gate failed or nothing of that kind is there, empty: not tried,
"not run": nothing of the row was tried on such a machine. A row was tried on one of the cards named below.

A defect is a patch of a shipped attention kernel, or a small kernel of its own for breaches of the
contract. Its task.yaml is the honest one with another name and source: same baseline, same problem, same
limits; those of fp16_v9_pipeline and fp16_v10_hopper have one set of tiles for all shapes, which their toggles name. Defects are tried on
`small` with seed 0, the problem's odd shapes and input families: part of what `gates run` tries, so whatever is
red here is red there. Honest stages are tried on all their shapes and seeds.

This page is made by `python scripts/kill_matrix.py report`; `tests/test_defects.py` runs the cheapest red gate
of every defect that needs no device on every run of the test suite, `tests/test_fp16_defects.py` and
`tests/test_fp16_hopper.py` those of nine FP16 defects, and of all where GATES_SLOW is set.
"""
