"""Job "describe": what a problem says of its shapes, asked before anything is built.

The problem module may need torch, so it is read in a runner process; an unknown shape or input family is refused here,
and so is what does not fit the problem's own outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.worker.job import ResultWriter, run_job


def describe(
    folder: Path,
    problem: str,
    shapes: Sequence[str],
    *,
    work: Path,
    limit_s: float,
    inputs: Sequence[str] = (),
    arguments: Sequence[str] = (),
    python: str = sys.executable,
) -> dict[str, dict[str, int]]:
    """Dimensions of the named shapes; GatesError for an unknown shape, input family or argument, or a problem that can't be read.

    ``arguments``: those of task.yaml; empty: the problem's own.
    """
    job = {
        "kind": "describe",
        "problem": problem,
        "folder": str(folder),
        "shapes": list(shapes),
        "inputs": list(inputs),
        "arguments": list(arguments),
    }
    tried = run_job(folder, job, work, limit_s=limit_s, name="describe", python=python)
    if (refusal := tried.refusal()) is not None:
        raise refusal
    for line in tried.own():
        if line.get("type") == "shapes":
            return line["shapes"]
    raise GatesError(f"the runner of {folder.name} could not read its problem ({tried.cause}): {tried.last_words()}")


def execute(job: Mapping[str, Any], folder: Path) -> None:
    """Write one ``shapes`` line for the problem of ``job``."""
    from gates.task import problem as problems
    from gates.task.problem import check_names
    from gates.worker.problem_check import check_answers

    with ResultWriter(job) as writer:
        problem = problems.load(job["problem"], Path(job["folder"]))
        check_names(problem, job["shapes"], job.get("inputs", ()))
        check_answers(problem, job["shapes"], job.get("arguments", ()))
        writer.write("shapes", shapes={name: dict(problem.SHAPES[name]) for name in job["shapes"]})
