"""The workflows are valid, ask for little, and every script that their steps call does its job locally."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from github_fake import REPOSITORY, FakeGitHub
from pages_kit import NAMES, check_markdown
from places import ROOT

from gates.evidence import packed_runs as packed
from gates.evidence.run_directory import list_runs
from gates.render.markdown import table

CI = ROOT / "scripts" / "ci"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / ".github" / "actions" / "gates" / "action.yml"
HEAD, BASE = "a" * 40, "b" * 40
sys.path.insert(0, str(CI))

import admit  # noqa: E402
import attest_run  # noqa: E402
import ci_common  # noqa: E402
import judge_stages  # noqa: E402
import pr_comment  # noqa: E402
import report_checks  # noqa: E402
import stage_review  # noqa: E402
import touched_stages  # noqa: E402
from ci_common import CiError, clean_environment  # noqa: E402
from stage_review import Review  # noqa: E402

# Stands where `python -m gates` looks: writes runs, and decides by the file DECISION of a run.
STAND_IN = """
import json, os, pathlib, shutil, sys
command, *rest = sys.argv[1:]
def option(name): return rest[rest.index(name) + 1]
CODES = {"merge": 0, "reject": 1, "hold": 3}
def decide(run):
    told = (pathlib.Path(run) / "DECISION").read_text()
    if told not in CODES:
        sys.exit(f"error: {run} is not sound: verdict.json was changed after the run") if told == "unsound" else sys.exit(4)
    return told
if command == "run":
    stage = pathlib.Path(rest[0]).name
    told = (pathlib.Path(rest[0]) / "WILL").read_text()
    print("::warning::printed by a kernel")
    results = pathlib.Path(option("--results"))
    (results / "seen.json").write_text(json.dumps([os.getcwd(), *sorted(os.environ)]))
    if told == "crash": sys.exit(2)
    run = pathlib.Path(option("--results")) / stage / "20260101T000000Z-norev-cpu"
    run.mkdir(parents=True)
    info = {"task": {"name": stage, "digest": "d"}, "profile": option("--profile"), "git": {"sha": None, "dirty": False}}
    (run / "run.json").write_text(json.dumps({**info, "baseline": None, "device": {"name": "card"}}))
    (run / "COMPARE.md").write_text(f"# {told}: {stage}\\n\\nask @everyone <!-- kernel-gates -->\\n")
    (run / "DECISION").write_text(told)
    sys.exit(CODES.get(told, 0))
if command == "pack":
    shutil.make_archive(rest[-1], "zip", rest[-1])
    if "--replace" in rest: shutil.rmtree(rest[-1])
    sys.exit(0)
if command == "unpack":
    shutil.unpack_archive(rest[0], pathlib.Path(option("--out")) / pathlib.Path(rest[0]).stem)
    sys.exit(0)
told = decide(rest[0] if command == "decide" else rest[1])
if command == "compare":
    out = pathlib.Path(option("--out")) / "a..b"; out.mkdir(parents=True)
    (out / "compare.json").write_text(json.dumps({"reason": f"{told}, against the base branch"}))
    (out / "COMPARE.md").write_text(f"# {told}, side by side\\n")
else:
    print(json.dumps({"decision": told, "reason": f"because {told}"}))
sys.exit(CODES[told])
"""


def parsed(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    data = parsed(path)
    for job in data.get("jobs", {"action": data.get("runs", {})}).values():
        yield from job["steps"]


def tree(root: Path, **will: str) -> Path:
    """A checkout with tasks that end as told, and the stand-in for the engine."""
    (root / "gates").mkdir(parents=True)
    (root / "gates" / "__init__.py").touch()
    (root / "gates" / "__main__.py").write_text(STAND_IN)
    for stage, told in will.items():
        (root / "tasks" / stage).mkdir(parents=True)
        (root / "tasks" / stage / "WILL").write_text(told)
    return root


def step(script: str, *arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GATES_"))}
    return subprocess.run(
        [sys.executable, str(CI / script), *arguments], cwd=cwd, env=clean | environ, capture_output=True, text=True, check=False
    )


def event(tmp_path: Path, payload: dict[str, Any]) -> str:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload))
    return str(path)


def pull(*, fork: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "pull_request": {
            "number": 7,
            "head": {"sha": HEAD, "repo": {"id": 2 if fork else 1}},
            "base": {"sha": BASE, "repo": {"id": 1}},
        },
        **more,
    }


# --- the files themselves ---


def test_nothing_of_the_change_is_installed_on_the_gpu_machine() -> None:
    commands = [step_["run"] for step_ in steps(ROOT / ".github" / "workflows" / "gpu.yml") if "install_gates" in step_.get("run", "")]
    assert commands and all(re.search(r"base/scripts/ci/install_gates.py --source base ", command) for command in commands)


def test_actionlint_finds_nothing() -> None:
    program = shutil.which("actionlint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if program is None:
        pytest.skip("actionlint is not installed: pip install -e .[workflows]")
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_actions_are_pinned_and_scripts_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for line in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    for command in [one["run"] for one in steps(path) if "run" in one]:
        assert "\n" not in command.strip() and not re.search(r"&&|\|\||;", command), f"more than one command: {command}"
        assert "${{" not in command, f"an expression in shell text can inject: {command}"
        for script in re.findall(r"scripts/ci/([\w.]+)", command):
            assert (CI / script).is_file(), script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_only_jobs_that_run_no_change_may_write(path: Path) -> None:
    data = parsed(path)
    assert "secrets." not in path.read_text(encoding="utf-8")
    assert data["permissions"] in ({}, {"contents": "read"}) or data["permissions"] == ""
    for name, job in data["jobs"].items():
        writes = "write" in job.get("permissions", {}).values()
        refs = [one["with"].get("ref", "") for one in job["steps"] if "checkout" in one.get("uses", "")]
        kept = [one["with"].get("persist-credentials") for one in job["steps"] if "checkout" in one.get("uses", "")]
        assert set(kept) == {"false"}, f"{name} keeps the token in the checkout"
        if writes:
            assert all("head" not in ref for ref in refs), f"{name} may write and checks out the change"
            assert path.name != "cpu.yml"
        elif name == "judge":
            assert "github.token" not in json.dumps(job), "a token where kernels run"


def test_the_gpu_job_waits_for_admission() -> None:
    jobs = parsed(ROOT / ".github" / "workflows" / "gpu.yml")["jobs"]
    hosted = {name for name, job in jobs.items() if "self-hosted" not in job["runs-on"]}
    assert hosted == {"admit", "attest", "report"} and "self-hosted" in jobs["judge"]["runs-on"]
    assert jobs["judge"]["needs"] == "admit" and "admitted == 'true'" in jobs["judge"]["if"]
    condition = " ".join(jobs["admit"]["if"].split())
    assert "head.repo.full_name == github.repository" in condition and f"label.name == '{admit.LABEL}'" in condition
    assert parsed(ROOT / ".github" / "workflows" / "gpu.yml")["on"]["pull_request_target"]["types"] == ["labeled"]


def test_only_the_job_that_signs_has_an_identity_and_it_runs_no_change() -> None:
    signing = {
        (path.name, name)
        for path in WORKFLOWS
        for name, job in parsed(path)["jobs"].items()
        if {"id-token", "attestations"} & set(job.get("permissions", {}))
        or any("actions/attest" in one.get("uses", "") for one in job["steps"])
    }
    assert signing == {("gpu.yml", "attest")}
    job = parsed(ROOT / ".github" / "workflows" / "gpu.yml")["jobs"]["attest"]
    assert job["permissions"] == {"attestations": "write", "contents": "read", "id-token": "write"}
    assert (
        "self-hosted" not in job["runs-on"]
        and "github.event_name == 'pull_request' &&" in job["if"]
        and "!github.event.repository.private" in job["if"]
    )
    assert [one["with"]["ref"] for one in job["steps"] if "checkout" in one.get("uses", "")] == [
        "${{ github.event.pull_request.base.sha }}"
    ]
    assert [re.findall(r"scripts/ci/(\w+\.py)", one["run"]) for one in job["steps"] if "run" in one] == [[], ["attest_run.py"]]
    (action,) = [one for one in job["steps"] if "actions/attest" in one.get("uses", "")]
    outputs = re.findall(r"steps\.statement\.outputs\.(\w+)", json.dumps(action["with"]))
    assert outputs == ["manifest", "type", "predicate"] and action is job["steps"][-1]


# --- admission ---

LABELED = {"action": "labeled", "label": {"name": "gpu-approved"}}


@pytest.mark.parametrize(
    ("name", "payload", "admitted"),
    [
        ("pull_request", pull(action="synchronize"), True),
        ("pull_request", pull(fork=True, action="opened"), False),
        ("pull_request", pull(fork=True, **LABELED), False),  # its workflow file is the fork's own
        ("pull_request_target", pull(fork=True, **LABELED), True),
        ("pull_request_target", pull(fork=True, action="synchronize", label={"name": "gpu-approved"}), False),
        ("pull_request_target", pull(fork=True, action="labeled", label={"name": "docs"}), False),
        ("pull_request_target", pull(**LABELED), False),
        ("pull_request", {"pull_request": {"head": {"repo": None}, "base": {"repo": {"id": 1}}}}, False),
        ("workflow_dispatch", {}, False),
        ("pull_request", {}, False),
    ],
)
def test_who_is_admitted_to_the_gpu(name: str, payload: dict[str, Any], admitted: bool) -> None:
    assert admit.admission(name, payload)[0] is admitted


def test_the_admission_step_writes_outputs(tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary"
    done = step(
        "admit.py",
        cwd=tmp_path,
        GITHUB_EVENT_NAME="pull_request",
        GITHUB_EVENT_PATH=event(tmp_path, pull(fork=True)),
        GITHUB_OUTPUT=str(out),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0 and re.search(r"admitted<<(end-\w+)\nfalse\n\1\n", out.read_text())
    assert "gpu-approved" in summary.read_text()
    done = step(
        "admit.py",
        cwd=tmp_path,
        GITHUB_EVENT_NAME="pull_request_target",
        GITHUB_EVENT_PATH=event(tmp_path, pull(fork=True, **LABELED)),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0 and "admitted: true" in done.stdout and "not attested" in summary.read_text()


# --- changed files -> stages ---


@functools.cache
def places_here() -> list[touched_stages.Places]:
    """What makes each of this checkout's stages."""
    return [touched_stages.places_of(path.parent, ROOT) for path in sorted(ROOT.glob("tasks/*/task.yaml"))]


TASKS = {path.parent.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("tasks/*/task.yaml"))}


def included(path: Path) -> set[Path]:
    """A source and all that it includes."""
    names = re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M)
    return {path}.union(*(included((path.parent / name).resolve()) for name in names))


def stages_of(file: str) -> list[str]:
    """The stages whose folder or sources have ``file``, and those measured against them."""
    own = {
        name
        for name, task in TASKS.items()
        if file.startswith(f"tasks/{name}/") or any(ROOT / file in included(ROOT / source) for source in task["sources"])
    }
    return [name for name, task in TASKS.items() if {name, task.get("baseline")} & own]


@pytest.mark.parametrize(
    ("file", "some"),
    [
        ("README.md", ""),
        ("tests/test_task.py", ""),
        ("docs/internals/design.md", ""),
        ("tasks/stage1_wmma_qk/task.yaml", "stage1_wmma_qk stage2_wmma_pv"),
        ("tasks/stage3_cp_async/runner.py", "stage3_cp_async stage4_mma"),
        ("kernels/sdpa_fp8/parts/softmax.cuh", "stage0_scalar stage1_wmma_qk stage2_wmma_pv stage3_cp_async stage4_mma"),
        ("kernels/sdpa_fp8/parts/scores_scalar.cuh", "stage0_scalar stage1_wmma_qk stage2_wmma_pv"),
        ("kernels/sdpa_fp8/stage1_wmma_qk.cu", "stage1_wmma_qk stage2_wmma_pv"),
        ("kernels/other/other.cu", ""),
        ("kernels/cuda/launcher.cuh", "stage0_scalar stage5_wgmma"),
        ("kernels/cuda/fp8.cuh", "stage4_mma stage5_wgmma"),
        ("kernels/cuda/wgmma.cuh", "stage5_wgmma"),
        ("kernels/sdpa/rows.cuh", "stage4_mma stage5_wgmma"),
        ("kernels/sdpa_fp8/nobody_includes_it.cuh", ""),
    ],
)
def test_changed_files_to_stages(file: str, some: str) -> None:
    found = touched_stages.touched_stages([file], places_here())
    assert list(found) == stages_of(file) and set(some.split()) <= set(found) and bool(some) == bool(found)


@pytest.mark.parametrize("file", ["gates/gate/ptxas/judge.py", "constraints.txt"])
def test_the_engine_touches_every_stage(file: str) -> None:
    assert list(touched_stages.touched_stages(["README.md", file], places_here())) == list(TASKS)


def test_a_problem_touches_the_stages_that_solve_it() -> None:
    found = touched_stages.touched_stages(["tasks/problems/sdpa_fp8_inputs.py"], places_here())
    assert {name for name, task in TASKS.items() if "sdpa_fp8" in task["problem"]} <= set(found) < set(TASKS)


def test_a_deleted_header_touches_those_that_include_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    (tmp_path / "kernels" / "cuda" / "fp8.cuh").unlink()
    places = [touched_stages.places_of(path.parent, tmp_path) for path in sorted(tmp_path.glob("tasks/*/task.yaml"))]
    assert list(touched_stages.touched_stages(["kernels/cuda/fp8.cuh"], places)) == stages_of("kernels/cuda/fp8.cuh")


def test_a_symbolic_link_and_what_it_leads_to_touch_the_stages_behind_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    (tmp_path / "kernels" / "cuda").rename(tmp_path / "elsewhere")
    (tmp_path / "kernels" / "cuda").symlink_to("../elsewhere")
    places = [touched_stages.places_of(path.parent, tmp_path) for path in sorted(tmp_path.glob("tasks/*/task.yaml"))]
    assert list(touched_stages.touched_stages(["elsewhere/fp8.cuh"], places)) == stages_of("kernels/cuda/fp8.cuh")
    assert "stage0_scalar" in touched_stages.touched_stages(["kernels/cuda"], places)


def test_a_vanished_baseline_and_a_broken_task_are_touched(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "stage2_wmma_pv"
    shutil.copytree(ROOT / "tasks" / "stage2_wmma_pv", folder)
    (tmp_path / "kernels" / "sdpa_fp8").mkdir(parents=True)
    (tmp_path / "kernels" / "sdpa_fp8" / "stage2_wmma_pv.cu").write_text("")
    place = touched_stages.places_of(folder, tmp_path)
    assert touched_stages.touched_stages(["tasks/stage1_wmma_qk/task.yaml"], [place])  # so that its run says what is missing
    (folder / "task.yaml").write_text("name: [")
    assert touched_stages.touched_stages([], [touched_stages.places_of(folder, tmp_path)])


def test_the_touched_step_compares_the_commits_of_the_event(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(ROOT / "tasks", repo / "tasks")
    shutil.copytree(ROOT / "kernels", repo / "kernels")

    def git(*arguments: str) -> str:
        name = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", repo, *name, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    base = git("rev-parse", "HEAD")
    (repo / "tasks" / "stage2_wmma_pv" / "odd |\n name.py").write_text("")
    git("add", ".")
    git("commit", "-qm", "two")
    payload = pull()
    payload["pull_request"]["base"]["sha"], payload["pull_request"]["head"]["sha"] = base, git("rev-parse", "HEAD")
    out, summary = tmp_path / "out", tmp_path / "summary"
    environ = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_OUTPUT": str(out), "GITHUB_STEP_SUMMARY": str(summary), "PYTHONPATH": str(ROOT)}
    done = step("touched_stages.py", "--tree", str(repo), cwd=tmp_path, GITHUB_EVENT_PATH=event(tmp_path, payload), **environ)
    assert done.returncode == 0, done.stderr
    assert '["stage2_wmma_pv", "stage3_cp_async"]' in out.read_text()
    assert "its baseline changed" in summary.read_text()
    payload["pull_request"]["base"]["sha"] = "c" * 40
    done = step("touched_stages.py", "--tree", str(repo), cwd=tmp_path, GITHUB_EVENT_PATH=event(tmp_path, payload), **environ)
    assert done.returncode == 2 and "error: git can't compare" in done.stderr and "fetch-depth: 0" in done.stderr


# --- judging ---


def test_judging_keeps_evidence_and_hides_the_runner(tmp_path: Path) -> None:
    checkout, out, summary = tree(tmp_path / "head", a="hold", b="merge"), tmp_path / "out", tmp_path / "summary"
    done = step(
        "judge_stages.py",
        "--profile",
        "cpu",
        "--stages",
        '["a", "b"]',
        "--tree",
        str(checkout),
        "--out",
        str(out),
        cwd=tmp_path,
        GITHUB_ACTIONS="true",
        GITHUB_TOKEN="t0ken",
        GITHUB_ENV="e",
        ACTIONS_RUNTIME_TOKEN="x",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads((out / "runs" / "seen.json").read_text())
    assert "PATH" in seen and not [name for name in seen if name.startswith(("GITHUB_", "ACTIONS_"))]
    token = re.search(r"::stop-commands::(\w+)\n", done.stdout)
    assert token and done.stdout.index("printed by a kernel") < done.stdout.index(f"::{token[1]}::")
    entries = json.loads((out / "outcomes.json").read_text())["stages"]
    assert [entry["run"] for entry in entries] == [f"runs/{stage}/20260101T000000Z-norev-cpu.zip" for stage in "ab"] and all(
        (out / entry["run"]).is_file() for entry in entries
    )
    text = summary.read_text()
    assert (
        "| a | hold | because hold |" in text
        and f"Evidence in the artifact `gates-cpu`: `{entries[0]['run']}`, `{entries[1]['run']}`." in text
    )


@pytest.mark.parametrize(("will", "code"), [("reject", 1), ("crash", 2), ("unsound", 2)])
def test_judging_is_red_for_what_may_not_pass(tmp_path: Path, will: str, code: int) -> None:
    checkout = tree(tmp_path / "head", a="merge", b=will)
    done = step(
        "judge_stages.py", "--profile", "cpu", "--stages", '["a", "b"]', "--tree", str(checkout), "--out", str(tmp_path / "o"), cwd=tmp_path
    )
    assert done.returncode == code, done.stdout + done.stderr


def test_no_stage_is_no_work_and_odd_names_are_refused(tmp_path: Path) -> None:
    done = step("judge_stages.py", "--profile", "cpu", "--stages", "[]", "--out", str(tmp_path / "o"), cwd=tmp_path)
    assert done.returncode == 0 and json.loads((tmp_path / "o" / "outcomes.json").read_text())["stages"] == []
    for text in ("", "{}", '["../x"]', '["--help"]', "[1]"):
        with pytest.raises(CiError):
            judge_stages.stage_names(text)


def test_a_recorded_baseline_must_be_the_very_stage_on_the_same_card(tmp_path: Path) -> None:
    def record(run: str, digest: str, card: str) -> Path:
        path = tmp_path / "h100" / "stage1" / run
        path.mkdir(parents=True)
        (path / "run.json").write_text(json.dumps({"task": {"digest": digest}, "device": {"name": card}}))
        return path

    record("1", "old", "H100")
    record("2", "now", "L4")
    assert judge_stages.recorded_run(tmp_path, "stage1", "now", "H100") is None
    want = record("3", "now", "H100")
    assert judge_stages.recorded_run(tmp_path, "stage1", "now", "H100") == want


def test_the_base_branch_is_measured_where_nothing_fitting_is_recorded(tmp_path: Path) -> None:
    for side in ("head", "base"):
        checkout = tree(tmp_path / side, stage1_wmma_qk="merge", stage2_wmma_pv="merge")
        (checkout / "kernels" / "sdpa_fp8").mkdir(parents=True)
        for stage in ("stage1_wmma_qk", "stage2_wmma_pv"):
            shutil.copy(ROOT / "tasks" / stage / "task.yaml", checkout / "tasks" / stage)
            (checkout / "kernels" / "sdpa_fp8" / f"{stage}.cu").write_text("")
        text = (checkout / "tasks" / "stage1_wmma_qk" / "task.yaml").read_text()
        (checkout / "tasks" / "stage1_wmma_qk" / "task.yaml").write_text(re.sub(r"(?m)^baseline:.*\n", "", text))
    arguments = ["--profile", "full", "--stages", '["stage2_wmma_pv"]', "--tree", str(tmp_path / "head"), "--base", str(tmp_path / "base")]
    environ = {"GATES_LOCK_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = step("judge_stages.py", *arguments, "--out", str(tmp_path / "o"), cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / "o" / "outcomes.json").read_text())["stages"]
    assert entry["base"] == "base/stage2_wmma_pv/20260101T000000Z-norev-cpu.zip" and entry["note"] == ""
    assert "stage2_wmma_pv: merge: because merge" in done.stdout  # in the words of its own run, where the comparison says the same
    assert json.loads((tmp_path / "o" / "runs" / "seen.json").read_text())[0] == str(tmp_path / "base")  # the base branch's gates judged
    shutil.rmtree(tmp_path / "base" / "tasks" / "stage1_wmma_qk")
    done = step("judge_stages.py", *arguments, "--out", str(tmp_path / "p"), cwd=tmp_path, **environ)
    assert "hold: the base branch has no stage1_wmma_qk" in done.stdout, done.stdout + done.stderr


# --- reviewing what an untrusted job left ---


@pytest.mark.parametrize(
    "data",
    [
        "[",
        "[]",
        '{"stages": 1}',
        '{"stages": [{"stage": "../a"}]}',
        '{"stages": [{"stage": "a", "run": "/etc"}]}',
        '{"stages": [{"stage": "a", "run": "runs/../../x"}]}',
        '{"stages": [{"stage": "a", "run": "link/x"}]}',
        '{"stages": [7]}',
    ],
)
def test_hostile_outcomes_are_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "outcomes.json").write_text(data)
    with pytest.raises(CiError):
        stage_review.review_folder(tmp_path, engine=ROOT, profile="cpu")


@pytest.fixture
def evidence(tmp_path: Path) -> Any:
    """Put a copy of the recorded stage 2 below the folder of outcomes, as that of each stage named; (its path, its commit)."""

    def put(*stages: str, based: bool = True) -> tuple[Path, str]:
        (run, _) = [
            Path(shutil.copytree(list_runs(ROOT / "results" / "recorded" / "h100" / stage)[-1], tmp_path / "runs" / name))
            for name, stage in (("good", "stage2_wmma_pv"), ("base", "stage1_wmma_qk"))
        ]
        entries = [{"stage": name, "run": "runs/good", "base": "runs/base" if based else None, "note": ""} for name in stages]
        (tmp_path / "outcomes.json").write_text(json.dumps({"stages": entries}))
        return run, json.loads((run / "run.json").read_text())["git"]["sha"]

    return put


def test_a_real_run_is_decided_by_the_gates_here(tmp_path: Path, evidence: Any) -> None:
    run, sha = evidence("stage2_wmma_pv", "stage3_cp_async")
    good, other, missing = stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha, expected=["zz"])
    assert (good.decision, other.decision, missing.decision) == ("merge", "error", "error"), good
    assert (
        good.markdown.startswith("# merge: stage2") and "of stage2_wmma_pv, not of stage3" in other.reason and "evidence" in missing.reason
    )
    (run / "COMPARE.md").write_text("# merge: all is well")  # it is in the manifest
    (edited, _) = stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)
    assert edited.decision == "error" and "not sound" in edited.reason and str(tmp_path) not in edited.reason


@pytest.mark.parametrize(("profile", "head_sha", "said"), [("cpu", None, "profile full, not cpu"), ("full", HEAD, "not of aaaaaaaaaaaa")])
def test_a_run_must_be_of_the_profile_and_the_commit(tmp_path: Path, evidence: Any, profile: str, head_sha: str | None, said: str) -> None:
    evidence("stage2_wmma_pv")
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile=profile, head_sha=head_sha)
    assert review.decision == "error" and said in review.reason


def decided(monkeypatch: pytest.MonkeyPatch, decision: str) -> None:
    monkeypatch.setattr(stage_review, "_decide", lambda *_: (decision, "told"))


def test_the_report_is_rendered_anew_and_a_dirty_tree_is_refused(tmp_path: Path, evidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sha = evidence("stage2_wmma_pv", based=False)
    (run / "COMPARE.md").write_text("</details>\n# forged")  # as if it had been signed
    decided(monkeypatch, "merge")
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile="full")
    assert review.decision == "merge" and "forged" not in review.markdown and "# merge: stage2" in review.markdown
    assert "baseline is missing" in stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)[0].reason
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(re.sub(r'"dirty": *false', '"dirty": true', text))
    assert "uncommitted" in stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)[0].reason
    (run / "run.json").write_text(re.sub(r'"profile": *"full"', '"profile": "cpu"', text))
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile="cpu", head_sha=sha)
    assert (review.decision, review.reason) == ("hold", "the cpu profile judges neither speed nor counters")


def test_a_hold_of_the_cpu_profile_names_the_gpu_verdict_that_holds_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("h100", "h200"):
        (tmp_path / "results" / "recorded" / device / "zz").mkdir(parents=True)

    def answers(arguments: list[str], engine: Path) -> subprocess.CompletedProcess[str]:
        same = arguments[3] == "recorded:h200/zz" and Path(arguments[1]).name == "same"
        told = {"decision": "merge", "reason": "every gate passed; machine code unchanged: ncu as in zz/1 on a card", "taken_over": ["ncu"]}
        return subprocess.CompletedProcess(arguments, 0, json.dumps(told if same else told | {"taken_over": []}), "")

    monkeypatch.setattr(stage_review, "run_gates", answers)
    words = "with its GPU verdict merge: machine code unchanged: ncu as in zz/1 on a card"
    assert stage_review._unchanged_since(Path("same"), "zz", tmp_path) == words
    assert stage_review._unchanged_since(Path("other"), "zz", tmp_path) == stage_review._unchanged_since(Path("same"), "yy", tmp_path) == ""
    (tmp_path / "run.json").write_text(
        json.dumps({"task": {"name": "zz"}, "profile": "cpu", "git": {"sha": None, "dirty": False}, "baseline": None})
    )
    monkeypatch.setattr(stage_review, "review_run", lambda *_, **__: Review("zz", "hold", "no verdict from ncu"))
    monkeypatch.setattr(stage_review, "_unchanged_since", lambda *_: words)
    review = stage_review._reviewed("zz", tmp_path, None, "", tmp_path, "cpu", None)
    assert (review.decision, review.reason) == ("hold", f"no verdict from ncu; {words}")


def test_a_packed_run_is_reviewed_as_its_directory_and_a_broken_one_is_an_error(
    tmp_path: Path, evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sha = evidence("stage2_wmma_pv")
    outcomes = (tmp_path / "outcomes.json").read_text()
    (tmp_path / "outcomes.json").write_text(outcomes.replace("runs/good", "runs/good.zip").replace("runs/base", "runs/base.zip"))
    for path in (run, run.with_name("base")):
        packed.replace(path)
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)
    assert (review.decision, review.evidence) == ("merge", "runs/good.zip") and "gates-review-" not in review.reason
    monkeypatch.setattr(
        sys,
        "argv",
        ["attest_run.py", "--folder", str(tmp_path), "--stage", "stage2_wmma_pv", "--head-sha", sha, "--out", str(tmp_path / "told")],
    )
    assert attest_run.run_step(attest_run.main) == 0 and (tmp_path / "told" / "good" / "manifest.json").is_file()
    run.with_suffix(".zip").write_bytes(run.with_suffix(".zip").read_bytes()[:-1])
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)
    assert review.decision == "error" and review.reason.startswith("runs/good.zip is not a packed run: it does not end with its index")


def test_an_acceptance_in_the_evidence_is_refused(tmp_path: Path, evidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sha = evidence("stage2_wmma_pv")
    decided(monkeypatch, "merge")
    (run / "acceptance.json").write_text("{}")
    (review,) = stage_review.review_folder(tmp_path, engine=ROOT, profile="full", head_sha=sha)
    assert review.decision == "error" and "acceptance.json" in review.reason


# --- attestation ---


def test_a_sound_run_of_the_commit_is_stated_and_no_other(tmp_path: Path, evidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sha = evidence("stage2_wmma_pv", "stage3_cp_async")
    out = tmp_path / "out"
    monkeypatch.setenv("GITHUB_OUTPUT", str(out))

    def attest(stage: str, head: str = sha) -> int:
        monkeypatch.setattr(
            sys, "argv", ["attest_run.py", "--folder", str(tmp_path), "--stage", stage, "--head-sha", head, "--out", str(tmp_path / "told")]
        )
        return attest_run.run_step(attest_run.main)

    assert [attest("stage2_wmma_pv", HEAD), attest("stage3_cp_async"), attest("stage0")] == [2, 2, 2] and not out.exists()
    assert attest("stage2_wmma_pv") == 0
    outputs = dict(re.findall(r"(\w+)<<(?:end-\w+)\n(.*)\n", out.read_text()))
    assert outputs == {
        "manifest": str(run / "manifest.json"),
        "predicate": str(tmp_path / "told" / "predicate.json"),
        "type": "urn:kernel-gates:run:v1",
    }
    predicate = json.loads(Path(outputs["predicate"]).read_text())
    assert predicate["decision"] == "merge" and predicate["git"]["sha"] == sha and predicate["task"]["name"] == "stage2_wmma_pv"
    (run / "ptxas.json").write_text("{}")
    assert attest("stage2_wmma_pv") == 2


# --- check run and comment ---


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    fake = FakeGitHub()
    fake.pulls[7] = {"number": 7, "head": {"sha": HEAD}, "owner": "someone", "branch": "faster"}
    yield fake
    fake.close()


@pytest.fixture
def report(tmp_path: Path, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the report step in this process, over reviews that are given; (exit code, what it said on stderr)."""

    def call(
        reviews: list[Review] | None, *more: str, profile: str = "cpu", result: str = "success", source: dict[str, Any] | None = None
    ) -> tuple[int, str]:
        run = {
            "event": "pull_request",
            "head_sha": HEAD,
            "head_branch": "faster",
            "head_repository": {"owner": {"login": "someone"}},
            "html_url": "u",
        }
        monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_run" if source is None else "pull_request_target")
        monkeypatch.setenv("GITHUB_EVENT_PATH", event(tmp_path, {"workflow_run": run} if source is None else source))
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_TOKEN", os.environ.get("TEST_TOKEN", "t0ken"))
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        if reviews is not None:
            monkeypatch.setattr(report_checks, "review_folder", lambda *_, **__: reviews)
        monkeypatch.setattr(
            sys, "argv", ["report_checks.py", "--profile", profile, "--folder", str(tmp_path / "none"), "--result", result, *more]
        )
        code = report_checks.run_step(report_checks.main)
        return code, capsys.readouterr().err

    return call


GOOD = Review("stage2", "merge", "every gate passed", "# merge\n\ntable")
HOLD = Review("stage3", "hold", "no verdict from performance (not_run: performance.no_device)", "# hold")


@pytest.mark.parametrize(
    ("reviews", "conclusion"),
    [
        ([GOOD], "success"),
        ([GOOD, HOLD], "neutral"),
        ([], "skipped"),
        ([GOOD, HOLD, Review("s", "reject", "failed: ptxas (ptxas.spills)")], "failure"),
        ([HOLD, Review("s", "error", "not sound")], "failure"),
    ],
)
def test_the_check_run_says_the_worst_decision(github: FakeGitHub, report: Any, reviews: list[Review], conclusion: str) -> None:
    assert report(reviews) == (0, "")
    (check,) = github.checks
    assert (check["name"], check["head_sha"], check["status"], check["conclusion"]) == ("gates (cpu)", HEAD, "completed", conclusion)
    if conclusion == "neutral":
        assert check["output"]["title"] == "hold: stage3: no verdict from performance (not_run: performance.no_device)"


def test_hold_can_be_made_to_block(github: FakeGitHub, report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATES_HOLD_CONCLUSION", "failure")
    assert report([HOLD]) == (0, "") and github.checks[0]["conclusion"] == "failure"
    monkeypatch.setenv("GATES_HOLD_CONCLUSION", "success")
    code, said = report([HOLD])
    assert code == 2 and "GATES_HOLD_CONCLUSION" in said and len(github.checks) == 1


def test_one_comment_is_posted_then_updated(github: FakeGitHub, report: Any) -> None:
    others = [{"id": n, "user": {"type": "User"}, "body": f"{pr_comment.MARKER} written by hand"} for n in range(120)]
    github.comments.extend(others)
    report([HOLD])
    report([GOOD], profile="full", source=pull(fork=True, **LABELED))
    report([Review("stage3", "reject", "failed: ptxas", "# reject")])
    (ours,) = github.comments[120:]
    assert "| stage2 | merge |" in ours["body"] and "| stage3 | reject |" in ours["body"] and "hold" not in ours["body"]
    assert ours["body"].startswith(pr_comment.MARKER) and ours["body"].count("<!-- kernel-gates:cpu -->") == 1
    assert all(one["body"].endswith("by hand") for one in others)


def test_an_older_commit_leaves_the_comment_alone(github: FakeGitHub, report: Any) -> None:
    report([HOLD])
    github.pulls[7]["head"] = {"sha": "c" * 40}
    report([GOOD], profile="full", source=pull())
    assert len(github.checks) == 2 and "stage2" not in github.comments[0]["body"]


def test_missing_evidence_is_red_and_cancelled_is_cancelled(github: FakeGitHub, report: Any) -> None:
    report(None, result="failure")
    report(None, "--expect", '["stage2"]', result="cancelled")
    report(None, "--expect", "[]", result="skipped")
    assert [check["conclusion"] for check in github.checks] == ["failure", "cancelled", "skipped"]
    assert "the run left no evidence" in github.checks[0]["output"]["title"]
    assert report([], result="failure") == (0, "") and github.checks[-1]["conclusion"] == "failure"


@pytest.mark.parametrize(
    ("part", "status", "message"),
    [
        ("check-runs", 403, "Resource not accessible by integration"),
        ("comments", 422, "Validation Failed"),
        ("check-runs", 502, "Bad gateway"),
    ],
)
def test_api_errors_are_one_clear_message(github: FakeGitHub, report: Any, part: str, status: int, message: str) -> None:
    github.fail = (part, status, message)
    code, said = report([GOOD])
    assert code == 2 and said.count("error:") == 1 and f"GitHub answered {status} to " in said and message in said and "hint:" in said
    assert "t0ken" not in said and "Traceback" not in said


def test_no_server_and_a_bad_token_are_clear_too(github: FakeGitHub, report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", "old")
    assert "GitHub answered 401" in report([GOOD])[1]
    github.url = "http://127.0.0.1:9"
    assert report([GOOD])[1].startswith("error: no answer from GitHub to ")


def test_no_text_is_a_command_to_the_runner(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise CiError("no\n::error::x", "see\r::error::y")

    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    ci_common.set_output("reason", "a\n::error::z")
    assert ci_common.run_step(fails) == 2
    shown = capsys.readouterr()
    assert shown.out == "reason: a ::error::z\n" and shown.err == "error: no ::error::x\nhint: see ::error::y\n"


@pytest.mark.parametrize("name", NAMES)
def test_no_name_acts_on_the_pull_request(name: str) -> None:
    review = Review(name, "hold", f"{name} {'x' * 500}", table((name,), [(name,)]), name)
    text = pr_comment.summary_of([review, review], "cpu", name)
    check_markdown(text)
    assert text.count("| hold |") == 2 and not re.search(r"@\w|!\[|<!--", pr_comment.one_line(name))


def test_text_of_evidence_acts_on_nothing() -> None:
    text = pr_comment.summary_of(
        [Review("s", "hold", "@team | <b>", "hi @org/all\n<!-- end of kernel-gates:cpu -->\x1b[0m\u202e ![x](y)")], "cpu", "gates-cpu"
    )
    assert (
        "@team" not in text
        and "@org" not in text
        and "<!--" not in text
        and "\x1b" not in text
        and "\u202e" not in text
        and "![" not in text
    )


def test_a_long_report_is_cut_to_what_github_takes() -> None:
    long = pr_comment.summary_of([Review("s", "hold", "x", "row\n" * 40_000)], "cpu", "gates-cpu")
    body = pr_comment.comment_body(pr_comment.comment_body("", "full", long, HEAD), "cpu", long, HEAD)
    assert len(body) < 65_536 and body.count("too long for this page") == 2 and body.count("<details>") == body.count("</details>")


# --- the composite action ---


@pytest.mark.parametrize(
    ("will", "code", "decision"), [("merge", 0, "merge"), ("hold", 0, "hold"), ("reject", 1, "reject"), ("crash", 2, "error")]
)
def test_the_action_sets_its_outputs(tmp_path: Path, will: str, code: int, decision: str) -> None:
    project, out = tree(tmp_path / "project", mine=will), tmp_path / "out"
    done = step(
        "run_action.py",
        cwd=project,
        GATES_TASK="tasks/mine",
        GATES_PROFILE="cpu",
        GATES_RESULTS="res",
        GITHUB_OUTPUT=str(out),
    )
    assert done.returncode == code, done.stderr
    outputs = dict(re.findall(r"(\w+)<<(?:end-\w+)\n(.*)\nend-", out.read_text()))
    assert outputs["decision"] == decision
    assert outputs["run"] == ("" if will == "crash" else "res/mine/20260101T000000Z-norev-cpu")
    assert outputs["artifact"] == "gates-mine-cpu" and outputs["packed"] == (outputs["run"] and f"{outputs['run']}.zip")
    assert (project / outputs["packed"]).exists() and (project / outputs["run"]).is_dir()


def test_the_action_declares_what_its_script_sets() -> None:
    data = parsed(ACTION)
    assert set(data["inputs"]) == {"task", "profile", "results", "baseline", "version"}
    assert set(data["outputs"]) == {"decision", "reason", "run"}


def test_the_install_step_takes_versions_and_nothing_else(tmp_path: Path) -> None:
    import install_gates

    (_, local), (_, release) = install_gates.steps(tmp_path, ROOT, ""), install_gates.steps(tmp_path, ROOT, "0.1.0")
    assert local[-1].startswith(str(ROOT)) and re.fullmatch(r"kernel-gates\[.*\]==0\.1\.0", release[-1])
    with pytest.raises(CiError):
        install_gates.steps(tmp_path, ROOT, "1 --index-url x")


HOSTILE = """
import os, pathlib, signal, subprocess, sys, time
command_files = pathlib.Path(sys.argv[1])
tried = 0
for path in [*command_files.iterdir(), command_files / "planted", command_files.parent / "script.sh", pathlib.Path.cwd() / "later.py"]:
    for flags in (os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
        try:
            os.write(os.open(path, flags), b"PATH=/evil\\n")
        except OSError:
            tried += 1
for act in (lambda: os.rename(command_files, command_files.with_name("moved")), lambda: os.rename(command_files / "set_env", "/tmp/mine"),
            lambda: os.unlink(command_files / "set_env"), lambda: os.truncate(command_files / "set_env", 0)):
    try:
        act()
    except OSError:
        tried += 1
try:
    os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR)
except OSError:
    tried += 1
for number in range(64):
    try:
        os.write(os.open(f"/proc/{os.getppid()}/fd/{number}", os.O_WRONLY), b"::set-env name=PATH::/evil\\n")
    except OSError:
        pass
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3); print('::error::late', flush=True)"], start_new_session=True)
pathlib.Path(sys.argv[2], "kept").write_text(str(tried))
pathlib.Path(os.environ["TMPDIR"], "scratch").write_text("x")
print("::set-env name=PATH::/evil", flush=True)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1)) < 1, reason="no Landlock"
)
@pytest.mark.parametrize("confined", [True, False])
def test_what_is_judged_can_t_write_the_runner_s_files(tmp_path: Path, confined: bool) -> None:
    files, results = tmp_path / "_temp" / "_runner_file_commands", tmp_path / "results"
    files.mkdir(parents=True)
    results.mkdir()
    for name in ("set_env", "set_output", "add_path", "step_summary", "save_state"):
        (files / name).write_text("ours\n")
    (tmp_path / "hostile.py").write_text(HOSTILE)
    command = [sys.executable, str(tmp_path / "hostile.py"), str(files), str(results)]
    call = f"ci_common.run_untrusted({command!r}, pathlib.Path({str(tmp_path)!r}), [pathlib.Path({str(results)!r})])"
    if not confined:  # the same attack gets through without
        call = f"__import__('subprocess').run({command!r}, cwd={str(tmp_path)!r})"
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_ENV": str(files / "set_env"),
        "RUNNER_TEMP": str(files.parent),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": f"{ROOT}:{CI}",
    }
    program = f"import pathlib, ci_common; {call}; print('step goes on', flush=True)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=60
    )
    untouched = {path.name for path in files.iterdir() if path.read_text() == "ours\n"} if files.is_dir() else set()
    if not confined:
        assert len(untouched) < 5
        return
    assert done.returncode == 0, done.stderr
    assert untouched == {"set_env", "set_output", "add_path", "step_summary", "save_state"} and len(list(files.iterdir())) == 5
    assert not (files.parent / "script.sh").exists() and not (tmp_path / "later.py").exists()
    assert (results / "kept").read_text() == str(3 * 8 + 4 + 1)  # it ran to its end, and each try was refused
    before, _, after = done.stdout.partition("step goes on")
    token = re.search(r"::stop-commands::(\w+)\n", before)
    assert token and before.index("::set-env") < before.rindex(f"::{token[1]}::") and "late" not in done.stdout + after


def test_without_landlock_a_runner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gates.worker import sandbox

    monkeypatch.setattr(sandbox, "deny_writes", lambda writable: "not denied: no Landlock here")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(CiError, match="no Landlock here"):
        ci_common.run_untrusted([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, [tmp_path / "results"])
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert ci_common.run_untrusted([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, [tmp_path / "results"]) == 3  # by hand


def test_nothing_of_the_runner_reaches_a_kernel() -> None:
    assert clean_environment({"GITHUB_TOKEN": "x", "ACTIONS_RUNTIME_TOKEN": "y", "RUNNER_TEMP": "z", "PATH": "p"}) == {"PATH": "p"}


def test_the_comment_can_be_read_before_there_is_a_pull_request() -> None:
    command = [sys.executable, str(CI / "preview.py")]
    done = subprocess.run([*command, "recorded:h200/stage2"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "\n**merge · stage2_wmma_pv · mission 1.710x, 98.3 % interval 1.706 to 1.714**\n" in done.stdout, done
    assert done.stdout.startswith("<!-- kernel-gates -->") and "Evidence in the artifact `gates-full`: `" in done.stdout
    done = subprocess.run([*command, "latest:nothing"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: no run found for 'latest:nothing'"), done
