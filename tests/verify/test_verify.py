"""Edited evidence, signed anew with care, does not decide: what it says must fit together."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from places import ROOT
from runs_kit import PLACES, RECORDED, sign

from gates.cli.findings import findings
from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.evidence.revision import revision
from gates.evidence.run_directory import Git, RunInfo, Verdict, list_runs, read_record
from gates.gate.registry import GATES
from gates.review.compare import compare_runs
from gates.review.decide import decide_run
from gates.review.insights.insights import insights_of
from gates.task.load import DIGEST_RULE, find_task, load_task
from gates.verify.checkout import changed_since, contradicts_checkout
from gates.verify.run import verify_run

FULL = list_runs(RECORDED / "h100" / "stage2_wmma_pv")[-1]
OTHER = list_runs(RECORDED / "h100" / "stage3_cp_async")[-1]
CPU = list_runs(RECORDED / "cpu" / "stage2_wmma_pv")[-1]


def edited(tmp_path: Path, run: Path, name: str, change: Callable[[Any], Any]) -> Path:
    target = tmp_path / "run"
    shutil.copytree(run, target)
    data = json.loads((target / name).read_text(encoding="utf-8"))
    (target / name).write_text(json.dumps(change(data) or data), encoding="utf-8")
    sign(target)
    return target


def declare(data: dict, *gates: str) -> None:
    for result in data["gates"]:
        if result["gate"] in gates:
            result.update(status="not_applicable", code=f"{result['gate']}.not_applicable", checks=[])
    data.update(decision="merge", reason="every gate passed or is declared not applicable")


FINDING = {"tool": "memcheck", "kind": "write", "severity": "error", "kernel": "k", "where": "", "message": "out of bounds", "count": 1}

CHANGES: list[tuple[str, Path, str, Callable[[Any], Any], str]] = [
    ("gates declared away", CPU, "verdict.json", lambda d: declare(d, "performance", "ncu"), "there is no evidence of it"),
    (
        "a failed gate declared away",
        FULL,
        "verdict.json",
        lambda d: declare(d, "correctness"),
        "verdict.json says correctness: not_applicable",
    ),
    (
        "another limit in a check",
        FULL,
        "verdict.json",
        lambda d: d["gates"][0]["checks"][0].update(limit=129),
        "the figures in verdict.json's ptxas are not those",
    ),
    ("no gates", FULL, "verdict.json", lambda d: d.update(gates=[]), "judges nothing"),
    ("a gate twice", FULL, "verdict.json", lambda d: d["gates"].append(d["gates"][0]), "not each gate once"),
    ("one arch left out", FULL, "ptxas.json", lambda d: d.update(archs=["sm_90"]), "ptxas.json covers sm_90"),
    (
        "one case only",
        FULL,
        "correctness.json",
        lambda d: d.update(cases=d["cases"][:1], asked=1),
        "holds 1 headline cases, run.json asks for 6",
    ),
    ("a seed less", FULL, "run.json", lambda d: d["task"].update(seeds=[0, 1]), "holds 6 headline cases, run.json asks for 4"),
    ("no device", FULL, "run.json", lambda d: d.update(device=None), "full profile without a device"),
    ("no limits", FULL, "run.json", lambda d: d["task"].update(limits={}), "task.limits: 'correctness' is a required property"),
    ("a limit that is text", FULL, "run.json", lambda d: d["task"]["limits"]["correctness"].update(max_abs_err="x"), "max_abs_err"),
    ("no time zone", FULL, "run.json", lambda d: d.update(started="2026-11-01T01:30:00"), "started"),
    ("negative registers", FULL, "ptxas.json", lambda d: d["kernels"][0].update(registers=-5), "registers"),
    (
        "an element that is not finite",
        FULL,
        "correctness.json",
        lambda d: d["cases"][0]["outputs"][0].update(nonfinite=1, bad_pct=100 / 2048),
        "correctness: pass",
    ),
    ("a number out of range", FULL, "correctness.json", lambda d: d["cases"][0].update(launch_count=10**400), "out of range"),
    (
        "more tensor instructions than instructions",
        FULL,
        "sass.json",
        lambda d: d["functions"][0]["classes"].update(tensor=10**6),
        "instructions of the class tensor",
    ),
    (
        "more bad elements than elements",
        FULL,
        "correctness.json",
        lambda d: d["cases"][0]["outputs"][0].update(nonfinite=10**9),
        "are not finite, it has",
    ),
    (
        "a mean above the largest",
        FULL,
        "correctness.json",
        lambda d: d["cases"][0]["outputs"][0].update(mean_abs_err=0.0019),
        "larger than the largest",
    ),
    (
        "a case twice",
        FULL,
        "correctness.json",
        lambda d: d["baseline_cases"].append(d["baseline_cases"][0]),
        "a baseline case appears twice",
    ),
    (
        "a finding that no summary counts",
        FULL,
        "sanitizer.json",
        lambda d: d["runs"][0]["findings"].append(FINDING),
        "tells of 1 errors and counts 0",
    ),
    (
        "a p50 that its samples do not give",
        FULL,
        "performance.json",
        lambda d: d["figures"]["cold"]["candidate"].update(p50_us=7.5),
        "is 7.5, its samples give",
    ),
    (
        "built with other toggles",
        FULL,
        "build.json",
        lambda d: d["toggles"].update(USE_WMMA_PV=0),
        "build.json is of stage2_wmma_pv with USE_WMMA_QK=1, USE_WMMA_PV=0",
    ),
    (
        "timed on another card",
        FULL,
        "performance.json",
        lambda d: d["device"].update(uuid="0"),
        "performance.json: device.uuid is 0, run.json gives",
    ),
    (
        "a newer version",
        FULL,
        "ptxas.json",
        lambda d: d.update(schema_version=2),
        "ptxas.json: schema version 2 is newer than this tool knows (1)",
    ),
    (
        "a seed less that is declared",
        FULL,
        "run.json",
        lambda d: d["task"].update(seeds=[0]),
        "the seeds 0 were judged, 0, 1, 2 are declared, and no override",
    ),
    (
        "a declared shape that was not judged",
        FULL,
        "run.json",
        lambda d: d["task"].update(judged_shapes=["small"]),
        "the shapes small were judged, small, mission are declared",
    ),
    ("nothing declared", FULL, "run.json", lambda d: d["task"].update(declared_shapes=[]), "run.json, task: declared_shapes is empty"),
    (
        "another override than what was judged",
        FULL,
        "run.json",
        lambda d: d["task"]["overrides"].update(seeds="4"),
        "overrides name the seeds 4, 0, 1, 2 were judged",
    ),
    (
        "an override without its toggle",
        FULL,
        "run.json",
        lambda d: d["task"]["overrides"].update(USE_WMMA_PV=0),
        "overrides set USE_WMMA_PV=0, the toggle is 1",
    ),
    ("inputs named by nobody", FULL, "run.json", lambda d: d["task"].update(judged_inputs=["zeros"]), "no override is recorded"),
    (
        "a judged shape without dimensions",
        FULL,
        "run.json",
        lambda d: d["task"].update(shapes={"mission": d["task"]["shapes"]["mission"]}),
        "the shapes small were judged and have no dimensions",
    ),
    (
        "two stages of one digest",
        FULL,
        "run.json",
        lambda d: d["baseline"].update(digest=d["task"]["digest"]),
        "stage2_wmma_pv and stage1_wmma_qk one digest",
    ),
    ("ended before it started", FULL, "run.json", lambda d: d.update(ended="2026-01-01T00:00:00+00:00"), "before it started"),
    ("no such time", FULL, "run.json", lambda d: d.update(ended="2026-13-01T00:00:00+00:00"), "is no time"),
    (
        "no fresh seed",
        FULL,
        "correctness.json",
        lambda d: d.update(extra_seeds=[], cases=[c for c in d["cases"] if c["role"] != "extra"]),
        "no fresh seed was tried",
    ),
    (
        "a fresh seed without its cases",
        FULL,
        "correctness.json",
        lambda d: d.update(cases=[c for c in d["cases"] if c["role"] != "extra"]),
        "is named and has no case on small",
    ),
    (
        "no odd shapes",
        FULL,
        "correctness.json",
        lambda d: d.update(cases=[c for c in d["cases"] if c["role"] != "odd"]),
        "were checked, and correctness.json has no case of them",
    ),
    (
        "fewer cases than planned",
        FULL,
        "correctness.json",
        lambda d: d.update(planned={"headline": 6, "odd": 5, "extra": 2, "edge": 160, "family": 118}),
        "118 family cases were planned, it holds 117",
    ),
    (
        "a baseline case left out",
        FULL,
        "correctness.json",
        lambda d: d.update(baseline_cases=d["baseline_cases"][:-1]),
        "the baseline has no case",
    ),
    (
        "odd shapes not checked",
        FULL,
        "sanitizer.json",
        lambda d: [run.update(shapes=["small"]) for run in d["runs"]] and None,
        "the odd shapes b1h2s2, b3h1s33",
    ),
    ("a tool on one shape", FULL, "sanitizer.json", lambda d: d["runs"][1].update(shapes=["small"]), "racecheck checked no b1h2s2"),
    (
        "a second order on fewer shapes",
        CPU,
        "sanitizer.json",
        lambda d: d["runs"].append({**d["runs"][0], "order": "backward", "shapes": ["small", "single", "tail", "odd", "b1h2s2"]}),
        "emulator backward checked no b3h1s33",
    ),
    (
        "no judged shape checked",
        CPU,
        "sanitizer.json",
        lambda d: d["runs"][0].update(shapes=["single", "tail", "odd", "b1h2s2", "b3h1s33"]),
        "none of the judged shapes small, mission was checked",
    ),
    (
        "fewer registers than the log's",
        FULL,
        "ptxas.json",
        lambda d: d["kernels"][0].update(registers=90),
        "has not the figures that build.log shows",
    ),
    ("timed at other dimensions", FULL, "performance.json", lambda d: d["dimensions"].update(S=32), "performance.json: dimensions is"),
    ("timed against another bar", FULL, "performance.json", lambda d: d.update(bar_pct=1.0), "bar_pct is 1.0, run.json gives 15"),
    (
        "other limits on timed outputs",
        FULL,
        "performance.json",
        lambda d: d["output_limits"].update(max_abs_err=9.0),
        "output_limits.max_abs_err is 9.0",
    ),
    (
        "an output of another size",
        FULL,
        "correctness.json",
        lambda d: d["cases"][1]["outputs"][0].update(elements=10**7),
        "in another case of the shape",
    ),
    (
        "a baseline's limit that is null",
        FULL,
        "run.json",
        lambda d: d["baseline"]["limits"]["ptxas"].update(max_registers=None),
        "run.json: baseline.limits.ptxas.max_registers: None is not of type",
    ),
    (
        "a baseline's gate without limits",
        FULL,
        "run.json",
        lambda d: d["baseline"]["limits"].update(correctness=None),
        "run.json: baseline",
    ),
    (
        "a baseline's limit that is text",
        FULL,
        "run.json",
        lambda d: d["baseline"]["limits"]["performance"].update(min_speedup_pct="15"),
        "run.json: baseline.limits.performance.min_speedup_pct",
    ),
    ("half a character", FULL, "run.json", lambda d: d["task"].update(title="\ud800"), "not Unicode"),
]


@pytest.mark.parametrize(("run", "name", "change", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_an_edit_is_found(tmp_path: Path, run: Path, name: str, change: Callable[[Any], Any], expected: str) -> None:
    target = edited(tmp_path, run, name, change)
    problems = verify_run(target)
    assert any(expected in problem for problem in problems), problems
    with pytest.raises(GatesError, match="is not sound"):
        decide_run(target)


def test_a_huge_text_is_not_repeated_whole(tmp_path: Path) -> None:
    (problem,) = verify_run(edited(tmp_path, CPU, "sanitizer.json", lambda d: d.update(target="x" * 10**6)))
    assert "sanitizer.json: target is xxx" in problem and problem.endswith("run.json gives stage2_wmma_pv") and len(problem) < 1100


@pytest.mark.parametrize("name", ["ptxas.json", "sass.json", "correctness.json", "sanitizer.json", "performance.json", "ncu.json"])
def test_evidence_of_another_run_is_found(tmp_path: Path, name: str) -> None:
    target = tmp_path / "run"
    shutil.copytree(FULL, target)
    shutil.copyfile(OTHER / name, target / name)
    sign(target)
    assert verify_run(target) != []


def test_evidence_that_was_taken_out(tmp_path: Path) -> None:
    target = tmp_path / "run"
    shutil.copytree(FULL, target)
    for name in ("performance.json", "correctness.json"):
        (target / name).unlink()
    assert verify_run(target) != []
    with pytest.raises(GatesError, match="is not sound"):
        compare_runs(list_runs(RECORDED / "h100" / "stage1_wmma_qk")[-1], target)
    sign(target)
    assert any("no evidence of it" in problem for problem in verify_run(target))


@pytest.mark.parametrize(
    "make",
    [
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 2**35),
    ],
    ids=["fifo", "link", "huge"],
)
def test_what_is_no_file_of_ours(tmp_path: Path, make: Callable[[Path], None]) -> None:
    target = tmp_path / "run"
    shutil.copytree(CPU, target)
    make(target / "extra.bin")
    assert any("extra.bin" in problem for problem in verify_run(target))


@pytest.mark.parametrize("name", ["manifest.json", "run.json", "correctness.json", "acceptance.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    target = tmp_path / "run"
    shutil.copytree(CPU, target)
    (target / name).unlink(missing_ok=True)
    os.mkfifo(target / name)
    assert any("is not a plain file" in problem for problem in verify_run(target))


def of_another_checkout(data: Any) -> None:
    data["task"].update(digest="0" * 64, problem_sha256="1" * 64)
    data["baseline"].update(problem_sha256="1" * 64)


def test_a_checkout_that_moved_on_is_noted_and_no_fault(tmp_path: Path) -> None:
    target = edited(tmp_path, FULL, "run.json", of_another_checkout)
    done = CliRunner().invoke(cli, ["verify", str(target)])
    assert (
        done.exit_code == 0 and ": sound\n" in done.output and "\n  note: stage2_wmma_pv has changed in this checkout since" in done.output
    )
    assert "note: the problem tasks.problems.sdpa_fp8 has changed in this checkout since" in done.output


def test_a_note_of_several_runs_is_printed_once_and_one_of_a_single_run_names_it() -> None:
    stage1 = list_runs(RECORDED / "h100" / "stage1_wmma_qk")[-1]
    done = CliRunner().invoke(cli, ["verify", str(stage1), str(FULL)])
    assert done.exit_code == 0 and done.output.count(": sound\n") == 2 and "\n2 of 2 sound\n" in done.output
    assert done.output.count("ncu.json was not checked") == 1 and "  note (2 runs): ncu.json was not checked" in done.output
    assert "  note (2 runs): stage1_wmma_qk has changed in this checkout since: " in done.output  # of one run it is the baseline
    assert re.search(
        r"  note \(\S+/stage2_wmma_pv/\S+\.zip\): stage2_wmma_pv has changed in this checkout since: .+ and \d+ more\n", done.output
    )


def test_a_run_that_can_not_be_read_counts_among_those_that_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "cut.zip").write_bytes(Path(FULL).with_suffix(".zip").name.encode())
    done = CliRunner().invoke(cli, ["verify", str(FULL), str(tmp_path / "cut.zip")])
    assert done.exit_code == 2 and "1 of 2 sound" in done.output


def test_a_name_that_is_no_run_is_told_alike_alone_and_beside_others(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*names: str) -> tuple[str, str]:
        assert guard(lambda: cli.main(["verify", *names], standalone_mode=False)) == 2
        return capsys.readouterr()

    out, alone = told("nowhere")
    assert out == "" and alone.startswith("error: nowhere does not exist") and "hint: " in alone
    out, beside = told("nowhere", str(CPU), "latest:nobody")
    assert ": sound\n" in out and beside.startswith(alone) and "error: no run found for 'latest:nobody'" in beside


def test_what_changed_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "tests" / "tasks", tmp_path / "tasks")
    monkeypatch.chdir(tmp_path)
    task = find_task("saxpy_fast")
    recorded = read_record(RunInfo, CPU, "run.json")
    info = replace(
        recorded.task,
        name=task.name,
        digest=task.digest(),
        digest_rule=DIGEST_RULE,
        toggles=dict(task.toggles),
        problem=task.problem,
        problem_sha256=task.problem_sha256(),
    )
    assert changed_since(replace(recorded, task=info, baseline=None)) == []
    with task.sources[0].open("a") as file:
        file.write("// later\n")
    assert [text.partition(":")[0] for text in changed_since(replace(recorded, task=info, baseline=None))] == [
        "saxpy_fast has changed in this checkout since"
    ]
    with task.problem_file().open("a") as file:
        file.write("# later\n")
    assert (
        changed_since(replace(recorded, task=info, baseline=info))[-1] == f"the problem {task.problem} has changed in this checkout since"
    )
    for name in ("nobody", "../tasks/saxpy_fast"):
        assert changed_since(replace(recorded, task=replace(info, name=name), baseline=None)) == [
            f"`gates list` has no {name} here to compare with"
        ]


def recorded_by_rule_1(folder: Path) -> RunInfo:
    """Of a stage in a checkout of its own, as an earlier version recorded it there; its source includes a header of another folder."""
    shutil.copytree(ROOT / "tests" / "tasks", folder / "tasks")
    (folder / "shared").mkdir()
    (folder / "shared" / "tile.cuh").write_text("")
    source = folder / "tasks" / "saxpy.cu"
    source.write_text('#include "../shared/tile.cuh"\n' + source.read_text())
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    task, recorded = load_task(folder / "tasks" / "saxpy_fast", environ={}), read_record(RunInfo, CPU, "run.json")
    info = replace(
        recorded.task,
        name=task.name,
        digest=task.digest(1),
        digest_rule=1,
        toggles={},
        problem=task.problem,
        problem_sha256=task.problem_sha256(),
    )
    return replace(recorded, task=info, baseline=None, git=revision(folder))


@pytest.mark.parametrize("known", [True, False], ids=["commit known", "commit unknown"])
def test_a_shared_header_that_changed_after_a_run_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Its digest does not cover the header; git tells, or nobody can."""
    monkeypatch.chdir(tmp_path)
    run = recorded_by_rule_1(tmp_path)
    if not known:
        run = replace(run, git=Git("0" * 40, False, "git"))
    unknown = [
        "saxpy_fast was recorded by an earlier version, whose digest leaves out tile.cuh; it is not known whether they have changed since"
    ]
    assert changed_since(run) == ([] if known else unknown)
    (tmp_path / "shared" / "tile.cuh").write_text("#error x\n")
    assert changed_since(run) == (["saxpy_fast has changed in this checkout since: shared/tile.cuh"] if known else unknown)


def test_what_a_run_says_of_the_very_stage_in_this_checkout_must_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    here = find_task("stage2_wmma_pv")

    def same_stage(data: dict) -> None:
        data["task"].update(
            digest=here.digest(),
            digest_rule=DIGEST_RULE,
            toggles=dict(here.toggles),
            problem_sha256=here.problem_sha256(),
            limits={gate: dict(limits) for gate, limits in here.gates.items()},
        )

    run = edited(tmp_path, FULL, "run.json", same_stage)
    info = read_record(RunInfo, run, "run.json").task
    assert contradicts_checkout(info) == [] and contradicts_checkout(replace(info, overrides={"shapes": "small"})) == []
    wider = {**info.limits, "ptxas": {**info.limits["ptxas"], "max_registers": 255}}
    for changed, what in (
        ({"limits": wider}, "limits of ptxas"),
        ({"declared_seeds": (0,)}, "seeds"),
        ({"declared_shapes": ("small",)}, "shapes"),
        ({"not_applicable": {"ncu": "no"}}, "gates that are not applicable"),
        ({"problem": "easy"}, "problem"),
        ({"overrides": {"USE_WMMA_PV": 1}}, "overridden toggles"),
    ):
        (text,) = contradicts_checkout(replace(info, **changed))
        assert text.startswith(f"run.json gives stage2_wmma_pv other {what} than the task.yaml of the same digest")
    assert contradicts_checkout(replace(info, limits=wider, digest="0" * 64)) == []
    (tmp_path / "more").mkdir()
    looser = edited(tmp_path / "more", run, "run.json", lambda d: d["task"]["limits"]["ptxas"].update(max_registers=255))
    assert any("limits of ptxas" in problem for problem in verify_run(looser))


def test_a_gate_that_a_later_version_adds_leaves_recorded_runs_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gates.gate.registry", "gates.task.load", "gates.verify.run", "gates.evidence.judging"):
        monkeypatch.setattr(f"{module}.GATES", (*GATES[:3], "seventh", *GATES[3:]))
    for run in (CPU, FULL):
        assert verify_run(run) == [] and insights_of(run).decision is read_record(Verdict, run, "verdict.json").decision


@pytest.mark.parametrize("gate", ["performance", "ncu"])
def test_a_gate_that_was_taken_out_everywhere_is_missed(tmp_path: Path, gate: str) -> None:
    def without(data: Any) -> None:
        del data["task"]["limits"][gate]
        data["asked_gates"].remove(gate)

    run = edited(tmp_path, FULL, "run.json", without)
    data = json.loads((run / "verdict.json").read_text())
    data["gates"] = [result for result in data["gates"] if result["gate"] != gate]
    (run / "verdict.json").write_text(json.dumps(data))
    (run / f"{gate}.json").unlink()
    sign(run)
    problems = verify_run(run)
    assert any("not each gate once" in problem for problem in problems) and any(f"{gate} (missing)" in problem for problem in problems), (
        problems
    )


def test_a_gate_that_this_version_does_not_know(tmp_path: Path) -> None:
    run = edited(tmp_path, CPU, "run.json", lambda d: d["task"]["limits"].update({"os": {}}))
    data = json.loads((run / "verdict.json").read_text())
    data["gates"].append({**data["gates"][-1], "gate": "os"})
    (run / "verdict.json").write_text(json.dumps(data))
    sign(run)
    assert verify_run(run)[-1] == "verdict.json judges os, which this version does not know: update kernel-gates"


def test_a_figure_of_another_machine_may_differ_in_its_last_bits(tmp_path: Path) -> None:
    def nudge(data: dict) -> None:
        check = next(
            check
            for result in data["gates"]
            for check in result["checks"]
            if isinstance(check["observed"], float) and check["observed"] > 0
        )
        check["observed"] = math.nextafter(check["observed"], 0.0)

    assert verify_run(edited(tmp_path, FULL, "verdict.json", nudge)) == []


@pytest.mark.parametrize("run", PLACES, ids=lambda run: f"{run.parts[-3]}-{run.parts[-2]}")
def test_every_recorded_run_is_sound(run: Path) -> None:
    assert findings(run)[0] == []


@pytest.mark.parametrize(("arguments", "code"), [(["list"], 0), (["run", "stage22"], 2), (["decide", "recorded:cpu/stage2"], 3)])
def test_closed_streams_change_no_exit_code(arguments: list[str], code: int) -> None:
    command = shlex.join([sys.executable, "-m", "gates", *arguments])
    assert subprocess.run(["sh", "-c", f"{command} >&- 2>&-"], cwd=ROOT, check=False).returncode == code


def test_a_closed_pipe_changes_no_exit_code() -> None:
    command = f"{sys.executable} -m gates decide {CPU} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
