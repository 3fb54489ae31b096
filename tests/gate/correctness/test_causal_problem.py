"""A problem with a causal mask: the corner at which it is aligned, and values behind it that must not matter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from correctness_kit import DATA, in_process, side, task_folder

from gates.core.records import Status
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.evidence import parse
from gates.gate.correctness.judge import judge

PROBLEM = """
import torch
from tasks.problems import sdpa
from tasks.problems.sdpa_mistakes import Mistakes
SHAPES = {"more_keys": {"Sq": 4, "Sk": 6}, "more_queries": {"Sq": 6, "Sk": 4}}
ARGUMENTS = ("q", "k", "v", "out", "Sq", "Sk")
AXES = {"out": ("B", "H", "Sq", "D")}
FAMILY_SHAPES = ("more_keys",)
def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {name: torch.randn(1, 1, shape[rows], 64, generator=g) for name, rows in (("q", "Sq"), ("k", "Sk"), ("v", "Sk"))}
def behind_the_mask(value):
    def make(shape, seed, device):
        inputs = make_inputs(shape, seed, device)
        inputs["k"][:, :, -1], inputs["v"][:, :, -1] = value, value
        return inputs
    return make
INPUT_FAMILIES = {"nan_behind_the_mask": behind_the_mask(float("nan")), "huge_behind_the_mask": behind_the_mask(1e30)}
def make_outputs(shape, device):
    return {"out": torch.empty(1, 1, shape["Sq"], 64)}
def clean(inputs):
    return [inputs["q"].double(), *(torch.where(inputs[name].abs() < 1e9, inputs[name], 0.0).double() for name in ("k", "v"))]
def reference(inputs, shape):
    return {"out": sdpa.attention(*clean(inputs), 0.125, True)}
def error_bound(inputs, shape):
    return {"out": torch.full((1, 1, shape["Sq"], 64), 1e-5, dtype=torch.float64)}
def mistakes(inputs, shape):
    return Mistakes(*clean(inputs), 0.125, True).common()
"""
LIMITS = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "max_err_over_bound": 1.0}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("causal") / "causal.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", str(DATA / "causal.cpp"), "-o", str(made)], check=True, timeout=120)
    return made


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process(monkeypatch)


@pytest.mark.parametrize(
    ("entry", "status", "cases"),
    [
        ("top_left", Status.PASS, set()),
        ("bottom_right", Status.FAIL, {"more_keys seed 0", "more_queries seed 0"}),
        ("leaking", Status.FAIL, {"more_keys seed 0 inputs nan_behind_the_mask"}),
    ],
)
def test_the_mask(library: Path, tmp_path: Path, entry: str, status: Status, cases: set[str]) -> None:
    folder = task_folder(tmp_path / "task", "causal_problem", PROBLEM)
    raw = run_correctness(
        side(library, entry, folder, "causal_problem"),
        ("more_keys", "more_queries"),
        (0,),
        work=tmp_path / "work",
        limit_s=60,
        limits=LIMITS,
    )
    result = judge(parse(raw), LIMITS)
    assert result.status is status, result.sentence
    failed = [check for check in result.checks if check.status is Status.FAIL]
    assert {check.where for check in failed} >= cases
    if entry == "bottom_right":
        said = " ".join([*(check.hint for check in failed), *(note for check in failed for note in check.notes)])
        assert "the causal mask aligned at the other corner" in said
    if entry == "leaking":
        assert {check.where for check in failed if check.where} == cases
