"""What CUDA sources say of dynamic shared memory, read as text."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gates.core.records import Status
from gates.gate.ptxas.evidence import gather
from gates.gate.ptxas.judge import judge
from gates.task.sources.cuda_text import declared_launches

KERNEL = "__global__ void k(float* x) { __shared__ float tile[32]; x[0] = tile[0]; }\n"
LOG = (
    "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
    "ptxas info    : Function properties for k\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers, 128 bytes smem\n"
)
LIMITS = {"max_registers": 32, "max_smem_bytes": 128, "max_spill_bytes": 0}


def task(tmp_path: Path, **files: str) -> SimpleNamespace:
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return SimpleNamespace(compiled=(tmp_path / "k.cu",), kernels=("k",))


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        '#include <cuda_runtime.h>\n#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\nextern "C" ' + KERNEL,
        "// extern __shared__ float a[];\n/* extern\n __shared__ float b[]; */\n" + KERNEL,
        "extern int other;\n" + KERNEL,
    ],
)
def test_sources_without_it_leave_no_room(tmp_path: Path, text: str) -> None:
    records, note = declared_launches(task(tmp_path, k_cu=text))
    assert [record["dynamic_smem_bytes"] for record in records] == [0] and "no extern __shared__" in note


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k() { extern __shared__ float tile[]; }",
        "__global__ void k() { extern __shared__\n  __align__(16) char tile[]; }",
        "extern __align__(128) __shared__ char tile[];\n" + KERNEL,
        'asm(".extern .shared .b8 tile[];");',
        '#include "k.cuh"\n' + KERNEL,
        "#include <cub/cub.cuh>\n" + KERNEL,
        '#include "not_here.cuh"\n#include "far/away.cuh"\n' + KERNEL,
    ],
)
def test_sources_that_may_have_it(tmp_path: Path, text: str) -> None:
    records, note = declared_launches(task(tmp_path, k_cu=text, k_cuh="#pragma once\nextern __shared__ float tile[];\n"))
    assert records is None and "only a launch shows: run the task on a CUDA device" in note


def test_the_gate_says_what_it_is_known_from(tmp_path: Path) -> None:
    records, note = declared_launches(task(tmp_path, k_cu=KERNEL))
    result = judge(gather({"sm_90": LOG}, records, ("k",), {}, launches_note=note), LIMITS)
    assert result.status is Status.PASS
    assert next(check for check in result.checks if check.name == "dynamic_smem").hint == note


def test_what_is_unknown_is_inconclusive_and_says_what_is_missing(tmp_path: Path) -> None:
    records, note = declared_launches(task(tmp_path, k_cu="extern __shared__ float tile[];\n" + KERNEL))
    result = judge(gather({"sm_90": LOG}, records, ("k",), {}, launches_note=note), LIMITS)
    assert result.status is Status.INCONCLUSIVE and result.code == "ptxas.smem_unknown"
    assert "k.cu declares `extern __shared__`" in next(check for check in result.checks if check.name == "smem").hint
    over = judge(gather({"sm_90": LOG}, records, ("k",), {}, launches_note=note), {**LIMITS, "max_smem_bytes": 64})
    assert over.status is Status.FAIL
