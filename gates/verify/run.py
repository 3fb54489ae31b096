"""Check a run directory from its files alone: digests, schemas, counts that add up, and that the decision follows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.core.schema import checker, errors_by, schema_errors
from gates.evidence.archive import ACCEPTANCE
from gates.evidence.judging import decision_of, load_evidence, looser_terms, rejudge
from gates.evidence.packed_runs import origin
from gates.evidence.run_directory import RunInfo, Verdict, read_record, require_known_version
from gates.gate.registry import FIRST_GATES, GATES, ROWS, task_schema
from gates.verify.builds import build_problems
from gates.verify.checkout import changed_since, contradicts_checkout
from gates.verify.files import strangers
from gates.verify.run_record import self_contradictions

MOST_PROBLEMS = 20
_MOST_CHARACTERS = 1000  # of a sentence
_MAX_BYTES = 512 * 2**20  # no file of a run is near it, and a digest of more takes long


def verify_run(run: Path) -> list[str]:
    """What is wrong with the run directory, one sentence each; empty where it is sound."""
    return check_run(run)[0]


def check_run(run: Path) -> tuple[list[str], list[str]]:
    """Return (problems of the run directory, what was not checked), one sentence each."""
    notes = list[str]()
    try:
        problems = file_problems(run) or _check_acceptance(run) or consistency_problems(run) or _check_verdict(run)
        if not problems:
            problems, notes = _check_derived(run)
    except GatesError as error:
        problems = [error.what]
    except OSError as error:
        problems = [f"can't read {error.filename or run}: {error.strerror or error}"]
    return [_shortened(problem) for problem in problems[:MOST_PROBLEMS]], notes


def _shortened(text: str) -> str:
    """Return a sentence without the middle of a huge text that evidence holds."""
    half = _MOST_CHARACTERS // 2
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:half]} … {text[-half:]}"


def _check_derived(run: Path) -> tuple[list[str], list[str]]:
    """Check the report and the counters against the files that they were made from."""
    from gates.verify.profile import profile_problems  # both take time to load, and a broken run needs neither
    from gates.verify.report import report_problems

    problems, notes = report_problems(run)
    missing = [
        f"{folder}build.log"
        for folder in ("", "baseline/")
        if (run / folder / "ptxas.json").is_file() and not (run / folder / "build.log").is_file()
    ]
    notes += [f"{name} is missing: ptxas.json was not checked against it" for name in missing]
    if "ncu" in (evidence := load_evidence(run)):
        disagree, unchecked = profile_problems(run, evidence["ncu"])
        problems, notes = [*problems, *disagree], [*notes, *unchecked]
    return problems, notes


def checkout_notes(run: Path) -> list[str]:
    """What of a sound run's stages this checkout has otherwise by now, one sentence each."""
    return changed_since(read_record(RunInfo, run, "run.json"))


def file_problems(run: Path) -> list[str]:
    """What is wrong with the files themselves (digests, schemas), whatever the verdict says."""
    return digest_problems(run) or _check_schemas(run)


def require_sound_files(run: Path) -> None:
    """Raise GatesError where a file of the run was changed after it, or does not fit its schema."""
    _require(run, file_problems(run))


def require_sound(run: Path) -> None:
    """Raise GatesError where a run is not sound in any way."""
    _require(run, verify_run(run))


def _require(run: Path, problems: list[str]) -> None:
    if problems:
        run, mend = origin(run), "run the stage again"
        if all(ACCEPTANCE in problem for problem in problems):  # the run itself is as it was
            mend = f'delete {run / ACCEPTANCE}; to accept again: gates decide {run} --accept-policy-change "REASON"'
        more = f"`gates verify {run}` names all {len(problems)} problems; " if len(problems) > 1 else ""
        raise GatesError(f"{run} is not sound: {problems[0]}", hint=more + mend)


def digest_problems(run: Path, also: frozenset[str] = frozenset()) -> list[str]:
    """Files that are not as the manifest has them, or that no run has and ``also`` does not name."""
    data = jsonio.read(run / "manifest.json")
    require_known_version(data, "manifest.json")
    errors = schema_errors("manifest", data)
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
        elif not path.is_file() and not path.is_dir():
            problems.append(f"{name} is not a plain file")
        elif path.is_file() and name not in ("manifest.json", ACCEPTANCE):
            present.add(name)
            if path.stat().st_size > _MAX_BYTES:
                problems.append(f"{name} is larger than {_MAX_BYTES // 2**20} MiB")
            elif name not in listed:
                problems.append(f"{name} is not in the manifest")
            elif jsonio.sha256(path) != listed[name]:
                problems.append(f"{name} was changed after the run")
    return problems + [f"{name} is missing" for name in sorted(set(listed) - present)] or strangers((present - also) | {"manifest.json"})


def _check_acceptance(run: Path) -> list[str]:
    """Whether what a reviewer accepted is of this very run; its schema was checked before."""
    if not (run / ACCEPTANCE).is_file():
        return []
    if jsonio.read(run / ACCEPTANCE)["manifest_sha256"] != jsonio.sha256(run / "manifest.json"):
        return [f"{ACCEPTANCE} was given for another run"]
    info: RunInfo = read_record(RunInfo, run, "run.json")
    if tuple(jsonio.read(run / ACCEPTANCE)["looser"]) != looser_terms(info.task, info.baseline):
        return [f"{ACCEPTANCE} accepts other terms than those of this run"]
    return []


def _check_schemas(run: Path) -> list[str]:
    problems = []
    for path in sorted(run.rglob("*.json")):
        name = path.relative_to(run).as_posix()
        problems += [f"{name}: {error}" for error in _schema_errors(path.stem, jsonio.read_text(path), name)]
    return problems


@functools.lru_cache(maxsize=64)  # a run is verified before each of what is asked of it, and a stage is the baseline of the next
def _schema_errors(kind: str, text: str, name: str) -> tuple[str, ...]:
    data = jsonio.loads(text, name)
    require_known_version(data, name)
    errors = schema_errors(kind, data)
    return tuple(_limit_errors(data) if kind == "run" and not errors else errors)


def _contradict(again: GateResult, recorded: GateResult) -> bool:
    """Return whether a check that both verdicts made saw something else, or held it to another number; a later version may make more
    checks or fewer.
    """
    seen, before = ({(check.name, check.where): check for check in result.checks} for result in (again, recorded))
    pairs = [(seen[key], before[key]) for key in seen.keys() & before.keys()]
    numbers = [
        (one.limit, other.limit) for one, other in pairs if isinstance(one.limit, (int, float)) and isinstance(other.limit, (int, float))
    ]
    return not all(same(one, other) for one, other in [*((one.observed, other.observed) for one, other in pairs), *numbers])


def same(one: Any, other: Any) -> bool:
    """Whether two figures are one; another machine's libraries may round the last bits otherwise."""
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


@functools.cache
def _schema_of_limits() -> tuple[Mapping[str, Any], Callable[[Any], bool]]:
    """The part of task.yaml's schema that is about limits, and its quick checker."""
    whole = task_schema()
    schema = {"$defs": whole["$defs"], **whole["properties"]["gates"]}
    return schema, checker(schema)


def _limit_errors(data: Any) -> list[str]:
    """What is wrong with the limits that a run says it was judged by, after the schema of task.yaml."""
    (schema, fits), problems = _schema_of_limits(), []
    for side in ("task", "baseline"):
        if data.get(side) is not None:
            limits = {gate: _without_former(gate, values) for gate, values in data[side]["limits"].items() if values != {}}
            problems += [] if fits(limits) else errors_by(schema, limits, (side, "limits"))
    return problems


def _without_former(gate: str, limits: Any) -> Any:
    """The limits of a gate without the keys that only runs of earlier versions have."""
    if gate not in ROWS or not isinstance(limits, dict):
        return limits
    return {key: value for key, value in limits.items() if key not in ROWS[gate].former}


def consistency_problems(run: Path) -> list[str]:
    """Return the contradictions between the files of a run whose schemas are right, one sentence each."""
    info: RunInfo = read_record(RunInfo, run, "run.json")
    evidence, baseline = load_evidence(run), load_evidence(run / "baseline")
    task, found = info.task, list(self_contradictions(info, jsonio.read(run / "run.json")))
    for stage in (task, info.baseline):
        found += contradicts_checkout(stage) if stage else []
    for folder, side, records in (("", task, evidence), ("baseline/", info.baseline, baseline)):
        for gate, record in records.items() if side else ():
            found += (f"{folder}{gate}.json: {text}" for text in ROWS[gate].departures(info, side, record, records))
    found += build_problems(run, info, {"": evidence, "baseline/": baseline})
    for folder, records in (("", evidence), ("baseline/", baseline)):
        found += (f"{folder}{gate}.json: {text}" for gate, record in records.items() for text in ROWS[gate].contradictions(record))
    return found


def _check_verdict(run: Path) -> list[str]:
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    problems = []
    judged = [result.gate for result in verdict.gates]
    if tuple(judged) != info.gates or not set(judged) >= set(FIRST_GATES):
        problems.append(f"verdict.json judges {', '.join(judged) or 'nothing'}, not each gate once")
    if unknown := sorted(set(judged) - set(GATES)):
        return [*problems, f"verdict.json judges {', '.join(unknown)}, which this version does not know: update kernel-gates"]
    for recorded in verdict.gates:
        again = rejudge(run, info, recorded.gate)
        if again is None and recorded.status not in (Status.NOT_RUN, Status.FAIL, Status.INCONCLUSIVE):
            problems.append(f"verdict.json says {recorded.gate}: {recorded.status.value}, but there is no evidence of it")
        elif again is not None and _contradict(again, recorded):
            problems.append(f"the figures in verdict.json's {recorded.gate} are not those of its evidence")
        if again is not None and (again.status, again.code) != (recorded.status, recorded.code):
            problems.append(
                f"verdict.json says {recorded.gate}: {recorded.status.value} ({recorded.code}), "
                f"its evidence says {again.status.value} ({again.code})"
            )
    decision, reason = decision_of(info, verdict.gates)
    if (decision, reason) != (verdict.decision, verdict.reason):
        problems.append(f"verdict.json says {verdict.decision.value} ({verdict.reason}), its gates say {decision.value} ({reason})")
    return problems
