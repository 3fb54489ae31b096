"""What ``gates verify`` says of a folder: of a run, a sweep, an evaluation or a search."""

from __future__ import annotations

import os
from pathlib import Path

from gates.evaluation.evolution.record import FILE as EVOLUTION
from gates.evaluation.record import FILE as EVALUATION
from gates.evidence.packed_runs import copy_problems, is_sweep, opened, origin
from gates.evidence.run_directory import recorded, resolve_run, run_places
from gates.sweep.record import FILE as SWEEP
from gates.verify.run import MOST_PROBLEMS, check_run, checkout_notes


def verifiable(name: str, results: Path) -> list[Path]:
    """The folders or packed files that ``name`` means: a run, a sweep, or for recorded:DEVICE all its runs and sweeps.

    GatesError where there is none.
    """
    kind, _, rest = name.partition(":")
    device = next((folder for folder in recorded(results).glob("*") if kind == "recorded" and folder.name == rest), None)
    if device is not None:
        runs = [run for task in device.iterdir() for run in run_places(task)]
        if found := sorted([*runs, *filter(_is_sweep, device.glob("sweeps/*/*"))]):
            return found
    searched = any(os.path.isfile(os.path.join(name, file)) for file in (EVALUATION, EVOLUTION))
    return [Path(name)] if searched or _is_sweep(name) else [resolve_run(name, results)]


def _is_sweep(folder: str | Path) -> bool:
    """Whether it is a sweep's; a run stays one, whatever was put into it."""
    return is_sweep(Path(folder)) or os.path.isfile(os.path.join(folder, SWEEP)) and not os.path.isfile(os.path.join(folder, "run.json"))


def findings(place: Path, signers: Path | None = None) -> tuple[list[str], list[str]]:
    """Return (problems of the run or sweep in the folder or packed file ``place``, notes). Notes, only without problems, name what was not
    checked and what differs in this checkout.

    With ``signers``, a file of allowed signers, one of them must have signed the run's attestation; a note names the signer.
    """
    if (place / EVALUATION).is_file():
        from gates.evaluation.verify import verify_evaluation

        return verify_evaluation(place)[:MOST_PROBLEMS], []
    if (place / EVOLUTION).is_file():
        from gates.evaluation.evolution.verify import verify_evolution

        return verify_evolution(place)[:MOST_PROBLEMS], []
    folder = opened(place)
    if _is_sweep(folder):
        if signers is not None:
            return ["a sweep has no attestation: attest the winner's run"], []
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
