"""The emulator's runtime is compiled once and kept, beside the build where the user's cache can't be written; with a stub for g++."""

from __future__ import annotations

from pathlib import Path

import pytest
from static_kit import program

from gates.core.errors import GatesError
from gates.emulator.cpu import build, runtime_object

# Writes what it is asked for, and counts what it compiles.
STUB = """#!/bin/sh
[ "$1" = -v ] && { echo "version 1" >&2; exit; }
[ "$1" = -print-prog-name=objcopy ] && { echo "${0%/*}/objcopy"; exit; }
case "$*" in *" -c "*) echo one >> "${0%/*}/compiled"; [ -e "${0%/*}/broken" ] && { echo "x.cpp:1: error: broken"; exit 1; };; esac
while [ "$1" != -o ]; do shift; done
echo made > "$2"
"""


@pytest.fixture
def cxx(tmp_path: Path) -> Path:
    program(tmp_path / "bin" / "objcopy", '#!/bin/sh\nwhile case $1 in --*) ;; *) false; esac; do shift; done\ncp "$1" "$2"\n')
    return program(tmp_path / "bin" / "g++", STUB)


def compiled(cxx: Path) -> int:
    made = cxx.with_name("compiled")
    return len(made.read_text().splitlines()) if made.is_file() else 0


def test_it_is_compiled_once_and_each_source_by_itself(tmp_path: Path, cxx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert not build.runtime_is_kept(str(cxx))
    for name in ("one.o", "two.o"):
        assert runtime_object.main(["-o", str(tmp_path / name), "--cxx", str(cxx)]) == 0 and (tmp_path / name).read_text() == "made\n"
    sources = len(list(build.RUNTIME_DIR.glob("*.cpp")))
    assert build.runtime_is_kept(str(cxx)) and compiled(cxx) == sources
    cxx.write_text(STUB.replace("version 1", "version 2"))  # another compiler
    assert not build.runtime_is_kept(f"{cxx.parent}/./g++")


def test_without_a_cache_it_lies_beside_what_is_built(tmp_path: Path, cxx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    made = tmp_path / "build" / "runtime.o"
    made.parent.mkdir()
    assert runtime_object.main(["-o", str(made), "--cxx", str(cxx)]) == 0 and made.read_text() == "made\n"


def test_a_compiler_that_fails_is_one_error(
    tmp_path: Path, cxx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cxx.with_name("broken").touch()
    assert runtime_object.main(["-o", str(tmp_path / "runtime.o"), "--cxx", str(cxx)]) == 2
    assert "g++ failed (exit 1)" in capsys.readouterr().err
    with pytest.raises(GatesError, match="can't run"):
        build.runtime_object(str(tmp_path / "none"))
