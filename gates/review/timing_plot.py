"""From a run directory to the picture of its timing."""

from __future__ import annotations

from pathlib import Path

from gates.core.errors import GatesError
from gates.evidence.judging import rejudge
from gates.evidence.packed_runs import origin
from gates.evidence.run_directory import RunInfo, own_file, read_record, require_outside_a_run
from gates.gate.performance.evidence import PerformanceEvidence
from gates.render.plot import draw
from gates.verify.run import require_sound


def picture_of(run: Path, out: Path | None = None) -> Path:
    """Draw the timing of ``run`` to ``out`` (``results/<task>-timing.png`` if None) and return the path.

    Raises GatesError for a run that is not sound or timed nothing, for a file inside a run directory, and as ``gates.render.plot.draw``
    does.
    """
    require_sound(run)
    info: RunInfo = read_record(RunInfo, run, "run.json")
    result = rejudge(run, info, "performance")
    if result is None:
        raise GatesError(
            f"{origin(run)} has no performance.json: its performance gate measured nothing", hint="a run on a CUDA device has one"
        )
    evidence: PerformanceEvidence = read_record(PerformanceEvidence, run, "performance.json")
    path = out or own_file(f"{info.task.name}-timing.png")
    require_outside_a_run(path)
    draw(evidence, info.task.limits["performance"], result, path)
    return path
