"""Whole kernels on the CPU device, by their own problems: SAXPY and stages of the ladders; numbers within the tasks' limits, no finding."""

from __future__ import annotations

import cpu_kit
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.task.problem import DEFAULT_INPUTS


def task_on_cpu(kept: OnceASession, name: str, tasks: str = "tasks") -> cpu_kit.TaskOnCpu:
    task = cpu_kit.ROOT / tasks / name
    library = kept(f"on_cpu_{name}", lambda folder: cpu_kit.TaskOnCpu(task, folder)) / f"{name}.so"
    return cpu_kit.TaskOnCpu(task, library.parent, library)


@pytest.fixture(scope="module")
def mma(kept: OnceASession) -> cpu_kit.TaskOnCpu:
    return task_on_cpu(kept, "stage4_mma")


@pytest.mark.parametrize("name", ["saxpy_slow", "saxpy_fast"])
def test_saxpy(name: str, kept: OnceASession) -> None:
    task, cpu = task_on_cpu(kept, name, "tests/tasks"), cpu_kit.device()
    for shape in ("small", "tail"):
        outcome = task.run(cpu, shape)
        assert outcome.max_abs_err <= 1e-6 and not outcome.findings
    cpu.configure(races=0)
    alone = task.run(cpu, "mission", seed=1)
    cpu.configure(threads=2)
    assert task.run(cpu, "mission", seed=1) == alone and alone.max_abs_err <= 1e-6


@pytest.mark.parametrize("name", ["stage0_scalar", "stage2_wmma_pv"])
def test_stages_of_the_fp8_ladder(name: str, kept: OnceASession) -> None:
    task, cpu = task_on_cpu(kept, name), cpu_kit.device()
    for shape in ("small", "tail"):
        outcome = task.run(cpu, shape)
        assert not outcome.broken and not outcome.findings


def test_odd_shapes_and_special_inputs_one_after_the_other(mma: cpu_kit.TaskOnCpu) -> None:
    """All in one process, and nothing of a case stays for the next: the first comes out the same at the end."""
    cpu, given = cpu_kit.device(), mma.problem
    cases = [(shape, DEFAULT_INPUTS) for shape in ("small", *given.ODD_SHAPES)] + [("odd", family) for family in given.INPUT_FAMILIES]
    before, outcomes = cpu.allocated_bytes(), {case: mma.run(cpu, case[0], family=case[1]) for case in cases}
    assert {case: outcome for case, outcome in outcomes.items() if outcome.broken or outcome.findings} == {}
    assert mma.run(cpu, *cases[0][:1]) == outcomes[cases[0]] and cpu.allocated_bytes() == before


def test_a_launch_that_ended_early_leaves_nothing_behind(mma: cpu_kit.TaskOnCpu) -> None:
    cpu = cpu_kit.device()
    alone = mma.run(cpu, "odd")
    cpu.configure(time_limit_ms=0)
    with pytest.raises(GatesError):
        mma.run(cpu, "odd")
    assert [finding.code for finding in cpu.findings()] == ["cpu.time_limit"]
    cpu.reset()
    cpu.configure(time_limit_ms=60000)
    assert mma.run(cpu, "odd") == alone and not alone.broken


@pytest.mark.slow  # nvcc takes half a minute for each
@pytest.mark.parametrize("name", ["fp16_v5_scalar", "fp16_v7_wmma_pv", "fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong"])
def test_rungs_of_the_fp16_ladder(name: str, kept: OnceASession) -> None:
    task, cpu = task_on_cpu(kept, name), cpu_kit.device()
    for shape in ("small", "causal"):
        outcome = task.run(cpu, shape)
        assert not outcome.broken and not outcome.findings
