"""Timing: candidate against baseline on a CUDA device, in a runner process of its own.

``run_timing`` is the engine's side and never imports torch; ``execute`` is the runner's side. The
procedure is gates.run.timing_session's. The measurement is on disk
before the context rows (other implementations) are tried, so that they can't spoil it.
"""

from __future__ import annotations

import math
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.errors import GatesError
from gates.run.attempt import Attempt, ResultWriter, attempt
from gates.run.callable import is_c
from gates.task import nearest

SINGLE_PAIRS, SINGLES_A_BLOCK = 12, 25
MAX_SINGLES_A_BLOCK = 1000
_MAX_SEED = 2**31 - 1 - 1000


def run_timing(
    candidate: Mapping[str, Any],
    *,
    shape: str,
    work: Path,
    limit_s: float,
    bar_pct: float,
    baseline: Mapping[str, Any] | None = None,
    output_limits: Mapping[str, float] | None = None,
    device: str = "cuda:0",
    cache: str = "cold",
    seed: int | None = None,
    iters: int | None = None,
    budget_s: float = 60.0,
    also: Sequence[str] = (),
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of one timing run, for ``gates.parse.performance.parse``.

    The sides are dicts as a job has them. ``output_limits`` are the correctness limits (max_abs_err,
    mean_abs_err, bad_pct, bad_atol) that outputs must keep before and after timing. ``seed`` decides
    input values and order; drawn and recorded if None. ``also``: shapes to time beside, for context. ``iters`` is the number of single launches a
    side (300 if None, at least 60). Raises GatesError for an unknown shape, a bad ``iters`` or ``cache``.
    """
    if iters is not None and iters < 1:
        raise GatesError(f"iterations must be at least 1, got {iters}")
    if cache not in ("cold", "warm"):
        raise GatesError(f"cache mode {cache!r} is not one of cold, warm")
    work.mkdir(parents=True, exist_ok=True)
    control = Path((baseline or candidate)["library"])
    if is_c(baseline or candidate):
        control = work / "control.so"
        shutil.copyfile((baseline or candidate)["library"], control)  # another file, so that the loader maps it anew
    limits = {key: value for key, value in (output_limits or {}).items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    job = {
        "kind": "timing", "device": device, "candidate": dict(candidate), "baseline": dict(baseline) if baseline else None,
        "control_library": str(control), "shape": shape, "bar_pct": float(bar_pct), "cache": cache, "budget_s": budget_s,
        "seed": secrets.randbelow(_MAX_SEED) if seed is None else seed, "output_limits": limits,
        "singles_a_block": singles_a_block(iters), "also": list(also),
    }
    tried = attempt(Path(candidate["folder"]), job, work, limit_s=limit_s, name="timing", python=python)
    if (refusal := tried.refusal()) is not None:
        raise refusal
    return {
        "task": candidate["name"], "baseline": baseline["name"] if baseline else None, "shape": shape,
        **_read(tried), "process_s": tried.wall_s, "output_tail": tried.output_tail,
    }


def singles_a_block(iters: int | None) -> int:
    """Single launches a block for ``iters`` launches a side over twelve blocks, within 5 and 1000."""
    wanted = SINGLES_A_BLOCK if iters is None else math.ceil(iters / SINGLE_PAIRS)
    return max(5, min(MAX_SINGLES_A_BLOCK, wanted))


def _read(tried: Attempt) -> dict[str, Any]:
    """What the runner's lines say, or why there are none."""
    lines = {str(line.get("type")): line for line in tried.own()}
    measured = lines.get("measured", {}).get("evidence")
    context = {name: lines.get(name, {}).get(name, {}) for name in ("backends", "also")}
    if measured is not None:
        return {"measured": measured, **context, "code": "", "message": ""}
    if "stopped" in lines:
        code, message = str(lines["stopped"].get("code")), str(lines["stopped"].get("message"))
    elif tried.timed_out:
        code, message = "performance.time_limit", f"timing was {tried.cause}"
    else:
        code, message = "performance.runner_died", f"the timing process gave no result ({tried.cause}): {tried.last_words()}"
    return {"measured": None, "backends": {}, "also": {}, "code": code, "message": message}


def execute(job: dict[str, Any], folder: Path) -> None:
    """Time the job's sides and write ``measured``, ``backends`` and ``also`` lines, or one ``stopped`` line."""
    from gates.run import nvml

    before = nvml.processes_by_uuid()  # before CUDA starts, to tell our own process from others
    import torch

    from gates import problem as problems
    from gates.run.integrity import Functions
    from gates.run.timing_cuda import Stopped, first_line
    from gates.run.timing_session import Session

    functions = Functions()  # before any code of the kernels or of their problem is loaded
    with ResultWriter(job) as writer:
        problem = problems.load(job["candidate"]["problem"], Path(job["candidate"]["folder"]))
        for shape in (job["shape"], *job.get("also", ())):
            if shape not in problem.SHAPES:
                raise GatesError(f"problem {problem.__name__} has no shape {shape!r}", hint=nearest(shape, problem.SHAPES))
        try:
            if not torch.cuda.is_available():
                raise Stopped("performance.no_device", "torch sees no CUDA device")
            device = torch.device(job["device"])
            with torch.cuda.device(device):
                session = Session(job, problem, device, before)
                evidence = session.measure()
                if replaced := functions.replaced():
                    raise Stopped("performance.tampered", f"{', '.join(replaced[:5])}: not what it was before the kernels were loaded")
                writer.write("measured", evidence=evidence)
                writer.write("backends", backends=session.backends())
                writer.write("also", also=session.also())
            writer.write("done")
        except Stopped as stop:
            writer.write("stopped", code=stop.code, message=str(stop))
        except torch.OutOfMemoryError as error:
            writer.write("stopped", code="performance.no_memory", message=first_line(error))
        except MemoryError:
            writer.write("stopped", code="performance.no_memory", message="not enough host memory for the reference")
        except RuntimeError as error:
            writer.write("stopped", code="performance.device_error", message=first_line(error))
