"""Two recorded runs that differ in more than the kernel: what differs is named, and nothing of it becomes a verdict."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pages_kit import NAMES, check_markdown, poisoned
from places import RECORDED
from runs_kit import sign

from gates.cli.main import cli
from gates.comparison.record import Comparison
from gates.comparison.sections import _by_name
from gates.core import jsonio
from gates.core.records import Check, GateResult, Status, from_json, to_json
from gates.evidence.judging import decision_of, rejudge
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate.performance.evidence import PerformanceEvidence, summaries
from gates.review.compare import compare_runs
from gates.verify.run import verify_run

ONE, TWO = (list_runs(RECORDED / "h100" / stage)[-1] for stage in ("stage1_wmma_qk", "stage2_wmma_pv"))


def changed(tmp_path: Path, run: Path, /, **changes: Callable[[Any], Any]) -> Path:
    """A copy of ``run`` with its files changed (name without .json) and signed anew."""
    target = tmp_path / f"changed-{run.parent.name}"
    shutil.copytree(run, target)
    for name, change in changes.items():
        data = json.loads((target / f"{name}.json").read_text(encoding="utf-8"))
        change(data)
        (target / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    sign(target)
    return target


def judged_anew(run: Path) -> None:
    """Let the run's verdict say what its evidence says."""
    info, verdict = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")
    gates = tuple(rejudge(run, info, result.gate) or result for result in verdict.gates)
    decision, reason = decision_of(info, gates)
    jsonio.write(run / "verdict.json", to_json(replace(verdict, gates=gates, decision=decision, reason=reason)))
    sign(run)


def compared(tmp_path: Path, *arguments: Path | str) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, arguments), "--out", str(tmp_path / "out")])


def test_another_kind_of_card_is_shown_and_decides_nothing(tmp_path: Path) -> None:
    change = {name: lambda d: d["device"].update(name="NVIDIA L4") for name in ("run", "performance")}
    done = compared(tmp_path, changed(tmp_path, ONE, **change), TWO)
    assert done.exit_code == 3 and done.output.startswith("# hold: ")
    assert "- note: different: device NVIDIA L4 and NVIDIA H100 80GB HBM3" in done.output


def test_one_card_under_two_indices_is_the_same_and_another_of_its_kind_is_noted(tmp_path: Path) -> None:
    other = changed(tmp_path, ONE, run=lambda d: d["environment"].update(CUDA_VISIBLE_DEVICES="4"))
    done = compared(tmp_path, other, TWO)
    assert done.exit_code == 0 and "another card" not in done.output
    shutil.rmtree(other)
    change = {name: lambda d: d["device"].update(uuid="GPU-0") for name in ("run", "performance")}
    done = compared(tmp_path, changed(tmp_path, ONE, **change), TWO)
    assert done.exit_code == 0 and "note: another card of the kind: GPU-0 and GPU-" in done.output


def shape_lost(data: Any) -> None:
    for side in ("task", "baseline"):
        for name in ("shapes", "judged_shapes", "declared_shapes"):
            kept = data[side][name]
            data[side][name] = (
                {key: kept[key] for key in kept if key != "small"} if isinstance(kept, dict) else [key for key in kept if key != "small"]
            )


def cases_lost(data: Any) -> None:
    for name in ("cases", "baseline_cases"):
        data[name] = [case for case in data[name] if case["shape"] != "small" or case["inputs"] != "default"]
    data["asked"] = 3


def check_moved(data: Any) -> None:
    for run in data["runs"]:
        run["shapes"] = ["mission" if shape == "small" else shape for shape in run["shapes"]]


def test_instances_of_a_template_are_told_apart_by_their_arguments_whatever_their_order() -> None:
    def kernels(*found: tuple[str, str, int]) -> list[SimpleNamespace]:
        return [SimpleNamespace(base_name=base, demangled=name, arch="sm_90", registers=number) for base, name, number in found]

    before = kernels(("k", "void a::k<64, true>(float*)", 10), ("k", "void a::k<128, true>(float*)", 20), ("one", "void one<32>(int)", 30))
    after = kernels(("k", "void a::k<128, true>(float*)", 21), ("k", "void a::k<64, true>(float*)", 11), ("one", "void one<64>(int)", 31))
    found = {key: (one.registers, two.registers) for key, one, two in _by_name(before, after)}
    assert found == {"k<64,true> sm_90": (10, 11), "k<128,true> sm_90": (20, 21), "one sm_90": (30, 31)}
    hidden = kernels(("k", "", 1), ("k", "", 2))  # without readable names they are numbered
    assert [key for key, _, _ in _by_name(hidden, ())] == ["k sm_90", "k #2 sm_90"]


def test_a_shape_that_the_candidate_lacks_holds_and_one_that_it_has_more_is_named(tmp_path: Path) -> None:
    fewer = changed(tmp_path, TWO, run=shape_lost, correctness=cases_lost, sanitizer=check_moved)
    judged_anew(fewer)  # its verdict counted six cases
    done = compared(tmp_path, ONE, fewer)
    assert done.exit_code == 3 and "note: different: shape small is B 1, H 1, S 32, D 64 and missing\n" in done.output
    assert "the runs differ: shape small is B 1, H 1, S 32, D 64 and missing" in done.output
    lost = changed(tmp_path, ONE, run=shape_lost, correctness=cases_lost, sanitizer=check_moved)
    judged_anew(lost)
    assert verify_run(lost) == verify_run(fewer) == []
    done = compared(tmp_path, lost, TWO)
    assert done.exit_code == 0 and "note: the candidate's run alone has the shape small\n" in done.output
    page = next((tmp_path / "out").rglob("COMPARE.md")).read_text(encoding="utf-8")
    assert "small max\\_abs\\_err" in page or "small max_abs_err" in page  # the row of the side that has it is kept


def test_nothing_in_common_is_no_pass(tmp_path: Path) -> None:
    def other_problem(data: Any) -> None:
        for side in ("task", "baseline"):
            data[side]["problem_sha256"] = "0" * 64

    other = changed(tmp_path, ONE, run=other_problem)
    done = compared(tmp_path, other, TWO)
    assert done.exit_code == 1 and "was changed between the runs" in done.exception.what
    assert compared(tmp_path, other, TWO, "--force").exit_code == 3


def test_other_inputs_from_the_same_seed_are_refused(tmp_path: Path) -> None:
    def other_inputs(data: Any) -> None:
        for case in [*data["cases"], *data["baseline_cases"]]:
            if (case["shape"], case["seed"]) == ("mission", 1):
                case["inputs_sha256"] = "0" * 64

    done = compared(tmp_path, changed(tmp_path, ONE, correctness=other_inputs), TWO)
    assert done.exit_code == 1 and "other inputs from the same seed, in 1 cases: mission seed 1" in done.exception.what


@pytest.fixture(scope="module")
def side_by_side() -> Comparison:
    return compare_runs(ONE, TWO)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_evidence_is_markdown(side_by_side: Comparison, name: str) -> None:
    failing = Check("max_abs_err", Status.FAIL, 0.5, 0.002, "", name, "correctness.error", name, f"gates run {name}", (name,))
    gates = (
        *side_by_side.gates,
        GateResult("correctness", Status.FAIL, "correctness.error", name, tuple(replace(failing, where=f"{n} {name}") for n in range(5))),
    )
    page = poisoned(replace(side_by_side, gates=gates, notes=(name, name)), name).markdown()
    check_markdown(page)
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {5, 6}  # of the gates and more failing cases; of the rest


@pytest.mark.parametrize("value", [0, -1, None, 1e308, "missing"])
def test_a_p50_that_is_no_time_is_an_error_of_file_and_key(tmp_path: Path, value: Any) -> None:
    def spoil(data: Any) -> None:
        figures = data["figures"]["cold"]["candidate"]
        figures.pop("p50_us") if value == "missing" else figures.update(p50_us=value)

    spoilt = changed(tmp_path, ONE, performance=spoil)
    (problem,) = [text for text in verify_run(spoilt) if "performance.json" in text][:1]
    assert "p50_us" in problem
    assert "performance.json" in compared(tmp_path, spoilt, TWO).exception.what


def slowed(data: Any) -> None:
    """The baseline's samples, and all that is counted from them, in a third of their time."""
    for series in [*data["series"], data["single"], data["control"]]:
        for block in series["blocks"]:
            if block["side"] != "candidate":
                block["samples_us"] = [sample / 3.0 for sample in block["samples_us"]]
    data["figures"] = {}
    evidence = from_json(PerformanceEvidence, data, "performance.json")
    data["figures"] = to_json(summaries(evidence))


def test_the_exit_code_is_that_of_the_decision_and_a_pipe_changes_nothing(tmp_path: Path) -> None:
    slower = changed(tmp_path, TWO, performance=slowed)
    judged_anew(slower)
    wrong, incomplete = (list_runs(RECORDED / kind / "stage2_wmma_pv")[-1] for kind in ("cpu-reject", "cpu"))
    for run, code in ((slower, 1), (wrong, 1), (incomplete, 3), (TWO, 0)):
        assert compared(tmp_path, ONE, run, "--force").exit_code == code
        for options in ([], ["--json"]):
            command = f"{sys.executable} -m gates decide {run} {' '.join(options)} | head -1; exit ${{PIPESTATUS[0]}}"
            assert subprocess.run(["bash", "-c", command], cwd=RECORDED.parent.parent, capture_output=True, check=False).returncode == code
