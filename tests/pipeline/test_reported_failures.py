"""Reported failures that belong to no one module: what loose limits let through, lines kept in L2, two cards, the order of gates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from sdpa_kit import ROOT, problem, task_of

from gates.gate.performance.runner.cuda_graphs import Clockwork
from gates.gate.registry import GATES
from gates.launch.device import probe
from tasks.problems import sdpa

LONG = {"B": 1, "H": 1, "S": 2048, "D": 64}
SMALL = problem.SHAPES["small"]
FORMAT = {"max_abs_err": 0.06, "mean_abs_err": 0.02}  # as wide as the input format's own error


@pytest.mark.parametrize(
    ("fault", "shape"),
    [
        ("a scale of 1/8.5 for 1/8", LONG),
        ("the last key dropped", LONG),
        ("a key of zeros too many", SMALL),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_input_format_s_limits_let_through_fails(fault: str, shape: dict[str, int]) -> None:
    inputs = problem.make_inputs(shape, 0, "cpu")
    q, k, v = (problem.dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    scale = inputs["softmax_scale"]
    wrong = {
        "a scale of 1/8.5 for 1/8": lambda: sdpa.attention(q, k, v, scale * 8 / 8.5),
        "the last key dropped": lambda: sdpa.attention(q, k[:, :, :-1], v[:, :, :-1], scale),
        "a key of zeros too many": lambda: sdpa.attention(q, *(torch.nn.functional.pad(side, (0, 0, 0, 1)) for side in (k, v)), scale),
    }[fault]()
    error = (wrong - problem.reference(inputs, shape)["out"]).abs()
    largest, mean = float(error.max()), float(error.mean())
    assert largest <= FORMAT["max_abs_err"] * 1.5 and mean <= FORMAT["mean_abs_err"] and float((error > 0.06).double().mean()) < 0.01
    limits = task_of("stage2_wmma_pv")["gates"]["correctness"]
    assert not (largest <= limits["max_abs_err"] and mean <= limits["mean_abs_err"])


def test_lines_that_a_kernel_keeps_in_l2_are_let_go_before_every_block_of_samples() -> None:
    calls: list[str] = []

    class Driver:
        def cuCtxSetLimit(self, limit, size) -> None:
            calls.append(f"limit {limit.value} of {size.value} bytes")

        def cuCtxResetPersistingL2Cache(self) -> None:
            calls.append("lines let go")

    class Stopped(Exception):
        pass

    clockwork = object.__new__(Clockwork)
    clockwork._driver, clockwork._events, clockwork.stream = Driver(), [], SimpleNamespace()
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(torch.cuda, "stream", lambda stream: (_ for _ in ()).throw(Stopped))
            clockwork.elapsed_us(lambda number: None, 0, flush=True)
    assert calls == ["limit 6 of 0 bytes", "lines let go"] * 2  # 6: CU_LIMIT_PERSISTING_L2_CACHE_SIZE


def test_speed_is_measured_before_anything_is_profiled() -> None:
    assert GATES.index("correctness") < GATES.index("performance") < GATES.index("ncu")


@pytest.mark.gpu
def test_the_second_card_is_the_one_that_is_timed(tmp_path: Path) -> None:
    cards = probe().devices
    if len(cards) < 2:
        pytest.skip("one card")
    command = [
        sys.executable,
        "-m",
        "gates",
        "run",
        "tests/tasks/saxpy_fast",
        "--device",
        "1",
        "--results",
        str(tmp_path),
        "--build-dir",
        str(tmp_path / "build"),
    ]
    subprocess.run(command, cwd=ROOT, check=False, timeout=500)
    (run,) = (tmp_path / "saxpy_fast").iterdir()
    info, timed = (json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in ("run", "performance"))
    assert info["device"]["uuid"] == cards[1].uuid and timed["device"]["uuid"] in cards[1].uuid
