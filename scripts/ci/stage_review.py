"""What a folder of run directories says, stage by stage, decided anew from the evidence.

The folder is what ``judge_stages.py`` wrote, perhaps on a machine that ran kernels nobody has vetted, so
nothing in it is believed: paths must stay inside, and each decision is taken by the `gates` command here,
which checks the evidence first. The decisions and reports that the folder itself tells are not even read, a run
must be of the stage, the profile and the commit that it stands for, and no acceptance may come with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ci_common import CiError

OUTCOMES = "outcomes.json"
ACCEPTANCE = "acceptance.json"
_RENDER = Path(__file__).resolve().with_name("render_run.py")
ERROR = "error"  # no decision could be taken: nothing that may pass
CONCLUSIONS = {"merge": "success", "reject": "failure", "hold": "neutral", ERROR: "failure"}
_WORST_FIRST = ("reject", ERROR, "hold", "merge")
_DECISIONS = {0: "merge", 1: "reject", 3: "hold"}
_LIMIT_S = 120
_MAX_BYTES = 4 * 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Review:
    """One stage: the decision (merge, reject, hold or error), why, and what its report says."""

    stage: str
    decision: str
    reason: str
    markdown: str = ""
    evidence: str = ""  # the packed run, in the artifact


def review_folder(
    folder: Path, *, engine: Path, profile: str, head_sha: str | None = None, expected: Sequence[str] | None = None
) -> list[Review]:
    """The reviews of a folder's stages; a stage that was ``expected`` and is not there is an error.

    ``engine`` is the folder in which `python -m gates` finds the gates that decide. Runs must be of ``profile`` and, where it is
    known, of the commit ``head_sha`` without changes to it.
    """
    folder = folder.resolve()
    reviews = {}
    for entry in _outcomes(folder):
        evidence = entry["run"].relative_to(folder).as_posix() if entry["run"] else ""
        reviews[entry["stage"]] = replace(_review(entry, engine, profile, head_sha), evidence=evidence)
    for stage in expected or ():
        reviews.setdefault(stage, Review(stage, ERROR, "the run left no evidence of it"))
    return [replace(reviews[stage], reason=reviews[stage].reason.replace(f"{folder}/", "")) for stage in sorted(reviews)]


def judged_run(folder: Path, stage: str, *, engine: Path, profile: str, head_sha: str) -> Path:
    """The run of a stage in the folder; CiError if ``review_folder`` would call it an error."""
    folder = folder.resolve()
    entry = next((entry for entry in _outcomes(folder) if entry["stage"] == stage), {"stage": stage, "run": None, "base": None, "note": ""})
    review = _review(entry, engine, profile, head_sha)
    if review.decision == ERROR:
        raise CiError(f"{stage}: nothing to attest: {review.reason.replace(f'{folder}/', '')}")
    return Path(entry["run"])


def directory_of(run: Path, out: Path, *, engine: Path) -> Path:
    """The directory of a run: of a packed one what `gates unpack` writes to the folder ``out``. CiError for a file that it refuses."""
    if run.suffix != ".zip":
        return run
    done = run_gates(["unpack", str(run), "--out", str(out)], engine)
    if done.returncode != 0:
        raise CiError(_said(done))
    return out / run.stem


def statement_of(run: Path, *, engine: Path) -> dict[str, Any]:
    """What `gates attest` says of a run."""
    with tempfile.TemporaryDirectory(prefix="gates-attest-") as scratch:
        place = Path(scratch) / "statement.json"
        done = run_gates(["attest", str(run), "--out", str(place)], engine)
        if done.returncode != 0:
            raise CiError(f"gates attest: {_said(done)}")
        return dict(json.loads(place.read_text(encoding="utf-8")))


def worst(reviews: Sequence[Review]) -> Review:
    """The review that decides for all of them."""
    return min(reviews, key=lambda review: _WORST_FIRST.index(review.decision))


def review_run(run: Path, base: Path | None, *, engine: Path, stage: str = "") -> Review:
    """The review of one run, put beside the base branch's run of its baseline where there is one."""
    if os.path.lexists(run / ACCEPTANCE):
        return Review(stage, ERROR, f"the evidence brings {ACCEPTANCE} along: who is judged can't accept looser terms")
    if base is None:
        decision, reason = _decide(run, engine)
        return Review(stage, decision, reason, _rendered(run, engine) if decision != ERROR else "")
    with tempfile.TemporaryDirectory(prefix="gates-review-") as scratch:
        done = run_gates(["compare", str(base), str(run), "--force", "--out", scratch], engine)
        found = sorted(Path(scratch).glob("*/compare.json"))
        if done.returncode not in _DECISIONS or len(found) != 1:
            return Review(stage, ERROR, _said(done))
        compared = json.loads(found[0].read_text(encoding="utf-8"))
        decision, reason = _DECISIONS[done.returncode], str(compared["reason"])
        if decision in ("merge", "reject") and (own := _decide(run, engine))[0] == decision:
            reason = own[1]
        return Review(stage, decision, reason, _text(found[0].with_name("COMPARE.md")))


def _review(entry: dict[str, Any], engine: Path, profile: str, head_sha: str | None) -> Review:
    stage, run, base, note = entry["stage"], entry["run"], entry["base"], entry["note"]
    if run is None:
        return Review(stage, ERROR, note or "the run left no evidence")
    with tempfile.TemporaryDirectory(prefix="gates-review-") as scratch:
        try:
            run = directory_of(run, Path(scratch, "run"), engine=engine)
            base = directory_of(base, Path(scratch, "base"), engine=engine) if base else None
        except CiError as error:
            return Review(stage, ERROR, error.what)
        review = _reviewed(stage, run, base, note, engine, profile, head_sha)
        return replace(review, reason=review.reason.replace(f"{scratch}/", ""))


def _reviewed(stage: str, run: Path, base: Path | None, note: str, engine: Path, profile: str, head_sha: str | None) -> Review:
    review = review_run(run, base, engine=engine, stage=stage)
    if review.decision != ERROR and (strange := _of_another(run, stage, profile, head_sha, base is not None or bool(note))):
        return Review(stage, ERROR, strange)
    if review.decision == "merge":  # what could not be judged is never passed over
        note = note or ("the cpu profile judges neither speed nor counters" if profile == "cpu" else "")
        return replace(review, decision="hold", reason=note) if note else review
    if profile == "cpu" and review.decision == "hold" and (words := _unchanged_since(run, stage, engine)):
        return replace(review, reason=f"{review.reason}; {words}")
    return review


def _unchanged_since(run: Path, stage: str, engine: Path) -> str:
    """Whose GPU verdict the run may take over, of those that the engine's checkout has recorded. It stays hold: machine code that a
    change's own job reports is the change's word.
    """
    for place in sorted(engine.glob(f"results/recorded/*/{stage}")):
        done = run_gates(["decide", str(run), "--gpu-verdict-of", f"recorded:{place.parent.name}/{stage}", "--json"], engine)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(done.stdout)
            if told["taken_over"]:
                return f"with its GPU verdict {told['decision']}: {str(told['reason']).rpartition('; ')[2]}"
    return ""


def _of_another(run: Path, stage: str, profile: str, head_sha: str | None, beside: bool) -> str:
    """What the run is about instead of the stage, profile and commit that it stands for; empty where it is of these.

    ``beside``: it comes with the base branch's run of its baseline, or with word of why not.
    """
    try:
        info = json.loads(_text(run / "run.json"))
        name, ran, git = info["task"]["name"], info["profile"], info["git"]
        sha, dirty, baseline = git["sha"], git["dirty"], info["baseline"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "run.json does not say what ran"
    if name != stage:
        return f"the run is of {name}, not of {stage}"
    if ran != profile:
        return f"the run has the profile {ran}, not {profile}"
    if head_sha is not None and sha != head_sha:
        return f"the run is of the commit {str(sha)[:12]}, not of {head_sha[:12]}"
    if head_sha is not None and dirty is not False:
        return "the run is of a tree with uncommitted changes"
    if head_sha is not None and profile == "full" and baseline is not None and not beside:
        return "the base branch's run of its baseline is missing"
    return ""


def _decide(run: Path, engine: Path) -> tuple[str, str]:
    done = run_gates(["decide", str(run), "--json"], engine)
    try:
        told = json.loads(done.stdout)
        decision, reason = told["decision"], str(told["reason"])
    except (ValueError, KeyError, TypeError):  # it ended before it came to a decision
        return ERROR, _said(done)
    if decision in ("merge", "reject"):  # the speed-up or the fault itself, where the base branch's gates tell it
        reason = str(told.get("fact", reason))
    return (decision, reason) if decision == _DECISIONS.get(done.returncode) else (ERROR, _said(done))


def run_gates(arguments: list[str], engine: Path) -> subprocess.CompletedProcess[str]:
    """Run a `gates` command of the checkout or the environment ``engine``."""
    return _python(["-m", "gates", *arguments], engine)


def _python(arguments: list[str], engine: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where ``import gates`` means the engine's."""
    command, path = [sys.executable, *arguments], os.pathsep.join(filter(None, [str(engine.resolve()), os.environ.get("PYTHONPATH")]))
    try:
        return subprocess.run(
            command,
            cwd=engine,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 4, "", f"error: no decision within {_LIMIT_S} s")


def _rendered(run: Path, engine: Path) -> str:
    """The run's report, rendered here from its evidence."""
    done = _python([str(_RENDER), str(run)], engine)
    return done.stdout if done.returncode == 0 else "The report could not be rendered; see the uploaded run."


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return lines[0].removeprefix("error: ") if lines else f"gates ended with exit code {done.returncode}"


def _outcomes(folder: Path) -> list[dict[str, Any]]:
    """What outcomes.json lists, with run and base as paths inside the folder."""
    path = folder / OUTCOMES
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_BYTES:
            raise CiError(f"{OUTCOMES} is not a plain file of reasonable size")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CiError("the run left no evidence", "see the log of the job that judges") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CiError(f"{OUTCOMES} can't be read: {error}") from None
    stages = data.get("stages") if isinstance(data, dict) else None
    if not isinstance(stages, list) or len(stages) > 200:
        raise CiError(f"{OUTCOMES} does not list stages")
    return [_entry(folder, entry) for entry in stages]


def _entry(folder: Path, entry: Any) -> dict[str, Any]:
    stage = entry.get("stage") if isinstance(entry, dict) else None
    if not isinstance(stage, str) or not _NAME.fullmatch(stage):
        raise CiError(f"{OUTCOMES} holds something that is no stage")
    note = entry.get("note") or ""
    return {
        "stage": stage,
        "run": _inside(folder, entry.get("run")),
        "base": _inside(folder, entry.get("base")),
        "note": str(note)[:500],
    }


def _inside(folder: Path, name: Any) -> Path | None:
    if name is None:
        return None
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or any(not _NAME.fullmatch(part) for part in parts):
        raise CiError(f"{OUTCOMES} names a run outside the folder: {str(name)[:80]!r}")
    path = folder.joinpath(*parts)
    if path.resolve() != folder.resolve().joinpath(*parts):
        raise CiError(f"{OUTCOMES} names a run behind a symbolic link: {str(name)[:80]!r}")
    return path


def _text(path: Path) -> str:
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
