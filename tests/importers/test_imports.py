"""Tasks made of other formats: what is written, that it computes the same, and what is refused."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from places import TESTS
from torch.utils import cpp_extension
from torch_kit import stub_torch  # noqa: F401

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core.errors import GatesError, NotHere
from gates.diagnostics.lint import _verdicts
from gates.gate.correctness import output_scale
from gates.importers import flashinfer_bench, folder, kernelbench, kernelbot, load_inline, robust_kbench, sizes, sources
from gates.launch.c_launcher import KernelError
from gates.launch.entry_point import Function, Place
from gates.task.load import load_baseline, load_task
from gates.task.problem import Problem

DATA = TESTS / "data" / "imports"
KERNELBENCH = DATA / "kernelbench" / "7_Scaled_linear.py", DATA / "kernelbench" / "solution.py"
FLASHINFER = tuple(DATA / "flashinfer_bench" / name for name in ("definition.json", "solution.json", "workloads.jsonl"))
ROBUST = DATA / "robust_kbench"


@pytest.fixture
def unrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The problem's shapes without a process that runs it."""

    def bounds(at: Path, problem: str, **_: Any) -> dict[str, Any]:
        return {
            "shapes": module_of(at, "problem").SHAPES,
            "largest": 0.0123456,
            "mean": 0.001,
            "honest": 1e-6,
            "format": "float32",
            "rule_over_bound": 40.0,
            "needs": {},
            "untried": {},
        }

    monkeypatch.setattr(folder, "bounds", bounds)


def command(arguments: list[str]) -> int:
    """The exit code of ``gates`` with these arguments."""
    return guard(lambda: cli.main(arguments, standalone_mode=False))


def module_of(task: Path, name: str) -> ModuleType:
    """A module of a task folder, imported as the runner does: the folder is its package."""
    for known in [known for known in sys.modules if known.split(".")[0] == task.name]:
        del sys.modules[known]
    sys.path.insert(0, str(task.parent))
    try:
        return importlib.import_module(f"{task.name}.{name}")
    finally:
        sys.path.remove(str(task.parent))


def called(task: Path, *arguments: Any) -> Any:
    """What the entry of a task of kind python returns, loaded as a run loads it: its file alone, which is part of no package."""
    loaded, before = load_task(task, environ={}), list(sys.path)
    package = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == task.name}
    try:
        return Function(loaded.sources[0], loaded.entry, Place(on_cpu=True))(*arguments)
    finally:
        sys.path[:] = before
        sys.modules.update(package)


def worst(task: Path, problem: ModuleType, inputs: dict[str, Any], shape: dict[str, int]) -> float:
    """The largest error of a task's function over the problem's bound."""
    import torch

    names = load_task(task, environ={}).arguments or tuple(inputs)
    made = problem.make_outputs(shape, "cpu") if hasattr(problem, "make_outputs") else {}
    returned = called(task, *[{**made, **inputs}[name] for name in names])
    if returned is not None:
        values = returned if isinstance(returned, (tuple, list)) else [returned]
        made = dict(zip(problem.reference(inputs, shape), values, strict=True))
    judged = Problem(problem)
    bound, exact = judged.error_bound(inputs, shape), judged.reference(inputs, shape)
    assert all(value.dtype is torch.float64 for value in exact.values())
    return max(float(((made[name].double() - exact[name]).abs() / bound[name]).max()) for name in exact)


SAMPLES = [  # of each format: a name, how it is read, and the copies that the task keeps of its files
    ("scaled_linear", lambda: kernelbench.load(*KERNELBENCH), {"problem_original.py": KERNELBENCH[0], "model.py": KERNELBENCH[1]}),
    (
        "scaled_rows",
        lambda: flashinfer_bench.load(*FLASHINFER),
        dict(zip(("definition.json", "solution.json", "workloads.jsonl"), FLASHINFER, strict=True)),
    ),
    (
        "rows",
        lambda: robust_kbench.load(ROBUST),
        {"problem_original.py": ROBUST / "func_forward.py", "forward.cu": ROBUST / "forward.cu"},
    ),
]


@pytest.mark.parametrize(("name", "load", "kept"), SAMPLES)
def test_each_format_makes_a_task_its_baseline_and_keeps_its_origin(
    tmp_path: Path, unrun: None, name: str, load: Callable[[], folder.Imported], kept: dict[str, Path]
) -> None:
    task, reference, *_ = folder.write(load(), tmp_path, name, 60)
    loaded = load_task(task, environ={})
    assert load_baseline(loaded).folder == reference
    assert loaded.problem_file() == load_task(reference, environ={}).problem_file() == task / "problem.py"
    assert loaded.gates["correctness"]["max_abs_err"] == 0.0494, "four times the bound"
    wanted = {"ptxas", "sass", "ncu", "sanitizer"} if loaded.kind == "python" else {"sass", "ncu"}
    assert set(loaded.not_applicable) == wanted and not list(_verdicts(loaded)), "each gate has a limit or says why not"
    assert "rule" in (task / "task.yaml").read_text() and "a starting point" in (task / "task.yaml").read_text()
    origin = {one["kept"]: one["sha256"] for one in json.loads((task / "origin.json").read_text())["files"]}
    for copy, source in kept.items():
        assert (task / copy).read_bytes() == source.read_bytes()
        assert origin[copy] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}_reference"], "nothing else is left"
    problem = module_of(task, "problem")
    for shape in problem.SHAPES.values():
        inputs = problem.make_inputs(shape, 3, "cpu")
        again, other = problem.make_inputs(shape, 3, "cpu"), problem.make_inputs(shape, 4, "cpu")
        tensors = [key for key, value in inputs.items() if hasattr(value, "dtype")]
        assert all(inputs[key].equal(again[key]) for key in tensors) and not all(inputs[key].equal(other[key]) for key in tensors)
        assert worst(reference, problem, inputs, shape) <= 1.0
        if loaded.kind == "python":
            assert worst(task, problem, inputs, shape) <= 1.0
            tampered = {**inputs, tensors[0]: inputs[tensors[0]] + 1}
            assert worst(task, problem, tampered, shape) <= 1.0, "the kernel reads its inputs, not what it saw before"
        backends = problem.backends(inputs, shape)
        assert sorted(backends) == ["eager", "torch_compile"] and backends["eager"]() is not None


@pytest.mark.parametrize("line", ["from .model import ModelNew", "from scaled_linear.model import ModelNew", "import no_such_module"])
def test_a_caller_that_a_run_can_not_load_fails_here(tmp_path: Path, unrun: None, line: str) -> None:
    task = folder.write(kernelbench.load(*KERNELBENCH), tmp_path, "scaled_linear", 60).task
    problem = module_of(task, "problem")
    shape = problem.SHAPES["given"]
    inputs = problem.make_inputs(shape, 3, "cpu")
    kernel = task / "kernel.py"
    kernel.write_text(kernel.read_text().replace("import torch\n", f"import torch\n{line}\n", 1))
    with pytest.raises((KernelError, NotHere), match=r"relative import|scaled_linear|no_such_module"):
        worst(task, problem, inputs, shape)


def test_a_solution_that_compiles_its_own_kernel_is_checked_for_memory_errors(tmp_path: Path, unrun: None) -> None:
    (tmp_path / "solution.py").write_text(KERNELBENCH[1].read_text() + "\nfrom torch.utils.cpp_extension import load_inline\n")
    task, reference, *_ = folder.write(kernelbench.load(KERNELBENCH[0], tmp_path / "solution.py"), tmp_path, "inlined", 60)
    assert "sanitizer" not in load_task(task, environ={}).not_applicable and "sanitizer" in load_task(reference, environ={}).not_applicable


INLINE = '''
import torch
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void relu_kernel(const float* x, float* y, int n) { BODY }
torch::Tensor relu_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    relu_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
declared = "torch::Tensor relu_cuda(torch::Tensor x);"
ext = load_inline(name="relu", cpp_sources=[declared], cuda_sources=source, functions=["relu_cuda"], extra_cuda_cflags=["-O3"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.relu_cuda(x)
'''


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.f);", ""),
        ("this is not C++ at all;", "model.py(6): error"),
    ],
    ids=["right", "no_cpp"],
)
def test_cuda_text_of_load_inline_is_judged_as_a_file(tmp_path: Path, unrun: None, stub_torch: None, body: str, error: str) -> None:  # noqa: F811
    (tmp_path / "solution.py").write_text(INLINE.replace("BODY", body))
    task, *_ = folder.write(kernelbench.load(DATA / "kernelbench" / "p_softmax_v0.py", tmp_path / "solution.py"), tmp_path, "inlined", 60)
    loaded = load_task(task, environ={})
    assert (loaded.kind, loaded.kernels, loaded.stream, loaded.nvcc_flags) == ("torch-extension", ("relu_kernel",), "default", ("-O3",))
    assert "# KernelBench's own harness calls on the default stream, and so does model.py:9\n" in (task / "task.yaml").read_text()
    assert loaded.script == task / "kernel.py" and loaded.side(None, emulated=False)["script"] == str(task / "kernel.py")
    assert 'm.def("relu_cuda", torch::wrap_pybind_function(relu_cuda), "relu_cuda");' in (task / "inline.cpp").read_text()
    failure = build(loaded, find_toolchain(), tmp_path / "build", want={"cubin"}).failure("cubin")
    assert failure is None if not error else error in "".join(failure.errors), failure


BOUND = """#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    relu_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "relu"); }
"""


def test_a_cuda_file_that_binds_a_function_is_a_solution(tmp_path: Path, unrun: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.cu").write_text(BOUND)
    task, *_ = folder.write(kernelbench.load(DATA / "kernelbench" / "p_softmax_v0.py", tmp_path / "mine.cu"), tmp_path, "bound", 60)
    loaded = load_task(task, environ={})
    assert (loaded.kind, loaded.entry, loaded.arguments, loaded.kernels) == ("torch-extension", "forward", ("x",), ("relu_kernel",))
    assert loaded.stream == "default" and (task / "solution.cu").read_text() == BOUND
    assert loaded.script == task / "kernel.py", "Python code calls it: the emulator can run it"
    monkeypatch.setattr(cpp_extension, "load", lambda name, files: SimpleNamespace(forward=lambda *given: (files, given)))
    assert called(task, "x", 3) == ([str(task / "solution.cu")], ("x", 3))


@pytest.mark.parametrize("end", ["", 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("one", &one); m.def("two", &two); }'])
def test_a_cuda_file_without_a_function_to_call_is_one_error(tmp_path: Path, end: str) -> None:
    (tmp_path / "mine.cu").write_text(BOUND.partition("PYBIND11")[0] + end)
    with pytest.raises(GatesError, match="binds no function" if not end else "binds one, two; one must be 'forward'"):
        kernelbench.load(DATA / "kernelbench" / "p_softmax_v0.py", tmp_path / "mine.cu")


def test_cuda_text_that_only_a_run_can_tell_is_left_to_a_device(tmp_path: Path) -> None:
    code = INLINE.replace("BODY", "").replace("cuda_sources=source", "cuda_sources=source.replace('256', str(128))")
    assert load_inline.find(sources.parse(code, "s"), "s") is None
    with pytest.raises(GatesError, match="extra_cuda_cflags"):
        load_inline.find(sources.parse(INLINE.replace("-O3", "-ccbin=clang"), "s"), "s")


def test_the_kinds_are_told_from_the_sources(tmp_path: Path, unrun: None) -> None:
    assert robust_kbench.load(ROBUST).candidate.kernels == ["rows_kernel"]
    code = (
        "import triton\nimport triton.language as tl\n\n@triton.autotune(configs=[], key=[])\n@triton.jit\ndef scale_kernel(x):\n   "
        " pass\n\n\nclass ModelNew: pass\n"
    )
    (tmp_path / "solution.py").write_text(code)
    found = kernelbench.load(KERNELBENCH[0], tmp_path / "solution.py").candidate
    assert (found.kind, found.kernels) == ("triton", ["scale_kernel"])
    cuda = (
        '/* __global__ void gone() */ template <int N> __global__ void __launch_bounds__(256) one(int* x) {}\nextern "C" __global__ '
        "void two() {}"
    )
    assert sources.cuda_kernels(cuda) == ["one", "two"]


def test_one_file_that_returns_its_output_is_the_kernel_itself(tmp_path: Path, unrun: None) -> None:
    def single(data: Any) -> None:
        data["spec"].update(entry_point="rows/main.py::forward", destination_passing_style=False)
        code = "import torch\n\ndef forward(x, weight, eps):\n    return torch.nn.functional.rms_norm(x, (32,), weight, abs(eps))\n"
        data["sources"] = [{"path": "rows/main.py", "content": code}]

    paths = spoiled(tmp_path, 1, single)
    task, *_ = folder.write(flashinfer_bench.load(*paths), tmp_path, "scaled_rows", 60)
    loaded = load_task(task, environ={})
    assert loaded.sources == (task / "solution/rows/main.py",) and loaded.arguments == ("x", "weight", "eps")
    problem = module_of(task, "problem")
    assert list(problem.SHAPES) == ["small", "medium"] and problem.SHAPES["small"]["batch"] == 16
    assert worst(task, problem, problem.make_inputs(problem.SHAPES["small"], 0, "cpu"), problem.SHAPES["small"]) <= 1.0


def test_cuda_with_the_torch_binding_is_an_extension(tmp_path: Path) -> None:
    def cuda(data: Any) -> None:
        data["spec"].update(language="cuda", binding="torch", entry_point="bind.cpp::run")
        data["sources"] = [
            {"path": "rows.cu", "content": '#include "rows.h"\n__global__ void rows_kernel(float* x) {}\n'},
            {"path": "rows.h", "content": "#pragma once\n"},
            {"path": "bind.cpp", "content": "// PYBIND11_MODULE\n"},
        ]

    side = flashinfer_bench.load(*spoiled(tmp_path, 1, cuda)).candidate
    assert (side.kind, side.entry, side.kernels) == ("torch-extension", "run", ["rows_kernel"])
    assert side.sources == ["kernel.py", "solution/bind.cpp", "solution/rows.cu"] and "solution/rows.h" in side.files
    assert "['solution/bind.cpp', 'solution/rows.cu']" in side.files["kernel.py"], "Python code calls it: the emulator can run it"
    assert side.arguments == ["x", "weight", "eps", "y"]


def test_a_kernel_beside_the_folder_of_robust_kbench_is_taken(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("__global__ void other(float* x) {}\n")
    task = shutil.copytree(ROBUST, tmp_path / "rows")
    (task / "forward.cu").unlink()
    assert robust_kbench.load(task, tmp_path / "kernel.cu").candidate.kernels == ["other"]
    with pytest.raises(GatesError, match=r"rows has no forward\.cu$"):
        robust_kbench.load(task)
    with pytest.raises(GatesError, match=r"has no func_forward\.py and no config_forward\.json and no forward\.cu") as caught:
        robust_kbench.load(tmp_path)
    assert caught.value.hint == "a task folder of robust-kbench has func_forward.py, config_forward.json, forward.cu"


def test_settings_of_robust_kbench_are_crossed_each_once() -> None:
    given = folder.text(folder.Original(Path("c"), "c", (ROBUST / "config_forward.json").read_bytes()))
    found = robust_kbench._settings(json.loads(given), Path("c"))
    assert [(init["features"], given["batch_size"]) for init, given in found.values()] == [(32, 4), (48, 4), (32, 9), (48, 9)]


def spoiled(tmp_path: Path, which: int, change: Callable[[Any], Any]) -> list[Path]:
    """The flashinfer-bench files, one of them changed."""
    paths = [Path(shutil.copy(path, tmp_path)) for path in FLASHINFER[:2]]
    data = json.loads(paths[which].read_text())
    change(data)
    paths[which].write_text(json.dumps(data))
    return paths


BOTH_REFUSE = {  # what flashinfer-bench's own models refuse, too
    "does not define run": (0, lambda data: data.update(reference="def walk():\n    pass\n")),
    "not Python": (0, lambda data: data.update(reference="def run(:\n")),
    "is an input and an output": (0, lambda data: data["outputs"].update(x=data["outputs"]["y"])),
    "axis 'heads'": (0, lambda data: data["inputs"]["x"].update(shape=["heads"])),
    "dtype": (0, lambda data: data["inputs"]["x"].update(dtype="float31")),
    "'axes' is a required": (0, lambda data: data.pop("axes")),
    "leaves the solution's folder": (1, lambda data: data["sources"][0].update(path="../../main.py")),
    "appears twice": (1, lambda data: data["sources"].append(data["sources"][0])),
    "which sources do not hold": (1, lambda data: data["spec"].update(entry_point="other.py::run")),
    "spec.entry_point": (1, lambda data: data["spec"].update(entry_point="main.py")),
    "spec.language": (1, lambda data: data["spec"].update(language="fortran")),
}


@pytest.mark.parametrize(
    ("said", "which", "change"),
    [
        *((said, which, change) for said, (which, change) in BOTH_REFUSE.items()),
        ("outputs are random", 0, lambda data: data.update(op_type="sampling")),
        ("float4_e2m1", 0, lambda data: data["inputs"]["x"].update(dtype="float4_e2m1")),
        ("sizes must keep", 0, lambda data: data.update(constraints=["batch > 3"])),
        ("solves 'another'", 1, lambda data: data.update(definition="another")),
        ("tvm-ffi", 1, lambda data: data["spec"].update(language="cuda")),
        ("leaves the solution's folder", 1, lambda data: data["sources"][0].update(path="/main.py")),
    ],
)
def test_what_is_no_flashinfer_bench_file_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, which: int, change: Callable[[Any], Any]
) -> None:
    paths = spoiled(tmp_path, which, change)
    assert command(["import", "flashinfer-bench", *map(str, paths), "--dir", str(tmp_path / "made")]) == 2
    error = capsys.readouterr().err
    assert said in error and error.startswith("error: ") and "Traceback" not in error
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("code", ["class ModelOld:\n    pass\n", "def broken(:\n", "\0"])
def test_what_is_no_kernelbench_solution_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str) -> None:
    (tmp_path / "solution.py").write_text(code)
    assert command(["import", "kernelbench", str(KERNELBENCH[0]), str(tmp_path / "solution.py"), "--dir", str(tmp_path / "made")]) == 2
    assert f"error: {tmp_path / 'solution.py'}" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "large"])
def test_what_is_no_plain_file_or_far_too_large_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(folder, "MAX_SOURCE_BYTES", 2**20)
    path = Path(place) if place == "/dev/zero" else tmp_path / "solution.py"
    if place == "pipe":
        os.mkfifo(path)
    if place == "large":
        path.write_bytes(b"#" * (2**20 + 1))
    assert command(["import", "kernelbench", str(KERNELBENCH[0]), str(path), "--dir", str(tmp_path / "made")]) == 2
    assert ("larger than 1 MiB" if place == "large" else "not a plain file") in capsys.readouterr().err


def test_a_file_of_the_folder_from_which_it_is_imported_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scaled_rows.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert folder.task_name("my_scaled_rows", "") == "my_scaled_rows"
    for name in ("torch", "statistics"):
        with pytest.raises(GatesError, match="is that of a Python module"):
            folder.task_name(name, "")


def test_names_that_would_hide_a_module_or_a_folder_are_refused(tmp_path: Path) -> None:
    assert folder.task_name(None, "23_Square-Matmul v2") == "square_matmul_v2"
    for given, fallback in ((None, "42"), ("Upper", "x"), ("torch", "x"), ("json", "x")):
        with pytest.raises(GatesError, match="name"):
            folder.task_name(given, fallback)
    with pytest.raises(GatesError, match="a file in the task folder"):
        folder.write(kernelbench.load(*KERNELBENCH), tmp_path, "model", 60)
    (tmp_path / "taken_reference").mkdir()
    with pytest.raises(GatesError, match="exists already") as refused:
        folder.write(kernelbench.load(*KERNELBENCH), tmp_path, "taken", 60)
    assert refused.value.hint == "give another --name or --dir, or remove it"


@pytest.mark.parametrize(
    ("load", "edit"),
    [
        (lambda: flashinfer_bench.load(*FLASHINFER), ["solution/main.py", "solution/scale.py"]),
        (lambda: robust_kbench.load(ROBUST), ["forward.cu"]),
        (lambda: kernelbot.load(DATA / "kernelbot" / "blend", DATA / "kernelbot" / "submission.py"), ["submission.py"]),
        (lambda: kernelbot.load(DATA / "kernelbot" / "blend", None), []),
    ],
    ids=["flashinfer-bench", "robust-kbench", "kernelbot", "the problem's own code"],
)
def test_the_files_of_the_solution_are_those_to_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[[], folder.Imported], edit: list[str]
) -> None:
    found = {"shapes": {"test1": {}, "benchmark": {}}, "largest": 0.01, "mean": 0.001, "honest": 1e-6, "format": "float32"}
    monkeypatch.setattr(folder, "bounds", lambda *_, **__: {**found, "rule_over_bound": None, "needs": {}, "untried": {}})
    made = folder.write(load(), tmp_path, "any_name", 60)
    assert [path.relative_to(made.task).as_posix() for path in made.edit] == edit and all(path.is_file() for path in made.edit)


def test_an_import_without_a_solution_says_what_one_defines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["import", "kernelbench", str(KERNELBENCH[0]), "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "\nsolution: none: the problem's own code is judged. Import again with a file that defines class ModelNew\n" in said
    assert kernelbot.load(DATA / "kernelbot" / "blend", None).wanted == "custom_kernel"


def test_nobody_is_told_to_remove_what_is_imported(tmp_path: Path) -> None:
    suite = shutil.copytree(DATA / "kernelbot", tmp_path / "suite")
    with pytest.raises(GatesError, match="exists already, and is what is imported") as refused:
        folder.write(kernelbot.load(suite / "blend", suite / "submission.py"), suite, "blend", 60)
    assert refused.value.hint == "give another --name or --dir"


def test_a_task_runs_beside_the_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(KERNELBENCH[0], tmp_path / "scaled.py")
    monkeypatch.chdir(tmp_path)
    assert command(["import", "kernelbench", "scaled.py", str(KERNELBENCH[1])]) == 0
    assert "\nedit:     ./scaled/model.py\nnext:     gates run ./scaled\n" in capsys.readouterr().out
    code = command(["run", "./scaled", "--profile", "cpu", "--seeds", "0"])
    said = capsys.readouterr()
    assert code == 0 and "decision: hold" in said.out, said


def test_foreign_code_runs_in_a_confined_process_and_a_failed_import_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, marker = tmp_path / "problem.py", tmp_path / "marker"
    problem.write_text(KERNELBENCH[0].read_text() + f"\nopen({str(marker)!r}, 'w').write('was here')\n")
    assert command(["import", "kernelbench", str(problem), str(KERNELBENCH[1]), "--name", "widget", "--dir", str(tmp_path / "made")]) == 2
    assert "Permission denied" in capsys.readouterr().err
    assert not marker.exists() and not list((tmp_path / "made").iterdir())


@pytest.mark.parametrize(
    "forward",
    ["torch.zeros(len(x), 12)", "torch.relu(self.linear(x)) * 0.501", "torch.relu(x @ self.linear.weight.t()) * 0.5"],
    ids=["zeros", "another scale", "no bias"],
)
def test_a_wrong_solution_leaves_the_formats_bound(tmp_path: Path, unrun: None, forward: str) -> None:
    code = KERNELBENCH[1].read_text().split("        return")[0] + f"        return {forward}\n"
    (tmp_path / "solution.py").write_text(code)
    task, *_ = folder.write(kernelbench.load(KERNELBENCH[0], tmp_path / "solution.py"), tmp_path, "scaled_linear", 60)
    problem = module_of(task, "problem")
    shape = problem.SHAPES["given"]
    assert worst(task, problem, problem.make_inputs(shape, 0, "cpu"), shape) > 1.0


@pytest.mark.parametrize(
    ("problem", "solution", "right"), [("softmax_v0", "softmax_plus1", False), ("half", "half", True), ("attr", "attr", True)]
)
def test_limits_come_from_the_honest_error(tmp_path: Path, unrun: None, problem: str, solution: str, right: bool) -> None:
    files = DATA / "kernelbench" / f"p_{problem}.py", DATA / "kernelbench" / f"s_{solution}.py"
    task, *_ = folder.write(kernelbench.load(*files), tmp_path, "imported", 60)
    made = module_of(task, "problem")
    inputs = made.make_inputs(made.SHAPES["given"], 0, "cpu")
    assert (worst(task, made, inputs, made.SHAPES["given"]) <= 1.0) == right


def test_a_small_and_a_tail_shape_are_made_of_the_problems_own_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(DATA / "kernelbench" / name) for name in ("p_softmax_v0.py", "s_softmax_plus1.py")]
    assert command(["import", "kernelbench", *files, "--set", "batch_size=65536", "--dir", str(tmp_path), "--name", "wide"]) == 0
    said = capsys.readouterr()
    assert "shape:    small (batch_size=32, dim=32)" in said.out and "shape:    tail (batch_size=29, dim=23)" in said.out
    assert "not tried: given needs about" in said.err, "134 GiB and more"
    task = load_task(tmp_path / "wide", environ={})
    assert task.shapes == ("small", "given") and task.gates["performance"]["shape"] == "given"
    taken, _ = module_of(task.folder, "problem").NEEDS["given"]
    assert 100 * 2**30 < taken < 200 * 2**30, "so that a run has not got to follow the problem again"
    problem = Problem(module_of(task.folder, "problem"))
    assert problem.SHAPES["given"] == {"batch_size": 65536, "dim": 16384} and problem.ODD_SHAPES == ("tail",)
    assert command(["import", "kernelbench", *files, "--set", "batch=4", "--dir", str(tmp_path), "--name", "other"]) == 2
    assert "hint: did you mean batch_size?" in capsys.readouterr().err and not (tmp_path / "other").exists()


def test_sizes_that_are_computed_follow_and_all_are_odd_in_the_first_tail() -> None:
    tree = sources.parse(
        "batch, heads = 128, 2 * 4\ndim = 512\nhidden = dim * 4\nlr = 0.1\n"
        "class Model:\n    def f(self): return dim\n"
        "def get_inputs(): return batch\ndef get_init_inputs(): return [dim, heads]\n",
        "p",
    )
    assert sizes.of_module(tree, {"dim": 64}) == {"batch": 128, "heads": 8, "dim": 64, "hidden": 256}
    offered = sizes.offered(tree, {})
    assert offered["small"][0] == {"batch": 32, "heads": 8, "dim": 32, "hidden": 128}
    assert offered["tail"][0] == {"batch": 29, "heads": 7, "dim": 23, "hidden": 92}, "heads is below the cap, and odd all the same"
    even = {"batch": 29, "heads": 8, "dim": 32, "hidden": 128}
    assert even in offered["tail"][1:], "for a model that takes no odd sizes"
    assert all(sizes["batch"] % 2 and sizes["dim"] % 2 for sizes in offered["tail"][: offered["tail"].index(even)])
    square = {size: sizes.offered(sources.parse(f"N = {size}\n", "p"), {})["small"] for size in (1024, 4096)}
    assert not square[1024] and square[4096][0] == {"N": 32}, "one number may be squared or cubed"
    with pytest.raises(GatesError, match="--set hidden"):
        sizes.of_module(tree, {"hidden": 4})


def test_an_expression_too_large_for_a_size_is_none_at_once() -> None:
    tower = "((((((9**64)**64)**64)**64)**64)**64)**64"
    for text in (tower, "2**63", "(10**64)**64 * 10**64", "-2 * 2**63"):
        assert sizes.number(ast.parse(text, mode="eval").body, {}) is None, text
    assert sizes.number(ast.parse("2**62 + n", mode="eval").body, {"n": 1}) == 2**62 + 1


def test_what_is_computed_from_sizes_follows_them(tmp_path: Path, unrun: None) -> None:
    code = (
        "import torch\nbatch, channels = 4, 64\nkernel = (3, 3)\nbias_shape = (channels, 1, -1 + 2)\nboth = [bias_shape, 2 * batch]\n"
        "drawn = torch.zeros(batch)\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, shape):\n        super().__init__()\n        self.bias = torch.nn.Parameter(torch.ones(shape))\n"
        "    def forward(self, x):\n        return x + self.bias\n"
        "def get_inputs():\n    return [torch.rand(batch, channels, 2, 2)]\n"
        "def get_init_inputs():\n    return [bias_shape]\n"
    )
    (tmp_path / "biased.py").write_text(code)
    assert sizes.followers(sources.parse(code, "p")) == {"bias_shape": "(channels, 1, -1 + 2)", "both": "[bias_shape, 2 * batch]"}
    task, *_ = folder.write(kernelbench.load(tmp_path / "biased.py", None), tmp_path, "biased_rows", 60)
    problem = module_of(task, "problem")
    inputs = problem.make_inputs({"batch": 3, "channels": 7}, 0, "cpu")
    assert inputs["init_inputs"] == ((7, 1, 1),) and problem.reference(inputs, {})["out"].shape == (3, 7, 2, 2)


def test_outputs_in_another_format_are_told(tmp_path: Path, unrun: None) -> None:
    import torch

    task, *_ = folder.write(flashinfer_bench.load(*FLASHINFER), tmp_path, "scaled_rows", 60)
    problem = module_of(task, "problem")
    assert problem.check({"y": torch.zeros(7, 32, dtype=torch.bfloat16)}, {}) == ""
    assert problem.check({"y": torch.zeros(7, 32)}, {}) == "y is torch.float32, not bfloat16"


def test_a_random_reference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drawing.py").write_text(
        "import torch\nSHAPES = {'small': {'N': 4}}\n"
        "def make_inputs(shape, seed, device): return {'x': torch.ones(4)}\n"
        "def reference(inputs, shape): return {'out': torch.rand(4).double()}\n"
        "def honest(inputs, shape): return reference(inputs, shape)\n"
    )
    with pytest.raises(GatesError, match="differs from call to call"):
        output_scale.bounds(tmp_path, "drawing", work=tmp_path / "work", limit_s=60)
    text = (tmp_path / "drawing.py").read_text().replace("torch.rand(4)", "(torch.zeros(4) / 0)")
    (tmp_path / "undefined.py").write_text(text)
    with pytest.raises(GatesError, match="empty or not finite"):
        output_scale.bounds(tmp_path, "undefined", work=tmp_path / "work", limit_s=60)


def test_a_shape_that_does_not_end_in_time_is_left_out_and_what_it_takes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"largest": 0.1, "mean": 0.01, "honest": 1e-6, "format": "float32", "rule_over_bound": None}
    given = {"shapes": {"vast": {"N": 64}, "large": {"N": 8}, "plain": {"N": 2}, "huge": {"N": 99}}, "untried": {"huge": "…"}, "needs": {}}
    found = [{**line, "shape": "small", "sizes": {"N": 1}}, {**line, "shape": "plain"}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    made = output_scale._together(given, found, [], True, 60.0)
    assert list(made["shapes"]) == ["small", "vast", "large", "plain", "huge"] and made["untried"].keys() == {"huge", "large", "vast"}
    assert made["needs"] == {"large": [0, 120.0]} and "60 s of --limit-s" in made["untried"]["vast"]
    assert output_scale._together(given, found, [], False, 60.0)["needs"] == {}, "no shape was too slow: later ones were not begun"


def test_a_reference_that_fails_on_one_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "import torch\nSHAPES = {'small': {'N': 4}, 'large': {'N': 8}}\n"
        "def make_inputs(shape, seed, device): return {'x': torch.ones(shape['N'])}\n"
        "def reference(inputs, shape): return {'out': (inputs['x'] * inputs['x'][:4]).double()}\n"
        "def honest(inputs, shape): return reference(inputs, shape)\n"
    )
    with pytest.raises(GatesError, match="could not be run"):
        output_scale.bounds(tmp_path, "failing", work=tmp_path / "work", limit_s=60)


def test_sizes_with_an_answer_that_is_not_constant_are_preferred(tmp_path: Path) -> None:
    (tmp_path / "centred.py").write_text(
        "import torch\nSHAPES = {'given': {'N': 64}}\n"
        "def make_inputs(shape, seed, device): return {'x': torch.arange(float(shape['N'])).sin()}\n"
        "def of(x): return {'out': (x.reshape(-1, x.numel() // 8) - x.reshape(8, -1).mean(1, keepdim=True)).flatten()}\n"
        "def reference(inputs, shape): return of(inputs['x'].double())\n"
        "def honest(inputs, shape): return of(inputs['x'])\n"
    )
    for sizes_, taken in (((8, 16, 32), 16), ((8, 8), 8), ((16, 8), 16)):
        offers = {"small": [{"N": size} for size in sizes_]}
        made = output_scale.bounds(tmp_path, "centred", work=tmp_path / f"work{sizes_[0]}{len(sizes_)}", limit_s=60, offers=offers)
        assert made["shapes"]["small"] == {"N": taken}


def test_a_shape_without_memory_is_left_out_and_the_others_are_tried(tmp_path: Path) -> None:
    (tmp_path / "vast.py").write_text(
        "import torch\nSHAPES = {'vast': {'N': 2**20}, 'small': {'N': 4}}\n"
        "def make_inputs(shape, seed, device): return {'x': torch.arange(1.0, 5.0)}\n"
        "def reference(inputs, shape): return {'out': torch.empty(shape['N'] ** 3 // 64 + 4 - 1)[:4].zero_().double() + inputs['x']}\n"
        "def honest(inputs, shape): return {'out': torch.tensor([1.0, 2.0, 3.0, 4.0 + 0 * inputs['x'].sum().item()])}\n"
    )
    made = output_scale.bounds(tmp_path, "vast", work=tmp_path / "work", limit_s=60)
    assert "needs more memory" in made["untried"]["vast"] and "small" not in made["untried"]
    assert made["needs"]["vast"][0] > 2**20, "a run on this machine does not try it"


def test_a_reference_whose_sums_come_in_another_order_is_none_that_is_random(tmp_path: Path) -> None:
    (tmp_path / "reordered.py").write_text(
        "import torch\nSHAPES = {'small': {'N': 4}}\ncalls = []\n"
        "def make_inputs(shape, seed, device): return {'x': torch.arange(1.0, 5.0)}\n"
        "def reference(inputs, shape):\n"
        "    calls.append(1)\n"
        "    return {'out': inputs['x'].double() * (1 + 2.0**-50 * len(calls))}\n"
        "def honest(inputs, shape): return {'out': inputs['x'] * 1.0}\n"
    )
    assert output_scale.bounds(tmp_path, "reordered", work=tmp_path / "work", limit_s=60)["format"] == "float32"


def test_an_imported_task_runs_and_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)  # folders as a user names them: from here
    assert command(["import", "flashinfer-bench", *map(str, FLASHINFER[:2]), "--workloads", str(FLASHINFER[2]), "--dir", "made"]) == 0
    assert "left out: 1 workloads" in capsys.readouterr().err
    code = command(["run", "./made/scaled_rows_torch", "--profile", "cpu", "--seeds", "0"])
    said = capsys.readouterr().out
    assert code == 0 and "1/1" in said and "decision: hold" in said, said
    (run,) = (tmp_path / "results" / "scaled_rows_torch").iterdir()
    evidence = json.loads((run / "correctness.json").read_text())
    assert evidence["device"] == "cpu" and all("ran isolated: calls " in one for one in evidence["processes"])


def test_a_kernelbench_problem_without_a_solution_is_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str], unrun: None) -> None:
    words = ["import", "kernelbench", str(KERNELBENCH[0]), "--dir", str(tmp_path), "--name", "mine"]
    assert command([*words, "--solutions", str(tmp_path)]) == 2 and "goes with a folder" in capsys.readouterr().err
    assert command(words) == 0
    task = load_task(tmp_path / "mine", environ={})
    assert (task.kind, task.title) == ("python", f"{KERNELBENCH[0].stem}: its own Model")
    problem = module_of(task.folder, "problem")
    shape = problem.SHAPES["given"]
    inputs = problem.make_inputs(shape, 3, "cpu")
    assert worst(task.folder, problem, inputs, shape) < 0.2


def test_a_recurrent_layer_has_a_reference_in_float64(tmp_path: Path, unrun: None) -> None:
    (tmp_path / "p_gru.py").write_text(
        "import torch\nfrom torch import nn\nsteps, size = 5, 8\nclass Model(nn.Module):\n    def __init__(self, size):\n"
        "        super().__init__()\n        self.gru = nn.GRU(size, size, 2)\n    def forward(self, x):\n        return self.gru(x)[0]\n"
        "def get_inputs():\n    return [torch.rand(steps, 3, size)]\ndef get_init_inputs():\n    return [size]\n"
    )
    task = folder.write(kernelbench.load(tmp_path / "p_gru.py", None), tmp_path, "gru", 60).task
    problem = module_of(task, "problem")
    shape = problem.SHAPES["given"]
    assert worst(task, problem, problem.make_inputs(shape, 3, "cpu"), shape) < 1


@pytest.fixture(scope="module")
def own_models() -> dict[str, Any]:
    """flashinfer-bench's own models. Its package imports GPU libraries, so its data modules are imported without it."""
    pytest.importorskip("pydantic", reason="flashinfer-bench needs pydantic")
    spec = importlib.util.find_spec("flashinfer_bench")
    if spec is None:
        pytest.skip("flashinfer-bench is not installed (pip install --no-deps flashinfer-bench)")
    for name, below in (("flashinfer_bench", ""), ("flashinfer_bench.data", "data")):
        package = ModuleType(name)
        package.__path__ = [str(Path(spec.origin).parent / below)]
        sys.modules[name] = package
    names = {"Definition": "definition", "Solution": "solution", "Workload": "workload"}
    return {name: getattr(importlib.import_module(f"flashinfer_bench.data.{module}"), name) for name, module in names.items()}


def test_flashinfer_bench_reads_the_same_in_its_own_models(tmp_path: Path, unrun: None, own_models: dict[str, Any]) -> None:
    definition = own_models["Definition"].model_validate_json(FLASHINFER[0].read_text())
    solution = own_models["Solution"].model_validate_json(FLASHINFER[1].read_text())
    task, *_ = folder.write(flashinfer_bench.load(*FLASHINFER), tmp_path, "scaled_rows", 60)
    problem = module_of(task, "problem")
    for line, shape in zip(FLASHINFER[2].read_text().splitlines(), problem.SHAPES.values(), strict=False):
        workload = own_models["Workload"].model_validate(json.loads(line)["workload"])
        inputs, outputs = problem.make_inputs(shape, 0, "cpu"), problem.make_outputs(shape, "cpu")
        assert [list(value.shape) if hasattr(value, "shape") else None for value in inputs.values()] == definition.get_input_shapes(
            workload.axes
        )
        assert [value.dtype for value in inputs.values() if hasattr(value, "dtype")] == definition.torch_input_dtypes[:2]
        assert [list(value.shape) for value in outputs.values()] == definition.get_output_shapes(workload.axes)
        assert inputs["eps"] == workload.inputs["eps"].value
    assert (task / "solution" / solution.get_entry_path()).read_text() == solution.get_entry_source().content
    assert load_task(task, environ={}).entry == solution.get_entry_symbol()


@pytest.mark.parametrize(("which", "change"), list(BOTH_REFUSE.values()), ids=list(BOTH_REFUSE))
def test_what_its_own_models_refuse_is_refused(
    tmp_path: Path, own_models: dict[str, Any], which: int, change: Callable[[Any], Any]
) -> None:
    model = own_models[("Definition", "Solution")[which]]
    paths = spoiled(tmp_path, which, change)
    with pytest.raises(ValueError):
        model.model_validate_json(paths[which].read_text())
    with pytest.raises(GatesError):
        flashinfer_bench.load(*paths)
