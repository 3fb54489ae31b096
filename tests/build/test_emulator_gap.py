"""What the emulator alone lacks is no fault of the kernel; what is wrong with the source stays a build failure."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from emulator_kit import emulated
from static_kit import make_task, needs_nvcc, stub_toolchain

import gates
from gates.build.build import build
from gates.build.emulator_gap import reconsidered
from gates.build.failure import Failure
from gates.build.toolchain import Toolchain, find_toolchain
from gates.task.scaffold import new_task

KERNEL = "#include <cuda_runtime.h>\n{top}\n__global__ void k(float* x) {{ {body} }}\n"
HEADER = KERNEL.format(top="#include <far/away.cuh>", body="x[0] = 1;")
FUNCTION = KERNEL.format(top="", body="x[0] = erfcinvf(x[0]);")
SYNTAX = KERNEL.format(top="", body="x[0] = 1")


def without_nvcc() -> Toolchain:
    return find_toolchain({**os.environ, "CUDA_HOME": "/nonexistent"}, [])


def failure_of(folder: Path, text: str, toolchain: Toolchain, want: tuple[str, ...] = ("emulator",)) -> Failure:
    failure = build(make_task(folder, text), toolchain, folder / "build", want=set(want)).failure("emulator")
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("text", "says"),
    [(HEADER, "k.cu:2: the CPU emulator has no header far/away.cuh"), (FUNCTION, "k.cu:3: the CPU emulator does not know erfcinvf")],
)
@pytest.mark.parametrize("want", [("emulator",), ("cubin", "emulator")], ids=["alone", "beside"])
def test_what_nvcc_compiles_is_no_fault_of_the_kernel(tmp_path: Path, text: str, says: str, want: tuple[str, ...]) -> None:
    failure = failure_of(tmp_path, text, stub_toolchain(tmp_path / "cuda"), want)
    assert failure.unsupported == failure.sentence == says
    assert all(word in failure.hint for word in ("#ifndef GATES_EMULATOR", "host version", "CUDA device"))


@pytest.mark.parametrize("text", [HEADER, SYNTAX])
def test_what_nvcc_refuses_too_stays_a_failure(tmp_path: Path, text: str) -> None:
    failure = failure_of(tmp_path, text + "// not c++\n", stub_toolchain(tmp_path / "cuda"))
    assert (
        not failure.unsupported and "failed (exit" in failure.sentence and "k.cu:" in failure.sentence and "python" not in failure.sentence
    )


@pytest.mark.parametrize(("text", "says"), [(HEADER, "has no header far/away.cuh"), (FUNCTION, "does not know erfcinvf")])
def test_without_nvcc_what_may_be_cuda_s_is_not_run(tmp_path: Path, text: str, says: str) -> None:
    failure = failure_of(tmp_path, text, without_nvcc())
    assert f"the CPU emulator {says}; there is no nvcc here to say whether it is CUDA's" in failure.unsupported


@pytest.mark.parametrize(
    ("body", "name", "header"),
    [
        ("assert(x);", "assert", "cassert"),
        ('fprintf(stderr, "");', "stderr", "cstdio"),
        ("uint32_t i = 0; use(i);", "uint32_t", "cstdint"),
        ("std::vector<int> v;", "std::vector", "vector"),
    ],
)
@pytest.mark.parametrize("nvcc", [True, False])
def test_a_forgotten_header_of_the_library_is_the_source_s_fault(tmp_path: Path, body: str, name: str, header: str, nvcc: bool) -> None:
    toolchain = stub_toolchain(tmp_path / "cuda") if nvcc else without_nvcc()
    failure = failure_of(tmp_path, KERNEL.format(top="", body=body), toolchain)
    assert not failure.unsupported and "k.cu:3: error: " in failure.sentence
    assert re.sub("[‘’]", "'", failure.hint) == f"'{name}' is defined in header '<{header}>'; did you forget to '#include <{header}>'?"


def test_a_header_that_a_later_error_lacks_is_no_hint_for_the_first(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, KERNEL.format(top="", body="x[0] = erfcinvf(1); assert(x);"), without_nvcc())
    assert "does not know erfcinvf" in failure.unsupported and "cassert" not in failure.hint


@pytest.mark.parametrize("top", ["", "#include <cstdio>\n#include <vector>\n"])
def test_a_source_without_a_header_of_cuda_has_the_runtime_s_as_with_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        top
        + '__global__ void k(float* x) { x[threadIdx.x] = __fdividef(1, 2); }\nextern "C" int go(float* x) { k<<<1, 33>>>(x); return cudaGetLastError(); }\n'
    )
    monkeypatch.setattr("emulator_kit.DATA", tmp_path)
    x = np.zeros(33, np.float32)
    library = emulated("k.cu", tmp_path / "work")
    assert library.run("go", x) == 0 and (x == 0.5).all()
    task = make_task(tmp_path, source.read_text() + "undeclared x;\n")
    failure = build(task, without_nvcc(), tmp_path / "build", want={"emulator"}).failure("emulator")
    assert failure is not None and f"k.cu:{top.count(chr(10)) + 3}: the CPU emulator does not know undeclared" in failure.unsupported


def test_without_nvcc_a_syntax_error_stays_a_failure(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, SYNTAX, without_nvcc())
    assert not failure.unsupported and "k.cu:3: error: expected ‘;’" in failure.sentence.replace("'", "‘", 1).replace("'", "’", 1)


@pytest.mark.parametrize(
    ("errors", "compiled", "says"),
    [
        (
            ("error: can't preprocess /a/k.cu:", "/a/k.cu:1:10: fatal error: cub/x.cuh: No such file or directory"),
            True,
            "k.cu:1: the CPU emulator has no header cub/x.cuh",
        ),
        (("/a/k.cu:5:9: error: 'cuda::ceil_div' has not been declared",), True, "k.cu:5: the CPU emulator does not know cuda::ceil_div"),
        (
            ("/a/k.cu:5:9: error: 'NV_IS_HOST' does not name a type",),
            None,
            "k.cu:5: the CPU emulator does not know NV_IS_HOST; there is no nvcc",
        ),
        (
            ("/a/k.cu:5:9: error: no matching function for call to 'atomicAdd(half2*, half2)'",),
            None,
            "the CPU emulator can't build the source: ",
        ),
        (("error: /a/k.cu:7: can't read the kernel before '<<<'",), None, "the CPU emulator can't build the source: "),
        (("/a/k.cu:5:9: error: expected ';' before '}' token",), True, "the CPU emulator can't build the source: "),
        (("/a/k.cu:5:9: error: expected ';' before '}' token",), None, ""),
        (("/a/k.cu:5:9: error: 'snprintf' is not a member of 'std'; did you mean 'rintf'?",), None, ""),
        (("/a/k.cu:2:9: error: 'gates_emulator' has not been declared",), True, "the CPU emulator can't build the source: "),
        (("/a/k.cu:2:9: error: 'gates_emulator::x' has not been declared",), None, ""),
        (("error: /a/k.cu:7: '<<<' without '>>>'",), None, ""),
        (("/a/k.cu:1:10: fatal error: cub/x.cuh: No such file or directory",), False, ""),
    ],
)
def test_the_first_error_and_nvcc_s_word_decide(errors: tuple[str, ...], compiled: bool | None, says: str) -> None:
    found = reconsidered(Failure("g++ -c k.cpp", "exit 1", errors), compiled)
    assert found.unsupported.startswith(says) and bool(found.unsupported) is bool(says)


def test_the_translation_is_named() -> None:
    failure = Failure("/usr/bin/python3 -m gates.emulator.translate k.cu -o k.cpp", "exit 2", ("error: k.cu:7: '<<<' without '>>>'",))
    assert failure.sentence == "the emulator's translation failed (exit 2): error: k.cu:7: '<<<' without '>>>'"


def test_a_tool_that_is_missing_stays_missing() -> None:
    failure = Failure("", "g++ was not found", missing_tool="g++")
    assert reconsidered(failure, True) is failure


def test_a_wrong_assumption_ends_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_text(
        KERNEL.format(top="", body="__builtin_assume(x[0] > 2); x[0] = 5;")
        + 'extern "C" int go(float* x) { k<<<1, 1>>>(x); return cudaGetLastError(); }\n'
    )
    monkeypatch.setattr("emulator_kit.DATA", tmp_path)
    library = emulated("k.cu", tmp_path / "work")
    assert library.run("go", np.array([3], np.float32)) == 0 and library.findings() == []
    assert library.run("go", np.array([1], np.float32)) != 0
    (finding,) = library.findings()
    assert finding["kind"] == "assert" and finding["message"].startswith("assertion failed: __builtin_assume(x[0] > 2)")


@needs_nvcc
@pytest.mark.slow
def test_a_whole_run_holds_and_judges_what_it_can(tmp_path: Path) -> None:
    folder = new_task("mine", "cuda", tmp_path)[0]
    text = (folder / "kernel.cu").read_text()
    (folder / "kernel.cu").write_text(
        text.replace("#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <cub/warp/warp_reduce.cuh>", 1)
    )
    run = gates.run(folder, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build")
    assert {gate: run.gates[gate].code for gate in ("correctness", "sanitizer")} == {
        "correctness": "correctness.not_emulated",
        "sanitizer": "sanitizer.not_emulated",
    }, run.report()
    assert run.gates["ptxas"].status.value == run.gates["sass"].status.value == "pass" and run.decision == "hold"
    assert "the CPU emulator does not support CUB (cub/warp/warp_reduce.cuh)" in run.report()
