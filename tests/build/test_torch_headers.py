"""A torch extension on a machine without a device: its C++ files are checked, and what is not installed is no fault of the kernel."""

# ruff: noqa: F811 (a fixture is imported by its name)

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from static_kit import needs_nvcc
from torch_kit import STUB, stub_torch  # noqa: F401

import gates
from gates.build import graph, missing_header, torch_headers
from gates.build.build import build
from gates.build.failure import Failure
from gates.build.toolchain import find_toolchain, header_folders
from gates.evidence.run_directory import portable
from gates.gate.registry import ROWS
from gates.gate.session import Session
from gates.task.load import Task, load_task
from gates.task.scaffold import new_task

CUDA_NAMES = ("cuComplex.h", "cuda_bf16.h", "cuda_fp16.h", "driver_types.h", "library_types.h")
WANT = {"binding"}


@pytest.fixture
def extension(tmp_path: Path) -> Task:
    return load_task(new_task("mine", "torch-extension", tmp_path)[0], environ={})


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CUDA's headers, as far as a binding with the stubs needs them; nothing else is found."""
    folder = tmp_path / "cuda"
    folder.mkdir()
    for name in CUDA_NAMES:
        (folder / name).write_text("")
    (folder / "cuda_runtime_api.h").write_text("typedef struct CUstream_st* cudaStream_t;\n")
    monkeypatch.setattr(torch_headers, "cuda_folders", lambda _: [folder])
    monkeypatch.setattr(missing_header, "cuda_folders", lambda _: [folder])
    return folder


def binding_failure(task: Task, tmp_path: Path, *changes: tuple[str, str]) -> Failure | None:
    path = task.folder / "binding.cpp"
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return build(task, find_toolchain(), tmp_path / "build", want=WANT).failure("binding")


def test_a_binding_is_checked_and_the_check_is_kept(extension: Task, tmp_path: Path, cuda: Path, stub_torch: None) -> None:
    result = build(extension, find_toolchain(), tmp_path / "build", want=WANT)
    (target,) = result.targets
    assert target.kind == "binding" and target.failure is None and Path(target.path).read_text() == ""
    before = os.stat(target.path).st_mtime_ns
    build(extension, find_toolchain(), tmp_path / "build", want=WANT)
    assert os.stat(target.path).st_mtime_ns == before
    with (cuda / "driver_types.h").open("a") as file:
        file.write("#define ANOTHER_DRIVER\n")
    build(extension, find_toolchain(), tmp_path / "build", want=WANT)
    assert os.stat(target.path).st_mtime_ns != before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("empty_like(x);", "empty_lik(x);", "binding.cpp:12: error: ‘empty_lik’ is not a member of ‘torch’"),
        ("auto out = torch::empty_like(x);", "auto out = torch::empty_like(x)", "binding.cpp:13: error: expected"),
    ],
    ids=["name", "semicolon"],
)
def test_what_is_wrong_with_a_binding_is_named(
    extension: Task, tmp_path: Path, cuda: Path, stub_torch: None, old: str, new: str, says: str
) -> None:
    failure = binding_failure(extension, tmp_path, (old, new))
    assert failure is not None and not failure.missing_tool
    assert says in failure.sentence.replace("'empty_lik'", "‘empty_lik’").replace("'torch'", "‘torch’")


@pytest.mark.parametrize(
    ("old", "new", "missing", "remedy"),
    [
        (
            "#include <torch/extension.h>",
            "#include <torch/extension.h>\n#include <torch/nowhere.h>",
            "torch/nowhere.h",
            "keep the kernel in a .cu of its own",
        ),
        ("#include <torch/extension.h>", "#include <torch/extension.h>\n#include <nccl.h>", "nccl.h", "`pip install nvidia-nccl-cu13`"),
        ("auto out =", "cublasSetStream(nullptr, nullptr);\n  auto out =", "cublas_v2.h", "`pip install nvidia-cublas`"),
    ],
    ids=["torch", "library", "handles"],
)
def test_what_is_not_installed_is_no_fault(
    extension: Task,
    tmp_path: Path,
    cuda: Path,
    stub_torch: None,
    old: str,
    new: str,
    missing: str,
    remedy: str,
) -> None:
    failure = binding_failure(extension, tmp_path, (old, new))
    assert failure is not None and failure.missing_tool == missing and remedy in failure.hint
    assert f"{missing} was not found" in failure.sentence and "binding.cpp:" in failure.sentence


def test_a_wrong_name_of_a_library_that_is_installed_is_a_fault(extension: Task, tmp_path: Path, cuda: Path, stub_torch: None) -> None:
    (cuda / "cublas_v2.h").write_text((torch_headers.HANDLES / "cublas_v2.h").read_text())
    failure = binding_failure(extension, tmp_path, ("auto out =", "cublasSetStrea(nullptr, nullptr);\n  auto out ="))
    assert failure is not None and not failure.missing_tool and "cublasSetStrea" in failure.sentence


def test_without_torch_a_binding_is_not_compiled(extension: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_headers, "include_folder", lambda: None)
    failure = binding_failure(extension, tmp_path)
    assert failure is not None and failure.missing_tool == "torch" and failure.hint == "`pip install torch`"


@pytest.mark.parametrize(
    ("header", "owner", "remedy"),
    [
        ("cusparse.h", "the CUDA toolkit", "nvidia-cusparse"),
        ("cusolverDn.h", "the CUDA toolkit", "nvidia-cusolver"),
        ("curand_kernel.h", "the CUDA toolkit", "nvidia-curand"),
        ("cub/block/block_reduce.cuh", "the CUDA toolkit", "nvidia-cuda-cccl"),
        ("cudss.h", "the CUDA toolkit", "install that library's headers"),
        ("cute/tensor.hpp", "CUTLASS", "-I/path/to/cutlass/include"),
        ("c10/cuda/CUDAStream.h", "torch", ".cu of its own"),
    ],
)
def test_headers_and_where_they_come_from(header: str, owner: str, remedy: str) -> None:
    found = missing_header.find(f"k.cu:1:10: fatal error: {header}: No such file or directory", find_toolchain())
    assert found is not None and (found.name, found.owner) == (header, owner) and remedy in found.remedy


@pytest.mark.parametrize(
    "text", ["k.cu:1:10: fatal error: helper_math.h: No such file or directory", 'k.cu(1): error: identifier "cublasSum" is ambiguous', ""]
)
def test_other_errors_are_the_source_s(text: str) -> None:
    assert missing_header.find(text, find_toolchain()) is None


def test_the_macro_is_set_where_torch_lacks_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_headers, "include_folder", lambda: tmp_path)
    assert "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE" in torch_headers.nvcc_flags("mine")
    (tmp_path / "c10" / "cuda" / "impl").mkdir(parents=True)
    (tmp_path / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h").write_text("")
    assert "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE" not in torch_headers.nvcc_flags("mine")


def test_headers_of_wheels_are_found_after_the_toolkit_s(extension: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("cu13/include", "nvtx/include"):
        (tmp_path / "nvidia" / folder).mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert header_folders()[:2] == [tmp_path / "nvidia" / "nvtx" / "include", tmp_path / "nvidia" / "cu13" / "include"]


@needs_nvcc
def test_nvcc_finds_the_handles(extension: Task, tmp_path: Path, stub_torch: None) -> None:
    (extension.folder / "kernel.cu").write_text(
        "#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\n#include <c10/cuda/CUDAException.h>\n__global__ void "
        "k(float* x) { x[0] = 1; }\n"
        "cublasHandle_t handle() { return at::cuda::getCurrentCUDABlasHandle(); }\n"
    )
    task = replace(extension, arch=("sm_90",))
    assert build(task, find_toolchain(), tmp_path / "build", want={"cubin"}).failure("cubin") is None


@needs_nvcc
@pytest.mark.slow
def test_a_binding_that_does_not_compile_is_a_reject(extension: Task, tmp_path: Path, stub_torch: None) -> None:
    path = extension.folder / "binding.cpp"
    path.write_text(path.read_text().replace("empty_like(x);", "empty_lik(x);"))
    run = gates.run(
        extension.folder, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build"
    )
    assert (
        run.decision == "reject"
        and run.gates["ptxas"].code == "ptxas.build_failed"
        and "binding.cpp:12: error" in run.gates["ptxas"].sentence
    )


def test_a_binding_that_can_t_be_checked_is_said_so(extension: Task, tmp_path: Path, cuda: Path, stub_torch: None) -> None:
    path = extension.folder / "binding.cpp"
    path.write_text("#include <cudnn.h>\n" + path.read_text())
    built = build(extension, find_toolchain(), tmp_path / "build", want=WANT)
    said = Session._unread_binding(SimpleNamespace(task=extension, builds={"mine": built}))
    assert said.startswith(
        "; binding.cpp was not compiled: binding.cpp:1: the CUDA toolkit's cudnn.h was not found; `pip install nvidia-cudnn-cu13`"
    )


@needs_nvcc
@pytest.mark.slow
def test_a_whole_run_says_so_too(extension: Task, tmp_path: Path, stub_torch: None) -> None:
    path = extension.folder / "binding.cpp"
    path.write_text("#include <cudnn.h>\n" + path.read_text())
    run = gates.run(
        extension.folder, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build"
    )
    assert run.gates["ptxas"].status.value == "pass" and run.gates["correctness"].code == "correctness.not_emulated"
    assert (
        "binding.cpp was not compiled: binding.cpp:1: the CUDA toolkit's cudnn.h was not found; `pip install nvidia-cudnn-cu13`"
        in run.gates["correctness"].sentence
    )


@needs_nvcc
@pytest.mark.slow
def test_torch_s_own_headers_compile_without_its_cuda_build(extension: Task, tmp_path: Path) -> None:
    text = (extension.folder / "kernel.cu").read_text()
    (extension.folder / "kernel.cu").write_text(
        "#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\n#include <c10/cuda/CUDAException.h>\n#include "
        "<c10/cuda/CUDAGuard.h>\n" + text
    )
    result = build(replace(extension, arch=("sm_90",)), find_toolchain(), tmp_path / "build", want={"cubin", "binding"})
    assert result.failures == ()


@pytest.mark.parametrize("cubin", [None, Failure("", "nvcc was not found", missing_tool="nvcc")])
def test_a_broken_binding_is_a_reject_with_and_without_nvcc(cubin: Failure | None) -> None:
    found = {"cubin": cubin, "binding": Failure("g++ -fsyntax-only binding.cpp", "exit 1", ("binding.cpp:3:1: error: expected ';'",))}
    task = SimpleNamespace(name="mine")
    session = SimpleNamespace(task=task, emulated=True, tasks=lambda: [(task, "")], builds={"mine": SimpleNamespace(failure=found.get)})
    session.without_code = lambda gate, task: Session.without_code(session, gate, task)
    assert [(result.code, result.sentence) for result in (ROWS[gate].collecting()(session) for gate in ("ptxas", "sass"))] == [
        (f"{gate}.build_failed", "g++ failed (exit 1): binding.cpp:3: error: expected ';'") for gate in ("ptxas", "sass")
    ]


def test_the_handles_folder_is_no_machine_s_path_in_evidence() -> None:
    assert portable(f"-idirafter{torch_headers.HANDLES}", Path("/elsewhere")) == "-idirafter<gates>/build/handles"
    assert portable(f"-I{torch_headers.LEAN}", Path("/elsewhere")) == "-I<gates>/build/lean"


def test_what_the_shorter_header_lacks_is_compiled_with_torch_s_own(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler.py"
    compiler.write_text(
        "import pathlib, sys\nif sys.argv[1].endswith('lean'):\n    sys.exit(pathlib.Path(__file__).with_name('says').read_text())\n"
        f"assert sys.argv[1:-1] == ['-isystem', {str(tmp_path / 'torch')!r}]\n"
        "pathlib.Path(sys.argv[-1]).write_text('made')\n"
    )
    step = [sys.executable, str(graph.STEP), str(tmp_path / "out"), str(tmp_path / "log"), "--", sys.executable, str(compiler)]
    lean, more = (
        f"-I{torch_headers.LEAN}",
        ["-include", "torch/types.h", "-include", "ATen/ops/relu.h", "-isystem", str(tmp_path / "torch"), "{out}"],
    )
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "hub.h").write_text("int of_torch();\n")

    def code(says: str, folder: str = lean) -> int:
        (tmp_path / "says").write_text(says)
        return subprocess.run([*step, folder, *more]).returncode

    assert code('k.cu(3): error: namespace "torch" has no member "hub"', "-I/elsewhere/lean") == 1  # of a task's own
    for of_source in (  # found in one compilation
        'k.cu(3): error: expected a ";"\n\n1 error detected in the compilation of "k.cu".',
        "k.cpp:3:9: error: expected ';' before '}' token",
        'k.cu(3): error: identifier "a_typo" is undefined\n\n1 error detected in the compilation of "k.cu".',
        "k.cpp:3:1: error: 'a_typo' was not declared in this scope",
        "ptxas error   : Entry function 'k' uses too much shared data\nptxas fatal   : Ptx assembly aborted due to errors",
    ):
        assert code(of_source) == 1
    for of_header in (
        'k.cu(3): error: namespace "torch" has no member "hub"',
        'k.cu(3): error: identifier "of_torch" is undefined',
        'k.cu(3): error: identifier "curand_init" is undefined',
        'k.cu(3): error: identifier "qsort" is undefined',
        'k.cu(3): error: identifier "a_typo" is undefined\nk.cu(4): error: namespace "std" has no member "iota"',
        "k.cpp:4:2: error: #error old torch",
        'k.cpp:2:19: error: missing binary operator before token "("',
        "k.cpp:3:14: error: expected constructor, destructor, or type conversion before '(' token",
        "k.cpp:3:9: error: expected ';' before 'x'\nk.cpp:3:1: error: 'C10_UNUSED' was not declared in this scope",
    ):
        assert code(of_header) == 0, of_header
    assert (tmp_path / "out").read_text() == "made" and "hub" not in (tmp_path / "log").read_text()
    assert lean in torch_headers.nvcc_flags("mine", "torch::Tensor x") and lean not in torch_headers.nvcc_flags(
        "mine", "namespace F = torch::nn::functional;"
    )


def test_a_source_gets_the_operators_and_the_binding_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_headers, "include_folder", lambda: tmp_path)
    for header in ("torch/types.h", "torch/csrc/utils/pybind.h", "ATen/ops/softmax.h", "ATen/ops/empty_like.h", "ATen/ops/mm.h"):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).touch()

    def included(text: str) -> list[str]:
        flags = torch_headers.nvcc_flags("mine", text)
        return [header for flag, header in zip(flags, flags[1:], strict=False) if flag == "-include"]

    first = "#undef __CUDA_NO_HALF_OPERATORS__\n"
    kernel = "#include <torch/types.h>\nauto f(torch::Tensor x) { return torch::empty_like(at::softmax(x, 1), torch::kHalf); }\n"
    assert included(kernel) == ["torch/types.h", "ATen/ops/empty_like.h", "ATen/ops/softmax.h"]
    assert included(kernel + "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}")[-1] == "torch/csrc/utils/pybind.h"
    assert included(kernel + first) == included(kernel) and included(first + kernel) == [], "a macro must hold in torch's headers"
    assert included("__global__ void k() {}") == []  # which compiles in a second without any header of torch's


@needs_nvcc
@pytest.mark.slow
def test_an_extension_for_a_device_loads_and_its_cubin_is_of_the_same_object(extension: Task, tmp_path: Path) -> None:
    (extension.folder / "binding.cpp").write_text(  # without a name of torch's CUDA build
        "#include <torch/extension.h>\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("mine", [](torch::Tensor x) { return torch::neg(x); }); }\n'
    )
    result = build(replace(extension, arch=("sm_90",)), find_toolchain(), tmp_path / "build", device_arch="sm_90", want={"cubin", "device"})
    library = result.path("device")
    assert library is not None and library.name == "mine.so" and result.failures == ()
    load = "import importlib.util, sys, torch; spec = importlib.util.spec_from_file_location('mine', sys.argv[1])\n"
    load += "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); print(module.mine(torch.ones(1)))"
    assert subprocess.run([sys.executable, "-c", load, str(library)], capture_output=True, text=True).stdout == "tensor([-1.])\n"
    edges = {edge.output: edge for edge in graph.cubin_edges(replace(extension, arch=("sm_90",)), find_toolchain(), "sm_90", ("sm_90",))}
    assert edges["sm_90/kernel.cubin"].inputs[0] == "device/kernel.o"


def test_the_stub_includes_what_torch_does() -> None:
    include = torch_headers.include_folder()
    if include is None:
        pytest.skip("torch is not installed")
    of_torch = (include / "ATen" / "cuda" / "CUDAContextLight.h").read_text()
    for line in (STUB / "ATen" / "cuda" / "CUDAContext.h").read_text().splitlines():
        if line.startswith("#include"):
            assert line in of_torch
    assert {f"#include <{path.name}>" for path in torch_headers.HANDLES.glob("*.h")} - {"#include <cusolver_common.h>"} <= set(
        of_torch.splitlines()
    )


def test_an_extension_that_python_calls_is_built_for_the_emulator(extension: Task, cuda: Path, stub_torch: None) -> None:
    script = extension.folder / "call.py"
    task = replace(extension, sources=(script, *extension.sources))
    assert task.script == script and task.compiled == extension.sources and extension.script is None
    edges = graph.emulator_edges(task, find_toolchain())
    assert not any(str(script) in edge.inputs for edge in edges) and edges[-1].output == f"emulator/{task.name}.so"
    compiled = next(edge.command for edge in edges if edge.inputs == (str(extension.sources[0]),))
    assert compiled[compiled.index("-include") + 1].endswith("torch_on_cpu/device.h")
    assert "-ltorch_python" in edges[-1].command and not any("-z,defs" in part for part in edges[-1].command)
