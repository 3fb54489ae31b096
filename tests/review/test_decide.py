"""Terms looser than the baseline's hold until a reviewer accepts them; the decision as JUnit and SARIF."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from places import ROOT
from runs_kit import sign

from gates.cli.main import cli
from gates.comparison.within import compare_within
from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.core.records import Check, Decision, GateResult, Status
from gates.evidence.judging import decision_of, rejudge
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate.policy import Terms, looser
from gates.render.ci.junit import junit
from gates.render.ci.sarif import sarif
from gates.review.compare import compare_runs
from gates.review.decide import accept_looser_terms, decide_run
from gates.verify.checkout import source_places
from gates.verify.run import verify_run

RECORDED = ROOT / "results" / "recorded" / "h100"
STAGE1, STAGE2 = (list_runs(RECORDED / name)[-1] for name in ("stage1_wmma_qk", "stage2_wmma_pv"))
LIMITS: dict[str, Any] = {
    "ptxas": {"max_registers": 128, "max_spill_bytes": 0},
    "sass": {"require": {"tensor": 1}, "forbid": ["local_memory"]},
    "correctness": {"max_abs_err": 0.002, "match_baseline": True, "end_to_end": {"bad_pct": 1.0}},
    "performance": {"shape": "mission", "min_speedup_pct": 15, "metrics": ["p50", "p90"]},
    "ncu": {"rises": ["tensor_pipe"], "steady": {"dram_bytes_pct": 10}, "min": {"occupancy": 20}},
}
BASE = Terms(LIMITS, {}, ("small", "mission"), (0, 1, 2), ("sm_89", "sm_90"), "rows", "a", {"small": {"S": 32}, "mission": {"S": 512}})


def changed(gate: str, **values: Any) -> Terms:
    limits = {name: dict(found) for name, found in LIMITS.items()}
    for key, value in values.items():
        if value is None:
            del limits[gate][key]
        else:
            limits[gate][key] = value
    return replace(BASE, limits=limits)


LOOSER = [
    (changed("ptxas", max_registers=168), "ptxas.max_registers: 128 -> 168"),
    (changed("ptxas", max_spill_bytes=None), "ptxas.max_spill_bytes: 0 dropped"),
    (changed("sass", require={}), "sass.require.tensor: 1 dropped"),
    (changed("sass", forbid=[]), "sass.forbid: local_memory dropped"),
    (changed("correctness", max_abs_err=0.01), "correctness.max_abs_err: 0.002 -> 0.01"),
    (changed("correctness", match_baseline=False), "correctness.match_baseline: true -> false"),
    (changed("correctness", end_to_end=None), "correctness.end_to_end: bad_pct 1.0 dropped"),
    (changed("correctness", end_to_end={"bad_pct": 5.0}), "correctness.end_to_end.bad_pct: 1 -> 5"),
    (changed("performance", min_speedup_pct=5), "performance.min_speedup_pct: 15 -> 5"),
    (changed("performance", shape="small"), "performance.shape: mission -> small"),
    (changed("performance", metrics=["p50"]), "performance.metrics: p90 dropped"),
    (changed("ncu", steady={"dram_bytes_pct": 50}), "ncu.steady.dram_bytes_pct: 10 -> 50"),
    (changed("ncu", min={"occupancy": 5}), "ncu.min.occupancy: 20 -> 5"),
    (replace(BASE, shapes=("small",)), "shapes: mission dropped"),
    (replace(BASE, seeds=(0, 1)), "seeds: 2 dropped"),
    (replace(BASE, arch=("sm_90",)), "arch: sm_89 dropped"),
    (changed("performance", cache="warm"), "performance.cache: cold -> warm"),
    (replace(BASE, problem="easy"), "judged by another problem than the baseline's: easy instead of rows"),
    (replace(BASE, problem_sha256="b"), "judged by another problem than the baseline's: rows has other files"),
    (replace(BASE, sizes={"small": {"S": 32}, "mission": {"S": 64}}), "shape mission: S 512 -> S 64"),
    (replace(BASE, not_applicable={"ncu": "no counters"}), "ncu: declared not applicable (no counters)"),
]


@pytest.mark.parametrize(("candidate", "text"), LOOSER, ids=[text for _, text in LOOSER])
def test_a_looser_term_is_named(candidate: Terms, text: str) -> None:
    assert looser(candidate, BASE) == (text,)


@pytest.mark.parametrize(
    "candidate",
    [
        BASE,
        changed("ptxas", max_registers=64),
        changed("performance", min_speedup_pct=20),
        changed("sass", require={"tensor": 2, "fma": 1}),
        changed("ncu", rises=["sm_throughput"]),
        changed("correctness", end_to_end={"bad_pct": 0.5}),
        replace(BASE, seeds=(0, 1, 2, 3)),
        changed("performance", cache="cold"),
        replace(BASE, problem_sha256=None),
        replace(BASE, sizes={"small": {"S": 32}, "long": {"S": 2048}}),
    ],
)
def test_tighter_terms_and_a_stage_s_own_claims_need_nobody(candidate: Terms) -> None:
    assert looser(candidate, BASE) == ()


def test_a_baseline_timed_warm_lets_the_candidate_be_timed_warm() -> None:
    warm = changed("performance", cache="warm")
    assert looser(warm, warm) == () and looser(BASE, warm) == ("performance.cache: warm -> cold",)


def test_another_problem_holds_until_it_is_accepted() -> None:
    info: RunInfo = read_record(RunInfo, STAGE2, "run.json")
    gates = read_record(Verdict, STAGE2, "verdict.json").gates
    swapped = replace(info, task=replace(info.task, problem="tasks.problems.easy", problem_sha256="0" * 64))
    decision, reason = decision_of(swapped, gates)
    assert decision is Decision.HOLD and "tasks.problems.easy instead of tasks.problems.sdpa_fp8" in reason
    assert decision_of(swapped, gates, accepted=True)[0] is Decision.MERGE


@pytest.fixture
def loosened(tmp_path: Path) -> Path:
    """The recorded stage 2 with a larger register budget, as a run would have written it."""
    run = tmp_path / "run"
    shutil.copytree(STAGE2, run)
    info: RunInfo = read_record(RunInfo, run, "run.json")
    limits = {**info.task.limits, "ptxas": {**info.task.limits["ptxas"], "max_registers": 168}}
    info = replace(info, task=replace(info.task, limits=limits))
    jsonio.write(run / "run.json", records.to_json(info))
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    gates = tuple(rejudge(run, info, result.gate) or result for result in verdict.gates)
    decision, reason = decision_of(info, gates)
    jsonio.write(run / "verdict.json", records.to_json(Verdict(1, decision, reason, gates)))
    sign(run)
    return run


def test_a_looser_task_holds_and_says_so_at_the_top(loosened: Path) -> None:
    assert verify_run(loosened) == []
    decision, reason = decide_run(loosened)
    assert decision is Decision.HOLD and "ptxas.max_registers: 128 -> 168" in reason
    info, verdict = read_record(RunInfo, loosened, "run.json"), read_record(Verdict, loosened, "verdict.json")
    top = compare_within(loosened, info, verdict).markdown().splitlines()[:8]
    assert any("looser than the baseline: ptxas" in line and "128" in line and "168" in line for line in top)
    beside = compare_runs(STAGE1, loosened)
    assert beside.decision is Decision.HOLD and beside.notes[0].startswith("looser than the baseline: ptxas")


def test_a_verdict_that_hides_the_looser_terms_is_found(loosened: Path) -> None:
    data = json.loads((loosened / "verdict.json").read_text())
    data.update(decision="merge", reason="every gate passed or is declared not applicable")
    (loosened / "verdict.json").write_text(json.dumps(data))
    sign(loosened)
    assert any("its gates say hold" in problem for problem in verify_run(loosened))


def test_a_reviewer_accepts_with_a_reason(loosened: Path) -> None:
    done = CliRunner().invoke(cli, ["decide", str(loosened), "--accept-policy-change", "tiles of 128 need more registers"])
    assert done.exit_code == 0 and done.stdout.startswith("merge: ") and "tiles of 128 need more registers" in done.stdout
    assert done.stderr.startswith("written: ") and done.stderr.endswith("acceptance.json\n")
    assert verify_run(loosened) == [] and decide_run(loosened)[0] is Decision.MERGE
    assert json.loads((loosened / "acceptance.json").read_text())["looser"] == ["ptxas.max_registers: 128 -> 168"]
    with pytest.raises(GatesError, match="accepted before"):
        accept_looser_terms(loosened, "again")


def test_the_way_out_of_a_wrong_acceptance_is_told(loosened: Path) -> None:
    """The evidence is sound: there is nothing to run again."""
    accept_looser_terms(loosened, "meant")
    for text in ('{"schema_version": 1}', "no JSON"):
        (loosened / "acceptance.json").write_text(text)
        with pytest.raises(GatesError) as caught:
            decide_run(loosened)
        assert "run the stage again" not in caught.value.hint and f"delete {loosened / 'acceptance.json'}" in caught.value.hint
        assert f'gates decide {loosened} --accept-policy-change "REASON"' in caught.value.hint
    (loosened / "acceptance.json").unlink()
    accept_looser_terms(loosened, "meant")
    assert decide_run(loosened)[0] is Decision.MERGE


def test_what_is_accepted_is_written_into_the_run_and_nowhere_else(loosened: Path) -> None:
    """Named by the folder that holds it, as every command takes it."""
    kept = {path: path.read_bytes() for path in loosened.parent.rglob("*") if path.is_file()}
    done = CliRunner().invoke(cli, ["decide", str(loosened.parent), "--accept-policy-change", "meant"], catch_exceptions=False)
    assert done.exit_code == 0
    assert {path for path in loosened.parent.rglob("*") if path.is_file()} - kept.keys() == {loosened / "acceptance.json"}
    assert all(path.read_bytes() == content for path, content in kept.items())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"manifest_sha256": "0" * 64}, "another run"),
        ({"looser": []}, "other terms"),
        ({"reason": 3}, "acceptance.json"),
        ({"more": 1}, "acceptance.json"),
    ],
)
def test_an_acceptance_of_something_else_does_not_count(loosened: Path, change: dict[str, Any], problem: str) -> None:
    accept_looser_terms(loosened, "meant")
    data = json.loads((loosened / "acceptance.json").read_text())
    (loosened / "acceptance.json").write_text(json.dumps({**data, **change}))
    assert any(problem in found for found in verify_run(loosened))
    with pytest.raises(GatesError, match="not sound"):
        decide_run(loosened)


def test_nothing_to_accept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(STAGE2, run)
    with pytest.raises(GatesError, match="nothing to accept"):
        accept_looser_terms(run, "just because")
    for reason in (" ", "two\nlines", "x" * 501):
        with pytest.raises(GatesError, match="needs a reason"):
            accept_looser_terms(run, reason)
    assert not (run / "acceptance.json").exists()


GATES = (
    GateResult(
        "ptxas",
        Status.FAIL,
        "ptxas.registers",
        "1 of 2",
        (
            Check(
                "registers",
                Status.FAIL,
                200,
                128,
                "registers/thread",
                "sdpa::sdpa_fp8_kernel sm_90",
                "ptxas.registers",
                "shorten <live> ranges",
            ),
            Check("registers", Status.PASS, 90, 128, "registers/thread", "sdpa::sdpa_fp8_kernel sm_89"),
        ),
    ),
    GateResult("sass", Status.PASS, "sass.pass", "as asked", (Check("tensor", Status.PASS, 2, 1, "instructions"),)),
    GateResult("correctness", Status.INCONCLUSIVE, "correctness.no_memory", "no memory \x1b[1m"),
    GateResult(
        "sanitizer",
        Status.FAIL,
        "sanitizer.finding",
        "one",
        (
            Check(
                "memcheck: invalid write",
                Status.FAIL,
                1,
                0,
                "findings",
                "small",
                "sanitizer.finding",
                "size 4 at write_output.cuh:14 in write_output",
            ),
        ),
    ),
    GateResult("performance", Status.NOT_RUN, "performance.no_device", "no CUDA device"),
    GateResult("ncu", Status.NOT_APPLICABLE, "ncu.not_applicable", "no counters"),
)


def test_junit_counts_each_gate_once() -> None:
    suite = ElementTree.fromstring(junit("stage", "2026-11-28T02:27:41.158+00:00", GATES))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "timestamp")} == {
        "tests": "6",
        "failures": "2",
        "errors": "1",
        "skipped": "2",
        "timestamp": "2026-11-28T02:27:41",
    }
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "ptxas": ["failure"],
        "sass": ["system-out"],
        "correctness": ["error"],
        "sanitizer": ["failure"],
        "performance": ["skipped"],
        "ncu": ["skipped"],
    }
    assert "registers 200 registers/thread, limit 128 registers/thread at sdpa::sdpa_fp8_kernel sm_90. shorten <live> ranges" in (
        suite[0][0].text or ""
    )


def test_sarif_names_source_lines() -> None:
    from gates.task.load import DIGEST_RULE, find_task

    task = find_task("stage2", {})
    info: RunInfo = read_record(RunInfo, STAGE2, "run.json")
    kernels, files = source_places(replace(info.task, toggles=task.toggles, digest=task.digest(), digest_rule=DIGEST_RULE))
    path, line = kernels["sdpa_fp8_kernel"]
    assert "sdpa_fp8_kernel" in (RECORDED.parent.parent.parent / path).read_text().splitlines()[line - 1]
    data = json.loads(sarif("stage", GATES, kernels, files, {"ptxas.registers": "too many"}))
    results = data["runs"][0]["results"]
    assert [one["level"] for one in results] == ["error", "warning", "error", "note"]
    places = [
        (one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], one["locations"][0]["physicalLocation"]["region"]["startLine"])
        for one in results
    ]
    assert places[0] == ("kernels/sdpa_fp8/stage2_wmma_pv.cu", line)
    assert places[2] == ("kernels/sdpa_fp8/parts/write_output.cuh", 14)
    assert {rule["id"] for rule in data["runs"][0]["tool"]["driver"]["rules"]} == {one["ruleId"] for one in results}


def test_sarif_claims_no_line_of_another_checkout() -> None:
    info: RunInfo = read_record(RunInfo, STAGE2, "run.json")
    assert source_places(replace(info.task, digest="0" * 64)) == ({}, {})
    data = json.loads(sarif("stage", GATES, {}, {}, {}))
    assert all("locations" not in one for one in data["runs"][0]["results"])


def test_both_files_from_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["decide", str(STAGE2), "--junit", str(tmp_path / "j.xml"), "--sarif", str(tmp_path / "s.sarif")])
    assert done.exit_code == 0
    assert ElementTree.parse(tmp_path / "j.xml").getroot().get("failures") == "0"
    assert json.loads((tmp_path / "s.sarif").read_text())["runs"][0]["results"] == []


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_evidence_is_never_written_over(loosened: Path, option: str) -> None:
    before = (loosened / "run.json").read_bytes()
    for out, message in ((loosened / "run.json", "whose files are evidence"), (loosened.parent / "nowhere" / "x", "can't write")):
        done = CliRunner().invoke(cli, ["decide", str(loosened), option, str(out), "--accept-policy-change", "meant"])
        assert isinstance(done.exception, GatesError) and message in done.exception.what
    assert (loosened / "run.json").read_bytes() == before and not (loosened / "acceptance.json").exists()
