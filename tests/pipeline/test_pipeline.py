"""The main job on an operator of another kind, by its path: run, decide, verify, compare, and every bad input."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from random import Random

import command_kit
import pytest
from conftest import OnceASession
from places import ROOT, TASKS

from gates.build.toolchain import find_toolchain
from gates.cli.guard import guard
from gates.evidence.run_directory import list_runs
from gates.verify.run import verify_run

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")


class Workshop:
    """A folder of its own with the saxpy stages. All tests share them, and what is built of them, but for those that edit."""

    def __init__(self, root: Path, shared: Path) -> None:
        self.root, self.build_dir = root, shared / "build"
        if not (root / "tasks").exists():
            (root / "tasks").symlink_to(shared / "tasks")

    def own_tasks(self) -> None:
        """Have a copy of the stages, to be edited, or built from nothing: for one architecture, since it is built for one test."""
        if (self.root / "tasks").is_symlink():
            (self.root / "tasks").unlink()
            shutil.copytree(TASKS, self.root / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
            for name in ("saxpy_fast", "saxpy_slow"):
                self.edit(f"{name}/task.yaml", "[sm_89, sm_90]", "[sm_90]")

    def gates(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        done = command_kit.gates(*arguments, cwd=self.root, env=env)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def run(self, task: str = "saxpy_fast", *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return self.gates("run", f"tasks/{task}", "--build-dir", str(self.build_dir), *arguments, **options)

    def runs(self, task: str = "saxpy_fast") -> list[Path]:
        return sorted((self.root / "results" / task).glob("*"))

    def edit(self, name: str, old: str, new: str) -> None:
        self.own_tasks()
        path = self.root / "tasks" / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} does not hold {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def workshop(tmp_path: Path, saxpy: Path) -> Workshop:
    return Workshop(tmp_path, saxpy)


@pytest.fixture(scope="module")
def finished(once_a_session: OnceASession, saxpy: Path) -> Workshop:
    """One whole run of saxpy_fast, for the tests that only read it."""

    def run(folder: Path) -> None:
        done = Workshop(folder, saxpy).run("saxpy_fast", "--profile", "cpu")
        assert done.returncode == 0, done.stdout + done.stderr
        (folder / "stdout").write_text(done.stdout, encoding="utf-8")

    return Workshop(once_a_session("saxpy_finished", run), saxpy)


def sign(run: Path) -> None:
    """Make the manifest fit the files again, as someone would who edits evidence with care."""
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file() and path.name != "manifest.json"}
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(files.items())}
    (run / "manifest.json").write_text(json.dumps({"schema_version": 1, "sha256": digests}))


def copy_of(run: Path, root: Path) -> Path:
    target = root / "results" / "saxpy_fast" / run.name
    shutil.copytree(run, target)
    return target


@needs_nvcc
def test_a_cpu_run_passes_what_it_asked_for_and_holds(finished: Workshop) -> None:
    stdout = (finished.root / "stdout").read_text(encoding="utf-8")
    assert "decision: hold" in stdout
    assert "correctness  pass          6/6 cases" in stdout
    assert "performance  not run       no CUDA device" in stdout
    decided = finished.gates("decide", "latest:saxpy_fast")
    assert (decided.returncode, decided.stdout.split(":")[0]) == (3, "hold")
    verified = finished.gates("verify", "latest:saxpy_fast")
    assert (verified.returncode, verified.stdout.strip().endswith(": sound")) == (0, True)


@needs_nvcc
def test_the_run_directory_holds_what_the_design_says(finished: Workshop) -> None:
    (run,) = finished.runs()
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert names >= {
        "run.json",
        "build.json",
        "build.log",
        "ptxas.json",
        "sass.json",
        "correctness.json",
        "sanitizer.json",
        "verdict.json",
        "COMPARE.md",
        "manifest.json",
        "baseline/ptxas.json",
    }
    info = json.loads((run / "run.json").read_text())
    assert info["task"]["shapes"]["mission"] and info["baseline"]["name"] == "saxpy_slow"
    assert list(info["phase_s"]) == ["start", "build", *info["task"]["limits"]], "and together they are the run"
    spent = datetime.fromisoformat(info["ended"]) - datetime.fromisoformat(info["started"])
    assert sum(info["phase_s"].values()) - info["phase_s"]["start"] <= spent.total_seconds() + 0.1 > info["phase_s"]["correctness"] > 0
    text = "".join(path.read_text() for path in run.rglob("*.json"))
    assert str(finished.root) not in text and str(finished.build_dir.parent / "tasks") not in text


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("ptxas.json", lambda text: text.replace('"registers": ', '"registers": 1', 1), "ptxas.json was changed"),
        ("verdict.json", lambda text: text[: len(text) // 2], "verdict.json was changed"),
        ("correctness.json", lambda text: "", "correctness.json was changed"),
    ],
)
def test_edited_evidence_decides_nothing(finished: Workshop, workshop: Workshop, name: str, change, expected: str) -> None:
    run = copy_of(finished.runs()[0], workshop.root)
    (run / name).write_text(change((run / name).read_text()))
    verified, decided = workshop.gates("verify", str(run)), workshop.gates("decide", str(run))
    assert (verified.returncode, decided.returncode) == (2, 2)
    assert expected in verified.stdout
    assert "not sound" in decided.stderr


@needs_nvcc
def test_a_verdict_that_its_evidence_does_not_support(finished: Workshop, workshop: Workshop) -> None:
    """Even with digests mended, a reject that was edited into a pass is found."""
    run = copy_of(finished.runs()[0], workshop.root)
    data = json.loads((run / "correctness.json").read_text())
    data["cases"][0]["outputs"][0]["max_abs_err"] = 9.0
    (run / "correctness.json").write_text(json.dumps(data))
    sign(run)
    verified = workshop.gates("verify", str(run))
    assert verified.returncode == 2
    assert "correctness.json: small seed 0: the largest error is 9.0" in verified.stdout


@needs_nvcc
def test_everything_in_a_run_speaks_of_one_build(finished: Workshop) -> None:
    (run,) = finished.runs()
    info = json.loads((run / "run.json").read_text())
    for folder, side in (("", info["task"]), ("baseline/", info["baseline"])):
        built = json.loads((run / folder / "build.json").read_text())
        assert built["identity"] == side["build"] == f"{side['digest'][:32]}-{built['digest'][:32]}"
        assert {target["sha256"] for target in built["targets"]} == set(side["products"].values()) and {
            "emulator.so",
            "sm_89/saxpy.cubin",
        } <= set(side["products"])
        for gate in ("ptxas", "sass", *(() if folder else ("correctness", "sanitizer"))):
            assert json.loads((run / f"{folder}{gate}.json").read_text())["build"] == side["build"]
    assert json.loads((run / "correctness.json").read_text())["baseline_build"] == info["baseline"]["build"]


OTHER_BUILD = f"{'0' * 32}-{'1' * 32}"


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("ptxas.json", lambda d: d.update(build=OTHER_BUILD), "ptxas.json is from build 000000000000, run.json names"),
        ("sass.json", lambda d: d.pop("build"), "sass.json is from build (none), run.json names"),
        ("correctness.json", lambda d: d.update(build=OTHER_BUILD), "correctness.json is from build 000000000000"),
        ("correctness.json", lambda d: d.update(baseline_build=OTHER_BUILD), "correctness.json compares with build 000000000000"),
        ("sanitizer.json", lambda d: d.update(build=OTHER_BUILD), "sanitizer.json is from build 000000000000"),
        ("baseline/ptxas.json", lambda d: d.update(build=OTHER_BUILD), "baseline/ptxas.json is from build 000000000000"),
        ("build.json", lambda d: d.update(identity=OTHER_BUILD), "build.json is build 000000000000, run.json names"),
        (
            "build.json",
            lambda d: d.update(digest="2" * 64),
            "build.json: its identity does not follow from its digest and that of saxpy_fast",
        ),
        (
            "build.json",
            lambda d: d["targets"][0].update(sha256="3" * 64),
            "build.json has other products than run.json names for saxpy_fast",
        ),
        ("run.json", lambda d: d["task"].update(build="", products={}), "run.json names no build of saxpy_fast"),
    ],
)
def test_evidence_of_another_build_is_found(finished: Workshop, tmp_path: Path, name: str, change, expected: str) -> None:
    run = copy_of(finished.runs()[0], tmp_path)
    data = json.loads((run / name).read_text())
    change(data)
    (run / name).write_text(json.dumps(data))
    sign(run)
    problems = verify_run(run)
    assert any(expected in problem for problem in problems), problems


@needs_nvcc
@pytest.mark.parametrize("name", ["../outside", "/etc/passwd"])
def test_a_manifest_that_points_outside(finished: Workshop, workshop: Workshop, name: str) -> None:
    run = copy_of(finished.runs()[0], workshop.root)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["sha256"][name] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "lies outside the run" in workshop.gates("verify", str(run)).stdout


@needs_nvcc
def test_compare_refuses_what_cannot_be_compared(finished: Workshop, workshop: Workshop) -> None:
    first, second = (copy_of(finished.runs()[0], workshop.root / side) for side in ("a", "b"))
    info = json.loads((second / "run.json").read_text())
    for side, digit in (("task", "0"), ("baseline", "1")):  # of another checkout
        before = info[side]["digest"]
        for path in second.rglob("*.json"):
            path.write_text(
                path.read_text()
                .replace(before, digit * 64)
                .replace(f"{before[:32]}-", f"{digit * 32}-")
                .replace(info[side]["problem_sha256"], "0" * 64)
            )
    sign(second)
    refused = workshop.gates("compare", str(first), str(second))
    assert refused.returncode == 2
    assert "problem saxpy_problem was changed between the runs" in refused.stderr
    forced = workshop.gates("compare", str(first), str(second), "--force")
    assert forced.returncode == 3
    assert "note: different: problem" in forced.stdout


@needs_nvcc
def test_compare_with_itself(finished: Workshop, workshop: Workshop) -> None:
    run = str(finished.runs()[0])
    done = workshop.gates("compare", run, run)
    assert done.returncode == 2, done.stderr
    assert "is named twice" in done.stderr and not done.stdout
    assert not (workshop.root / "results" / "compare").exists()


def test_unknown_names_suggest_the_nearest(workshop: Workshop) -> None:
    unknown = workshop.run("saxpy_fats")
    assert (unknown.returncode, "no task folder at" in unknown.stderr) == (2, True)
    shape = workshop.run("saxpy_fast", "--shapes", "misson", "--profile", "cpu")
    assert shape.returncode == 2
    assert "has no shape 'misson'" in shape.stderr and "did you mean mission?" in shape.stderr
    assert workshop.runs() == []


def test_full_without_a_device(workshop: Workshop) -> None:
    done = workshop.run("saxpy_fast", "--profile", "full", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 3
    assert "no CUDA device" in done.stderr


def test_a_toggle_that_is_no_number_breaks_only_the_run(workshop: Workshop) -> None:
    env = {"USE_COALESCED": "abc"}
    assert workshop.gates("--help", env=env).returncode == 0
    done = workshop.run("saxpy_fast", env=env)
    assert done.returncode == 2
    assert "environment variable USE_COALESCED='abc' is not a toggle value" in done.stderr


def test_results_that_cannot_be_written(workshop: Workshop) -> None:
    (workshop.root / "file").write_text("")
    done = workshop.run("saxpy_fast", "--profile", "cpu", "--results", "file")
    assert done.returncode == 2
    assert "--results" in done.stderr and "is a file" in done.stderr
    done = workshop.run("saxpy_fast", "--profile", "cpu", "--results", "/proc/results")
    assert done.returncode == 2
    assert "can't write results under /proc/results" in done.stderr and "--results" in done.stderr


@needs_nvcc
def test_a_full_disk_is_one_clear_error(finished: Workshop, workshop: Workshop) -> None:
    """The results lie on a file system of 40 KiB, which the evidence does not fit."""
    probe = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    if probe is None or probe.returncode != 0:
        pytest.skip("no unprivileged mount namespace here")
    (workshop.root / "small").mkdir()
    gates = (
        f"{sys.executable} -m gates run tasks/saxpy_fast --profile cpu --shapes small --seeds 0 --build-dir {workshop.build_dir} "
        f"--results small"
    )
    script = f"mount -t tmpfs -o size=40k tmpfs small && {gates}; code=$?; ls -A small/saxpy_fast; exit $code"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=workshop.root, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr and "hint: " in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.strip() == ""


def test_without_a_cuda_compiler_no_gate_runs_and_each_says_how_to_get_one(workshop: Workshop) -> None:
    env = {"PATH": "/usr/bin:/bin", "CUDA_HOME": ""}
    if find_toolchain({**os.environ, **env}).nvcc is not None:
        pytest.skip("the compiler wheels are installed here")
    done = workshop.run("saxpy_slow", "--profile", "cpu", "--shapes", "small", "--seeds", "0", env=env)
    assert done.returncode == 3, done.stderr
    for gate in ("ptxas", "sass", "correctness", "sanitizer"):
        assert f"{gate:12} not run       nvcc was not found; install the CUDA toolkit" in done.stdout, done.stdout
    assert "pip install 'kernel-gates[cuda]'" in done.stdout


@needs_nvcc
def test_code_that_does_not_compile(workshop: Workshop) -> None:
    workshop.edit("saxpy.cu", "#include", "this is not c++\n#include")
    done = workshop.run("saxpy_slow", "--profile", "cpu")
    assert done.returncode == 1
    assert "ptxas.build_failed" in done.stdout and "decision: reject" in done.stdout
    assert "saxpy.cu" in done.stdout


@needs_nvcc
def test_a_header_that_the_host_half_alone_lacks_is_a_reject_with_its_line(workshop: Workshop) -> None:
    workshop.edit("saxpy.cu", 'extern "C"', '__global__ void checked(int i) { assert(i != 900); }\nextern "C"')
    done = workshop.run("saxpy_slow", "--profile", "cpu")
    assert done.returncode == 1 and "[ptxas.build_failed]" in done.stdout, done.stdout
    assert 'saxpy.cu:33: error: identifier "assert" is undefined' in done.stdout, "device code alone would compile"


@needs_nvcc
def test_a_wrong_kernel_is_rejected(workshop: Workshop) -> None:
    workshop.edit("saxpy.cu", "a * x[", "a * 1.001f * x[")
    done = workshop.run("saxpy_slow", "--profile", "cpu", "--shapes", "small", "--seeds", "0", "--inputs", "default")
    assert done.returncode == 1
    assert "correctness.max_abs_err" in done.stdout
    assert workshop.gates("decide", "latest:saxpy_slow").returncode == 1


@needs_nvcc
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("volatile int* nowhere = nullptr; *nowhere = 1;", "correctness.crash"),
        ("volatile bool on = true; while (on) {}", "correctness.timeout"),
    ],
)
def test_a_kernel_that_crashes_or_hangs_ends_in_a_verdict(workshop: Workshop, code: str, expected: str) -> None:
    workshop.edit("saxpy_slow/task.yaml", "not_applicable:", "time_limit_s: 3\nnot_applicable:\n  sanitizer: it has tests of its own")
    workshop.edit("saxpy.cu", "  if (x == nullptr)", f"  {code}\n  if (x == nullptr)")
    done = workshop.run("saxpy_slow", "--profile", "cpu", "--shapes", "small", "--seeds", "0,1", "--inputs", "default")
    assert done.returncode == 1, done.stdout + done.stderr
    assert expected in done.stdout
    assert "not observed (one launch on the emulator, which would show it, ended: killed" in done.stdout
    if expected == "correctness.timeout":  # after the launch that hung, one case is enough
        assert "that launch came to no end" in done.stderr
        cases = json.loads((workshop.runs("saxpy_slow")[0] / "correctness.json").read_text())["cases"]
        assert [case["status"] for case in cases] == ["timeout", "missing"]


def test_ctrl_c_leaves_nothing_half_written(workshop: Workshop) -> None:
    workshop.own_tasks()  # so that there is something to compile
    child = subprocess.Popen(
        [sys.executable, "-m", "gates", "run", "tasks/saxpy_fast", "--profile", "cpu", "--build-dir", str(workshop.build_dir)],
        cwd=workshop.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (workshop.root / "results" / "saxpy_fast").exists() and time.monotonic() < until:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "error: interrupted" in stderr and "Traceback" not in stderr
    assert list((workshop.root / "results" / "saxpy_fast").iterdir()) == []


@pytest.mark.parametrize(("before", "code"), [(signal.SIG_DFL, 130), (signal.SIG_IGN, 0)], ids=["in a terminal", "under nohup"])
def test_a_hangup_is_an_interruption_unless_it_is_ignored(before: signal.Handlers, code: int) -> None:
    was = signal.signal(signal.SIGHUP, before)
    try:
        assert guard(lambda: signal.raise_signal(signal.SIGHUP)) == code
    finally:
        signal.signal(signal.SIGHUP, was)


@pytest.mark.parametrize("entry", [("-m", "gates"), ("-c", "from gates.__main__ import main; main()")])
@pytest.mark.parametrize(
    "interrupt", ["os.kill(os.getpid(), signal.SIGINT)", "exec('raise KeyboardInterrupt')"], ids=["", "in executed text"]
)
def test_ctrl_c_while_modules_are_imported_is_quiet(entry: tuple[str, str], interrupt: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "click":
            {interrupt}
sys.meta_path.insert(0, Interrupting())
""")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, *entry], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@needs_nvcc
def test_two_overridden_runs_at_once_never_mix(workshop: Workshop) -> None:
    """Overrides are recorded and shown, too: such a run can't be merge."""
    arguments = [
        sys.executable,
        "-m",
        "gates",
        "run",
        "tasks/saxpy_slow",
        "--profile",
        "cpu",
        "--shapes",
        "small",
        "--seeds",
        "0",
        "--toggle",
        "USE_COALESCED=1",
        "--build-dir",
        str(workshop.build_dir),
    ]
    environ = {**os.environ, "HOME": "/nonexistent"}  # none is needed
    child = subprocess.Popen(arguments, cwd=workshop.root, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    done = workshop.gates(*arguments[3:])
    said = child.communicate(timeout=240)[1]
    assert (done.returncode, child.returncode) == (0, 0), done.stderr + said
    runs = workshop.runs("saxpy_slow")
    assert len(runs) == 2
    assert workshop.gates("verify", *map(str, runs)).returncode == 0
    for run in runs:
        assert json.loads((run / "run.json").read_text())["task"]["overrides"] == {"USE_COALESCED": 1, "shapes": "small", "seeds": "0"}
        assert "overridden from outside: USE_COALESCED=1" in (run / "COMPARE.md").read_text()


@needs_nvcc
def test_killed_at_any_moment_a_run_leaves_nothing_that_counts(finished: Workshop, workshop: Workshop) -> None:
    """SIGKILL, which nothing can catch, at random moments of runs that share a results folder, two at a time.

    GATES_KILLS=20 tries more moments.
    """
    arguments = [
        sys.executable,
        "-m",
        "gates",
        "run",
        "tasks/saxpy_fast",
        "--profile",
        "cpu",
        "--shapes",
        "small",
        "--seeds",
        "0",
        "--inputs",
        "default",
        "--build-dir",
        str(workshop.build_dir),
    ]
    began = time.monotonic()  # built by ``finished``
    assert workshop.run("saxpy_fast", *arguments[5:-2]).returncode == 0
    whole_s = time.monotonic() - began
    random = Random(20)
    moments = sorted(random.uniform(0.0, 1.1 * whole_s) for _ in range(int(os.environ.get("GATES_KILLS", "3"))))

    def kill_one(moment: float) -> None:
        child = subprocess.Popen(arguments, cwd=workshop.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(moment)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(kill_one, moments))
    runs = list_runs(workshop.root / "results" / "saxpy_fast")
    assert len(runs) >= 1 and workshop.gates("verify", *map(str, runs)).returncode == 0
    left = [path for path in (workshop.root / "results" / "saxpy_fast").iterdir() if path not in runs]
    assert all(path.name.startswith(".writing-") for path in left)
    for path in left:
        os.utime(path, (0, 0))  # as if they had died a while ago
    assert workshop.run("saxpy_fast", *arguments[5:-2]).returncode == 0
    assert [path for path in (workshop.root / "results" / "saxpy_fast").iterdir() if path.name.startswith(".")] == []
    assert len(list_runs(workshop.root / "results" / "saxpy_fast")) == len(runs) + 1
