"""Check a run directory from its files alone: digests, schemas, and that the decision follows."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from gates import jsonio
from gates.errors import GatesError
from gates.evidence import RunInfo, Verdict, read_record, sha256
from gates.judge.decision import Decision, decide
from gates.judging import rejudge

_SCHEMAS = Path(__file__).parent / "schemas"
_MOST_PROBLEMS = 20


def verify_run(run: Path) -> list[str]:
    """What is wrong with the run directory, one sentence each; empty where it is sound."""
    try:
        problems = file_problems(run) or _check_verdict(run)
    except GatesError as error:
        problems = [error.what]
    return problems[:_MOST_PROBLEMS]


def file_problems(run: Path) -> list[str]:
    """What is wrong with the files themselves (digests, schemas), whatever the verdict says."""
    return _check_digests(run) or _check_schemas(run)


def require_sound_files(run: Path) -> None:
    """Raise GatesError where a file of the run was changed after it, or does not fit its schema."""
    _require(run, file_problems(run))


def decide_run(run: Path) -> tuple[Decision, str]:
    """The decision over a verified run; raises GatesError where its evidence is not sound."""
    _require(run, verify_run(run))
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    return verdict.decision, verdict.reason


def _require(run: Path, problems: list[str]) -> None:
    if problems:
        raise GatesError(
            f"{run} is not sound: {problems[0]}",
            hint=f"`gates verify {run}` names all {len(problems)} problems; run the stage again" if len(problems) > 1 else "run the stage again",
        )


def _check_digests(run: Path) -> list[str]:
    data = jsonio.read(run / "manifest.json")
    errors = _schema_errors("manifest", data)
    if errors:
        return [f"manifest.json: {error}" for error in errors]
    listed = data["sha256"]
    problems = []
    for name in listed:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts or "\\" in name:
            return [f"manifest.json names {name!r}, which lies outside the run"]
    present = set()
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink():
            problems.append(f"{name} is a symbolic link")
        elif path.is_file() and name != "manifest.json":
            present.add(name)
            if name not in listed:
                problems.append(f"{name} is not in the manifest")
            elif sha256(path) != listed[name]:
                problems.append(f"{name} was changed after the run")
    return problems + [f"{name} is missing" for name in sorted(set(listed) - present)]


def _check_schemas(run: Path) -> list[str]:
    problems = []
    for path in sorted(run.rglob("*.json")):
        errors = _schema_errors(path.stem, jsonio.read(path))
        problems += [f"{path.relative_to(run).as_posix()}: {error}" for error in errors]
    return problems


def _schema_errors(kind: str, data: Any) -> list[str]:
    import jsonschema

    schema = _SCHEMAS / f"{kind}.schema.json"
    if not schema.is_file():
        return ["no such kind of evidence"]
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    return [
        f"{'.'.join(str(part) for part in error.absolute_path) or 'top'}: {error.message[:200]}"
        for error in validator.iter_errors(data)
    ]


def _check_verdict(run: Path) -> list[str]:
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    problems = []
    for recorded in verdict.gates:
        again = rejudge(run, info, recorded.gate)
        if again is not None and (again.status, again.code) != (recorded.status, recorded.code):
            problems.append(
                f"verdict.json says {recorded.gate}: {recorded.status.value} ({recorded.code}), "
                f"its evidence says {again.status.value} ({again.code})"
            )
        elif again is None and recorded.status.value == "pass":
            problems.append(f"verdict.json says {recorded.gate}: pass, but there is no evidence of it")
    decision, reason = decide(verdict.gates, info.task.overrides)
    if (decision, reason) != (verdict.decision, verdict.reason):
        problems.append(f"verdict.json says {verdict.decision.value} ({verdict.reason}), its gates say {decision.value} ({reason})")
    return problems
