"""Kernel languages are told by what a module imports, whatever it calls it."""

from __future__ import annotations

import ast

import pytest

from gates.core.errors import GatesError
from gates.importers import languages, sources

CASES = {
    "Triton": ("import triton as tr", "@tr.autotune(configs=[], key=[])\n@tr.jit", ("kernel",)),
    "Triton from": ("from triton import jit as compiled", "@compiled", ("kernel",)),
    "Gluon": ("from triton.experimental import gluon", "@gluon.jit", ("kernel",)),
    "Numba-CUDA": ("from numba import cuda", "@cuda.jit('void(float32[:])')", ("kernel",)),
    "CuTe DSL": ("import cutlass.cute as cute", "@cute.kernel", ("kernel",)),
    "TileLang": ("import tilelang\nimport tilelang.language as T", "@T.prim_func", ("kernel",)),
    "cuda.tile": ("import cuda.tile as ct", "@ct.kernel", ("kernel",)),
    "Warp": ("import warp as wp", "@wp.kernel", ("kernel",)),
    "CuPy": ("import cupy as cp\nadd = cp.RawKernel('', 'add')", "@property", ()),
    "load_inline": ("from torch.utils.cpp_extension import load_inline", "@property", ()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_language_is_told_by_its_import(name: str) -> None:
    imports, decorator, kernels = CASES[name]
    first = languages.find(ast.parse(f"import torch\n{imports}\n\n{decorator}\ndef kernel(x):\n    pass\n"))[0]
    assert (first.language.name, first.kernels) == (name.removesuffix(" from"), kernels)


def test_launches_without_a_stream_in_numba_and_warp() -> None:
    code = "k[1, 2](x)\nk[1, 2, stream](x)\nother[1, 2](x)\nk.forall(9)(x)\nx[1, 2].f(k)\nwp.launch(k, 9)\nwp.launch(k, 9, stream=s)\n"
    assert languages.launches_without_stream({"a.py": code, "b.cu": "k[1, 2](x)"}, ["k"]) == ["a.py:1: k", "a.py:4: k", "a.py:6: k"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import cupy as cp\nk = cp.RawKernel('text', 'k')\nk((1,), (2,), (x,))\nf(x)\n", ["a.py:3: k"]),
        ("import cupy\nmodule = cupy.RawModule(code='text')\nk = module.get_function('k')\nk((1,), (2,), (x,))\n", ["a.py:4: k"]),
        ("import cupy\nk = cupy.RawKernel('text', 'k')\nwith cupy.cuda.ExternalStream(s):\n    k((1,), (2,), (x,))\n", []),
        ("import cutlass.cute as cute\n@cute.kernel\ndef k(x): pass\nk(x).launch(grid=[1, 1, 1])\n", ["a.py:4: k"]),
        ("import cutlass.cute as cute\n@cute.kernel\ndef k(x): pass\nk(x).launch(grid=[1, 1, 1], stream=s)\n", []),
        ("import subprocess\nk = subprocess.Popen('a')\nk(1)\nx(k).launch()\n", []),
    ],
    ids=["cupy", "cupy_module", "cupy_stream", "cute", "cute_stream", "neither"],
)
def test_launches_without_a_stream_in_languages_for_devices(code: str, found: list[str]) -> None:
    assert languages.launches_without_stream({"a.py": code}, ()) == found


def test_names_that_only_look_like_a_language_are_none() -> None:
    assert languages.find(ast.parse("import torch\n@torch.jit.script\ndef kernel(x):\n    pass\n\n@jit\ndef other(x):\n    pass\n")) == []


def test_a_function_that_only_kernels_call_is_none() -> None:
    code = "from numba import cuda\n@cuda.jit(device=True)\ndef helper(x): pass\n@cuda.jit(fastmath=True)\ndef kernel(x): pass\n"
    assert languages.kernels_of(ast.parse(code), "numba") == ["kernel"]


def test_kernels_of_one_kind_come_in_the_modules_order() -> None:
    functions = (("triton.jit", "second"), ("cuda.jit", "other"), ("triton.jit", "first"))
    code = "import triton\nfrom numba import cuda\n" + "".join(f"@{maker}\ndef {name}(x): pass\n" for maker, name in functions)
    assert languages.kernels_of(ast.parse(code), "triton") == ["second", "first"]


@pytest.mark.parametrize("code", ["+".join("1" * 990), "(" * 150 + "1" + ",)" * 150 + "+" + "+".join("1" * 80), "-" * 250 + "1"])
def test_an_expression_of_too_many_levels_is_one_error(code: str) -> None:
    """Whatever reads it calls itself for each level, and Python lets it do that a thousand times."""
    with pytest.raises(GatesError, match=r"^made\.py:1: nested in more than 200 levels$|^made\.py: nested too deeply$"):
        sources.expression(code, "made.py")


def test_a_text_of_as_many_lines_as_people_write_is_read() -> None:
    tree = sources.parse("text = (" + "\n + ".join(f"'line {n}\\n'" for n in range(150)) + ")", "made.py")
    assert ast.unparse(tree).count("line") == 150
