"""The timing study: its script runs on a simulated device, and the page holds what the recorded runs say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

FOLDERS = [ROOT / "results" / "recorded" / device / "timing-study" for device in ("h100", "h200")]


@pytest.fixture
def study(monkeypatch):
    from timing import plan, report

    return plan, report


def run(folder: Path, *more: str) -> dict:
    command = [sys.executable, str(ROOT / "studies" / "timing_study.py"), "run", "--simulate", "--out", str(folder), *more]
    subprocess.run(command, check=True, capture_output=True, timeout=100, cwd=ROOT)
    return json.loads((folder / "study.json").read_text())


def test_the_simulated_study_is_right_everywhere(study, tmp_path) -> None:
    plan, report = study
    found = run(tmp_path)
    assert not found["troubles"] and not found["left_out"]
    for cell in plan.cells(1.0, list(plan.SIZES_US)):
        right = "fail" if cell.truth < 1.15 else "pass"
        assert {gate["status"] for gate in found["gates"][cell.name]} == {right}, cell.name
    for cell in plan.same(1.0):
        assert "pass" not in {gate["status"] for gate in found["gates"][cell.name]}
    families = found["gates"]["family"]
    assert {family["status"] for family in families} == {"inconclusive"} and families[0]["shapes"].keys() == set(plan.FAMILY)
    text = report.tables({"study": found})
    assert f"A/A families of 3 shapes | study | 0 of {len(families)} faster or slower" in text
    assert "NVBench, cold" in text and "triton do_bench, mean" in text


def test_a_study_out_of_time_says_what_it_left_out(tmp_path) -> None:
    found = run(tmp_path, "--budget-s", "0")
    assert found["left_out"][0].startswith("stage pair, own process: ")
    assert not any(found["gates"].values())


def test_the_page_holds_what_the_recorded_runs_say(study) -> None:
    _, report = study
    page = (ROOT / "docs" / "internals" / "timing-study.md").read_text(encoding="utf-8")
    assert report.into_page(page, report.load(*FOLDERS)) == page, (
        "run studies/timing_study.py report results/recorded/{h100,h200}/timing-study"
    )


def test_a_wrong_verdict_shows_in_the_table(study) -> None:
    _, report = study
    studies = report.load(*FOLDERS)
    studies["first"]["gates"]["4 us, truth 1.13, bar 15 %"][0]["status"] = "pass"
    row = next(row for row in report.tables(studies).splitlines() if row.startswith("| truth 1.13 at 4 us"))
    assert "1 pass" in row and row.endswith("| no |")


def test_families_of_several_runs_are_counted_together(study) -> None:
    plan, report = study
    studies = {run: {**found, "gates": {"family": []}} for run, found in report.load(*FOLDERS).items()}
    first, second, *_ = studies
    for run, count in ((first, plan.FAMILIES - 20), (second, 20)):
        studies[run]["gates"]["family"] = [{"status": "inconclusive"}] * count
    row = f"| A/A families of 3 shapes | {first}, {second} | 0 of {plan.FAMILIES} faster or slower |"
    assert f"{row} yes |" in report.tables(studies)
    studies[second]["gates"]["family"].pop()
    assert f"{row.replace(f'of {plan.FAMILIES}', f'of {plan.FAMILIES - 1}')} so far |" in report.tables(studies)


def test_the_line_is_found(study) -> None:
    plan, _ = study
    line = plan.fit({steps: 1.8 + 0.0025 * steps for steps in plan.FIT_STEPS})
    assert line.floor_us == pytest.approx(1.8) and line.step_us == pytest.approx(0.0025) and line.worst_pct < 1e-6
    assert line.time_us(line.steps(4.0)) == pytest.approx(4.0, abs=0.002)


def test_nvbench_output_is_read(monkeypatch) -> None:
    from timing.crosscheck import nvbench_means

    summary = {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "4.5e-06"}]}
    state = {"axis_values": [{"name": "Steps", "value": "877"}], "summaries": [summary, {"tag": "nv/other", "data": []}]}
    assert nvbench_means({"benchmarks": [{"states": [state]}]}) == {877: {"NVBench, cold": pytest.approx(4.5)}}


def test_the_lab_s_gates_run_their_whole_path(monkeypatch, tmp_path) -> None:
    """The code that the study runs on a card, with the tests' clockwork in place of CUDA: a job that lacks a key ends here, and not on the
    card.
    """
    import torch
    from timing import lab
    from timing_fakes import DATA, build_library, install

    from gates.task import problem as problems

    install(monkeypatch, {"new": 10.0, "old": 14.0, "control": 14.0})
    libraries = {name: build_library(tmp_path, name) for name in ("new", "old", "control")}
    side = {"entry": "scale", "folder": str(DATA), "problem": "scaling", "emulated": False}
    sides = {name: {**side, "name": name, "library": str(path)} for name, path in libraries.items()}
    made = object.__new__(lab.Lab)
    made._torch, made.before, made._started = torch, {}, True
    job = {"device": "cpu", "shapes": {"tiny": 15.0}, "output_limits": {"max_abs_err": 0.01, "bad_atol": 0.01}, "seed": 11}
    job = lab.timing.job_of(sides["new"], sides["old"], control=libraries["control"], **job)
    limits = {"shape": "tiny", "min_speedup_pct": 15.0, "metrics": ["p50"]}
    for short in (True, False):
        found = lab.verdict.record(made._session(job, problems.load("scaling", DATA), short=short), limits, 0.0)
        assert found["ratio"] == pytest.approx(1.4, rel=0.01) and found["pairs"] == 12, found


def test_the_lab_s_rounds_and_tools_of_one_chain_run_their_whole_path(monkeypatch, tmp_path) -> None:
    """What fits times to steps, as above: on a card it needs minutes before it ends."""
    import torch
    from timing import lab
    from timing_fakes import DATA, FakeClockwork, build_library, install

    from gates.task import problem as problems

    install(monkeypatch, {"new": 10.0})
    made = object.__new__(lab.Lab)
    problem = problems.load("scaling", DATA)
    monkeypatch.setitem(problem.SHAPES, "wide", problem.SHAPES["tiny"])
    made._torch, made.before, made._started, made._problem = torch, {}, True, problem
    library = build_library(tmp_path, "new")
    monkeypatch.setattr(made, "library", lambda steps: library, raising=False)
    monkeypatch.setattr(made, "_clockwork", lambda: FakeClockwork(torch.device("cpu")), raising=False)
    monkeypatch.setattr(
        lab,
        "_chain",
        lambda library: {
            "name": "new",
            "library": str(library),
            "entry": "scale",
            "folder": str(DATA),
            "problem": "scaling",
            "emulated": False,
        },
    )
    assert all(set(one) == {"1", "2"} and one["1"] == pytest.approx(10.0, rel=0.02) for one in made.rounds({"1": 1, "2": 2}, 2))
    found = made.times(1)
    assert set(found) == {"gate, cold", "gate, warm", "gate, single launches"}
    assert all(us == pytest.approx(10.0, rel=0.02) for us in found.values()), found
    assert made.empty()["timer_step_us"] > 0
