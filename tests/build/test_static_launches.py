"""The ptxas gate sees the launches of every shape on every architecture: launchers that take more than the budget for some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from static_kit import make_task, needs_nvcc

from gates.build.build import build
from gates.build.dumps import collect
from gates.build.toolchain import Toolchain, find_toolchain
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.evidence.run_directory import RunDirectory
from gates.gate.session import Session, judge_step
from gates.launch.device import DeviceInfo
from gates.pipeline.run import run_info
from gates.render.console import Silence
from gates.task.load import CUDA, EXTENSION

pytestmark = needs_nvcc
BUDGET = 32_768
PROBLEM = """
import torch
SHAPES = {"small": {"N": 64}, "large": {"N": 2000}, "huge": {"N": 1 << 29}}
ARGUMENTS = ("x", "out", "N")
def make_inputs(shape, seed, device): return {"x": torch.ones(shape["N"], device=device)}
def make_outputs(shape, device): return {"out": torch.empty(shape["N"], device=device)}
def reference(inputs, shape): return {"out": inputs["x"].double()}
"""
SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdlib>

__global__ void copy_kernel(const float* x, float* out, int64_t n) {
  __shared__ float fixed[32];
  extern __shared__ float tile[];
  const int64_t i = int64_t(blockIdx.x) * 32 + threadIdx.x;
  fixed[threadIdx.x] = tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  if (i < n) out[i] = fixed[threadIdx.x] + tile[threadIdx.x] - x[i];
}

static int launch(const float* x, float* out, int64_t n, int bytes) {
  if (bytes > 48 * 1024 && cudaFuncSetAttribute(copy_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) return 1;
  copy_kernel<<<unsigned((n + 31) / 32), 32, bytes>>>(x, out, n);
  return cudaGetLastError();
}
static int attribute(cudaDeviceAttr name) {
  int value = 0;
  cudaDeviceGetAttribute(&value, name, 0);
  return value;
}
static float read_back(const float* out) {
  float value = 0;
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost);
  return value;
}

#define LAUNCHER(name) extern "C" int name(const float* x, float* out, int64_t n, void*, char*, int64_t)
LAUNCHER(within_budget) { return launch(x, out, n, 1024); }
LAUNCHER(by_shape) { return launch(x, out, n, n > 64 ? 40000 : 1024); }
LAUNCHER(by_device) {
  static const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);  // asked once a process
  return launch(x, out, n, most > 200000 ? 120000 : 1024);
}
LAUNCHER(by_capability) { return launch(x, out, n, attribute(cudaDevAttrComputeCapabilityMajor) == 9 ? 40000 : 1024); }
LAUNCHER(refuses) { return n > 64 ? launch(x, out, n, 1 << 20) : launch(x, out, n, 1024); }
LAUNCHER(follows_a_result) { return launch(x, out, n, 1024) || launch(x, out, n, read_back(out) == 1.0f ? 1024 : 40000); }
LAUNCHER(stops_at_a_wrong_result) {
  const int status = launch(x, out, n, 1024);
  if (read_back(out) != 1.0f) abort();
  return status;
}
"""


@pytest.fixture(scope="module")
def ptxas(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., GateResult]:
    """Judges the launcher ``entry`` by its shapes; all of them are in one source, which is built once."""
    folder = tmp_path_factory.mktemp("launches")
    (folder / "k.cu").write_text(SOURCE)
    (folder / "tiny_problem.py").write_text(PROBLEM)
    (folder / "task.yaml").write_text("name: demo\n")
    toolchain = find_toolchain()
    demo = make_task(
        folder,
        source=folder / "k.cu",
        problem="tiny_problem",
        entry="within_budget",
        kernels=("copy_kernel",),
        toggles={},
        arch=("sm_89", "sm_90"),
        gates={"ptxas": {"max_registers": 64, "max_smem_bytes": BUDGET}, "correctness": {}},
    )
    built = build(demo, toolchain, folder / "build", device_arch=None, want={"cubin", "emulator"})
    assert not built.failures
    texts = collect(built, toolchain)

    def judged(entry: str, shapes: tuple[str, ...] = ("small", "large")) -> GateResult:
        task = replace(demo, entry=entry, shapes=shapes)
        scratch = tmp_path_factory.mktemp(entry)
        with RunDirectory(scratch / "evidence", task.name) as directory:
            session = Session(task, None, shapes, (0,), toolchain, None, directory, scratch, folder / "build", None, Silence())
            session.builds[task.name], session._texts[task.name] = built, texts
            info = run_info(task, None, toolchain, None, shapes=shapes, seeds=(0,), profile="cpu", why="")
            return judge_step(session, info, "ptxas")

    return judged


def red(result: GateResult) -> dict[str, int]:
    """Architecture -> bytes over the budget."""
    return {check.where.split()[-1]: check.observed for check in result.checks if check.name == "smem" and check.status is Status.FAIL}


def notes(result: GateResult) -> set[str]:
    return {check.hint for check in result.checks if check.name == "dynamic_smem"}


def test_a_launcher_within_its_budget_for_all_shapes(ptxas: Callable[..., GateResult]) -> None:
    result = ptxas("within_budget")
    assert result.status is Status.PASS and not notes(result)
    assert [check.where for check in result.checks if check.name == "occupancy"] == ["copy_kernel sm_89", "copy_kernel sm_90"], (
        "one launch, seen twice"
    )
    assert not any(check.name == "smem_beyond_source" for check in result.checks)


def test_another_shape_takes_more_than_the_budget(ptxas: Callable[..., GateResult]) -> None:
    result = ptxas("by_shape")
    assert result.code == "ptxas.smem" and red(result) == {"sm_89": 40128, "sm_90": 40128}
    assert not any(check.name == "smem_beyond_source" for check in result.checks)
    assert ptxas("by_shape", ("small",)).status is Status.PASS


@pytest.mark.parametrize(("entry", "observed"), [("by_device", 120128), ("by_capability", 40128)])
def test_more_is_taken_where_the_device_is_an_sm_90(ptxas: Callable[..., GateResult], entry: str, observed: int) -> None:
    result = ptxas(entry)
    assert result.code == "ptxas.smem" and red(result) == {"sm_90": observed}


def test_a_shape_that_the_launcher_refuses_has_no_launch(ptxas: Callable[..., GateResult]) -> None:
    assert ptxas("refuses").status is Status.PASS


@pytest.mark.parametrize(
    ("entry", "why"),
    [("follows_a_result", "reads results back"), ("stops_at_a_wrong_result", "killed by SIGABRT")],
)
def test_a_launcher_that_needs_its_kernels_results_is_judged_by_its_real_launch(
    ptxas: Callable[..., GateResult], entry: str, why: str
) -> None:
    result = ptxas(entry)
    assert result.status is Status.PASS
    (note,) = notes(result)
    assert note.count(why) == 4 and all(f"{shape} {arch} (" in note for shape in ("small", "large") for arch in ("sm_89", "sm_90"))


def test_a_shape_of_more_than_a_gibibyte_is_left_out_and_named(ptxas: Callable[..., GateResult]) -> None:
    result = ptxas("by_shape", ("small", "huge"))
    assert result.status is Status.PASS
    assert notes(result) == {"not known for huge (its buffers take more than 1 GiB)"}


@pytest.mark.parametrize(("sources", "emulated"), [(("k.cu",), True), (("kernel.py", "inline.cu"), False)])
def test_on_a_device_what_python_code_calls_is_not_compiled_for_the_emulator(
    sources: tuple[str, ...], emulated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers take a minute, and the device shows its launches."""
    kind, wanted = CUDA if emulated else EXTENSION, list[set[str]]()
    task = replace(make_task(tmp_path, source=tmp_path / "k.cu"), kind=kind, sources=tuple(tmp_path / name for name in sources))

    def built(*_: object, want: set[str], **__: object) -> None:
        wanted.append(want)
        raise GatesError("asked")

    monkeypatch.setattr("gates.gate.session.build", built)
    for device in (None, DeviceInfo(0, "card", "GPU-0", "9.0", 1, 1, "580", "13.0")):
        with RunDirectory(tmp_path / "evidence", task.name) as directory, pytest.raises(GatesError, match="asked"):
            Session(task, None, (), (), Toolchain({}), device, directory, tmp_path, tmp_path, None, Silence()).build()
    assert wanted == [{"cubin", "emulator", "binding"}, {"cubin", "device", *(("emulator",) if emulated else ())}]
