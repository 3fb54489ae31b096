"""Every evidence file: its record becomes JSON that fits its schema and is read back as it was; versions, newer and older."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from places import RECORDED

from gates.comparison.record import Comparison
from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.core.schema import kinds, schema_errors
from gates.evaluation.evolution.record import Evolution, Generation, Member, Refused
from gates.evaluation.record import Evaluation, GateSeen
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate.registry import ROWS
from gates.review.compare import compare_runs
from gates.review.decide import Acceptance
from gates.review.ladder import Ladder, ladder_of
from gates.sweep.record import Found, Resources, Round, Sweep, Timing, Variant

STAGES = [list_runs(folder)[-1] for folder in sorted((RECORDED / "h100").glob("stage*"))]
RUN = STAGES[2]

import make_schemas  # noqa: E402


@pytest.fixture(scope="module")
def forms() -> dict[str, Any]:
    """Kind of evidence -> a real record of it."""
    return {
        "run": read_record(RunInfo, RUN, "run.json"),
        "verdict": read_record(Verdict, RUN, "verdict.json"),
        **load_evidence(RUN),
        **{row.name: made(row.evidence()) for row in ROWS.values() if row.optional},
        "build": read_record(make_schemas.RECORDS["build"], RUN, "build.json"),
        "acceptance": Acceptance(1, "0" * 64, ("ptxas.max_registers: 128 -> 168",), "larger tiles", "2026-01-01T00:00:00.000+00:00"),
        "compare": compare_runs(STAGES[1], RUN),
        "ladder": ladder_of(STAGES),
        "sweep": a_sweep(),
        "evaluation": an_evaluation(),
        "evolution": a_search(),
    }


def made(kind: Any) -> Any:
    """Something of a type; of a record, with a value in each field."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: made(hints[field.name]) for field in fields(kind)})
    if origin in (typing.Union, types.UnionType):
        return made(args[0])
    if origin is tuple:
        return (made(args[0]),)
    if origin in (dict, Mapping):
        return {"k": made(args[1])}
    return next(iter(kind)) if issubclass(kind, Enum) else kind(1)


def a_search() -> Evolution:
    """A search of one generation: a candidate that was timed, and a proposal that was refused."""
    info = read_record(RunInfo, RUN, "run.json")
    timing = Timing("0" * 12, True, "performance.pass", "1.2x", 1.2, 1.1, 1.3, 5.0, 6.0, "GPU-0", 2.5)
    member = Member("0" * 12, 0, "--param", "USE_X=1", "", None, {}, {"USE_X": 1}, "pass", "performance.pass", "speed", True, 1.1, 1.3, {})
    generation = Generation(0, (), (member.id,), (Refused("--patches", "a.patch", "it does not apply"),), (timing,), member.id, 1.1, 9.5)
    asked = {"proposers": ("--param USE_X=1",), "strategy": "beam", "population": 5, "elite": 3, "seed": 0, "stage": "speed"}
    place = {"against": "task", "timed_shape": "mission", "cache": "cold", "devices": (), "platform": info.platform}
    end = {"stopped": "nothing new is proposed", "champion": member.id, "run": "k/run", "decision": "merge"}
    times = {"started": info.started, "ended": info.ended}
    return Evolution(1, "0", "0123456789ab", "k", "0" * 64, members=(member,), generations=(generation,), **asked, **place, **end, **times)


def an_evaluation() -> Evaluation:
    seen = (GateSeen("ptxas", "pass", "ptxas.pass", "1 compiled kernel within budget", 0.02),)
    figures, seconds, files = {"registers": 40.0}, {"compile": 2.5, "gates": 0.02}, {"k.cu": "0" * 64}
    place = "evaluations/k/0123456789ab"
    answer = {"name": "", "note": "", "task": "k", "status": "pass", "stage": "static", "code": "ptxas.pass", "valid": False}
    nothing = {"parent": None, "score": None, "score_high": None, "p50_us": None, "device": None}
    more = {"metrics": figures, "gates": seen, "feedback": "no check failed", "artifacts": {}, "seconds": seconds, "evidence": place}
    return Evaluation(1, "0", "0123456789ab", files=files, toggles={"USE_X": 1}, **answer, **nothing, **more)


def a_sweep() -> Sweep:
    """A sweep of two variants, one dropped and one timed."""
    info = read_record(RunInfo, RUN, "run.json")
    found = Found(Status.PASS, "ptxas.pass", "1 compiled kernel within budget")
    resources = (Resources("k", "sm_90", 40, 1024, 0, 50.0),)
    timing = Timing("USE_X=1", True, "performance.pass", "1.2x", 1.2, 1.1, 1.3, 5.0, 6.0, "GPU-0", 2.5)
    return Sweep(
        1,
        "0",
        "0123456789ab",
        "k",
        "0" * 64,
        {"USE_X": (0, 1)},
        "USE_X=0",
        "USE_X=0",
        ("small",),
        0,
        "mission",
        "cold",
        ("sm_90",),
        info.git,
        info.toolchain,
        (info.device,) if info.device else (),
        info.platform,
        (Variant("USE_X=0", {"USE_X": 0}, "1" * 64, dropped="spills"), Variant("USE_X=1", {"USE_X": 1}, "2" * 64, resources, found, found)),
        (Round(5.0, ("USE_X=1",), (timing,)),),
        "timed",
        "USE_X=1",
        "faster",
        "k/run",
        "merge",
        info.started,
        info.ended,
    )


KINDS = [kind for kind in kinds() if kind != "manifest"]


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(forms: dict[str, Any], kind: str) -> None:
    record = forms[kind]
    data = json.loads(json.dumps(to_json(record), allow_nan=False))
    if kind == "build":
        del data["log_text"], data["stage"]  # a file of its own, and in run.json
    assert schema_errors(kind, data) == []
    assert from_json(type(record), data, f"{kind}.json") == record
    assert schema_errors(kind, {**data, "schema_version": 2}) != [] and schema_errors(kind, {**data, "more": 1}) != []


def test_every_file_of_a_recorded_run_has_a_schema_and_fits_it() -> None:
    names = {path.stem for run in STAGES for path in run.rglob("*.json")}
    assert names | {
        "acceptance",
        "compare",
        "evaluation",
        "evolution",
        "ladder",
        "sweep",
        *(row.name for row in ROWS.values() if row.optional),
    } == set(kinds())
    assert schema_errors("manifest", json.loads((RUN / "manifest.json").read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"compare", "ladder"}))  # those two are written for people, and never read back
def test_a_newer_version_is_refused_by_one_clear_error(forms: dict[str, Any], kind: str, tmp_path: Path) -> None:
    (tmp_path / f"{kind}.json").write_text(json.dumps({"schema_version": 2, "unheard of": 1}), encoding="utf-8")
    with pytest.raises(GatesError, match=rf"{kind}.json: schema version 2 is newer than this tool knows \(1\)") as caught:
        read_record(type(forms[kind]), tmp_path, f"{kind}.json")
    assert caught.value.hint == "update kernel-gates"


def older(value: Any) -> Any:
    """A record as JSON without the fields that came later within the version."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if not {field.name, f"{type(value).__name__}.{field.name}"} & make_schemas.LATER]
        return {name: older(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: older(entry) for key, entry in value.items()}
    return [older(entry) for entry in value] if isinstance(value, tuple | list) else to_json(value)


@pytest.mark.parametrize(("kind", "cls"), [("run", RunInfo), ("verdict", Verdict)])
def test_a_file_of_the_first_tools_is_read(forms: dict[str, Any], kind: str, cls: type) -> None:
    data = older(forms[kind])
    assert data != to_json(forms[kind])
    assert schema_errors(kind, data) == [] and from_json(cls, data, f"{kind}.json")


def test_these_records_are_those_of_the_schemas(forms: dict[str, Any]) -> None:
    assert {kind: type(forms[kind]) for kind in make_schemas.RECORDS} == make_schemas.RECORDS
    assert isinstance(forms["compare"], Comparison) and isinstance(forms["ladder"], Ladder)
