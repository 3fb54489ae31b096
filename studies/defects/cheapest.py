"""The cheapest gate that must be red for a defect, run without a process and without the gates that add nothing."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from defects.folders import HERE, ROOT
from defects.record import Defect
from gates.core import jsonio
from gates.core.records import GateResult, Status
from gates.gate.correctness import collect as run
from gates.gate.correctness import evidence as parse
from gates.gate.correctness import judge
from gates.worker.job import KINDS, FinishedJob

# Shapes that show most defects, by whether the kernel is attention: two key tiles and two heads, then three heads of two batches.
_FIRST = {True: (("odd",), ("tail",)), False: (("small",),)}


def task_of(defect: Defect) -> tuple[Path, dict[str, Any]]:
    """The honest task's folder and task.yaml, whose limits and problem the defect has."""
    folder = ROOT / "tasks" / defect.stage if defect.stage else HERE / "toolbox" / "mix"
    return folder, yaml.safe_load((folder / "task.yaml").read_text(encoding="utf-8"))


def passed(defects: Sequence[Defect], library: Path, folder: Path) -> list[str]:
    """Names of those of ``defects``, which ``compile_patched`` made ``library`` of, that the correctness gate does not fail."""
    return [
        defect.name
        for number, defect in enumerate(defects)
        if correctness(defect, library, f"{task_of(defect)[1]['entry']}_{number}", folder / defect.name).status is not Status.FAIL
    ]


def correctness(defect: Defect, library: Path, entry: str, work: Path) -> GateResult:
    """The correctness gate on the emulator: a few shapes first; odd shapes and input families where these pass.

    The baseline is left out: being worse than it is one more way to be red. So are the limits on the input
    format's own error, which these shapes were not chosen for.
    """
    _, task = task_of(defect)
    limits = {name: value for name, value in task["gates"]["correctness"].items() if name not in ("match_baseline", "end_to_end")}
    side = _side(defect, library, entry)
    for shapes, quick in (*((shape, False) for shape in _FIRST[bool(defect.stage)]), (defect.shapes, True)):
        with contextlib.nullcontext() if defect.process else _in_process():
            raw = run.run_correctness(
                side,
                shapes,
                (0,),
                work=work,
                limit_s=_limit_s(defect),
                device="cpu",
                quick=quick,
                bad_atol=limits.get("bad_atol"),
            )
        result = judge.judge(parse.parse(raw), limits)
        if result.status.value == "fail":
            break
    return result


def launches(library: Path, entry: str, defect: Defect, work: Path) -> list[Mapping[str, Any]]:
    """The launches of one call, as the emulator records them for the ptxas gate."""
    with _in_process():
        raw = run.run_correctness(
            _side(defect, library, entry),
            defect.shapes,
            (0,),
            work=work,
            limit_s=60,
            device="cpu",
            quick=False,
        )
    lines = [json.loads(line) for job in raw["candidate"]["jobs"] for line in job["lines"]]
    return next(line["result"]["launches"] for line in lines if line["type"] == "case")


def _side(defect: Defect, library: Path, entry: str) -> dict[str, Any]:
    folder, task = task_of(defect)
    return {
        "name": defect.name,
        "library": str(library),
        "entry": entry,
        "folder": str(folder),
        "problem": task["problem"],
        "emulated": True,
        "arch": task["arch"],
    }


def _limit_s(defect: Defect) -> float:
    return 8.0 if defect.name == "hangs" else 60.0


@contextlib.contextmanager
def _in_process() -> Iterator[None]:
    """Let the runner's job run in this process: quicker by torch's import, for kernels that leave it alive."""

    def run_job(folder: Path, job: dict[str, Any], work: Path, *, name: str, **_: Any) -> FinishedJob:
        work.mkdir(parents=True, exist_ok=True)
        path, result = work / f"{name}.job.json", work / f"{name}.jsonl"
        result.unlink(missing_ok=True)
        jsonio.write(path, {**job, "nonce": "n0", "result": str(result)})
        importlib.import_module(KINDS[job["kind"]].module).execute(jsonio.read(path), folder)
        return FinishedJob("n0", 0, "exit 0", False, 0.1, tuple(result.read_text(encoding="utf-8").splitlines()), "")

    real, run.attempt = run.run_job, run_job
    try:
        yield
    finally:
        run.run_job = real
