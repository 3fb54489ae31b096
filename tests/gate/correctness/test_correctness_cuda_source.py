"""Planted faults in CUDA source, run through the emulator: correctness and sanitizer gates turn red."""

from __future__ import annotations

from pathlib import Path

import pytest
from correctness_kit import DATA, cases_here, gate, in_process, side, task_folder

from gates.core.records import Status
from gates.emulator.cpu.build import task_library
from gates.gate.sanitizer import collect as run
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer import judge

PROBLEM = """
import torch
SHAPES = {"small": {"rows": 5}, "wide": {"rows": 40}}
ARGUMENTS = ("x", "y", "out", "rows", "a")
def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(shape["rows"], 128, generator=g), "y": torch.randn(shape["rows"], generator=g), "a": 0.5}
def make_outputs(shape, device):
    return {"out": torch.empty(shape["rows"])}
def reference(inputs, shape):
    return {"out": (inputs["a"] * inputs["x"].double()).sum(1) + inputs["y"].double()}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cuda")
    task_folder(folder, "row_sum_problem", PROBLEM)
    return {"folder": folder, "library": task_library([DATA / "planted.cu"], folder / "planted.so")}


def candidate(built: dict[str, Path], entry: str) -> dict:
    return side(built["library"], entry, built["folder"], "row_sum_problem")


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        ("honest", set()),
        ("no_barrier", {"race_shared"}),
        ("unwritten_flag", {"uninitialised_shared"}),
        ("tail_write", {"out_of_bounds"}),
        ("order_matters", {"not_repeatable"}),
        ("shared_overrun", {"shared_out_of_bounds"}),
        ("divergent_barrier", {"barrier_divergence"}),
        ("too_many_threads", {"launch_error"}),
        ("too_many_threads_swallowed", {"unwritten", "launch_error"}),
    ],
)
def test_correctness(built, tmp_path, monkeypatch, entry, codes) -> None:
    in_process(monkeypatch)
    _, result = gate(tmp_path, candidate(built, entry), shapes=("small", "wide"), seeds=(0, 1))
    seen = {check.code.removeprefix("correctness.") for check in result.checks if check.code}
    assert result.status is (Status.FAIL if codes else Status.PASS), result.sentence
    assert codes <= seen, seen


@pytest.mark.parametrize(
    ("entry", "kinds"),
    [
        ("honest", set()),
        ("no_barrier", {"race_shared"}),
        ("order_matters", {"race_shared"}),
        ("tail_write", {"out_of_bounds"}),
        ("tail_read", {"out_of_bounds"}),
        ("shared_overrun", {"shared_out_of_bounds"}),
        ("unwritten_flag", {"uninitialised_shared"}),
    ],
)
def test_sanitizer(built, tmp_path, monkeypatch, entry, kinds) -> None:
    written = cases_here(monkeypatch, candidate(built, entry), ["wide", "small"], tmp_path / "cases")
    monkeypatch.setattr(run, "write_memory_cases", lambda *_, **__: written)
    evidence = parse.parse(run.run_sanitizer_emulator(candidate(built, entry), ["wide", "small"], work=tmp_path, limit_s=60))
    found = {finding.kind for checked in evidence.runs for finding in checked.findings}
    assert kinds <= found and bool(kinds) == bool(found), found
    assert judge.judge(evidence).status is (Status.FAIL if kinds else Status.PASS)
    if kinds:
        places = {finding.where.partition(":")[0] for checked in evidence.runs for finding in checked.findings}
        assert places == {"planted.cu"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("order_matters", "race: the order of threads or of asynchronous copies decides: out["),
    ],
)
def test_a_difference_between_orders_is_told_with_cause_element_and_kernel(built, tmp_path, monkeypatch, entry, says) -> None:
    in_process(monkeypatch)
    _, result = gate(tmp_path, candidate(built, entry), shapes=("small",), seeds=(0,))
    hint = next(check.hint for check in result.checks if check.name == "not_repeatable" and check.hint)
    assert hint.startswith(says) and ", kernel " in hint and "(forward)" in hint
