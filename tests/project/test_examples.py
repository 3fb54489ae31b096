"""Every example is run on the CPU, on its small shape; the extension's kernels, too, behind a C launcher."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import OnceASession
from places import ROOT
from torch_kit import stub_torch  # noqa: F401

import gates
from gates.build import python_kinds
from gates.diagnostics.lint import lint
from gates.task.load import load_baseline, load_task
from gates.verify.run import verify_run

EXAMPLES = ROOT / "examples"
TASKS = sorted(path.parent for path in EXAMPLES.glob("*/*/task.yaml"))
# By name, with the package that each imports first.
ON_DEVICES = {
    "add_cupy": "cupy",
    "add_cute": "cuda",
    "add_cuda_tile": "cuda",
    "add_tilelang": "tilelang",
}
STATIC, ALL = {"ptxas", "sass"}, {"ptxas", "sass", "correctness", "sanitizer"}
PASSES = {  # what is judged without a device
    "softmax_naive": ALL,
    "softmax_warp": ALL,
    "softmax_vector": ALL,
    "rms_norm_triton": ALL,
    "rms_norm_eager": {"correctness"},
    "sgemm_naive": STATIC,
    "sgemm_tiled": STATIC,
    "gelu_eager": {"correctness"},
    "gelu_compiled": {"correctness"},
    "sum_naive": ALL,
    "sum_warp": ALL,
    "histogram_global": ALL,
    "histogram_shared": ALL,
    "gemm_wgmma": ALL,
    "copy_vector": ALL,
    "add_eager": {"correctness"},
    "add_gluon": ALL,
    "add_numba": ALL,
    "add_warp": ALL,
    **dict.fromkeys(ON_DEVICES, set()),
}


@pytest.fixture(scope="session")
def build_dir(kept: OnceASession) -> Path:
    """Shared, since one example's baseline is another example."""
    return kept("examples", lambda folder: None)


# The baselines in PyTorch and the naive product are built and looked at with what must beat them.
@pytest.mark.parametrize(
    "name",
    [
        *(
            "softmax_vector",
            "softmax_warp",
            "softmax_naive",
            "gelu_compiled",
            "rms_norm_triton",
            "sgemm_tiled",
            "sum_warp",
            "histogram_shared",
        ),
        *("gemm_wgmma", "copy_vector", "add_gluon", "add_numba", "add_warp"),
    ],
)
def test_an_example_passes_what_can_be_judged_here(tmp_path: Path, build_dir: Path, name: str, stub_torch: None) -> None:  # noqa: F811
    task = next(path for path in TASKS if path.name == name)
    module, *_ = python_kinds.PACKAGES.get(load_task(task, environ={}).kind, ("", "", ""))
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    # One case of some: no odd shapes, which torch.compile would compile for.
    one_case = ("softmax_naive", "softmax_warp", "gelu_compiled", "gemm_wgmma", "copy_vector")
    inputs = ["default"] if name in one_case else None
    run = gates.run(task, profile="cpu", shapes=["small"], seeds=[0], inputs=inputs, results=tmp_path / "results", build_dir=build_dir)
    assert {gate for gate, result in run.gates.items() if result.status.value == "pass"} == PASSES[name], run.report()
    assert run.decision == "hold" and not verify_run(run.path)


@pytest.mark.parametrize("name", ON_DEVICES)
def test_an_example_in_a_language_for_devices_is_without_a_fault(name: str) -> None:
    assert lint(EXAMPLES / "languages" / name) == []


def test_an_example_whose_package_is_missing_is_not_run_and_names_it(tmp_path: Path, build_dir: Path) -> None:
    name, package = next(((name, package) for name, package in ON_DEVICES.items() if importlib.util.find_spec(package) is None), ("", ""))
    if not name:
        pytest.skip("all packages are installed")
    run = gates.run(
        EXAMPLES / "languages" / name, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=build_dir
    )
    found = run.gates["correctness"]
    assert run.decision == "hold" and found.status.value == "not_run" and f"No module named '{package}" in found.sentence


def test_all_examples_are_known() -> None:
    assert {path.name for path in TASKS} == set(PASSES)
    for path in TASKS:
        task = load_task(path, environ={})
        baseline = load_baseline(task)
        assert task.shapes == ("small", "mission") and ("performance" in task.not_applicable) == (baseline is None)
        assert baseline is None or task.gates["performance"]["min_speedup_pct"] == 15


@pytest.mark.parametrize("folder", sorted({path.parent for path in TASKS}), ids=lambda folder: folder.name)
def test_a_readme_is_short_and_starts_with_the_command(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    for command in re.findall(r"^\$ gates run (\S+)", text.split("```")[1], re.M):
        assert (EXAMPLES.parent / command / "task.yaml").is_file()


def test_the_tiled_product_is_right_on_the_emulator(tmp_path: Path) -> None:
    for name in ("sgemm_problem.py", "sgemm_tiled/sgemm.cu", "sgemm_tiled/build.py", "sgemm_tiled/runner.py"):
        (tmp_path / "tiled").mkdir(exist_ok=True)
        shutil.copy(EXAMPLES / "sgemm_512" / name, tmp_path / "tiled")
    text = (EXAMPLES / "sgemm_512" / "sgemm_tiled" / "task.yaml").read_text()
    text = (
        text.replace("torch-extension", "cuda")
        .replace("binding.cpp", "launcher.cu")
        .replace("entry: sgemm", "entry: launch")
        .replace("name: sgemm_tiled", "name: tiled")
    )
    text = text.replace(
        "baseline: sgemm_naive\n", "not_applicable: {ptxas: not asked, sass: not asked, performance: not asked, ncu: not asked}\n"
    )
    (tmp_path / "tiled" / "task.yaml").write_text(text)
    with (tmp_path / "tiled" / "sgemm_problem.py").open("a") as file:
        file.write(
            '\nARGUMENTS = ("a", "b", "out", "N")\n\ndef make_outputs(shape, device):\n    return {"out": torch.empty(shape["N"], '
            'shape["N"], device=device)}\n'
        )
    (tmp_path / "tiled" / "launcher.cu").write_text(
        "#include <cuda_runtime.h>\n#include <cstdint>\nvoid sgemm_launch(const float*, const float*, float*, int, cudaStream_t);\n"
        'extern "C" int launch(const float* a, const float* b, float* c, int64_t n, void* stream, char*, int64_t) {\n'
        "  sgemm_launch(a, b, c, int(n), static_cast<cudaStream_t>(stream));\n  return 0;\n}\n"
    )
    command = [sys.executable, str(tmp_path / "tiled" / "runner.py"), "--shapes", "small,odd", "--seeds", "0", "--device", "emulator"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
