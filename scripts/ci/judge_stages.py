"""Run the gates of each touched stage and keep the evidence in one folder, for the artifact.

    FOLDER/outcomes.json                     which stage gave which run
    FOLDER/runs/<stage>/<run>.zip            the packed runs, each with its readable COMPARE.md and verdict.json beside it
    FOLDER/base/<stage>/<run>.zip            full profile: the base branch's run of each stage's baseline

With the full profile each stage is put beside its baseline as the base branch has it: the recorded run
of that very stage on this kind of card, or else a fresh one from the base branch's checkout. With --base its
gates judge, too: the change brings kernels and tasks, and not its own judge. One card is
used by one such step at a time, whatever number of runners the machine has.

The exit code is 1 if a stage was rejected, 2 if one could not be judged, else 0: hold is no failure of
the job; the check run says it.

Example: python scripts/ci/judge_stages.py --profile cpu --stages '["stage2_wmma_pv"]' --out build/ci
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ci_common import CiError, add_summary, in_one_line, run_step, run_untrusted
from pr_comment import summary_of
from stage_review import ERROR, OUTCOMES, review_folder, run_gates


def main() -> int:
    """Judge the stages named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", choices=("cpu", "full"), required=True)
    parser.add_argument("--stages", required=True, help="JSON list of task names")
    parser.add_argument("--tree", type=Path, default=Path(), help="the checkout that is judged")
    parser.add_argument("--base", type=Path, help="a checkout of the base branch, for the baselines")
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence; must be new or empty")
    arguments = parser.parse_args()
    stages, out, tree = stage_names(arguments.stages), arguments.out.resolve(), arguments.tree.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise CiError(f"{out} is not empty", "evidence of two runs must not mix")
    with _card() if arguments.profile == "full" else contextlib.nullcontext():
        entries = [judge(stage, arguments.profile, tree, arguments.base, out) for stage in stages]
    (out / OUTCOMES).write_text(json.dumps({"schema_version": 1, "stages": entries}, indent=1) + "\n", encoding="utf-8")
    reviews = review_folder(out, engine=arguments.base or tree, profile=arguments.profile)
    add_summary(summary_of(reviews, arguments.profile, f"gates-{arguments.profile}"))
    for review in reviews:
        print(in_one_line(f"{review.stage}: {review.decision}: {review.reason}"))
    decisions = {review.decision for review in reviews}
    return 2 if ERROR in decisions else 1 if "reject" in decisions else 0


def stage_names(text: str) -> list[str]:
    """The task names of a JSON list; CiError for anything else."""
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    good = isinstance(names, list) and all(isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) for name in names)
    if not good:
        raise CiError(f"--stages {text[:80]!r} is no JSON list of task names")
    return list(dict.fromkeys(names))


def judge(stage: str, profile: str, tree: Path, base: Path | None, out: Path) -> dict[str, Any]:
    """Run one stage, and its baseline of the base branch where the profile is full; its entry of outcomes.json."""
    run, code = gates_run(tree / "tasks" / stage, profile, out / "runs", engine=base or tree)
    if run is None:
        return {"stage": stage, "run": None, "base": None, "note": f"gates run ended with exit code {code}, without evidence"}
    beside, note = (None, "") if profile == "cpu" or base is None else base_run(stage, run, tree, base.resolve(), out)
    run, beside = packed(run, base or tree), packed(beside, base or tree) if beside else None
    return {
        "stage": stage,
        "run": run.relative_to(out).as_posix(),
        "base": beside.relative_to(out).as_posix() if beside else None,
        "note": note,
    }


def packed(run: Path, engine: Path) -> Path:
    """The packed file that takes the place of a run directory; the directory if it can't be
    packed, as one that was changed after the run.
    """
    done = run_gates(["pack", "--replace", str(run)], engine)
    return run.with_name(f"{run.name}.zip") if done.returncode == 0 else run


def gates_run(task: Path, profile: str, results: Path, *, engine: Path) -> tuple[Path | None, int]:
    """(the new run directory, exit code) of `gates run` on a task folder, by the gates of the checkout ``engine``."""
    before = set(_runs(results / task.name))
    build = results.parent.with_name(f"{results.parent.name}-build")  # not in the artifact
    command = [
        sys.executable,
        "-m",
        "gates",
        "run",
        str(task.resolve()),
        "--profile",
        profile,
        "--results",
        str(results),
        "--build-dir",
        str(build),
    ]
    code = run_untrusted(command, engine, [results, build])  # `python -m` takes the gates of the folder that it starts in
    new = sorted(set(_runs(results / task.name)) - before)
    return (new[-1] if new else None), code


def base_run(stage: str, run: Path, tree: Path, base: Path, out: Path) -> tuple[Path | None, str]:
    """(a run of the stage's baseline as the base branch has it, copied below ``out``; what could not be judged)."""
    from gates.core.errors import GatesError
    from gates.task.load import load_baseline, load_task

    try:
        baseline = load_baseline(load_task(tree / "tasks" / stage, environ={}))
        if baseline is None:
            return None, ""
        folder = base / baseline.folder.relative_to(tree)
        if not (folder / "task.yaml").is_file():
            return None, f"the base branch has no {baseline.name}; the baseline is this change's own"
        digest = load_task(folder, environ={}).digest()
    except (GatesError, OSError, ValueError) as error:
        return None, f"the base branch's baseline can't be read: {error}"
    place = out / "base" / stage
    recorded = recorded_run(base / "results" / "recorded", baseline.name, digest, _device(run))
    if recorded is not None:
        place.mkdir(parents=True)
        return Path(shutil.copytree(recorded, place / recorded.name)), ""
    fresh, code = gates_run(folder, "full", out / "fresh", engine=base)
    if fresh is None:
        return None, f"the base branch's {baseline.name} could not be measured (exit code {code})"
    place.mkdir(parents=True)
    return Path(shutil.move(fresh, place / fresh.name)), ""


def recorded_run(recorded: Path, name: str, digest: str, device: str | None) -> Path | None:
    """The latest recorded run of the very stage on that kind of device; None where there is none."""
    from gates.evidence.run_directory import list_runs

    fitting = []
    for run in (run for folder in recorded.glob(f"*/{name}") for run in list_runs(folder)):
        told = _json(run / "run.json")
        task, on = told.get("task"), told.get("device")
        if isinstance(task, dict) and task.get("digest") == digest and isinstance(on, dict) and on.get("name") == device:
            fitting.append(run)
    return max(fitting, key=lambda path: path.name, default=None)


def _device(run: Path) -> str | None:
    device = _json(run / "run.json").get("device")
    return device.get("name") if isinstance(device, dict) else None


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _runs(folder: Path) -> list[Path]:
    return [path.parent for path in folder.glob("*/run.json") if not path.parent.name.startswith(".")]


@contextlib.contextmanager
def _card() -> Iterator[None]:
    """Hold this machine's card, named by CUDA_VISIBLE_DEVICES, until the block ends; another step waits."""
    card = re.sub(r"[^A-Za-z0-9]+", "-", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    path = Path(os.environ.get("GATES_LOCK_DIR") or tempfile.gettempdir()) / f"kernel-gates-card-{card}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise CiError(f"can't lock the card with {path}: {error.strerror}", "let all runners of the machine write it") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(run_step(main))
