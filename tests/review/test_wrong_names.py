"""Names that mean nothing, or the same thing twice, are told with what was meant; names in reports keep their form well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from places import ROOT

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.records import Check, GateResult, Status
from gates.launch import device
from gates.launch.device import DeviceProbe
from gates.render.ci.junit import junit
from gates.render.ci.sarif import sarif

RUN = "recorded:h200/stage2"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", RUN, RUN], "error: recorded:h200/stage2 is named twice"),
        (["compare", RUN, "recorded:h200/stage2_wmma_pv"], "recorded:h200/stage2_wmma_pv is named twice"),
        (["compare", "recorded:h200/stage1", RUN, "recorded:h200/stage1"], "recorded:h200/stage1 is named twice"),
        (["compare", RUN, ""], "error: the name of a run is empty: is a shell variable unset?"),
        (["decide", " "], "error: the name of a run is empty"),
        (["verify", ""], "error: the name of a run is empty"),
        (["run", "tasks/stage2_wma_pv"], "hint: did you mean tasks/stage2_wmma_pv"),
        (["build", "./tasks/stage2"], "hint: did you mean tasks/stage2_wmma_pv"),
        (["run", "tasks/stage2_wmma_pv/task.yaml"], "hint: name the folder: tasks/stage2_wmma_pv"),
        (["run", "stge2"], "hint: did you mean stage2"),
        (["run", "nowhere/stage2_wmma_pv"], "hint: did you mean stage2_wmma_pv"),
        (["run", "kernels/cuda/wgmma.cuh"], "is a file, not a task folder"),
    ],
)
def test_a_wrong_name(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    assert guard(lambda: cli.main(arguments, standalone_mode=False)) == 2
    told = capsys.readouterr()
    assert expected in told.err and told.out == ""


def test_a_problem_s_file_is_told_with_the_tasks_beside_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my_op", "my_op_eager"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.yaml").touch()
    (tmp_path / "my_op_problem.py").touch()
    monkeypatch.chdir(tmp_path)
    assert guard(lambda: cli.main(["run", "./my_op_problem.py"], standalone_mode=False)) == 2
    told = capsys.readouterr().err
    assert "is a file, not a task folder" in told and "hint: did you mean ./my_op" in told and "./my_op_eager" in told


def test_two_runs_of_one_stage_can_be_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert guard(lambda: cli.main(["compare", "recorded:h100/stage2", RUN, "--force", "--out", str(tmp_path)], standalone_mode=False)) == 3


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["run", "stage2", "--profile", "full"], "--profile cpu runs what needs no device"),
        (["evaluate", "stage2", "--stage", "speed", "--profile", "cpu"], "--stage memory is the last that needs no device"),
        (["profile", "stage2"], "`gates build TASK` says registers and spills without one"),
    ],
)
def test_what_needs_a_device_says_how_to_do_without(arguments: list[str], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "probe", lambda: DeviceProbe((), "no CUDA device"))
    error = CliRunner().invoke(cli, arguments).exception
    assert isinstance(error, GatesError) and (error.what, error.exit_code) == ("no CUDA device", 3) and hint in (error.hint or "")


@pytest.mark.parametrize(
    ("target", "near"), [("stage9", "did you mean stage"), ("stge2", "stage2"), ("fp16_v9", "fp16_v9_pipeline"), ("tets", "test")]
)
def test_make_names_what_was_meant(target: str, near: str) -> None:
    done = subprocess.run(
        ["make", "VENV=none", f"PYTHON={sys.executable}", target], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2 and f"error: no target '{target}'" in done.stderr and near in done.stderr


FAILED = GateResult(
    "ptxas",
    Status.FAIL,
    "ptxas.registers",
    "k\x01: too many",
    (Check("registers", Status.FAIL, 99, 10, "", "k sm_90", "ptxas.registers", "at k.cu:7"),),
)


@pytest.mark.parametrize("name", ["a\x01b", "a\x00b", "a\ud800b", "a\ufffeb", "a\x1b[31mb", "a<b>&\"'", "a\u202eb"])
def test_junit_is_well_formed_whatever_the_task_is_called(name: str) -> None:
    suite = ElementTree.fromstring(junit(name, "2026-01-01T00:00:00+00:00", [FAILED]).encode("utf-8"))
    assert suite.get("name", "").startswith("gates a") and suite.find("testcase").get("classname", "").endswith("'" if "'" in name else "b")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("my kernels/k.cu", "my%20kernels/k.cu"),
        ("größe/k.cu", "gr%C3%B6%C3%9Fe/k.cu"),
        ("50%/k.cu", "50%25/k.cu"),
        ("a#b/k.cu", "a%23b/k.cu"),
        ("a?b/k.cu", "a%3Fb/k.cu"),
        ("plain-1_0/k.cu", "plain-1_0/k.cu"),
        (os.fsdecode(b"\xff/k.cu"), "%FF/k.cu"),
    ],
)
def test_sarif_places_are_percent_encoded(path: str, uri: str) -> None:
    data = json.loads(sarif("t", [FAILED], {}, {"k.cu": path}, {}))
    place = data["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (uri, 7)


def test_recorded_runs_have_their_names_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["decide", "recorded:h200/stage2"])
    assert done.exit_code == 0 and done.output.startswith("merge: ")
    (tmp_path / "results" / "recorded").mkdir(parents=True)  # one's own come first
    assert "no run found" in str(CliRunner().invoke(cli, ["decide", "recorded:h200/stage2"]).exception)
