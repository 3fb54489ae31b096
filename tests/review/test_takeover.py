"""A run without a GPU takes over the GPU verdict of a recorded run, if nothing that the GPU would run or judge has changed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from places import DATA, RECORDED
from runs_kit import sign

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.evidence.run_directory import list_runs
from gates.review.takeover import differences, fitting, take_over

ON_GPU, WITHOUT = (list_runs(folder)[-1] for folder in (RECORDED / "h100" / "stage2_wmma_pv", DATA / "runs" / "cpu_stage2"))
ARCH = "sm_90"  # the device library's


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(data) or data), encoding="utf-8")


def coded(data: dict[str, Any]) -> None:
    """What the recorded runs, of an earlier version, lack."""
    for function in data["functions"]:
        function["code"] = [f"FADD R{line}, R1, R2" for line in range(function["instructions"])] if function["arch"] == ARCH else []
    data |= {"data": dict.fromkeys(data["archs"], "0" * 64), "host": "1" * 64}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Runs of one stage, here/cpu without a GPU and here/gpu with one, as this version would record them."""
    root = tmp_path_factory.mktemp("runs")
    tools = json.loads((WITHOUT / "run.json").read_text())["toolchain"]
    for name, run in (("cpu", WITHOUT), ("gpu", ON_GPU)):
        folder = root / name
        shutil.copytree(run, folder)
        for side in ("", "baseline"):
            edit(folder / side / "sass.json", coded)
        edit(folder / "run.json", lambda data: [data[side].update(terms_sha256="2" * 64) for side in ("task", "baseline")] and None)
        edit(folder / "run.json", lambda data: data["toolchain"].update({tool: tools[tool] for tool in ("nvcc", "ptxas", "nvlink", "g++")}))
        sign(folder)
    return root


def run_of(made: Path, name: str, tmp_path: Path, file: str = "", change: Callable[[Any], Any] = lambda data: None) -> Path:
    """A copy of a run with one file changed and signed anew."""
    folder = tmp_path / "stage2_wmma_pv" / name
    shutil.copytree(made / name, folder)
    if file:
        edit(folder / file, change)
        sign(folder)
    return folder


def instruction(data: dict[str, Any]) -> None:
    next(function for function in data["functions"] if function["arch"] == ARCH)["code"][7] = "FADD R7, R1, R3"


def gate(name: str, **changes: Any) -> Callable[[Any], Any]:
    return lambda data: [result.update(changes) for result in data["gates"] if result["gate"] == name] and None


CHANGES: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("cpu", "sass.json", instruction, "the machine code of .*sdpa_fp8_kernel.* for sm_90 changed"),
    ("cpu", "baseline/sass.json", instruction, "the machine code of .*sdpa_fp8_kernel.* for sm_90 changed"),
    (
        "cpu",
        "sass.json",
        lambda data: data["data"].update({ARCH: "3" * 64}),
        "constants or shared memory of stage2_wmma_pv for sm_90 changed",
    ),
    ("cpu", "sass.json", lambda data: data["functions"][-1].update(key="other"), "the machine code of .* for sm_90 changed"),
    ("cpu", "sass.json", lambda data: data.update(host="3" * 64), "the host code of stage2_wmma_pv changed"),
    ("gpu", "sass.json", lambda data: data.update(host=""), "the host code of stage2_wmma_pv was not recorded"),
    ("gpu", "sass.json", lambda data: [one.update(code=[]) for one in data["functions"]] and None, "sm_90 was not recorded in both runs"),
    ("cpu", "run.json", lambda data: data["task"].update(terms_sha256="3" * 64), "task.yaml of stage2_wmma_pv changed"),
    ("gpu", "run.json", lambda data: data["task"].update(terms_sha256=""), "task.yaml of stage2_wmma_pv were not recorded"),
    ("cpu", "run.json", lambda data: data["task"].update(problem_sha256="3" * 64), "the problem's files of stage2_wmma_pv changed"),
    ("cpu", "run.json", lambda data: data["task"]["shapes"]["mission"].update(S=256), "dimensions of shapes of stage2_wmma_pv changed"),
    ("gpu", "run.json", lambda data: data["task"]["limits"]["performance"].update(min_speedup_pct=5), "limits of stage2_wmma_pv changed"),
    ("cpu", "run.json", lambda data: data["task"].update(seeds=[0]), "seeds of stage2_wmma_pv changed"),
    ("cpu", "run.json", lambda data: data["task"]["overrides"].update(seeds="0"), "this run did not judge the stage as committed"),
    ("gpu", "run.json", lambda data: data["toolchain"].update(ptxas="12.9"), "ptxas is .*, there it was 12.9"),
    (
        "gpu",
        "run.json",
        lambda data: data["toolchain"].update({"g++": "9"}),
        "the host code of .* can't be compared: g.. is .*, there it was 9",
    ),
    ("gpu", "run.json", lambda data: data.update(device=None), "it is not a run of the full profile on a device"),
    ("cpu", "run.json", lambda data: data.update(baseline=None), "only one of both has a baseline"),
    ("gpu", "run.json", lambda data: data["task"].update(kind="triton"), "are not one CUDA stage"),
    ("gpu", "verdict.json", gate("ncu", status="fail"), "not all of its gates passed: ncu .fail."),
    ("gpu", "build.json", lambda data: data.update(device_archs=[]), "it does not say for which architecture"),
    ("gpu", "build.json", lambda data: [data], "it does not say for which architecture"),
    ("gpu", "build.json", lambda data: data.update(device_archs=90), "it does not say for which architecture"),
]


@pytest.mark.parametrize(("name", "file", "change", "text"), CHANGES, ids=[f"{name} {text}" for name, _, _, text in CHANGES])
def test_what_changed_is_not_taken_over(made, tmp_path, name, file, change, text) -> None:
    changed = run_of(made, name, tmp_path, file, change)
    if "host code" in text:  # which counts if a file of the stage has changed
        edit(changed / "run.json", lambda data: data["task"].update(digest="5" * 64))
    runs = {"cpu": made / "cpu", "gpu": made / "gpu", name: changed}
    found = list(differences(runs["cpu"], runs["gpu"]))
    assert found and all(re.search(text, one) for one in found), found


def test_the_same_files_need_no_host_code(made, tmp_path) -> None:
    run = run_of(made, "cpu", tmp_path, "sass.json", lambda data: data.update(host=""))
    assert list(differences(run, made / "gpu")) == []


def test_an_unchanged_run_takes_over_and_says_whose_verdict_it_is(made, tmp_path) -> None:
    run, gpu = run_of(made, "cpu", tmp_path), run_of(made, "gpu", tmp_path)
    assert list(differences(run, gpu)) == [] and list(differences(gpu, gpu)) == ["this run had a device of its own"]
    found = take_over(run, gpu)
    assert found.taken == ("performance", "ncu") and found.words == (
        "machine code unchanged: performance, ncu as in stage2_wmma_pv/gpu on NVIDIA H100 80GB HBM3"
    )
    assert all("(machine code unchanged: as in stage2_wmma_pv/gpu)" in one.sentence for one in found.gates if one.gate in found.taken)
    said = CliRunner().invoke(cli, ["decide", str(run), "--gpu-verdict-of", str(gpu), "--junit", str(tmp_path / "gates.xml")])
    assert said.exit_code == 0 and said.output.startswith("merge: ") and found.words in said.output, said.output
    assert "as in stage2_wmma_pv/gpu" in (tmp_path / "gates.xml").read_text() and 'skipped="0"' in (tmp_path / "gates.xml").read_text()
    assert CliRunner().invoke(cli, ["decide", str(run)]).exit_code == 3  # nothing was written
    assert fitting(run, tmp_path) == gpu


def test_a_changed_run_holds_and_says_why(made, tmp_path) -> None:
    run, gpu = run_of(made, "cpu", tmp_path, "sass.json", instruction), run_of(made, "gpu", tmp_path)
    said = CliRunner().invoke(cli, ["decide", str(run), "--gpu-verdict-of", str(gpu), "--json"])
    told = json.loads(said.output)
    assert said.exit_code == 3 and told["decision"] == "hold" and told["taken_over"] == []
    assert "the GPU verdict of stage2_wmma_pv/gpu can't be taken over: the machine code of" in told["reason"]
    assert fitting(run, tmp_path) is None


def test_a_run_that_is_not_sound_is_not_taken_over(made, tmp_path) -> None:
    gpu = run_of(made, "gpu", tmp_path)
    edit(gpu / "performance.json", lambda data: data.update(seed=1))
    with pytest.raises(GatesError, match="performance.json was changed after the run"):
        take_over(made / "cpu", gpu)
    assert fitting(made / "cpu", tmp_path) is None
