"""Which cases the correctness gate tries: shapes, seeds, input families, and the thread orders of each.

A case is (shape, seed, inputs) with a role:

    headline  the task's shapes x seeds, the "6/6"
    extra     a fresh seed, so that a kernel can't know all seeds before
    odd       the problem's ODD_SHAPES, seed 0
    edge      its EDGE_SHAPES x the task's seeds, with ``--thorough``
    family    its INPUT_FAMILIES: on the first of FAMILY_SHAPES with seed 0; with ``--thorough`` on all of them x seeds
    fresh     shapes that the run's fresh seed draws, and structured values on the problem's first shape, with that seed

The engine does not read the problem (that may need torch), so it names what was asked for and the
runner adds the rest. Where the user names the inputs, exactly those cases are tried, each in the role
that it has in a whole run: that is how a failed case is replayed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gates.core.errors import GatesError
from gates.task.problem import DEFAULT_INPUTS, FRESH, family_shapes

Case = dict[str, Any]
_SHARE = 0.005  # of the headline's cost: what a launch of a drawn shape may cost, if that is more than the problem's small shapes do
_LEAST_FRESH = 8
_FRESH_SHARE = 0.2  # of the time of all other cases: what more fresh cases than that may take
_FRESH_S = 0.3  # or this much: all shapes and values of a task of short cases
# Processor seconds on the emulator, rounded: the start of a run's processes, a case, a launch, and a unit of its cost.
_START_S, _CASE_S, _LAUNCH_S, _COST_S = 0.2, 5e-3, 6e-3, 1e-9
_DEVICE_START_S = 2.0


def identity(case: Mapping[str, Any]) -> tuple[str, int, str]:
    """(shape, seed, inputs) of a planned case; no two cases of a run share it."""
    return case["shape"], case["seed"], case.get("inputs", DEFAULT_INPUTS)


def asked(
    shapes: Sequence[str],
    seeds: Sequence[int],
    extra_seeds: Sequence[int],
    inputs: Sequence[str],
    emulated: bool,
    timed: str = "",
) -> list[Case]:
    """The cases that the command line and the task name. Raises GatesError for duplicates.

    ``timed``: the first shape that is timed; on a device the extra seeds try it too.
    """
    for what, values in (("shape", shapes), ("seed", [*seeds, *extra_seeds]), ("inputs", inputs)):
        for index, value in enumerate(values):
            if value in values[:index]:
                raise GatesError(f"{what} {value} is given twice", hint=f"each {what} counts once; name different ones")
    cases = [
        _case(shape, seed, family, "headline", emulated, index)
        for family in inputs or (DEFAULT_INPUTS,)
        for shape in shapes
        for index, seed in enumerate(seeds)
    ]
    cases += [
        _case(shape, seed, DEFAULT_INPUTS, "extra", emulated, 0)
        for seed in extra_seeds
        for shape in (shapes[:1] if emulated else dict.fromkeys([*shapes, *filter(None, [timed])]))
    ]
    if cases and not inputs:
        cases[0]["probe"] = True
    return cases


def whole(problem: Any, cases: Sequence[Case], more: Mapping[str, Any], emulated: bool) -> list[Case]:
    """``cases`` and those that the problem adds, each once, with the ``sizes`` of its shape.

    ``more``: {"replay": bool, "quick": bool, "fresh": seed or None, "thorough_seeds": list}. ``replay`` adds nothing, gives the cases
    their roles, and probes the first one if it is a headline case; ``quick`` adds odd shapes and families; ``fresh`` drawn shapes and
    structured values; ``thorough_seeds`` adds the edge shapes and all families.
    """
    if more.get("replay"):
        replayed = [{**case, "role": _role(problem, case)} for case in cases]
        return _sized(problem, ({**case, "probe": case["role"] == "headline" and index == 0} for index, case in enumerate(replayed)))
    families, seeds = list(getattr(problem, "INPUT_FAMILIES", {})), list(more.get("thorough_seeds", ()))
    found = list(cases)
    if more.get("quick"):
        found += [_case(shape, 0, DEFAULT_INPUTS, "odd", emulated, 0) for shape in getattr(problem, "ODD_SHAPES", ())]
        found += [_case(family_shapes(problem)[0], 0, name, "family", emulated, 1 + index) for index, name in enumerate(families)]
    found += [
        _case(shape, seed, DEFAULT_INPUTS, "edge", emulated, 1 + index)
        for shape in getattr(problem, "EDGE_SHAPES", ())
        for index, seed in enumerate(seeds)
    ]
    found += [
        _case(shape, seed, name, "family", emulated, 1 + index)
        for name in families
        for shape in family_shapes(problem)
        for index, seed in enumerate(seeds)
    ]
    if more.get("fresh") is not None:
        found += _fresh(problem, cases, found, more["fresh"], emulated)
    once: dict[tuple[str, int, str], Case] = {}
    for case in found:
        once.setdefault(identity(case), case)
    return _sized(problem, once.values())


def _sized(problem: Any, cases: Iterable[Case]) -> list[Case]:
    return [{**case, "sizes": {name: size for name, size in problem.SHAPES[case["shape"]].items() if type(size) is int}} for case in cases]


def _role(problem: Any, case: Case) -> str:
    family = case.get("inputs", DEFAULT_INPUTS)
    if case["shape"].startswith(FRESH) or family not in (DEFAULT_INPUTS, *getattr(problem, "INPUT_FAMILIES", {})):
        return "fresh"
    if family != DEFAULT_INPUTS:
        return "family"
    for role, name in (("odd", "ODD_SHAPES"), ("edge", "EDGE_SHAPES")):
        if case["shape"] in getattr(problem, name, ()):
            return role
    return "headline"


def _fresh(problem: Any, cases: Sequence[Case], others: Sequence[Case], seed: int, emulated: bool) -> list[Case]:
    """Return the cases that ``seed`` draws: eight, and more if they are cheap beside ``others`` or take no time; shapes and values in turn.

    ``cases``: the headline and extra ones, whose cost limits that of a drawn shape. If the problem's first shape is dear, two kinds of
    values are tried. Values are tried on the first shape, or on an odd one that costs more and is cheap.
    """
    from gates.gate.correctness import fresh_shapes
    from gates.task import values  # they need torch, and the engine does not import it

    first = next(iter(problem.SHAPES))
    price = partial(fresh_shapes.cost, problem)
    costs = {
        shape: price(problem.SHAPES[shape])
        for shape in dict.fromkeys([first, *getattr(problem, "ODD_SHAPES", ()), *(case["shape"] for case in others)])
    }
    odd = [shape for shape in getattr(problem, "ODD_SHAPES", ()) if costs[shape] <= max(costs[first], fresh_shapes.CHEAP)]
    home = max((first, *odd), key=lambda shape: costs[shape])  # of values: a kernel may leave out loops on its smallest shape
    drawn = fresh_shapes.draw(problem, seed, _SHARE * sum(costs[case["shape"]] * len(case["orders"]) for case in cases))
    costs |= {shape: price(sizes) for shape, sizes in drawn.items()}

    def seconds(planned: Sequence[Case]) -> float:
        return sum(_CASE_S + len(case["orders"]) * (_LAUNCH_S + _COST_S * costs[case["shape"]]) for case in planned)

    affordable = max(_FRESH_S, _FRESH_SHARE * ((_START_S if emulated else _DEVICE_START_S) + seconds(others)))
    shapes = [_case(shape, seed, DEFAULT_INPUTS, "fresh", emulated, 1 + index) for index, shape in enumerate(drawn)]
    structured = [
        {**_case(home, seed, kind, "fresh", emulated, 0), "orders": ["forward"] * (1 if emulated else 2)}
        for kind in values.drawn(problem, problem.SHAPES[home], seed)
    ]
    if costs[home] > fresh_shapes.CHEAP and seconds(structured[:_LEAST_FRESH]) > affordable:
        structured = structured[:2]
    found: list[Case] = []
    for case in filter(None, (case for pair in itertools.zip_longest(shapes, structured) for case in pair)):
        if len(found) < _LEAST_FRESH or seconds([*found, case]) <= affordable:
            found.append(case)
    return found


def _case(shape: str, seed: int, inputs: str, role: str, emulated: bool, index: int) -> Case:
    return {"shape": shape, "seed": seed, "inputs": inputs, "role": role, "orders": orders(emulated, index)}


def orders(emulated: bool, index: int) -> list[str]:
    """Return the thread orders of a case's calls. All three on the emulator for ``index`` 0, then two in turn, which is quicker."""
    if not emulated:
        return ["forward", "forward"]
    if index == 0:
        return ["forward", "shuffled", "reversed"]
    return ["forward", "shuffled" if index % 2 else "reversed"]
