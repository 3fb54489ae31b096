"""Gates from Python: the names that clash with modules, typed runs, frames, errors; and that docs/guide/python.md runs as it stands."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import OnceASession
from places import RECORDED, ROOT
from runs_kit import RUN, sign
from static_kit import needs_nvcc

import gates
from gates import api
from gates.gate.correctness.evidence import Case
from gates.review import frames
from gates.stats.samples import CANDIDATE

pytest_plugins = ["pytester"]
NO_DEVICE = RECORDED / "cpu" / "stage2_wmma_pv"
PAGE = (ROOT / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
FUNCTIONS = PAGE[PAGE.index("## Attention as a PyTorch function") : PAGE.index("## In a test suite")]


def python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def stage2() -> gates.Run:
    return gates.load("recorded:h100/stage2", results=ROOT / "results")


def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


@pytest.mark.parametrize(
    "first",
    [
        "import gates",
        "import gates.build.build",
        "import gates.review.decide, gates.review.compare",
        "from gates.worker import process",
        "from gates import run, compare, decide",
        "from gates import api",
        "import gates.pipeline.run",
    ],
)
def test_a_name_is_the_function_after_any_import(first: str) -> None:
    python(f"""
{first}
import gates, inspect
from gates import api
for again in range(2):
    for name in ("run", "compare", "decide"):
        called = getattr(gates, name)
        assert inspect.signature(called) == inspect.signature(getattr(api, name)), name
        try:
            called(*["/no/such/thing"] * (1 + (name == "compare")))
        except gates.GatesError as error:
            assert "/no/such/thing" in error.what
        else:
            raise SystemExit("no error")
    import gates.build.build, gates.review.compare, gates.review.decide
    assert gates.build.build.build and gates.review.compare.compare_runs and gates.review.decide.decide_run
""")


def test_the_import_is_light_and_the_interface_never_imports_torch() -> None:
    python("import sys, gates; assert len([name for name in sys.modules if name.startswith('gates')]) == 1, sys.modules")
    python(
        "import sys, gates; run = gates.load('recorded:h100/stage1'); assert 'pandas' not in sys.modules\n"
        "run.samples(), run.cases(), gates.decide(run); assert 'pandas' in sys.modules and 'torch' not in sys.modules"
    )


def test_the_old_import_path_of_a_task_s_scripts_names_the_new_lines() -> None:
    for old in ("gates.run.build", "gates.run.runner"):
        with pytest.raises(ImportError, match="from gates.task_script import build.*from gates.task_script import run"):
            importlib.import_module(old)
    assert gates.run is api.run


def test_the_module_lists_its_interface_and_nothing_else_is_invented() -> None:
    assert set(gates.__all__) <= set(dir(gates))
    with pytest.raises(AttributeError, match="no attribute 'ran'"):
        gates.ran  # noqa: B018


def test_the_options_are_those_of_the_command_line() -> None:
    from gates.cli.main import cli

    options = {parameter.name for parameter in cli.commands["run"].params}
    assert set(inspect.signature(api.run).parameters) == options | {"progress"}


def test_a_loaded_run_is_typed(stage2: gates.Run) -> None:
    verdict = json.loads((stage2.path / "verdict.json").read_text())
    performance = json.loads((stage2.path / "performance.json").read_text())
    assert (stage2.task, stage2.decision, stage2.reason) == ("stage2_wmma_pv", verdict["decision"], verdict["reason"])
    assert list(stage2.gates) == [gate["gate"] for gate in verdict["gates"]]
    assert stage2.gates["ncu"].sentence == verdict["gates"][-1]["sentence"]
    assert stage2.p50_us == performance["figures"]["cold"]["candidate"]["p50_us"]
    assert stage2.speed is not None and stage2.speed.pairs == 12
    assert stage2.passed and stage2.exit_code == 0 and "decision: merge" in stage2.report()
    with pytest.raises(dataclasses.FrozenInstanceError):
        stage2.decision = "reject"  # type: ignore[misc]


def test_a_run_without_a_device_passed_and_holds() -> None:
    run = gates.load(NO_DEVICE)
    assert run.passed and run.decision == "hold" and run.p50_us is None and run.speed is None
    assert list(run.samples().columns) == list(frames.SAMPLES) and run.samples().empty
    assert set(run.cases()["side"]) == {"candidate", "baseline"}


def test_samples_are_those_of_the_evidence(stage2: gates.Run) -> None:
    evidence, table = stage2.evidence["performance"], stage2.samples()
    assert set(table["mode"]) == {"cold", "warm", "single", "control"}
    cold = evidence.in_mode("cold")
    mine = table[(table["mode"] == "cold") & (table["side"] == "candidate") & table["valid"]]
    assert list(mine["time_us"]) == cold.samples(CANDIDATE)
    assert mine["time_us"].median() == evidence.figures["cold"]["candidate"].p50_us
    assert set(table[table["mode"] == "control"]["side"]) == {"baseline", "control"}


def test_disturbed_blocks_are_marked(stage2: gates.Run) -> None:
    evidence = stage2.evidence["performance"]
    cold = evidence.in_mode("cold")
    disturbed = dataclasses.replace(cold, blocks=(dataclasses.replace(cold.blocks[0], valid=False), *cold.blocks[1:]))
    table = frames.samples(dataclasses.replace(evidence, series=(disturbed,), single=None, control=None))
    assert (~table["valid"]).sum() == len(cold.blocks[0].samples_us) and set(table["mode"]) == {"cold"}


def test_cases_are_those_of_the_evidence(stage2: gates.Run) -> None:
    evidence, table = stage2.evidence["correctness"], stage2.cases()
    assert len(table) == len(evidence.cases) + len(evidence.baseline_cases)
    one = table[
        (table["side"] == "candidate") & (table["shape"] == "mission") & (table["seed"] == 2) & (table["inputs"] == "default")
    ].iloc[0]
    case = next(case for case in evidence.cases if case.key == ("mission", 2, "default"))
    assert (one["max_abs_err"], one["output"]) == (case.outputs[0].max_abs_err, "out")


def test_a_crashed_case_has_a_row_without_figures(stage2: gates.Run) -> None:
    crash = Case("small", 0, "headline", "crash", "signal 11")
    table = frames.cases(dataclasses.replace(stage2.evidence["correctness"], cases=(crash,), baseline_cases=()))
    assert len(table) == 1 and table.loc[0, "message"] == "signal 11" and table.isna().loc[0, "max_abs_err"]


def test_decide_and_load_refuse_changed_evidence(tmp_path: Path) -> None:
    run = copied(tmp_path)
    assert gates.decide(run) == ("merge", gates.load(run).reason) and gates.decide(run).decision == "merge"
    path = run / "ptxas.json"
    path.write_text(path.read_text().replace('"registers":', '"registers" :', 1))
    for call in (gates.decide, gates.load):
        with pytest.raises(gates.GatesError, match="ptxas.json was changed after the run") as caught:
            call(run)
        assert caught.value.hint == "run the stage again"
    assert gates.load(run, verify=False).decision == "merge"


def test_what_a_reviewer_accepted_counts(tmp_path: Path) -> None:
    run = copied(tmp_path)
    info = json.loads((run / "run.json").read_text())
    info["baseline"]["limits"]["ptxas"]["max_registers"] = 127
    (run / "run.json").write_text(json.dumps(info))
    verdict = json.loads((run / "verdict.json").read_text())
    from gates.evidence.judging import decision_of
    from gates.evidence.run_directory import RunInfo, read_record
    from gates.review.decide import accept_looser_terms

    decision, reason = decision_of(read_record(RunInfo, run, "run.json"), gates.load(run, verify=False).gates.values())
    verdict.update(decision=decision.value, reason=reason)
    (run / "verdict.json").write_text(json.dumps(verdict))
    sign(run)
    assert gates.load(run).decision == "hold"
    accept_looser_terms(run, "more rows a tile")
    assert gates.load(run).decision == gates.decide(run).decision == "merge" and "more rows a tile" in gates.load(run).reason


def test_compare_takes_runs_paths_and_names(stage2: gates.Run) -> None:
    first = gates.compare("recorded:h100/stage1", stage2, results=ROOT / "results")
    assert first == gates.compare(RECORDED / "h100" / "stage1_wmma_qk", stage2.path)
    assert first.decision == "merge" and first.speed == stage2.speed
    assert gates.compare(NO_DEVICE, stage2, force=True).decision == "hold"  # of another device
    with pytest.raises(gates.GatesError, match="no run found for 'latest:nothing'"):
        gates.compare("latest:nothing", stage2)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"profile": "gpu"}, "no profile 'gpu'"),
        ({"shapes": "small"}, "shapes is 'small'"),
        ({"shapes": []}, r"shapes is \[\]"),
        ({"shapes": [1]}, r"shapes is \[1\]"),
        ({"seeds": [0, 0]}, r"seeds is \[0, 0\]"),
        ({"seeds": ["0"]}, r"seeds is \['0'\]"),
        ({"seeds": [True]}, r"seeds is \[True\]"),
        ({"seeds": 3}, "seeds is 3"),
        ({"seeds": [-1]}, r"seeds is \[-1\]"),
        ({"inputs": "default"}, "inputs is 'default'"),
        ({"inputs": ["default"], "thorough": True}, "exclude each other"),
        ({"toggles": {"USE_WMMA_PV": "yes"}}, "USE_WMMA_PV"),
        ({"toggles": {"USE_WMA": 1}}, "USE_WMA"),
        ({"toggles": 5}, "toggles is 5"),
        ({"toggles": {1: 1}}, "toggles is {1: 1}"),
        ({"device": -1}, "device is -1"),
        ({"device": "a"}, "device is 'a'"),
        ({"build_dir": 5}, "build_dir is 5"),
        ({"jobs": 0}, "jobs is 0"),
        ({"jobs": "a"}, "jobs is 'a'"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(options: dict[str, object], what: str, tmp_path: Path) -> None:
    with pytest.raises(gates.GatesError, match=what) as caught:
        gates.run(ROOT / "tasks" / "stage2_wmma_pv", results=tmp_path / "results", **options)
    assert caught.value.hint and not (tmp_path / "results").exists()


def test_names_that_no_file_can_have_are_refused(tmp_path: Path) -> None:
    for name in ("a" * 5000, f"latest:{'a' * 5000}"):
        with pytest.raises(gates.GatesError, match="no run") as caught:
            gates.load(name)
        assert caught.value.hint and len(caught.value.what) < 200
    with pytest.raises(gates.GatesError, match="no task called 'aaa"):
        gates.run("a" * 5000)
    with pytest.raises(gates.GatesError, match="results is 5"):
        gates.load("latest:a", results=5)


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.S)


def test_the_kernels_are_functions_as_the_page_shows(tmp_path: Path, kept: OnceASession) -> None:
    """In a process of its own: pytester, which the next test takes, forgets modules imported
    meanwhile, and torch can't be imported twice.
    """
    examples = blocks(FUNCTIONS)
    assert len(examples) == 3
    (tmp_path / "build").symlink_to(kept("kernels_as_functions", lambda folder: None))
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(examples)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@needs_nvcc
def test_the_page_runs_as_it_stands(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saxpy: Path
) -> None:
    here = pytester.path  # also the working directory
    (here / "results").mkdir()
    (here / "results" / "recorded").symlink_to(RECORDED)
    (here / "tests").symlink_to(saxpy)
    (here / "build").symlink_to(saxpy / "build")
    *examples, suite = blocks(PAGE.replace(FUNCTIONS, ""))
    assert len(examples) >= 5 and suite.count('pytest.mark.gates("tests/tasks/saxpy_fast")') == 2
    names: dict[str, object] = {}
    for number, code in enumerate(examples):
        exec(compile(code, f"docs/guide/python.md, block {number + 1}", "exec"), names)  # noqa: S102
    seen = capsys.readouterr()
    assert seen.err == "" and "decision: hold" in seen.out and "no task called 'stage22' | " in seen.out
    assert [run.name for run in (here / "results" / "saxpy_fast").iterdir()] == [names["run"].path.name]

    run = names["run"]  # a second run would cost as much and show no more
    monkeypatch.setattr(api, "run", functools.wraps(api.run)(lambda *arguments, **options: run))
    result = pytester.runpytest("-rP", pytester.makepyfile(suite))
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*sanitizer * pass *", "decision: hold *", f"evidence: {run.path}"])
