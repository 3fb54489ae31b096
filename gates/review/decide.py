"""May the stage be merged? The decision over a verified run, and a reviewer's word on looser terms.

A run directory is never changed. What a reviewer accepts is written beside the evidence as
acceptance.json and is tied to the manifest, so it holds for that very run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.core.records import Decision, GateResult
from gates.evidence.archive import ACCEPTANCE
from gates.evidence.judging import decision_of, looser_terms
from gates.evidence.packed_runs import origin
from gates.evidence.run_directory import SCHEMA_VERSION, RunInfo, Verdict, read_record, utc_now, write_outside_runs
from gates.verify.run import require_sound

_MOST_CHARACTERS = 500
_OUT_HINT = "name a writable file in a folder that exists"


@dataclass(frozen=True)
class Acceptance:
    """acceptance.json: terms looser than the baseline's that a reviewer accepted, and why."""

    schema_version: int
    manifest_sha256: str
    looser: tuple[str, ...]
    reason: str
    accepted: str  # UTC, ISO 8601


def decide_run(run: Path) -> tuple[Decision, str]:
    """The decision over a run; raises GatesError where its evidence is not sound."""
    require_sound(run)
    return decision_in(run)


def decision_in(run: Path, gates: Sequence[GateResult] | None = None) -> tuple[Decision, str]:
    """The decision over a run that was verified before; over ``gates``, if some of them were taken over from another run."""
    judged = read_record(Verdict, run, "verdict.json").gates if gates is None else gates
    accepted = (run / ACCEPTANCE).is_file()
    decision, reason = decision_of(read_record(RunInfo, run, "run.json"), judged, accepted=accepted)
    return decision, f"{reason}; looser terms accepted: {read_record(Acceptance, run, ACCEPTANCE).reason}" if accepted else reason


def accept_looser_terms(run: Path, reason: str) -> Path:
    """Write down that a reviewer accepts the run's looser terms; returns the file.

    Raises GatesError where the run is not sound, has no such terms, or has been accepted before.
    """
    if not reason.strip() or not reason.isprintable() or len(reason) > _MOST_CHARACTERS:
        raise GatesError(
            f"--accept-policy-change needs a reason in one line of plain text, {_MOST_CHARACTERS} characters at most",
            hint='e.g. --accept-policy-change "tiles of 128 rows need more registers"',
        )
    require_sound(run)
    if (packed := origin(run)) != run:
        raise GatesError(f"{packed} is packed: an acceptance is written into a run directory", hint=f"gates unpack {packed}")
    info: RunInfo = read_record(RunInfo, run, "run.json")
    found = looser_terms(info.task, info.baseline)
    if not found:
        raise GatesError(
            f"{run}: there is nothing to accept: no term is looser than the baseline's", hint="gates decide without the option"
        )
    if (run / ACCEPTANCE).exists():
        known: Acceptance = read_record(Acceptance, run, ACCEPTANCE)
        raise GatesError(
            f"{run}: accepted before, on {known.accepted}: {known.reason}", hint="gates decide tells the decision that follows"
        )
    record = Acceptance(
        SCHEMA_VERSION, jsonio.sha256(run / "manifest.json"), found, reason.strip(), utc_now().isoformat(timespec="milliseconds")
    )
    jsonio.write(run / ACCEPTANCE, records.to_json(record))
    return run / ACCEPTANCE


def write_junit(run: Path, gates: Sequence[GateResult], out: Path) -> None:
    """Write the run's task with the verdicts ``gates`` as JUnit XML to ``out``."""
    from gates.render.ci.junit import junit

    info: RunInfo = read_record(RunInfo, run, "run.json")
    write_outside_runs(out, junit(info.task.name, info.started, gates), hint=_OUT_HINT)


def write_sarif(run: Path, gates: Sequence[GateResult], out: Path) -> None:
    """Write those of ``gates`` that did not pass as SARIF to ``out``, with places in this checkout if it has the stage that was judged."""
    from gates.diagnostics.explain import all_codes
    from gates.render.ci.sarif import sarif
    from gates.verify.checkout import source_places

    info: RunInfo = read_record(RunInfo, run, "run.json")
    write_outside_runs(out, sarif(info.task.name, gates, *source_places(info.task), all_codes()), hint=_OUT_HINT)
