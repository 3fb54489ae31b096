"""Whole kernels on the CPU device, by their own problems: SAXPY and stages of the ladders; numbers against the reference, no finding."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import pytest

STAGES = {"stage0_scalar": 2e-3, "stage2_wmma_pv": 2e-3, "stage4_mma": 2e-3}


@pytest.mark.parametrize("name", ["saxpy_slow", "saxpy_fast"])
def test_saxpy(name: str, tmp_path: Path) -> None:
    task, cpu = cpu_kit.TaskOnCpu(cpu_kit.ROOT / "tests" / "tasks" / name, tmp_path), cpu_kit.device()
    for shape in ("small", "tail"):
        outcome = task.run(cpu, shape)
        assert outcome.max_abs_err <= 1e-6 and not outcome.findings
    cpu.configure(races=0)
    alone = task.run(cpu, "mission", seed=1)
    cpu.configure(threads=2)
    assert task.run(cpu, "mission", seed=1) == alone and alone.max_abs_err <= 1e-6


@pytest.mark.parametrize("name", sorted(STAGES))
def test_stages_of_the_fp8_ladder(name: str, tmp_path: Path) -> None:
    task, cpu = cpu_kit.TaskOnCpu(cpu_kit.ROOT / "tasks" / name, tmp_path), cpu_kit.device()
    for shape in ("small", "tail"):
        outcome = task.run(cpu, shape)
        assert outcome.max_abs_err <= STAGES[name] and not outcome.findings


@pytest.mark.slow  # nvcc takes half a minute for each
@pytest.mark.parametrize("name", ["fp16_v5_scalar", "fp16_v7_wmma_pv", "fp16_v9_pipeline", "fp16_v10_hopper"])
def test_rungs_of_the_fp16_ladder(name: str, tmp_path: Path) -> None:
    task, cpu = cpu_kit.TaskOnCpu(cpu_kit.ROOT / "tasks" / name, tmp_path), cpu_kit.device()
    for shape in ("small", "causal"):
        outcome = task.run(cpu, shape)
        assert outcome.max_abs_err <= 2e-3 and not outcome.findings
