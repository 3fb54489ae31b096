"""The kill matrix as a page: defect x gate, and what it adds up to."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from defects.catalogue import DEFECTS, HONEST, counts_for_cpu
from defects.record import KINDS, Defect
from gates.gate.correctness import codes
from gates.gate.registry import GATES
from gates.render.markdown import table

LEAST_CPU_SHARE = 0.85
PASSES = "passes"
_ORDER = (codes.CASES,)  # says nothing that another code does not

Half = Mapping[str, Any]


def rows(half: Half) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in half["rows"]}


def united(halves: list[Half]) -> dict[str, Any]:
    """Files of one profile and device as one: a row of a later file stands where the earlier one tells less."""
    first, found = halves[0], rows(halves[0])
    for later in halves[1:]:
        if (later["profile"], later["device"]) != (first["profile"], first["device"]):
            raise ValueError(
                f"a kill matrix of {later['profile']} on {later['device']} beside one of {first['profile']} on {first['device']}"
            )
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
    """docs/internals/kill-matrix.md: totals, first gates by kind of defect, and the defects that only one kind of machine shows."""
    known = _known(halves)
    one_sided = [defect for defect in DEFECTS.values() if PASSES in _first_reds(defect, known)]
    return "\n".join(
        [
            _INTRODUCTION,
            _totals(halves),
            "## First gate that refuses, by kind\n",
            _kinds(known),
            "## Shown by one kind of machine\n",
            _table(one_sided, known),
            "## Honest kernels\n\nNo gate refused any of the kernels that defects are planted in:\n",
            _honest(known),
        ]
    )


def matrix(halves: Sequence[Half]) -> str:
    """docs/internals/kill-matrix.csv: every defect with the reason code of the first gate that refuses it, without a GPU and on one."""
    known, out = _known(halves), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("kind", "defect", "what is wrong", "without a GPU", "on a GPU"))
    writer.writerows((defect.kind, defect.name, defect.what, *_first_reds(defect, known)) for defect in DEFECTS.values())
    return out.getvalue()


def _known(halves: Sequence[Half]) -> dict[str, dict[str, Any]]:
    """The rows of each profile; of several devices the last one's."""
    known: dict[str, dict[str, Any]] = {"cpu": {}, "full": {}}
    for half in halves:
        known[half["profile"]] |= rows(half)
    return known


def _totals(halves: Sequence[Half]) -> str:
    killed = {name for half in halves for name, row in rows(half).items() if killers(row)} & set(DEFECTS)
    lines = ["| what | asked | found |", "|---|---|---|"]
    lines.append(f"| defects refused by at least one gate | {len(DEFECTS)} of {len(DEFECTS)} | {len(killed)} of {len(DEFECTS)} |")
    for half in halves:
        tried = {name: row for name, row in rows(half).items() if name in DEFECTS}
        if half["profile"] == "cpu":
            seen = [name for name in tried if counts_for_cpu(DEFECTS[name])]
            count = sum(bool(killers(tried[name])) for name in seen)
            lines.append(
                f"| refused by the `cpu` profile alone, of those that need no clock and no stream | at least 85 % | "
                f"{count} of {len(seen)} ({100 * count / len(seen):.1f} %) |"
            )
        else:
            seen = [name for name in tried if declared(half, name)]
            rest = f", {len(untried(half))} not tried with the gate that shows them" if untried(half) else ""
            lines.append(
                f"| refused by the {_where(half)}, of those that must show there | {len(seen)} | "
                f"{len(seen) - len(survivors(half)) - len(untried(half))}{rest} |"
            )
        honest = [name for name in HONEST if name in rows(half)]
        if honest:
            lines.append(f"| honest kernels refused, {_where(half)} | 0 | {len(false_kills(half))} of {len(honest)} |")
    lines.append(f"| shown by the emulator alone | | {len(emulator_alone(halves))} |")
    lines.append("")
    lines += [f"- {_where(half)}: {half['started'][:10]}, {half['wall_s']:.0f} s" for half in halves]
    return "\n".join(lines) + "\n"


def _where(half: Half) -> str:
    return "`cpu` profile" if half["profile"] == "cpu" else f"`full` profile on {half['device']}"


def _kinds(known: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for kind in KINDS:
        both = zip(*(_first_reds(defect, known) for defect in DEFECTS.values() if defect.kind == kind), strict=True)
        counts = [Counter(code.partition(".")[0] for code in codes) for codes in both]
        lines.append((kind, str(counts[0].total()), *(", ".join(f"{gate} {count}" for gate, count in one.most_common()) for one in counts)))
    return table(("kind", "defects", "without a GPU", "on a GPU"), lines, right=(1,))


def _table(wanted: Sequence[Defect], known: Mapping[str, Mapping[str, Any]]) -> str:
    return table(
        ("defect", "without a GPU", "on a GPU"), [(f"{defect.name}: {defect.what}", *_first_reds(defect, known)) for defect in wanted]
    )


def _first_reds(defect: Defect, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The first reason code without a GPU and on one."""
    return _first_red(known["cpu"].get(defect.name)), _first_red(known["full"].get(defect.name))


def _first_red(row: Mapping[str, Any] | None) -> str:
    """The reason code of the first gate that refused the kernel; what is known instead if none did."""
    if row is None:
        return "not tried"
    if not (red := killers(row)):
        return PASSES
    entry = row["gates"][red[0]]
    return entry["code"] if entry["code"] not in _ORDER else next((code for code in entry["codes"] if code not in _ORDER), entry["code"])


def _honest(known: Mapping[str, Mapping[str, Any]]) -> str:
    return "".join(
        f"- {where}: {', '.join(f'`{name}`' for name in HONEST if name in known[profile])}\n"
        for profile, where in (("cpu", "Without a GPU"), ("full", "On a GPU"))
    )


_INTRODUCTION = """# The kill matrix

Which gate refuses which planted defect? [`kill-matrix.csv`](kill-matrix.csv) lists all: what is wrong, and the reason code of the
first gate that refuses it, without a GPU and on one (`gates explain CODE`). Every gate and code of every run is in `kill-matrix*.json` in
`results/recorded/cpu/`, `h100/` and `h200/`.

A defect (`studies/defects/`) is a patch of a shipped attention kernel, or a small kernel that breaks the contract. Baseline, problem and
limits are those of the honest kernel. Defects are tried on `small` with seed 0, odd shapes and input families, which is part of what
`gates run` tries. Honest kernels are tried on all their shapes and seeds.

`python studies/kill_matrix.py run --profile cpu --out FILE` tries all (`full` on a GPU), `report` writes this page and the list.
`tests/project/test_defects.py` runs the cheapest red gate of each defect that needs no device; the FP16 tests run nine defects, and
all if GATES_SLOW is set.
"""
