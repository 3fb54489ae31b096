"""What ``gates verify`` says of a folder: of a run, a sweep, an evaluation or a search."""

from __future__ import annotations

import os
from pathlib import Path

from gates.evaluation.evolution.record import FILE as EVOLUTION
from gates.evaluation.record import FILE as EVALUATION
from gates.evidence.packed_runs import copy_problems, opened, origin, record_of
from gates.evidence.run_directory import recorded, resolve_run, run_places
from gates.sweep.record import FILE as SWEEP
from gates.verify.run import MOST_PROBLEMS, check_run, checkout_notes

_WITHOUT_RUN = (SWEEP, EVOLUTION)  # a run stays one, whatever was put into it


def verifiable(name: str, results: Path) -> list[Path]:
    """The folders or packed files that ``name`` means: a run, a sweep, a search, an evaluation, or for recorded:DEVICE everything of it.

    GatesError where there is none.
    """
    kind, _, rest = name.partition(":")
    device = next((folder for folder in recorded(results).glob("*") if kind == "recorded" and folder.name == rest), None)
    if device is not None:
        runs = [run for task in device.iterdir() for run in run_places(task)]
        searches = [place for folder in ("sweeps", "evolve") for place in device.glob(f"{folder}/*/*") if _record(place)]
        if found := sorted([*runs, *searches]):
            return found
    return [Path(name)] if _record(Path(name)) else [resolve_run(name, results)]


def _record(place: Path) -> str:
    """The file that says what the folder or packed file ``place`` is, if it is not a run."""
    if packed := record_of(place):
        return packed
    if os.path.isfile(os.path.join(place, EVALUATION)):
        return EVALUATION
    run = os.path.isfile(os.path.join(place, "run.json"))
    return next((name for name in _WITHOUT_RUN if not run and os.path.isfile(os.path.join(place, name))), "")


def findings(place: Path, signers: Path | None = None) -> tuple[list[str], list[str]]:
    """Return (problems of what is in the folder or packed file ``place``, notes). Notes, only without problems, name what was not
    checked and what differs in this checkout.

    With ``signers``, a file of allowed signers, one of them must have signed the run's attestation; a note names the signer.
    """
    folder = opened(place)
    record = _record(folder)
    if record and signers is not None:
        return [f"{record} has no attestation: attest the run of the best"], []
    if record == EVALUATION:
        from gates.evaluation.verify import verify_evaluation

        return verify_evaluation(folder)[:MOST_PROBLEMS], []
    if record == EVOLUTION:
        from gates.evaluation.evolution.verify import verify_evolution

        return verify_evolution(folder)[:MOST_PROBLEMS], []
    if record == SWEEP:
        from gates.sweep.verify import verify_sweep  # brings the engine along

        return verify_sweep(folder)[:MOST_PROBLEMS], []
    problems, notes = check_run(folder)
    if (packed := origin(folder)) != folder and not problems:
        problems = copy_problems(packed)
    if signers is not None and not problems:
        from gates.review.attestation import attestation_problems

        problems, signer = attestation_problems(folder, signers)
        notes.append(f"signed by {signer}")
    return problems, [] if problems else [*notes, *checkout_notes(folder)]
