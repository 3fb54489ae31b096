"""The pytest plugin: what a marked test comes to for each outcome of its run."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from runs_kit import RUN

from gates import api
from gates.core.errors import EXIT_HOLD, GatesError

pytest_plugins = ["pytester"]
NO_DEVICE = ROOT / "results" / "recorded" / "cpu" / "stage2_wmma_pv"
TEST = """
import pytest

@pytest.mark.gates("my_task")
def test_kernel(): print("the body ran")
"""


class Kernel:
    """Stands in for ``gates.run``: returns a recorded run and keeps what was asked for."""

    def __init__(self, outcome: api.Run | GatesError) -> None:
        self.outcome, self.asked = outcome, list[dict[str, Any]]()

    def run(self, task: str, **options: Any) -> api.Run:
        self.asked.append({"task": task, **options})
        if isinstance(self.outcome, GatesError):
            raise self.outcome
        return self.outcome


@pytest.fixture
def planted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """planted(run or error) makes every task come to it."""

    def plant(outcome: Path | GatesError) -> Kernel:
        kernel = Kernel(outcome if isinstance(outcome, GatesError) else api.load(outcome, verify=False))
        monkeypatch.setattr(api, "run", functools.wraps(api.run)(lambda *arguments, **options: kernel.run(*arguments, **options)))
        return kernel

    return plant


def changed(tmp_path: Path, gate: str, status: str, code: str) -> Path:
    """A recorded run in which ``gate`` came to something else."""
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    verdict = json.loads((run / "verdict.json").read_text())
    result = next(result for result in verdict["gates"] if result["gate"] == gate)
    check = {**result["checks"][0], "status": status, "code": code, "hint": "the hint of the check"}
    result.update(status=status, code=code, sentence="what was seen", checks=[check])
    verdict.update(decision="reject" if status == "fail" else "hold", reason=f"{gate} ({code})")
    (run / "verdict.json").write_text(json.dumps(verdict))
    return run


def outcome(result: pytest.RunResult) -> dict[str, int]:
    return {name: number for name, number in result.parseoutcomes().items() if name != "warnings"}


def test_asked_for_gates_that_passed_let_the_body_run(pytester: pytest.Pytester, planted: Any) -> None:
    kernel = planted(NO_DEVICE)
    pytester.makepyfile(TEST)
    result = pytester.runpytest("-rP")
    assert outcome(result) == {"passed": 1}
    result.stdout.fnmatch_lines(["decision: hold (*performance.no_device*", "evidence: *", "the body ran"])
    (asked,) = kernel.asked
    assert asked["profile"] == "auto" and ".pytest_cache" in str(asked["results"]) and ".pytest_cache" in str(asked["build_dir"])


def test_a_failed_gate_fails_the_test_with_the_report(pytester: pytest.Pytester, planted: Any, tmp_path: Path) -> None:
    planted(changed(tmp_path, "ptxas", "fail", "ptxas.registers"))
    pytester.makepyfile(TEST)
    result = pytester.runpytest()
    assert outcome(result) == {"failed": 1}
    text = result.stdout.str()
    failure = text[text.index("= FAILURES") :].partition("short test summary info")[0]  # which says it whole too where CI is set
    assert failure.count("decision: reject") == 1
    for part in (
        "ptxas        FAIL",
        "[ptxas.registers]",
        "hint: the hint of the check",
        "decision: reject",
        f"evidence: {tmp_path / 'run'}",
    ):
        assert part in failure, part
    assert "the body ran" not in text and "pytest_plugin.py" not in text


@pytest.mark.parametrize(("options", "expected"), [((), {"skipped": 1}), (("--gates-hold=fail",), {"failed": 1})])
def test_a_gate_without_a_verdict_skips_or_fails(
    pytester: pytest.Pytester, planted: Any, tmp_path: Path, options: tuple[str, ...], expected: dict[str, int]
) -> None:
    planted(changed(tmp_path, "performance", "inconclusive", "performance.within_noise"))
    pytester.makepyfile(TEST)
    result = pytester.runpytest("-rs", *options)
    assert outcome(result) == expected
    assert "performance (inconclusive: performance.within_noise)" in result.stdout.str() and "the body ran" not in result.stdout.str()


@pytest.mark.parametrize(("options", "expected"), [((), {"skipped": 2}), (("--gates-hold=fail",), {"failed": 1, "errors": 1})])
def test_a_device_that_is_not_there_skips_or_fails(
    pytester: pytest.Pytester, planted: Any, options: tuple[str, ...], expected: dict[str, int]
) -> None:
    kernel = planted(GatesError("no CUDA device", hint="--profile cpu", exit_code=EXIT_HOLD))
    pytester.makepyfile(TEST + "\n@pytest.mark.gates('my_task')\ndef test_more(gates_run): ...\n")
    result = pytester.runpytest("-rs", "--gates-profile=full", *options)
    assert outcome(result) == expected and "no CUDA device" in result.stdout.str()
    assert [asked["profile"] for asked in kernel.asked] == ["full"]  # tried once


def test_bad_input_fails_with_what_and_hint(pytester: pytest.Pytester, planted: Any) -> None:
    planted(GatesError("task.yaml:3: unknown key", hint="did you mean problem"))
    pytester.makepyfile(TEST)
    result = pytester.runpytest()
    assert outcome(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["task.yaml:3: unknown key", "hint: did you mean problem"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ('"my_task", shape="small"', "unexpected keyword argument 'shape'"),
        ("", "missing a required argument: 'task'"),
    ],
)
def test_a_wrong_mark_says_what_is_wrong(pytester: pytest.Pytester, planted: Any, mark: str, said: str) -> None:
    planted(NO_DEVICE)
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.gates({mark})\ndef test_kernel(): ...\n")
    result = pytester.runpytest()
    assert outcome(result) == {"failed": 1} and said in result.stdout.str() and "test_kernel" in result.stdout.str()


def test_the_fixture_is_the_run_and_a_task_runs_once_a_session(pytester: pytest.Pytester, planted: Any) -> None:
    kernel = planted(NO_DEVICE)
    pytester.makepyfile("""
        import pytest
        pytestmark = pytest.mark.gates("my_task", seeds=[0])

        def test_one(gates_run):
            assert gates_run.task == "stage2_wmma_pv" and gates_run.gates["performance"].status.value == "not_run"

        class TestMore:
            def test_two(self, gates_run): assert gates_run.passed
            @pytest.mark.gates("other_task")
            def test_three(self): ...
    """)
    assert outcome(pytester.runpytest()) == {"passed": 3}
    assert [(asked["task"], asked.get("seeds")) for asked in kernel.asked] == [("my_task", [0]), ("other_task", None)]


def test_the_fixture_asks_for_the_mark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_kernel(gates_run): ...")
    result = pytester.runpytest()
    assert outcome(result) == {"errors": 1} and '@pytest.mark.gates("path/to/task")' in result.stdout.str()


def test_a_test_method_of_unittest_is_held_too(pytester: pytest.Pytester, planted: Any, tmp_path: Path) -> None:
    planted(changed(tmp_path, "correctness", "fail", "correctness.max_abs_err"))
    pytester.makepyfile("""
        import unittest, pytest

        class TestKernel(unittest.TestCase):
            @pytest.mark.gates("my_task")
            def test_kernel(self): ...
    """)
    result = pytester.runpytest()
    assert outcome(result) == {"failed": 1} and "correctness.max_abs_err" in result.stdout.str()


def test_unmarked_tests_are_left_alone(pytester: pytest.Pytester, planted: Any) -> None:
    kernel = planted(GatesError("never called"))
    pytester.makepyfile("def test_other(): ...")
    assert outcome(pytester.runpytest("--strict-markers")) == {"passed": 1} and not kernel.asked
    assert "@pytest.mark.gates(task" in pytester.runpytest("--markers").stdout.str()


def test_paths_profile_and_results(pytester: pytest.Pytester, planted: Any, tmp_path: Path) -> None:
    kernel = planted(NO_DEVICE)
    for place in ("suite/beside", "at_root", "both", "suite/both"):
        (pytester.path / place).mkdir(parents=True)
        (pytester.path / place / "task.yaml").touch()
    (pytester.path / "suite" / "test_all.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('task', [pytest.param(t, marks=pytest.mark.gates(t, profile='full')) "
        "for t in ('beside', 'at_root', 'both', 'stage2', 'no/such')])\ndef test_kernel(task): ...\n"
    )
    result = pytester.runpytest("--gates-profile=cpu", f"--gates-results={tmp_path / 'kept'}", "-p", "no:cacheprovider")
    assert outcome(result) == {"passed": 5}
    root = pytester.path
    assert [asked["task"] for asked in kernel.asked] == [
        str(root / "suite" / "beside"),
        str(root / "at_root"),
        str(root / "suite" / "both"),
        "stage2",
        str(root / "no" / "such"),
    ]
    assert {(asked["profile"], asked["results"], asked["build_dir"]) for asked in kernel.asked} == {
        ("cpu", tmp_path / "kept", root / "build")
    }
