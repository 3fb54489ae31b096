"""The kill matrix as a page: defect x gate, and what it adds up to."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Defects that no gate of this half turned red, though the catalogue says that one does."""
    return [name for name, row in rows(half).items() if name in DEFECTS and not killers(row) and declared(half, name)]


def declared(half: Half, name: str) -> tuple[str, ...]:
    """The gates that the catalogue says turn red on this half's profile."""
    return DEFECTS[name].cpu if half["profile"] == "cpu" else DEFECTS[name].device


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


def page(halves: Mapping[str, Half]) -> str:
    """docs/kill-matrix.md from the recorded halves, ``cpu`` and ``full``."""
    known = {profile: rows(half) for profile, half in halves.items()}
    parts = [_INTRODUCTION, _totals(halves)]
    for kind in KINDS:
        parts.append(f"## {kind.capitalize()}\n")
        parts.append(_table([defect for defect in DEFECTS.values() if defect.kind == kind], known))
    parts.append("## Honest kernels\n\nAll gates of the kernels that defects are planted in, on all their shapes and seeds; none may be red.\n")
    parts.append(_table(list(HONEST), known))
    return "\n".join(parts)


def _totals(halves: Mapping[str, Half]) -> str:
    killed = {profile: {name for name, row in rows(half).items() if killers(row)} for profile, half in halves.items()}
    either = set().union(*killed.values()) & set(DEFECTS) if killed else set()
    lines = ["| what | asked | found |", "|---|---|---|"]
    lines.append(f"| defects killed by at least one gate | {len(DEFECTS)} of {len(DEFECTS)} | {len(either)} of {len(DEFECTS)} |")
    if "cpu" in halves:
        seen = [name for name, defect in DEFECTS.items() if counts_for_cpu(defect)]
        count = len(killed["cpu"] & set(seen))
        lines.append(
            f"| killed by the `cpu` profile alone, of those not about speed or a real stream | at least 85 % | "
            f"{count} of {len(seen)} ({100 * count / len(seen):.1f} %) |")
    for profile, half in halves.items():
        honest = [name for name in HONEST if name in rows(half)]
        lines.append(f"| honest kernels refused, {_where(profile, half)} | 0 | {len(false_kills(half))} of {len(honest)} |")
    lines.append("")
    for profile, half in halves.items():
        lines.append(f"- {_where(profile, half)}: {half['started'][:10]}, {half['wall_s']:.0f} s: `{_command(profile)}`")
    lines += [f"- the `{profile}` half has not been recorded yet" for profile in ("cpu", "full") if profile not in halves]
    return "\n".join(lines) + "\n"


def _command(profile: str) -> str:
    return f"python scripts/kill_matrix.py run --profile {profile} --out FILE"


def _where(profile: str, half: Half) -> str:
    return "`cpu` profile" if profile == "cpu" else f"`full` profile on {half['device']}"


def _table(wanted: list[Defect] | list[str], known: Mapping[str, Mapping[str, Any]]) -> str:
    head = ["defect", *(f"{gate} (cpu)" for gate in CPU_GATES), *(f"{gate} (H100)" for gate in GATES)]
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
"not run": nothing of the row was tried on that machine.

A defect is a patch of a shipped attention kernel, or a small kernel of its own for breaches of the
contract. Its task.yaml is the honest one with another name and source: same baseline, same problem, same
limits; those of fp16_v9_pipeline and fp16_v10_hopper have one set of tiles for all shapes, which their toggles name. Defects are tried on
`small` with seed 0, the problem's odd shapes and input families: part of what `gates run` tries, so whatever is
red here is red there. Honest stages are tried on all their shapes and seeds.

This page is made by `python scripts/kill_matrix.py report`; `tests/test_defects.py` runs the cheapest red gate
of every defect that needs no device on every run of the test suite, `tests/test_fp16_defects.py` and
`tests/test_fp16_hopper.py` those of nine FP16 defects, and of all where GATES_SLOW is set.
"""
