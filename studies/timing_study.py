"""How often is the performance gate right? Gates on kernels of known ratio, beside the usual ways of timing.

`run` measures on this machine's CUDA device and writes DIR/study.json, afresh after every verdict, so
that whatever ends it leaves what was done; `--simulate` runs the protocol on a simulated device.
`report` writes the tables of docs/internals/timing-study.md and its plots from the JSON files in DIR, anywhere.

Examples: python studies/timing_study.py run --out results/recorded/h100/timing-study --budget-s 330
          python studies/timing_study.py report results/recorded/h100/timing-study results/recorded/h200/timing-study
"""

from __future__ import annotations

import datetime
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from timing import plan

ROOT = Path(__file__).resolve().parent.parent
CROSSCHECKED = ("4 us", "100 us", "2 ms")
STAGE_GATES, STAGE_PROCESSES, USUAL = 20, 3, {"4 us": 6, "100 us": 3}
PARTS = ("process", "truth", "stage", "same", "family", "crosscheck", "usual", "more")  # in the order in which they run


class Study:
    """Asks one thing after the other while the budget lasts; ``data`` is what study.json holds."""

    def __init__(self, lab: Any, path: Path, budget_s: float, scale: float, parts: Sequence[str]) -> None:
        self.lab, self.path, self.budget_s, self.scale, self.started = lab, path, budget_s, scale, time.monotonic()
        self.parts = [part for part in PARTS if part in parts]
        self.data: dict[str, Any] = {
            "schema_version": 1,
            "command": f"python studies/timing_study.py run --part {' --part '.join(self.parts)} --budget-s {budget_s:g} --scale {scale:g}",
            "started": _now(),
            "gates": {},
            "usual": {},
            "left_out": [],
            "troubles": [],
        }

    def run(self) -> None:
        """Everything, what matters most first."""
        self.lab.build_chains(plan.FIT_STEPS)
        self.lab.build_stages()
        if "process" in self.parts:
            self._attempt("torch", lambda: self.data.update(torch_start_s=self.lab.torch_start()))
            self._repeat("stage pair, own process", self._count(STAGE_PROCESSES), self.lab.stage_process)
        self.data["device"] = self.lab.device()
        self._fit()
        for part in self.parts:
            getattr(self, f"_part_{part}", lambda: None)()
        self.data["ended"], self.data["elapsed_s"] = _now(), self._elapsed()
        self._write()

    def _part_truth(self) -> None:
        """Known ratios on either side of the threshold, at the two main sizes."""
        for cell in plan.cells(self.scale, plan.MAIN):
            self._repeat(cell.name, cell.gates, self._gate(cell))

    def _part_same(self) -> None:
        """One kernel against its copy."""
        for cell in plan.same(self.scale):
            self._repeat(cell.name, cell.gates, self._gate(cell))

    def _part_family(self) -> None:
        """Three kernels, each against its copy, as the timed shapes of one task."""
        chains = {size: self.steps[size]["1.00"] for size in plan.FAMILY}
        self._repeat("family", self._count(plan.FAMILIES), lambda seed: self.lab.family(chains, seed))

    def _part_stage(self) -> None:
        """A pair of real stages."""
        self._repeat("stage pair", self._count(STAGE_GATES), self.lab.stage_gate)

    def _part_crosscheck(self) -> None:
        self._attempt("crosscheck", self._crosscheck)

    def _part_usual(self) -> None:
        """The usual ways of timing on the same kernels."""
        for size, count in USUAL.items():
            self._usual(size, self._count(count))

    def _part_more(self) -> None:
        """Known ratios at the other sizes."""
        self._in_turn(plan.cells(self.scale, [size for size in plan.SIZES_US if size not in plan.MAIN]))

    def _fit(self) -> None:
        """The launch floor and the time of a step; then the steps of every kernel, and their true ratios."""
        points = self.lab.rounds({str(steps): steps for steps in plan.FIT_STEPS}, 6)
        times = {steps: plan.statistics.fmean(one[str(steps)] for one in points) for steps in plan.FIT_STEPS}
        line = plan.fit(times)
        needed = plan.SIZES_US if {"crosscheck", "more", "family"} & set(self.parts) else plan.MAIN
        self.steps = {size: sides for size, sides in plan.chain_steps(line).items() if size in needed}
        self.lab.build_chains(steps for sides in self.steps.values() for steps in sides.values())
        self.data |= {"fit": {"points_us": times, **vars(line)}, "steps": self.steps, "truth": {}}
        for size, sides in self.steps.items():
            rounds = self.lab.rounds(sides, 6 if size == "2 ms" else 24)
            self.data["truth"][size] = {
                name: {
                    "steps": steps,
                    "us": plan.statistics.fmean(one[name] for one in rounds),
                    "cycles": self.lab.cycles(steps),
                    "ratio": plan.ratio_of_means(rounds, name),
                    "ratio_by_fit": line.time_us(steps) / line.time_us(sides["1.00"]),
                }
                for name, steps in sides.items()
            }
        self._write()

    def _gate(self, cell: plan.Cell) -> Callable[[int], dict[str, Any]]:
        sides = self.steps[cell.size]
        return lambda seed: self.lab.gate(sides["1.00"], sides[f"{cell.truth:.2f}"], cell.bar_pct, seed)

    def _in_turn(self, cells: list[plan.Cell]) -> None:
        """One gate of each cell after the other, so that all have some when time runs out."""
        for number in range(max(cell.gates for cell in cells)):
            for cell in cells:
                if not self._left(f"{cell.name}: gate {number + 1} of {cell.gates} and those after it"):
                    return
                self._verdict(cell.name, self._gate(cell), number)

    def _usual(self, size: str, count: int) -> None:
        sides = self.steps[size]
        for number in range(count):
            for name in sides:
                if not self._left(f"usual ways, {size}, verdict {number + 1}, truth {name}"):
                    return
                self._attempt(
                    "usual ways",
                    lambda name=name: (
                        self.data["usual"].setdefault(size, {}).setdefault(name, []).append(self.lab.usual(sides["1.00"], sides[name]))
                    ),
                )

    def _crosscheck(self) -> None:
        """The gate's own times of three kernels beside other tools'."""
        steps = {size: self.steps[size]["1.00"] for size in CROSSCHECKED}
        found = self.data["crosscheck"] = {size: {"steps": number, **self.lab.times(number)} for size, number in steps.items()}
        self.data["empty"] = self.lab.empty()
        for tool in self.lab.other_tools(steps.values()):
            for size, number in steps.items():
                found[size] |= tool.get(number, {})
            self.data["empty"] |= tool.get(0, {})

    def _repeat(self, name: str, count: int, gate: Callable[[int], dict[str, Any]]) -> None:
        for number in range(count):
            if not self._left(f"{name}: {count - number} of {count} gates"):
                break
            self._verdict(name, gate, number)
        print(f"{self._elapsed():6.1f} s  {name}: {', '.join(_tally(self.data['gates'].get(name, [])))}", flush=True)

    def _verdict(self, name: str, gate: Callable[[int], dict[str, Any]], number: int) -> None:
        kept = self.data["gates"].setdefault(name, [])
        self._attempt(name, lambda: kept.append({"at_s": self._elapsed(), **gate(1000 + 7919 * number)}))

    def _attempt(self, name: str, step: Callable[[], Any]) -> None:
        """A step that fails is told and does not end the study."""
        try:
            step()
        except Exception as error:
            self.data["troubles"].append(f"{name}: {type(error).__name__}: {error}")
            print(f"{self._elapsed():6.1f} s  {self.data['troubles'][-1]}", flush=True)
        self._write()

    def _left(self, what: str) -> bool:
        if self._elapsed() < self.budget_s:
            return True
        self.data["left_out"].append(what)
        return False

    def _count(self, full: int) -> int:
        return round(full * self.scale) if self.scale >= 1 or not full else max(1, round(full * self.scale))

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _write(self) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(plan.rounded(self.data), separators=(",", ":")) + "\n", encoding="utf-8")
        partial.replace(self.path)


def _tally(verdicts: list[dict[str, Any]]) -> list[str]:
    statuses = [one["status"] for one in verdicts]
    return [f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses)]


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="folder for study.json")
@click.option("--budget-s", type=float, default=330.0, show_default=True, help="begin nothing new after so many seconds")
@click.option("--simulate", is_flag=True, help="on a simulated device, a tenth of the gates unless --scale says otherwise")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="only this part (repeatable); default all")
@click.option("--name", default="study", show_default=True, help="name of the JSON file")
@click.option("--scale", type=float, help="share of the gates to run (default 1)")
def run(out: Path, budget_s: float, simulate: bool, parts: tuple[str, ...], name: str, scale: float | None) -> None:
    """Measure and write OUT/NAME.json."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        if simulate:
            from timing.simulated import SimulatedLab

            lab: Any = SimulatedLab()
        else:
            from timing.lab import Lab

            lab = Lab(Path(work))
        Study(lab, out / f"{name}.json", budget_s, scale or (0.1 if simulate else 1.0), parts or PARTS).run()


@main.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--docs", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "docs" / "internals", help="folder of timing-study.md"
)
def report(folders: tuple[Path, ...], docs: Path) -> None:
    """Write the tables and the plots of docs/internals/timing-study.md from the JSON files in FOLDERS."""
    from timing.picture import draw, draw_usual
    from timing.report import into_page, load

    studies, page = load(*folders), docs / "timing-study.md"
    page.write_text(into_page(page.read_text(encoding="utf-8"), studies), encoding="utf-8")
    draw(studies, docs / "timing-intervals.png")
    draw_usual(studies, docs / "timing-usual-ways.png")


if __name__ == "__main__":
    main()
