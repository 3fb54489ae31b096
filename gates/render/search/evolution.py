"""A search as a table for a terminal, and as an HTML page: the tree of parents with each candidate's note and gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gates.core.text import plain
from gates.render.report import made

if TYPE_CHECKING:
    from gates.evaluation.evolution.record import Evolution, Member

_MOST_REFUSED = 200  # on the page
_SHOWN = 10  # in the table


@dataclass
class Node:
    """A member with those made from it."""

    member: Member
    figure: str
    badge: str
    champion: bool
    children: list[Node] = field(default_factory=list)


def tree_html(found: Evolution, score: Callable[[Member], float | None]) -> str:
    """The page; ``score`` gives a member's newest score. Ends with a newline."""
    nodes = {one.id: Node(one, _figure(one, score(one), {}), one.status, one.id == found.champion) for one in found.members}
    roots: list[Node] = []
    for one in found.members:
        above = nodes.get(one.parent or "")
        (roots if above is None or one.parent == one.id else above.children).append(nodes[one.id])
    refused = [(generation.number, one) for generation in found.generations for one in generation.refused]
    return made(
        "evolution.html.j2", found=found, roots=roots, count=len(found.members), head=head(found, score), refused=refused[-_MOST_REFUSED:]
    )


def evolution_table(
    found: Evolution, ranked: list[Member], score: Callable[[Member], float | None], archs: Callable[[Member], Mapping[str, str]]
) -> str:
    """The best members of ``ranked`` as plain text, then how the search ended. ``archs`` gives where a member's resources are as shown."""
    failed = [one for one in found.members if one.status and not one.valid]
    refused = sum(len(one.refused) for one in found.generations)
    lines = [
        f"{found.task}: {len(found.members)} candidates in {len(found.generations)} generations, {len(failed)} invalid, {refused} refused",
        "",
    ]
    figures = {one.id: _figure(one, score(one), archs(one)) for one in ranked[:_SHOWN]}
    width = max(map(len, figures.values()), default=0)
    lines += [f"  {plain(one.name or one.id):44.44} {figures[one.id]:{width}} {plain(one.note):.60}".rstrip() for one in ranked[:_SHOWN]]
    lines += ["", f"stopped: {found.stopped}", head(found, score)]
    if found.run is not None:
        lines.append(f"its run: {found.run}, decision {found.decision}")
    return "\n".join(lines)


def head(found: Evolution, score: Callable[[Member], float | None]) -> str:
    """One sentence on the best that was found."""
    if found.champion is None:
        return "still searching" if not found.stopped else f"nothing beats {found.task} as it is"
    one = found.member(found.champion)
    how = f"score {score(one):.4f}" if score(one) is not None else "nothing was timed: ordered by spills, occupancy and registers"
    return f"champion: {plain(one.name or one.id)} ({how})"


def _figure(member: Member, score: float | None, archs: Mapping[str, str]) -> str:
    """The gain if it was timed, else what the compiler says, with the architectures of ``archs``."""
    if score is not None:
        return f"score {score:.4f} ({100.0 * (score - 1.0):+.1f} %)"
    metrics = member.metrics or {}
    shown = (("registers", "{:.0f} registers"), ("occupancy_pct", "{:.0f} % occupancy"))
    where = {name: f" ({archs[name]})" if name in archs else "" for name, _ in shown}
    return ", ".join(form.format(metrics[name]) + where[name] for name, form in shown if name in metrics)
