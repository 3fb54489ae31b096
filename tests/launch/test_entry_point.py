"""How a kernel's function is loaded and called in the process of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
from places import ROOT
from static_kit import CXX

from gates.launch import entry_point
from gates.launch.c_launcher import KernelError

EXTENSION = """
#include <Python.h>
static PyObject *run(PyObject *, PyObject *) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"run", run, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "mine", "", -1, methods};
PyMODINIT_FUNC PyInit_mine() { return PyModule_Create(&module); }
"""
LOAD = """
import sys
from pathlib import Path
from gates.launch.entry_point import Function, Place
from gates.task import problem

folder = Path(sys.argv[1])
assert Function(folder / "built" / "mine.so", "run", Place(on_cpu=True))() == 42
print(problem.load("mine.problem", folder / "mine").__name__)
"""
MEMORY = """
import sys, torch
from gates.launch.isolated_launch import _FilledMemory

with _FilledMemory():
    filled = torch.empty(3)
    assert filled.isnan().all() and torch.empty(3, dtype=torch.int32).eq(-1).all()
    assert "torch._dynamo" not in sys.modules, "torch's compiler takes seconds to import"
    assert torch.compile(lambda x: torch.empty_like(x), backend="eager")(torch.ones(3)).isnan().all()
"""


@pytest.mark.skipif(CXX is None, reason="no g++")
def test_an_extension_that_is_called_as_the_folder_of_its_problem(tmp_path: Path) -> None:
    """The extension of the task `mine` is the module `mine`; the problem is mine/problem.py, which is loaded after it."""
    for name in ("built", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "built" / "mine.cpp").write_text(EXTENSION)
    include, built = sysconfig.get_paths()["include"], tmp_path / "built"
    subprocess.run([str(CXX), "-shared", "-fPIC", f"-I{include}", "-o", built / "mine.so", built / "mine.cpp"], check=True, timeout=60)
    (tmp_path / "mine" / "problem.py").write_text(
        "SHAPES = {'small': {'N': 1}}\ndef make_inputs(shape, seed, device): return {}\ndef reference(inputs, shape): return {}\n"
    )
    done = subprocess.run([sys.executable, "-c", LOAD, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "mine.problem", done.stderr


def test_memory_is_filled_without_torchs_compiler_and_beside_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("edited", [False, True])
def test_the_text_that_load_inline_gets_is_the_one_that_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: bool) -> None:
    (tmp_path / "inline.cu").write_text('#include <cuda.h>\n#line 5 "model.py"\n__global__ void k() {}\n')
    (tmp_path / "inline.cpp").write_text('#line 9 "model.py"\nvoid launch();\n')
    built = ModuleType("built")
    monkeypatch.setattr(entry_point, "_module", lambda *_, **__: built)
    text = "__global__ void k() {}" + " // edited" * edited
    if edited:
        with pytest.raises(KernelError, match=r"another text than was compiled, which is in inline.cpp and inline.cu: change both alike"):
            entry_point._built(tmp_path / "built.so", tmp_path, "name", ["void launch();"], cuda_sources=text)
    else:
        assert (
            entry_point._built(tmp_path / "built.so", tmp_path, "name", ["void launch();"], cuda_sources=text, functions=["launch"])
            is built
        )
        assert entry_point._built(tmp_path / "built.so", tmp_path, name="name", cpp_sources="void launch();", cuda_sources=None) is built
