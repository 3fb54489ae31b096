"""A product is used only if its inputs are what they were, by content: whatever the file times say."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from static_kit import CXX, HOST_NVCC, STUB_NVCC, calls, make_task, program, stub_toolchain

from gates.build import compilers
from gates.build.build import build
from gates.build.inputs import dependencies
from gates.build.result import BuildResult
from gates.core.errors import GatesError
from gates.launch.entry_point import load
from gates.task.sources.includes import included

DEVICE = {"cubin", "device"}
needs_gxx = pytest.mark.skipif(CXX is None, reason="no g++")


def made(folder: Path, want: set[str] = DEVICE, nvcc: str = "", **changes) -> BuildResult:
    task = make_task(folder, source=folder / "k.cu", **changes)
    stub = stub_toolchain(folder / "cuda", nvcc or (HOST_NVCC if "emulator" in want else STUB_NVCC))
    result = build(task, stub, folder / "build", want=want)
    assert not result.failures
    return result


def device_text(result: BuildResult) -> str:
    return (result.path("device") or Path()).read_text(errors="replace")


def aged(path: Path, text: str) -> None:
    """Write ``text`` with a time long before any build."""
    path.write_text(text)
    os.utime(path, (10**9, 10**9))


@pytest.mark.parametrize("name", ["k.cu", "tile.cuh"])
def test_an_older_file_of_other_content_is_compiled(tmp_path: Path, name: str) -> None:
    for file, text in (("k.cu", '#include "tile.cuh"\n'), ("tile.cuh", "tile 16\n")):
        aged(tmp_path / file, text)
    made(tmp_path)
    aged(tmp_path / name, '#include "tile.cuh"\nchanged\n' if name == "k.cu" else "changed\n")
    assert "changed" in device_text(made(tmp_path))


def test_a_file_that_the_assembler_takes_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(f'asm(".incbin \\"{tmp_path}/table.bin\\"");\n')
    count = []
    for text in ("first", "later", "later"):
        (tmp_path / "table.bin").write_text(text)
        made(tmp_path)
        count.append(len(calls(tmp_path / "cuda")))
    assert count[0] < count[1] == count[2]


def test_a_newer_file_of_the_same_content_is_not_compiled(tmp_path: Path) -> None:
    aged(tmp_path / "k.cu", "kernel\n")
    first = made(tmp_path)
    count = len(calls(tmp_path / "cuda"))
    (tmp_path / "k.cu").write_text("kernel\n")
    assert made(tmp_path).targets == first.targets and len(calls(tmp_path / "cuda")) == count


@pytest.mark.parametrize("product", ["device.so", "emulator/k.o", "sm_89/k.cubin", "sm_89/k.ptxas.log"])
@pytest.mark.parametrize("how", ["copied", "touched", "cut"])
def test_a_product_that_is_not_the_one_that_was_made_is_made_again(tmp_path: Path, product: str, how: str) -> None:
    """As when the product of another build is copied over it."""
    (tmp_path / "k.cu").write_text("kernel\n")
    path = Path(made(tmp_path).folder) / product
    text = path.read_bytes()
    path.write_bytes({"copied": b"another build's\n", "touched": text, "cut": text[:-1]}[how])
    os.utime(path, (4 * 10**9, 4 * 10**9))  # newer than all else
    made(tmp_path)
    assert path.read_bytes() == text and (path.stat().st_mtime == 4 * 10**9) is (how == "touched")


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"command": 1}', "\0", "gone"])
def test_a_product_without_a_whole_record_is_made_again(tmp_path: Path, broken: str) -> None:
    """As an interrupted build leaves it."""
    (tmp_path / "k.cu").write_text("kernel\n")
    folder = Path(made(tmp_path).folder)
    record = folder / "sm_89" / ".k.cubin.made.json"
    record.unlink() if broken == "gone" else record.write_text(broken)
    (folder / "sm_89" / "k.cubin").write_text("half")
    assert (Path(made(tmp_path).folder) / "sm_89" / "k.cubin").read_text() == "kernel\n"


def test_a_source_that_changes_while_it_is_compiled_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("kernel\n")
    toolchain = stub_toolchain(tmp_path / "cuda")
    script = tmp_path / "cuda" / "bin" / "nvcc"
    program(
        script,
        script.read_text().replace(
            "text=$(cat",
            f"[ -e {tmp_path}/once ] || {{ cp $sources {tmp_path}/old; touch {tmp_path}/once; echo later > {tmp_path}/k.cu; "
            f"sources={tmp_path}/old; }}\ntext=$(cat",
            1,
        ),
    )
    task = make_task(tmp_path, source=tmp_path / "k.cu")
    result = build(task, toolchain, tmp_path / "build", want={"cubin"}, jobs=1)
    assert Path(result.targets[0].path or "").read_text() == "later\n"


@needs_gxx
def test_a_product_of_another_build_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" int launch() { return 0; }\n')
    task, result = make_task(tmp_path, source=tmp_path / "k.cu"), made(tmp_path, {"emulator"})
    side = result.side(task, "emulator")
    assert side["sha256"] == result.products()["emulator.so"] and load(side).library
    library = result.path("emulator") or Path()
    shutil.copy(library, tmp_path / "kept.so")
    library.write_bytes(library.read_bytes() + b"another's")
    with pytest.raises(GatesError, match="emulator.so is from another build: its sha256 is") as caught:
        load(side)
    assert "run again" in (caught.value.hint or "")
    assert load(side, str(tmp_path / "kept.so")).library  # a copy of the very product


def test_a_python_source_that_changed_since_it_was_built_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("def launch(): pass\n")
    task = make_task(tmp_path, source=tmp_path / "kernel.py", kind="python")
    result = build(task, stub_toolchain(tmp_path / "cuda"), tmp_path / "build", want={"emulator"})
    side = result.side(task, "emulator")
    assert callable(load(side)) and result.products() == {"kernel.py": side["sha256"]}
    (tmp_path / "kernel.py").write_text("def launch(): return 1\n")
    with pytest.raises(GatesError, match="kernel.py is from another build"):
        load(side)


@pytest.mark.parametrize("tool", ["nvcc", "ptxas", "g++"])
def test_a_compiler_that_was_replaced_in_place_is_another(tmp_path: Path, tool: str) -> None:
    """Of the same path, version, size and time."""
    folder = tmp_path / "cuda" / "bin"
    for name in ("ptxas", "g++"):
        program(folder / name, f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "g++ (x) 13.2.0"; exit; }}\nexec {CXX} "$@"\n#1\n')
    toolchain = stub_toolchain(tmp_path / "cuda", CXX=str(folder / "g++"))
    before = compilers.identities(toolchain)
    path = folder / tool
    kept = path.stat()
    path.write_text(path.read_text().replace("exit 2", "exit 3") if tool == "nvcc" else path.read_text().replace("#1", "#2"))
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    after = compilers.identities(toolchain)
    assert path.stat().st_size == kept.st_size and {name for name in after if after[name] != before[name]} == {str(path)}


def test_a_large_program_is_told_from_another_by_samples_of_all_of_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "cicc", set[str]()
    for text in (
        b"a" * 9 * 2**20,
        b"b" + b"a" * (9 * 2**20 - 1),
        b"a" * (9 * 2**20 - 1) + b"b",
        b"a" * (9 * 2**20 + 1),
        b"a" * 4 * 2**20 + b"b" * 2**20 + b"a" * 4 * 2**20,
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(text)
        seen.add(compilers.file_identity(str(path)))
    assert len(seen) == 5


@pytest.mark.parametrize(
    "variable",
    [
        "NVCC_PREPEND_FLAGS",
        "NVCC_APPEND_FLAGS",
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "GCC_EXEC_PREFIX",
        "SOURCE_DATE_EPOCH",
    ],
)
def test_each_variable_that_compilers_read_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    (tmp_path / "k.cu").write_text("kernel\n")
    monkeypatch.delenv(variable, raising=False)
    plain = made(tmp_path).folder
    monkeypatch.setenv("TERM", "another")
    assert made(tmp_path).folder == plain
    monkeypatch.setenv(variable, "1")
    assert made(tmp_path).folder != plain


HEADER = (
    '#include "tile.cuh"\n#include <wide.cuh>\n#define NAME "named.cuh"\n#include NAME\nextern "C" int launch() { return TILE + '
    "WIDE + NAMED; }\n"
)

HEADERS = ("tile.cuh", "wide.cuh", "named.cuh")


@needs_gxx
@pytest.mark.parametrize("folder", [".", "first"])
def test_a_header_that_newly_comes_before_another_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Beside the source, or in an earlier folder, which may not have been there; quoted, in angle brackets, or named by a macro."""
    import ctypes

    (tmp_path / "k.cu").write_text(HEADER)
    later, answers = tmp_path / "later", list[int]()
    later.mkdir()
    for header in HEADERS:
        (later / header).write_text(f"#define {header.split('.')[0].upper()} 1\n")
    monkeypatch.setenv("CPATH", f"{tmp_path / 'first'}:{later}")

    def answer() -> int:
        path = made(tmp_path, {"emulator"}).path("emulator")
        answers.append(ctypes.CDLL(str(shutil.copy(path or "", tmp_path / f"{len(answers)}.so"))).launch())
        return answers[-1]

    assert answer() == 3
    (tmp_path / folder).mkdir(exist_ok=True)
    headers = [header for header in HEADERS if folder == "first" or header != "wide.cuh"]  # no brackets look beside the source
    for number, header in enumerate(headers, 1):
        (tmp_path / folder / header).write_text(f"#define {header.split('.')[0].upper()} 5\n")
        assert answer() == 3 + 4 * number, header
    (tmp_path / folder / headers[-1]).unlink()
    assert answer() == 3 + 4 * (len(headers) - 1)


@needs_gxx
@pytest.mark.parametrize(
    "flags",
    [
        ("-isystem", "{}/first", "-isystem", "{}/later"),
        ("-Xcompiler=-iquote,{}/first", "-Xcompiler=-iquote,{}/later"),
        ("--include-path={}/first,{}/later",),
        ("-Xcompiler", "-idirafter,{}/first,-idirafter,{}/later"),
    ],
)
def test_folders_of_the_flags_count_on_the_emulator_and_one_that_newly_comes_first_is_noticed(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "k.cu").write_text('#include "tile.cuh"\nextern "C" int launch() { return TILE; }\n')
    given = tuple(flag.format(tmp_path, tmp_path) for flag in flags)

    def digest(folder: str) -> str:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tile.cuh").write_text(f"#define TILE {ord(folder[0])}\n")
        return made(tmp_path, {"emulator"}, nvcc_flags=given).targets[0].sha256

    assert digest("later") != digest("first")


@needs_gxx
@pytest.mark.parametrize(
    "flags", [("-D", "TILE=3"), ("--define-macro=TILE=3",), ("-include", "{}/first.h"), ("-DTILE=4", "-UTILE", "-include={}/first.h")]
)
def test_macros_and_first_headers_of_the_flags_count_on_the_emulator(tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "first.h").write_text("#define TILE 3\n")
    (tmp_path / "k.cu").write_text('static_assert(TILE == 3);\nextern "C" int launch() { return TILE; }\n')
    made(tmp_path, {"emulator"}, nvcc_flags=tuple(flag.format(tmp_path) for flag in flags))


@needs_gxx
def test_a_build_of_other_products_keeps_those_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" int launch() { return 3; }\n')
    made(tmp_path, {"cubin"}, HOST_NVCC)
    compiled = calls(tmp_path / "cuda")
    library = Path(made(tmp_path, {"cubin", "emulator"}).path("emulator") or "")
    assert [call for call in calls(tmp_path / "cuda") if " -MD " in call] == compiled
    written = library.stat().st_mtime_ns
    made(tmp_path, {"emulator"})
    assert library.stat().st_mtime_ns == written


@needs_gxx
def test_a_header_that_only_a_macro_names_is_noticed_when_it_appears(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        '#define TUNED "tuned.h"\n#if __has_include(TUNED)\n#include TUNED\n#else\n#define TILE 1\n#endif\nextern "C" int launch() { '
        "return TILE; }\n"
    )
    plain = made(tmp_path, {"emulator"}).targets[0].sha256
    (tmp_path / "tuned.h").write_text("#define TILE 8\n")
    assert made(tmp_path, {"emulator"}).targets[0].sha256 != plain


@pytest.mark.parametrize(
    "flags", [("-L{}/first", "-L", "{}/later", "-lfast"), ("--library-path={}/first,{}/later", "--library=fast"), ("{}/later/libfast.a",)]
)
def test_a_library_that_is_linked_is_an_input(tmp_path: Path, flags: tuple[str, ...]) -> None:
    for folder in ("first", "later"):
        (tmp_path / folder).mkdir()
    (tmp_path / "k.cu").write_text("kernel\n")
    library, given = tmp_path / "later" / "libfast.a", tuple(flag.format(tmp_path, tmp_path) for flag in flags)

    def steps() -> int:
        made(tmp_path, nvcc_flags=given)
        return len(calls(tmp_path / "cuda"))

    library.write_text("one")
    first = steps()
    assert steps() == first
    library.write_text("two")
    assert (second := steps()) > first
    if len(flags) > 1:
        (tmp_path / "first" / "libfast.a").write_text("three")
        assert steps() > second


def test_dependency_rules_of_gcc_nvcc_and_ld() -> None:
    assert dependencies("k.o: k.cu a\\ b.h \\\n c\\#d.h e$$f.h\n") == ["k.cu", "a b.h", "c#d.h", "e$f.h"]
    assert dependencies("k.cubin : k.cu \\\n    /usr/x.h \n") == ["k.cu", "/usr/x.h"]
    assert dependencies("l.so: \\\n  /lib/crti.o \\\n  k.o\n\n/lib/crti.o:\n\nk.o:\n") == ["/lib/crti.o", "k.o"]


def test_what_a_text_includes() -> None:
    text = b"""#include "a.h"
  #  include <b/c.h>
#include \
  "d.h"
#/* x */include <e.h>
/* a comment
   of two lines */ #include "f.h"
#if __has_include(<g.h>)
#if 0
%:include_next "h.h"
#endif
#import "i.h"
#define TILE "j.h"  // for #include TILE
// #include "not.h"
int x; #include "not.h"
"""
    assert included(text) == ({"a.h", "d.h", "f.h", "h.h", "i.h", "j.h"}, {"b/c.h", "e.h", "g.h"})
