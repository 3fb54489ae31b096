"""Planted defects: the cheapest gate of each is run here and is red; the recorded matrix agrees with the catalogue."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import kill_matrix
import pytest
from conftest import OnceASession
from defects import cheapest, matrix, report
from defects.catalogue import DEFECTS, HONEST, counts_for_cpu
from defects.combined import ENTRY, compile_patched
from defects.contract import LAUNCHERS
from defects.folders import HERE, Workshop
from defects.fp8_mma import MMA
from defects.fp16 import FP16
from defects.hopper import HOPPER
from defects.record import KINDS, Defect
from defects.sdpa import PATCHES

from gates.build.build import build
from gates.build.dumps import collect
from gates.build.toolchain import find_toolchain
from gates.core import jsonio
from gates.core.records import GateResult, Status
from gates.emulator.cpu.build import task_library
from gates.gate.ptxas import evidence as ptxas
from gates.gate.ptxas import judge as ptxas_judge
from gates.gate.sass import evidence as sass
from gates.gate.sass import judge as sass_judge
from gates.launch.device import DeviceInfo
from gates.task.load import load_task

PATCHED = [defect for defect in PATCHES if defect.cpu[:1] == ("correctness",)]
STATIC = [defect for defect in PATCHES if defect.cpu[:1] in (("ptxas",), ("sass",))]
_FILE, _TEXT, _ = DEFECTS["no_rescale"].edits[0]
UNPATCHED = dataclasses.replace(DEFECTS["no_rescale"], name="unpatched", edits=((_FILE, _TEXT, _TEXT),))
COMPILED = [*PATCHED, UNPATCHED, DEFECTS["too_much_shared_memory"]]
GROUPS = [COMPILED[start : start + 16] for start in range(0, len(COMPILED), 16)]  # each is one source, for its headers' sake
CALLED = [defect for defect in LAUNCHERS if defect.cpu[:1] == ("correctness",) and not defect.process]
ENDING = [defect for defect in LAUNCHERS if defect.cpu[:1] == ("correctness",) and defect.process]
Patched = Callable[[Defect], tuple[Path, str]]
RECORDED = kill_matrix.recorded()
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")


@pytest.fixture(scope="session")
def toolbox(kept: OnceASession) -> Path:
    """toolbox/mix.cu for the emulator."""
    source = HERE / "toolbox" / "mix.cu"
    return kept("toolbox", lambda folder: task_library([source], folder / "mix.so", capability="89")) / "mix.so"


@pytest.fixture(scope="session")
def patched(kept: OnceASession) -> Patched:
    """Gives (library, entry) of a patched kernel, compiled with its group."""

    def find(defect: Defect) -> tuple[Path, str]:
        (number,) = (number for number, group in enumerate(GROUPS) if defect in group)
        folder = kept(f"patched_{number}", lambda folder: compile_patched(GROUPS[number], folder))
        return folder / "patched.so", f"{ENTRY}_{GROUPS[number].index(defect)}"

    return find


def test_every_defect_is_in_one_test_or_needs_a_device() -> None:
    tested = {defect.name for defect in (*PATCHED, *STATIC, *CALLED, *ENDING, *MMA, *FP16, *HOPPER)} | {"falls_back", "local_table"}
    assert {name for name in DEFECTS if name not in tested} == {name for name, defect in DEFECTS.items() if not defect.cpu}
    assert len(DEFECTS) >= 40 and {defect.kind for defect in DEFECTS.values()} == set(KINDS)


@pytest.mark.parametrize("name", [defect.name for defect in PATCHED])
def test_a_wrong_patch_is_caught_by_correctness(name: str, patched: Patched, tmp_path: Path) -> None:
    result = cheapest.correctness(DEFECTS[name], *patched(DEFECTS[name]), tmp_path)
    assert result.status is Status.FAIL, result.sentence


def test_the_kernel_without_a_patch_passes_in_the_same_frame(patched: Patched, tmp_path: Path) -> None:
    result = cheapest.correctness(UNPATCHED, *patched(UNPATCHED), tmp_path)
    assert result.status is Status.PASS, result.sentence


@pytest.mark.parametrize("name", [defect.name for defect in CALLED])
def test_a_breach_of_the_contract_is_caught_by_correctness(name: str, toolbox: Path, tmp_path: Path) -> None:
    result = cheapest.correctness(DEFECTS[name], toolbox, DEFECTS[name].entry, tmp_path)
    assert result.status is Status.FAIL, result.sentence


@pytest.mark.parametrize("name", [defect.name for defect in ENDING])
def test_a_kernel_that_ends_its_process_is_caught_by_correctness(name: str, toolbox: Path, tmp_path: Path) -> None:
    result = cheapest.correctness(DEFECTS[name], toolbox, DEFECTS[name].entry, tmp_path)
    assert result.status is Status.FAIL, result.sentence


def test_honest_launchers_of_the_toolbox_pass(toolbox: Path, tmp_path: Path) -> None:
    for entry in ("mix", "direct"):
        result = cheapest.correctness(DEFECTS["nan_output"], toolbox, entry, tmp_path / entry)
        assert result.status is Status.PASS, result.sentence


@needs_nvcc
@pytest.mark.parametrize("name", [defect.name for defect in STATIC])
def test_a_false_claim_is_caught_by_a_static_gate(name: str, patched: Patched, kept: OnceASession, tmp_path: Path) -> None:
    called = None
    if name == "too_much_shared_memory":  # it is dynamic: only a launch tells
        called = cheapest.launches(*patched(DEFECTS[name]), DEFECTS[name], tmp_path / "launches")
    for result in static_gates(name, kept, called):
        assert result.status is Status.FAIL, result.sentence


@needs_nvcc
def test_a_fallback_and_a_local_table_are_caught_by_the_static_gates(toolbox: Path, kept: OnceASession, tmp_path: Path) -> None:
    (table,) = static_gates("local_table", kept, None)
    assert table.code == "sass.forbidden"
    called = cheapest.launches(toolbox, "falls_back", DEFECTS["falls_back"], tmp_path / "launches")
    (fallback,) = static_gates("local_table", kept, called, as_defect="falls_back")  # the same kernels, compiled once
    assert fallback.code == "ptxas.unlisted_kernel"


def static_gates(name: str, kept: OnceASession, launches, as_defect: str = "") -> list[GateResult]:
    """ptxas or sass, as the catalogue says of ``name`` or ``as_defect``, for the task's first architecture."""
    home = kept(f"static_{name}", lambda folder: Workshop(folder / "workshop").plant(DEFECTS[name]))
    task = load_task(home / "workshop" / ("tasks" if DEFECTS[name].stage else "toolbox") / name, environ={})
    task = dataclasses.replace(task, arch=task.arch[:1])
    result = build(task, find_toolchain(), home / "build", want={"cubin"})
    assert not result.failures
    texts = collect(result, find_toolchain())
    found = []
    kernels = DEFECTS[as_defect].kernels if as_defect else task.kernels
    for gate in DEFECTS[as_defect or name].cpu:
        if gate == "ptxas":
            evidence = ptxas.gather(texts.logs, launches, kernels, texts.resource_usage, demangled=texts.demangled)
            found.append(ptxas_judge.judge(evidence, task.gates["ptxas"]))
        else:
            found.append(sass_judge.judge(sass.gather(texts.sass, kernels, demangled=texts.demangled), task.gates["sass"]))
    return found


CPU = next(half for half in RECORDED if half["profile"] == "cpu")


@pytest.mark.parametrize("half", RECORDED, ids=lambda half: half["device"])
def test_the_recorded_matrix_holds_what_the_catalogue_says(half) -> None:
    rows = report.rows(half)
    for name in (name for name in DEFECTS if name in rows):
        declared = report.declared(half, name)
        tried = [gate for gate in declared if gate in rows[name]["gates"]]
        assert set(tried) <= set(report.killers(rows[name])), name
        assert half is not CPU or len(tried) == len(declared), name
    assert report.false_kills(half) == []


def test_every_defect_was_tried_on_the_emulator_and_on_a_card_and_enough_is_killed() -> None:
    on_a_card = {name for half in RECORDED if half is not CPU for name in report.rows(half)}
    assert {*DEFECTS, *HONEST} == set(report.rows(CPU)) and set(DEFECTS) <= on_a_card
    assert report.cpu_share(CPU) >= report.LEAST_CPU_SHARE and any(map(counts_for_cpu, DEFECTS.values()))
    assert set(DEFECTS) <= {name for half in RECORDED for name, row in report.rows(half).items() if report.killers(row)}


def test_the_page_is_what_report_makes() -> None:
    assert kill_matrix.PAGE.read_text(encoding="utf-8") == report.page(RECORDED)
    assert kill_matrix.LIST.read_text(encoding="utf-8") == report.matrix(RECORDED)


def test_the_readme_says_what_the_matrix_says() -> None:
    text = " ".join((kill_matrix.ROOT / "README.md").read_text(encoding="utf-8").split())
    seen = [row for name, row in report.rows(CPU).items() if name in DEFECTS and counts_for_cpu(DEFECTS[name])]
    killed = sum(bool(report.killers(row)) for row in seen)
    assert f"all {len(DEFECTS)} planted defects" in text and f"{killed} of the {len(seen)} that need no clock" in text
    assert f"pass all {len([name for name in HONEST if name in report.rows(CPU)])} honest kernels" in text and not report.false_kills(CPU)


def test_a_survivor_and_a_refused_stage_are_told() -> None:
    def row(name: str, status: str) -> dict:
        entry = {"status": status, "code": f"correctness.{status}", "codes": [f"correctness.{status}"], "sentence": ""}
        return {"name": name, "gates": {"correctness": entry}, "wall_s": {}}

    half = {
        "profile": "full",
        "device": "d",
        "wall_s": 1.0,
        "started": "2026-01-01",
        "rows": [row("all_zeros", "pass"), row("mix", "fail")],
    }
    half["rows"].append({"name": "no_rescale", "gates": {}, "wall_s": {}})
    assert report.untried(half) == ["no_rescale"] and "not tried where they show: no_rescale" in report.summary(half)
    assert report.survivors(half) == ["all_zeros"] and report.false_kills(half) == ["mix"] and not report.sound(half)
    text = report.summary(half)
    assert "let through: all_zeros" in text and "honest stages refused: mix" in text and "not red as declared: all_zeros" in text
    assert json.dumps(half)


def test_on_a_device_what_measures_is_alone_and_comes_after_what_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []
    running: set[str] = set()

    def judge(trial: matrix.Trial, gate: str) -> None:
        running.add(trial.name)
        calls.append((trial.name, gate))
        if gate in matrix.ALONE and trial.status("correctness") != "fail" or trial.alone:
            assert running == {trial.name}
        status = "fail" if trial.defect and gate == trial.defect.device[0] else "pass"
        trial.row["gates"][gate] = {"status": status, "code": f"{gate}.{status}", "codes": [f"{gate}.{status}"], "sentence": ""}
        running.discard(trial.name)

    monkeypatch.setattr(matrix.Trial, "judge", judge)
    monkeypatch.setattr(matrix.Trial, "prepare", lambda trial: setattr(trial, "session", "built"))
    names = ["takes_all_memory", "all_zeros", "slower", "no_barrier_after_p", "spills", "mix"]
    device = DeviceInfo(0, "a device", "uuid", "9.0", 1, 1, "1", "13.0")
    options = {"device": device, "jobs": 4, "budget_s": 60.0, "say": lambda text: None}
    data = matrix.run(names, tmp_path / "work", tmp_path / "out.json", **options)
    assert report.sound(data) and matrix.settled_rows(data).keys() == set(names)
    assert calls.index(("slower", "performance")) > max(
        calls.index((name, "sanitizer")) for name in ("no_barrier_after_p", "slower", "mix")
    )
    assert jsonio.read(tmp_path / "out.json")["rows"] == data["rows"]
    late = matrix.run(names, tmp_path / "late", tmp_path / "late.json", **{**options, "budget_s": -1.0})
    assert all(row["gates"] == {} for row in late["rows"]), "nothing is invented where there is no time"


def test_a_defect_that_lost_its_place_is_told(tmp_path: Path) -> None:
    lost = dataclasses.replace(DEFECTS["no_rescale"], edits=(("parts/softmax.cuh", "no such text", ""),))
    with pytest.raises(AssertionError, match="0 times in parts/softmax.cuh"):
        Workshop(tmp_path).plant(lost)
