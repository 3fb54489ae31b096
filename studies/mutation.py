"""Change one operator or number of a judge, a parser or a statistic at a time: do its tests notice?

    pip install cosmic-ray
    python studies/mutation.py run --sample 400 --seed 1 --budget-s 3600 --out results/recorded/cpu/mutation.json
    python studies/mutation.py report

The modules and their tests are in mutation.yaml. ``run`` draws places of the code at random and makes one of cosmic-ray's changes at each,
in a copy of the checkout. Tests that take more than three CPU seconds are left out. It writes its file after every change; called again it
tries what is left and what survived before.
The exit code is 1 if more than 5 % survive without a reason in mutation.yaml.
"""

from __future__ import annotations

import argparse
import difflib
import fcntl
import hashlib
import importlib
import json
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gates.core import jsonio

ROOT = Path(__file__).resolve().parents[1]
PLAN = Path(__file__).with_suffix(".yaml")
RECORD = ROOT / "results" / "recorded" / "cpu" / "mutation.json.gz"
PAGE = ROOT / "docs" / "internals" / "mutation.md"
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
NOT_COPIED = {".git", ".venv", "build", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}  # of the checkout's own folder
OUTPUT = "pytest.txt"
MOST_SURVIVE = 0.05
MOST_CPU_S = 3.0  # of a test, or it is left out
BUSY = 5.0  # seconds of a busy machine for one CPU second, of a process that a test started, too
PRELOADED = ("numpy", "jsonschema", "click", "torch", "yaml", "hypothesis", "scipy.stats")  # imported once; each change is tried in a fork
UNION = "BinaryOperator_BitOr_"  # of annotations, which nothing evaluates
SAME = ("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq")  # identity of what is equal


@dataclass(frozen=True)
class Mutant:
    """One change: an operator of cosmic-ray at one of the places that it can change in a module."""

    module: str
    line: int
    column: int
    operator: str
    occurrence: int

    def source(self, text: str) -> str:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return mutate_code(text, get_operator(self.operator)(), self.occurrence)


def mutants(module: str, text: str) -> list[Mutant]:
    """Return all changes of a module that cosmic-ray's operators without arguments make."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    found, nodes = list[Mutant](), list(ast_nodes(get_ast(text)))
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if UNION in name or name.endswith(SAME) or kind.arguments():
            continue
        operator = kind()
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [Mutant(module, *start, name, occurrence) for occurrence, start in enumerate(places)]
    return found


def drawn(found: list[Mutant], sample: int, seed: int) -> list[Mutant]:
    """Return at most ``sample`` changes at different places, in the order of the draw."""
    chance, places = random.Random(seed), dict[tuple[str, int, int], list[Mutant]]()
    for mutant in found:
        places.setdefault((mutant.module, mutant.line, mutant.column), []).append(mutant)
    chosen = chance.sample(sorted(places), min(sample, len(places)))
    return [chance.choice(places[place]) for place in chosen]


def change(before: str, after: str) -> str:
    """Return the changed lines, without indentation, as ``before -> after``."""
    lines = [
        line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="") if line[:2] not in ("--", "++")
    ]
    sides = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return " -> ".join(sides)


class Trials:
    """A copy of the checkout, of one process, in which one module at a time is changed and tested."""

    def __init__(self, root: Path, scratch: Path, tests: dict[str, str], until: float) -> None:
        self.folder, self.scratch, self.tests, self.until = scratch / str(os.getpid()), scratch, tests, until
        shutil.copytree(root, self.folder, ignore=lambda folder, names: NOT_COPIED if Path(folder) == root else {"__pycache__"})

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """Return what became of a change, and the change; two empty texts if the time is over."""
        path, tests = self.folder / mutant.module, self.tests[mutant.module]
        before = path.read_text(encoding="utf-8")
        after = mutant.source(before)
        if time.monotonic() > self.until:
            return "", ""
        costs = self.scratch / f"{hashlib.sha256(tests.encode()).hexdigest()}.json"
        with costs.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait for what is measured, and do not measure it, too
            if not costs.is_file():
                self._pytest(mutant.module, tests, Measured(costs), 3600.0)
        chosen = Cheapest(json.loads(costs.read_text(encoding="utf-8")))
        if not chosen.costs_s:
            said = (self.folder / OUTPUT).read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"no test of {mutant.module} passes without a change: pytest {tests}\n{said}")
        try:
            self._write(path, after)
            return self._pytest(mutant.module, tests, chosen, 60.0 + 20.0 * sum(chosen.costs_s.values())), change(before, after)
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):  # may have the time and size of the new text
            compiled.unlink()

    def _pytest(self, module: str, tests: str, plugin: Measured | Cheapest, limit_s: float) -> str:
        child = multiprocessing.get_context("fork").Process(target=_child, args=(self.folder, module, shlex.split(tests), plugin))
        child.start()
        child.join(limit_s)
        if child.exitcode is None:
            os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
            return TIMED_OUT
        if child.exitcode not in (0, 1, 2):  # passed, failed, not imported
            raise RuntimeError(f"pytest {tests} ended with {child.exitcode}")
        return KILLED if child.exitcode else SURVIVED


class Measured:
    """A plugin of pytest that writes the CPU seconds of each test that passes."""

    options: tuple[str, ...] = ()

    def __init__(self, report: Path) -> None:
        self.report, self.costs_s, self.failed = report, dict[str, float](), set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        begun, cpu_s = time.monotonic(), sum(os.times()[:4])
        result = yield
        self.costs_s[item.nodeid] = max(sum(os.times()[:4]) - cpu_s, (time.monotonic() - begun) / BUSY)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        partial = self.report.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({name: cost for name, cost in self.costs_s.items() if name not in self.failed}), encoding="utf-8")
        partial.rename(self.report)


class Cheapest:
    """A plugin of pytest that runs the tests of at most MOST_CPU_S, the cheapest first, until one fails."""

    options: tuple[str, ...] = ("-x",)

    def __init__(self, costs_s: dict[str, float]) -> None:
        self.costs_s = {name: cost for name, cost in costs_s.items() if cost <= MOST_CPU_S}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.costs_s), key=lambda item: self.costs_s[item.nodeid])


def _child(folder: Path, module: str, tests: list[str], plugin: Measured | Cheapest) -> None:
    os.setsid()
    os.chdir(folder)
    sys.path[:] = [str(folder), *(name for name in sys.path if name not in ("", str(ROOT), str(Path(__file__).parent)))]
    os.environ["PYTHONPATH"] = str(folder)
    output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        importlib.import_module(module.removesuffix(".py").replace("/", "."))
    except Exception:
        os._exit(1)
    if not Path(sys.modules[module.partition("/")[0]].__file__ or "").is_relative_to(folder):
        os._exit(99)
    os._exit(
        pytest.main(
            [
                *plugin.options,
                "-q",
                "-n0",
                "-p",
                "no:cacheprovider",
                f"--basetemp={folder / 'tmp'}",
                "-c",
                str(folder / "pyproject.toml"),
                *tests,
            ],
            plugins=[plugin],
        )
    )


def run(options: argparse.Namespace) -> int:
    plan = read_plan(options.plan)
    texts = {module: (options.root / module).read_text(encoding="utf-8") for module in plan["tests"]}
    found = [mutant for module, text in texts.items() for mutant in mutants(module, text)]
    head = {
        "schema_version": 1,
        "seed": options.seed,
        "sample": options.sample,
        "places": len({(mutant.module, mutant.line, mutant.column) for mutant in found}),
        "sources": {module: hashlib.sha256(text.encode()).hexdigest() for module, text in texts.items()},
    }
    data = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    rows: list[dict[str, Any]] = data["rows"] if {name: data.get(name) for name in head} == head else []
    settled = {(row["module"], row["line"], row["column"]) for row in rows if row["outcome"] != SURVIVED}
    left = [one for one in drawn(found, options.sample, options.seed) if (one.module, one.line, one.column) not in settled]
    tried = {(row["module"], row["line"], row["column"]) for row in rows}
    left.sort(key=lambda one: (one.module, one.line, one.column) in tried)  # what survived before comes last
    for name in PRELOADED:
        importlib.import_module(name)
    until = time.monotonic() + options.budget_s
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch, _pool(options, Path(scratch).resolve(), plan["tests"], until) as pool:
        try:
            asked = {pool.submit(_outcome, mutant): mutant for mutant in left}
            for done in as_completed(asked):
                mutant, (outcome, changed) = asked[done], done.result()
                if not outcome:
                    continue
                rows = [row for row in rows if (row["module"], row["line"], row["column"]) != (mutant.module, mutant.line, mutant.column)]
                rows.append({**asdict(mutant), "outcome": outcome, **({"change": changed} if outcome == SURVIVED else {})})
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps({**head, "rows": rows}) + "\n", encoding="utf-8")
                print(f"{len(rows)}: {outcome}: {mutant.module}:{mutant.line}: {changed}", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    unexplained = [row for row in survivors(rows) if row["change"] not in plan["reasons"].get(row["module"], {})]
    print(f"{len(rows)} changes, {len(survivors(rows))} survived, {len(unexplained)} of them without a reason")
    return 1 if not rows or len(survivors(rows)) > MOST_SURVIVE * len(rows) or unexplained else 0


_trials: list[Trials] = []  # of a process of the pool


def _pool(options: argparse.Namespace, scratch: Path, tests: dict[str, str], until: float) -> ProcessPoolExecutor:
    def begin() -> None:
        _trials.append(Trials(options.root, scratch, tests, until))

    return ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork"), begin)


def _outcome(mutant: Mutant) -> tuple[str, str]:
    return _trials[0].outcome(mutant)


def read_plan(path: Path) -> dict[str, Any]:
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {**plan, "tests": {module: f"{plan['all']} {tests}" for module, tests in plan["tests"].items()}}


def survivors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["outcome"] == SURVIVED]


def page(data: dict[str, Any], plan: dict[str, Any]) -> str:
    """Return docs/internals/mutation.md: how many changes were killed, by folder, and how many survivors have a reason."""
    rows, kept = data["rows"], survivors(data["rows"])
    parts = []
    for folder in dict.fromkeys(str(Path(module).parent) for module in plan["tests"]):
        own = [row for row in rows if str(Path(row["module"]).parent) == folder]
        parts.append(f"`{folder}` {len(own) - len(survivors(own))}/{len(own)}")
    share = 100.0 * (len(rows) - len(kept)) / len(rows)
    explained = sum(row["change"] in plan["reasons"].get(row["module"], {}) for row in kept)
    return f"""# Mutation study

cosmic-ray changes one operator, number or statement at one of {data["places"]:,} places in judges, parsers and statistics.
{len(rows)} places were drawn at random. The module's tests notice {share:.1f} % of the changes; the goal is 95 %.

Noticed: {", ".join(parts)}.

For {explained} of the {len(kept)} others `studies/mutation.yaml` says why no test can notice them.
"""


def report() -> int:
    PAGE.write_text(page(jsonio.read(RECORD), read_plan(PLAN)), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="try changes that were drawn at random")
    one.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    one.add_argument("--sample", type=int, default=400, help="places to change [400]")
    one.add_argument("--seed", type=int, default=1, help="of the draw [1]")
    one.add_argument("--jobs", type=int, default=2, help="changes at a time [2]")
    one.add_argument("--budget-s", type=float, default=36000.0, help="begin nothing after this many seconds")
    one.add_argument("--root", type=Path, default=ROOT, help="the checkout to copy [this one]")
    one.add_argument("--plan", type=Path, default=PLAN, help="modules, tests and reasons [mutation.yaml]")
    commands.add_parser("report", help="write docs/internals/mutation.md")
    options = parser.parse_args()
    return run(options) if options.command == "run" else report()


if __name__ == "__main__":
    sys.exit(main())
