"""Functions that were replaced while a kernel was timed are found; ordinary work is no finding."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
from timing_fakes import build_library, install, run_job

from gates.core.records import Status
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import parse

torch = pytest.importorskip("torch")

from gates.gate.correctness.runner import accuracy  # noqa: E402
from gates.gate.performance.runner import cuda_graphs  # noqa: E402
from gates.task import tensor_digest  # noqa: E402
from gates.worker import tamper_check  # noqa: E402


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (torch.cuda.Event, "elapsed_time", "torch.cuda.streams.Event.elapsed_time"),
        (torch.cuda.CUDAGraph, "replay", "CUDAGraph.replay"),
        (torch.Tensor, "__sub__", "Tensor.__sub__"),
        (torch, "isfinite", "torch.isfinite"),
        (statistics, "median", "statistics.median"),
        (accuracy, "figures", "gates.gate.correctness.runner.accuracy.figures"),
        (tamper_check.Functions, "replaced", "gates.worker.tamper_check.Functions.replaced"),
    ],
)
def test_a_replaced_function_is_named(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, said: str) -> None:
    functions = tamper_check.Functions()
    asked = functions.replaced
    assert asked() == []
    monkeypatch.setattr(owner, name, lambda *args: None)
    (found,) = asked()
    assert found.endswith(said)


def test_what_a_kernel_may_do_is_no_finding() -> None:
    functions = tamper_check.Functions()
    torch.manual_seed(0)
    torch.nn.Linear(3, 3)(torch.ones(2, 3)).sum().backward()
    torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(torch.float32)
    assert functions.replaced() == []


def test_a_kernel_that_replaced_a_function_has_no_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, {"new": 10.0, "control": 10.0})
    load = cuda_graphs.load

    def hostile(*arguments: object) -> object:
        monkeypatch.setattr(torch, "allclose", lambda *arguments: True)
        return load(*arguments)

    monkeypatch.setattr(cuda_graphs, "load", hostile)
    raw = run_job(tmp_path, build_library(tmp_path, "new"), None)
    result = performance.judge(parse(raw), {"shape": "tiny", "min_speedup_pct": 15})
    assert (result.status, result.code) == (Status.FAIL, "performance.tampered")
    assert "torch.allclose" in result.sentence and raw["measured"] is None


def test_a_function_with_other_code_is_found(monkeypatch) -> None:
    functions = tamper_check.Functions()
    monkeypatch.setattr(tensor_digest.digest, "__code__", (lambda tensors: "").__code__)
    assert "gates.task.tensor_digest.digest" in functions.replaced()
