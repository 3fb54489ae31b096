"""One function says which files make a stage: headers and modules followed, from a checkout alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from places import ROOT

from gates.task.load import Task, load_task


def stage(folder: Path, files: dict[str, str], flags: str = "[]") -> Task:
    """A stage in a project of these files; saxpy's, whose source is kernels/k.cu."""
    shutil.copytree(ROOT / "tests" / "tasks" / "saxpy_slow", folder / "tasks" / "saxpy_slow")
    shutil.copyfile(ROOT / "tests" / "tasks" / "saxpy_problem.py", folder / "tasks" / "saxpy_problem.py")
    (folder / "pyproject.toml").touch()
    path = folder / "tasks" / "saxpy_slow" / "task.yaml"
    path.write_text(path.read_text().replace("saxpy.cu", "kernels/k.cu") + f"\nnvcc_flags: {flags}\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return load_task(folder / "tasks" / "saxpy_slow", environ={})


def names(task: Task, root: Path) -> set[str]:
    own = {
        "tasks/saxpy_slow/task.yaml",
        "tasks/saxpy_slow/build.py",
        "tasks/saxpy_slow/runner.py",
        "tasks/saxpy_problem.py",
        "kernels/k.cu",
    }
    found = {path.relative_to(root).as_posix() for path in task.files()}
    assert own <= found
    return found - own


HEADERS = {
    "kernels/k.cu": '#include "a.cuh"\n#include "../common/b.cuh"\n#include <cuda_runtime.h>\n',
    "kernels/a.cuh": "",
    "common/b.cuh": '#include "c.cuh"\n',
    "common/c.cuh": "",
    "kernels/beside.cuh": "",
    "common/beside.cuh": "",
}


def test_headers_are_followed_into_other_folders_and_no_others_belong_to_it(tmp_path: Path) -> None:
    assert names(stage(tmp_path, HEADERS), tmp_path) == {"kernels/a.cuh", "common/b.cuh", "common/c.cuh"}


@pytest.mark.parametrize(
    "flags", ["[-Iinclude]", "[-I, include]", "['-isystem=include']", "['--include-path', include]", "['-Xcompiler=-iquote,include']"]
)
def test_folders_of_the_flags_are_searched(tmp_path: Path, flags: str) -> None:
    files = {"kernels/k.cu": "#include <x/y.cuh>\n#ifdef NEVER\n#include <z.h>\n#endif\n", "include/x/y.cuh": "", "include/z.h": ""}
    assert names(stage(tmp_path, files, flags), tmp_path) == {"include/x/y.cuh", "include/z.h"}


@pytest.mark.parametrize("flags", ["[-include, kernels/first.h]", "['--pre-include=kernels/first.h']"])
def test_a_header_that_the_flags_put_first_and_one_that_a_macro_names_belong_to_it(tmp_path: Path, flags: str) -> None:
    files = {
        "kernels/k.cu": '#define TILE "tile.inc"\n#include TILE\n',
        "kernels/tile.inc": "",
        "kernels/first.h": '#include "second.h"\n',
        "kernels/second.h": "",
        "kernels/other.h": "",
    }
    assert names(stage(tmp_path, files, flags), tmp_path) == {"kernels/tile.inc", "kernels/first.h", "kernels/second.h"}


def test_every_file_that_a_name_may_mean_belongs_to_it(tmp_path: Path) -> None:
    """A name of two headers: which one counts depends on the compiler."""
    files = {
        "kernels/k.cu": '#include "a.cuh"\n#include "sub/s.cuh"\n',
        "kernels/a.cuh": "",
        "kernels/sub/s.cuh": '#include "a.cuh"\n',
        "kernels/sub/a.cuh": "",
    }
    assert names(stage(tmp_path, files), tmp_path) == {"kernels/a.cuh", "kernels/sub/s.cuh", "kernels/sub/a.cuh"}


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("#define TEXT(x) #x\n#define NAME(x) TEXT(x)\n#include NAME(a.cuh)\n", "[]"),
        ("#include TILE\n", "['-DTILE=\"a.cuh\"']"),
        ("\ufeff#include <a.cuh>\n", "[]"),
        ('#include "c.cuh"\nasm(".incbin \\"a.cuh\\"");\n', "[]"),
        ('const char table[] = {\n#embed "a.cuh"\n};\n', "[]"),
    ],
)
def test_files_that_are_not_included_by_their_plain_names_belong_to_it(tmp_path: Path, source: str, flags: str) -> None:
    """By macros, after a byte order mark, by the assembler, and as data."""
    assert names(stage(tmp_path, {"kernels/k.cu": source, "kernels/a.cuh": "", "kernels/b.cuh": ""}, flags), tmp_path) == {"kernels/a.cuh"}


def test_the_folder_above_a_symbolic_link_is_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "link").symlink_to("../real/sub")
    files = {"real/sub/a.cuh": '#include "../b.cuh"\n', "real/b.cuh": "", "kernels/k.cu": '#include "link/a.cuh"\n'}
    assert names(stage(tmp_path, files), tmp_path) == {"kernels/link/a.cuh", "real/b.cuh"}


def test_files_that_python_text_names_belong_to_it(tmp_path: Path) -> None:
    """Data that it reads, sources that it compiles with what they include, modules that it imports by name, and compiled ones."""
    text = (
        "import importlib, compiled\nfrom pathlib import Path\nHERE = Path(__file__).parent\nTABLE, MORE = HERE / 'table.json', "
        "HERE / 'more/inline.cu'\nhelper = importlib.import_module('more.helper')\n"
    )
    files = {
        "kernels/k.cu": "",
        "tasks/saxpy_slow/extra.py": text,
        "tasks/saxpy_slow/table.json": "{}",
        "tasks/saxpy_slow/more/inline.cu": '#include "a.cuh"\n',
        "tasks/saxpy_slow/more/a.cuh": "",
        "tasks/saxpy_slow/more/helper.py": "",
        "tasks/saxpy_slow/notes.txt": "",
        "tasks/saxpy_slow/compiled.abi3.so": "",
    }
    assert {name.removeprefix("tasks/saxpy_slow/") for name in names(stage(tmp_path, files), tmp_path)} == {
        "extra.py",
        "table.json",
        "more/inline.cu",
        "more/a.cuh",
        "more/helper.py",
        "compiled.abi3.so",
    }


def test_modules_are_followed_and_the_engine_is_none_of_them(tmp_path: Path) -> None:
    files = {
        "kernels/k.cu": "",
        "tasks/saxpy_slow/extra.py": "import helper, numpy\nfrom tasks.more import thing\nfrom . import near\n",
        "helper.py": "",
        "tasks/more/__init__.py": "",
        "tasks/more/thing.py": "from .other import f\n",
        "tasks/more/other.py": "",
        "tasks/more/unused.py": "",
        "tasks/saxpy_slow/near.py": "",
        "gates/__init__.py": "",
        "gates/worker/runner.py": "",
    }
    assert names(stage(tmp_path, files), tmp_path) == {
        "tasks/saxpy_slow/extra.py",
        "helper.py",
        "tasks/more/__init__.py",
        "tasks/more/thing.py",
        "tasks/more/other.py",
        "tasks/saxpy_slow/near.py",
    }


@pytest.mark.parametrize(
    "name", ["kernels/a.cuh", "common/b.cuh", "common/c.cuh", "kernels/k.cu", "tasks/saxpy_problem.py", "tasks/saxpy_slow/task.yaml"]
)
def test_each_of_them_is_in_the_digest(tmp_path: Path, name: str) -> None:
    task = stage(tmp_path, HEADERS)
    before = task.digest()
    with (tmp_path / name).open("a") as file:
        file.write("\n")
    assert task.digest() != before


def test_what_is_no_part_of_it_leaves_the_digest(tmp_path: Path) -> None:
    task = stage(tmp_path / "one", HEADERS)
    before = task.digest()
    for name in ("kernels/beside.cuh", "common/beside.cuh"):
        (tmp_path / "one" / name).write_text("// changed\n")
    assert task.digest() == before == stage(tmp_path / "other", HEADERS).digest()


def test_two_headers_that_change_places_are_another_stage(tmp_path: Path) -> None:
    files = {"kernels/k.cu": '#include "a/t.cuh"\n#include "b/t.cuh"\n'}
    one = stage(tmp_path / "one", {**files, "kernels/a/t.cuh": "1", "kernels/b/t.cuh": "2"})
    other = stage(tmp_path / "other", {**files, "kernels/a/t.cuh": "2", "kernels/b/t.cuh": "1"})
    assert one.digest() != other.digest()


def test_where_a_name_is_sought_in_vain(tmp_path: Path) -> None:
    sought = stage(tmp_path, HEADERS).made_of().sought
    assert {str(tmp_path / "kernels" / name) for name in ("cuda_runtime.h", "c.cuh")} <= sought


def test_headers_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    files = {
        "kernels/k.cu": '#include "a.cuh"\n',
        "kernels/a.cuh": '#include "b.cuh"\n',
        "kernels/b.cuh": '#include "a.cuh"\n#include "b.cuh"\n',
    }
    assert names(stage(tmp_path, files), tmp_path) == {"kernels/a.cuh", "kernels/b.cuh"}
