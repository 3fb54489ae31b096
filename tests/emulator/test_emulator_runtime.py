"""The emulator's runtime is compiled once for all kernels; whatever is wrong with what is kept of it, a build is right."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_kit import Emulated
from places import TASKS

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.emulator import runtime_object
from gates.emulator.flags import CXX_FLAGS, SANITIZE_FLAGS
from gates.emulator.library import compile_library
from gates.emulator.runtime_object import main, write_runtime_object
from gates.task.load import load_task

FLAGS = ["-O0", "-fPIC"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small runtime of a header and a source, and an empty cache."""
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "answer.h").write_text("#define ANSWER 42\n")
    source = tmp_path / "runtime" / "runtime.cpp"
    source.write_text('#include "answer.h"\nextern "C" int answer() { return ANSWER; }\n')
    monkeypatch.setattr(runtime_object, "SOURCE", source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return source


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "kernel-gates").glob("*"))


def made(folder: Path, flags: list[str] = FLAGS, **options: str) -> tuple[bytes, bool]:
    """The object, and whether it was compiled for it."""
    text = write_runtime_object(folder / "r.o", flags, **options)
    assert text.endswith((": compiled\n", ": found in the cache\n"))
    return (folder / "r.o").read_bytes(), text.endswith(": compiled\n")


def test_it_is_compiled_once(source: Path, tmp_path: Path) -> None:
    first, compiled = made(tmp_path)
    assert compiled and first.startswith(b"\x7fELF")
    assert made(tmp_path) == (first, False)
    assert len(kept(tmp_path)) == 1


def test_it_is_compiled_again_for_whatever_decides_it(source: Path, tmp_path: Path) -> None:
    first, _ = made(tmp_path)
    other = tmp_path / "g++"
    other.write_text('#!/bin/sh\n[ "$1" = -v ] && echo "another compiler" >&2\nexec g++ "$@"\n')
    other.chmod(0o755)
    assert made(tmp_path, cxx=str(other))[1]
    assert made(tmp_path, [*FLAGS, "-DUNUSED"])[1]
    (source.parent / "answer.h").write_text("#define ANSWER 43\n")
    changed, compiled = made(tmp_path)
    assert compiled and changed != first
    (source.parent / "answer.h").write_text("#define ANSWER 42\n")
    assert made(tmp_path) == (first, False)


def test_an_updated_compiler_of_the_same_version_is_another(source: Path, tmp_path: Path) -> None:
    backend = tmp_path / "cc1plus"
    backend.write_text("")
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = -print-prog-name=cc1plus ] && {{ echo {backend}; exit; }}\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    assert made(tmp_path, cxx=str(compiler))[1]
    assert not made(tmp_path, cxx=str(compiler))[1]
    backend.write_text("updated")
    assert made(tmp_path, cxx=str(compiler))[1]


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data[:100] + b"?" + data[101:], lambda data: data + b"?"]
)
def test_what_is_kept_broken_is_compiled_and_kept_again(source: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    first, _ = made(tmp_path)
    (entry,) = kept(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert made(tmp_path) == (first, True)
    assert made(tmp_path) == (first, False)


def test_another_entry_or_what_is_no_file_is_not_taken(source: Path, tmp_path: Path) -> None:
    first, _ = made(tmp_path)
    (entry,) = kept(tmp_path)
    other, _ = made(tmp_path, [*FLAGS, "-O2", "-DUNUSED"])
    (another,) = set(kept(tmp_path)) - {entry}
    entry.write_bytes(another.read_bytes())
    assert made(tmp_path) == (first, True)
    for place in ("a pipe", "a device"):
        entry.unlink()
        os.mkfifo(entry) if place == "a pipe" else entry.symlink_to("/dev/zero")
        assert made(tmp_path) == (first, True) and made(tmp_path) == (first, False)


@pytest.mark.parametrize("place", ["a file", "an unwritable folder", "no home"])
def test_without_a_cache_it_is_compiled(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    if place == "no home":
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(source) if place == "a file" else "/proc")
    before = sorted(tmp_path.iterdir())
    first, compiled = made(tmp_path)
    assert compiled and made(tmp_path) == (first, True)
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "r.o"])


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_or_full_cache_keeps_nothing_half_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def replace(*_: object) -> None:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        if isinstance(stop, OSError):
            assert made(tmp_path)[1]
        else:
            with pytest.raises(KeyboardInterrupt):
                made(tmp_path)
    assert kept(tmp_path) == []
    assert made(tmp_path)[1]


def test_builds_at_once_end_with_one_whole_object(source: Path, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from gates.emulator import runtime_object as r; r.SOURCE = Path(sys.argv[1]); sys.exit(r.main(sys.argv[2:]))"
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(source), "-o", str(tmp_path / f"{n}.o"), "--", *FLAGS]) for n in range(4)]
    assert [job.wait(timeout=60) for job in jobs] == [0] * 4
    first, compiled = made(tmp_path)
    assert not compiled and len(kept(tmp_path)) == 1
    assert [(tmp_path / f"{n}.o").read_bytes() for n in range(4)] == [first] * 4


def test_a_runtime_that_does_not_compile_is_one_error(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source.write_text("int answer() { return missing; }\n")
    with pytest.raises(GatesError, match=r"can't compile the emulator's runtime \(exit 1\):\n.*error: .missing. was not declared"):
        made(tmp_path)
    assert kept(tmp_path) == [] and not (tmp_path / "r.o").exists()
    with pytest.raises(GatesError, match="can't start /no/g"):
        made(tmp_path, cxx="/no/g++")
    source.write_text("")
    assert main(["-o", str(tmp_path / "no" / "r.o"), "--", *FLAGS]) == 2
    assert capsys.readouterr().err == f"error: can't write {tmp_path}/no/r.o: No such file or directory\n"


def test_a_build_has_it_and_its_log_says_so(tmp_path: Path) -> None:
    task = load_task(TASKS / "saxpy_fast")
    toolchain = find_toolchain()
    for folder in ("one", "two"):  # the first fills the cache, where it is empty
        result = build(task, toolchain, tmp_path / folder, want={"emulator"})
    emulator = result.path("emulator")
    assert emulator is not None and emulator.with_name("emulator.runtime.o").is_file()
    assert f" -c {runtime_object.SOURCE}\nruntime " in result.log_text and ": found in the cache\n" in result.log_text
    inputs = json.loads(emulator.with_name(".emulator.runtime.o.made.json").read_bytes())["inputs"]
    for needed in (runtime_object.INCLUDE_DIR / "gates_emulator" / "block.h", runtime_object.SOURCE.with_name("launch.cpp")):
        assert str(needed) in inputs


UNWAITED = """#include <cuda_pipeline.h>
__global__ void k(const float* in, float* out) {
    __shared__ __align__(16) float tile[128];
    __pipeline_memcpy_async(tile + 4 * threadIdx.x, in + 4 * threadIdx.x, 16);
    __pipeline_commit();
    __syncthreads();
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, tile[threadIdx.x], 1);
}
extern "C" int run() { alignas(16) float in[128] = {}, out[32]; k<<<1, 32>>>(in, out); return cudaGetLastError(); }
"""


@pytest.mark.parametrize("macro", ["_GLIBCXX_DEBUG", "_GLIBCXX_USE_CXX11_ABI=0", "GATES_EMULATOR_UCONTEXT", "NDEBUG"])
def test_no_macro_of_a_task_comes_between_kernel_and_runtime(tmp_path: Path, macro: str) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text(UNWAITED)
    name, _, value = macro.partition("=")
    library = Emulated(compile_library([kernel], tmp_path / "k.so", defines={name: value or "1"}, work_dir=tmp_path))
    assert library.run("run") == 0
    assert [(finding["kind"], finding["where"]) for finding in library.findings()] == [("copy_never_waited_for", f"{kernel}:4")]


def test_plain_and_sanitized_build_have_each_their_own(source: Path, tmp_path: Path) -> None:
    plain, sanitized = made(tmp_path, CXX_FLAGS), made(tmp_path, [*CXX_FLAGS, *SANITIZE_FLAGS])
    assert plain[1] and sanitized[1] and len(kept(tmp_path)) == 2
    assert b"__asan_" in sanitized[0] and b"__asan_" not in plain[0]
