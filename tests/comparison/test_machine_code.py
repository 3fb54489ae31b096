"""Machine code before and after: twenty changes of one instruction are seen, twenty edits that change nothing are equal."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gates.build.dumps import data_digest, dump_sass, host_digest
from gates.build.toolchain import find_toolchain
from gates.comparison import machine_code
from gates.comparison.paired import TimedKernel
from gates.gate.sass.evidence import SassEvidence, gather

BODY = """
extern "C" __global__ void __launch_bounds__(128) NAME(const float* x, const float4* y, float* out, int n, float scale) {
  __shared__ float tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  float sum = 0.0f;
  for (int step = 0; step < n; ++step) {
    const float4 four = y[i + step * 128];
    tile[threadIdx.x] = four.x * scale + four.y;
    __syncthreads();
    sum += tile[threadIdx.x ^ 1] - four.z * 0.25f;
    __syncthreads();
  }
  if (sum > 1.0f) sum = sqrtf(sum);
  sum += __shfl_xor_sync(0xffffffffu, sum, 4);
  out[i] = fmaxf(sum, x[i]) * table[threadIdx.x & 7] + 3.0f;
}
"""
CHANGED = [
    ("four.x * scale + four.y", "four.x * scale + four.z"),
    ("four.x * scale + four.y", "four.y * scale + four.x"),
    ("four.x * scale + four.y", "four.x * scale - four.y"),
    ("four.x * scale + four.y", "four.x * scale"),
    ("^ 1]", "^ 2]"),
    ("0.25f", "0.2500001f"),
    ("- four.z", "+ four.z"),
    ("sum > 1.0f", "sum >= 1.0f"),
    ("sum > 1.0f", "sum > 1.5f"),
    ("sqrtf(sum)", "rsqrtf(sum)"),
    ("sum, 4)", "sum, 8)"),
    ("fmaxf", "fminf"),
    ("& 7]", "& 3]"),
    ("+ 3.0f", "+ 3.5f"),
    ("+ 3.0f", "- 3.0f"),
    ("step * 128]", "step * 256]"),
    ("float sum = 0.0f", "float sum = 1.0f"),
    ("sum += __shfl", "sum -= __shfl"),
    ("    __syncthreads();\n  }", "  }"),
    ("step < n", "step <= n"),
]
ALIKE = [
    ("", ""),
    ("sum", "total"),
    ("four", "loaded"),
    ("tile", "buffer"),
    ("step", "k"),
    ("int i =", "const int unused = 7; const int i ="),
    ("  float sum", "  // the sum of all steps\n  float sum"),
    ("scale", "factor"),
    ("\n  if", "\n\n\n  if"),
    ("const int i", "int const i"),
    ("++step", "step++"),
    ("step * 128", "128 * step"),
    ("four.x * scale", "scale * four.x"),
    ("if (sum > 1.0f) sum = sqrtf(sum);", "if (sum > 1.0f) {\n    sum = sqrtf(sum);\n  }"),
    ("0xffffffffu", "~0u"),
    ("128 + threadIdx.x", "(100 + 28) + threadIdx.x"),
    ("float sum = 0.0f;", "float sum;\n  sum = 0.0f;"),
    ("0.25f", "(1.0f / 4.0f)"),
    ("+ 3.0f;", "+ 3.0f; /* the bias */"),
    ("int step = 0", "int step = 1 - 1"),
]
PRELUDE = "__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, SEVENTH};\n"


def compiled(folder: Any, name: str, text: str) -> SassEvidence:
    toolchain = find_toolchain()
    nvcc = toolchain.get("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    source, cubin = folder / f"{name}.cu", folder / f"{name}.cubin"
    source.write_text(text)
    subprocess.run([nvcc.path, "-cubin", "-arch=sm_90", "-o", str(cubin), str(source)], check=True)
    return gather({"sm_90": dump_sass(cubin, toolchain)}, (), data={"sm_90": data_digest([cubin])})


@pytest.fixture(scope="module")
def variants(tmp_path_factory) -> SassEvidence:
    """Every edit of the kernel in one file, by name: base, changed0 to changed19, alike0 to alike19."""
    edits = {
        "base": ("", ""),
        **{f"changed{i}": edit for i, edit in enumerate(CHANGED)},
        **{f"alike{i}": edit for i, edit in enumerate(ALIKE)},
    }
    assert all(old in BODY for old, _ in edits.values())
    text = PRELUDE.replace("SEVENTH", "8") + "".join(
        (BODY.replace(old, new) if old else BODY).replace("NAME", name) for name, (old, new) in edits.items()
    )
    return compiled(tmp_path_factory.mktemp("code"), "variants", text)


def kernels(evidence: SassEvidence) -> Mapping[str, TimedKernel]:
    return {one.name: TimedKernel(one.name, "sm_90", None, one, {}, None) for one in evidence.functions}  # type: ignore[arg-type]


def test_twenty_changes_are_seen_and_twenty_edits_are_equal(variants) -> None:
    found = kernels(variants)
    same = {name: machine_code.unchanged(found["base"], one, (variants, variants)) for name, one in found.items()}
    assert [name for name, equal in same.items() if name.startswith("changed") and equal is not False] == []
    assert [name for name, equal in same.items() if name.startswith("alike") and equal is not True] == []
    assert len(CHANGED) == len(ALIKE) == 20 and len(same) == 41


def test_another_constant_is_no_unchanged_code(variants, tmp_path) -> None:
    text = PRELUDE.replace("SEVENTH", "9") + BODY.replace("NAME", "base")
    other, same = (compiled(tmp_path, name, one) for name, one in (("other", text), ("same", text.replace("9}", "8}"))))
    bases = [kernels(one)["base"] for one in (same, other)]
    assert bases[0].code.code == bases[1].code.code
    assert machine_code.unchanged(*bases, (same, other)) is False and machine_code.unchanged(bases[0], bases[0], (same, same)) is True


def test_a_diff_shows_the_changed_instruction_and_no_renamed_register(variants) -> None:
    found = kernels(variants)
    lines = [line for line in machine_code.diff(found["base"], found["changed11"]) if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert len(lines) == 2 and all("FMNMX" in line for line in lines), lines
    assert machine_code.readable(["MOV R9, R2", "FADD R2, R9, R2"]) == machine_code.readable(["MOV R1, R5", "FADD R5, R1, R5"])
    assert machine_code.readable(["@P0 BRA 0x1b0", "FADD R4, UR4, R4"]) == ["@p0 BRA L0", "FADD r0, ur0, r0"]


def test_the_mix_of_instructions_and_runs_without_code(variants) -> None:
    found = kernels(variants)
    rows = {name: (one, two) for name, one, two in machine_code.mix(found["base"], found["changed18"])}
    assert rows["barrier"][1] == rows["barrier"][0] / 2 > 0 and "tensor" not in rows
    bare = replace(found["base"], code=replace(found["base"].code, code=()))
    assert machine_code.unchanged(bare, found["base"], (variants, variants)) is None and machine_code.diff(bare, found["base"]) == ()


LAUNCHER = """
#include <cstdio>
namespace { __global__ void hidden(float* x) { x[threadIdx.x] += 1.0f; } }
extern "C" int launch(float* x, long n, void* stream, char* error) {
  if (n % 128 != 0) return std::snprintf(error, 64, "N is %ld", n);
  cudaMemsetAsync(x, 0, n, static_cast<cudaStream_t>(stream));
  hidden<<<n / 128, 128, 0, static_cast<cudaStream_t>(stream)>>>(x);
  return 0;
}
"""
PLAIN = """
extern "C" int first(long); extern "C" int second(long);
extern "C" int table[4]; int table[4] = {1, 2, 3, 4};
extern "C" const char* name() { return "grid"; }
extern "C" int launch(long n) { return first(n / 128) + second(n % 128 ? 256 : 512) + table[n & 3]; }
"""
HOST_CHANGES = [
    ("n / 128", "n / 256"),
    ("256 : 512", "256 : 1024"),
    ("? 256", "== 1 ? 256"),
    ('"grid"', '"grip"'),
    ("{1, 2, 3, 4}", "{1, 2, 3, 5}"),
    ("first(n / 128) + second(", "second(n / 128) + first("),
    ("return first", "return second"),
    ("int launch", "int launcher"),
]


def test_host_code_is_the_same_whatever_the_device_code_and_the_folder(tmp_path) -> None:
    nvcc = find_toolchain().get("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    texts = {"here": LAUNCHER, "there": "// moved\n" + LAUNCHER.replace("+= 1.0f", "+= sqrtf(x[threadIdx.x + 1])").replace("error", "text")}
    objects, running = [], []
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "launcher.cu").write_text(text)
        objects.append(tmp_path / name / "launcher.o")
        running.append(subprocess.Popen([nvcc.path, "-c", "-arch=compute_80", "launcher.cu", "-o", "launcher.o"], cwd=tmp_path / name))
    assert [one.wait() for one in running] == [0, 0]
    assert host_digest(objects[:1]) == host_digest(objects[1:]) != ""


def test_a_change_of_host_code_is_seen(tmp_path) -> None:
    digests = []
    for number, (old, new) in enumerate([("", ""), ("launch(long n)", "launch( /* threads */ long n)"), *HOST_CHANGES]):
        assert old in PLAIN
        source, made = tmp_path / "plain.cpp", tmp_path / f"{number}.o"
        source.write_text(PLAIN.replace(old, new) if old else PLAIN)
        subprocess.run(["g++", "-O2", "-c", str(source), "-o", str(made)], check=True)
        digests.append(host_digest([made]))
    assert digests[0] == digests[1] != "" and digests.count(digests[0]) == 2 and len(set(digests)) == len(HOST_CHANGES) + 1
    (tmp_path / "cut.o").write_bytes((tmp_path / "0.o").read_bytes()[:200])
    assert host_digest([tmp_path / "cut.o"]) == host_digest([tmp_path / "none.o"]) == ""
