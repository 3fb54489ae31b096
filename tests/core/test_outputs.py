"""Files that a command is told to write: whole or not at all, links and devices kept, and nothing that is not a plain file replaced."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evidence.run_directory import list_runs

RUN = "recorded:h200/stage2"
SURFACES = {
    "junit": (["decide", RUN, "--junit"], b"<testsuite"),
    "sarif": (["decide", RUN, "--sarif"], b'"$schema"'),
    "report": (["report", RUN, "-o"], b"<!doctype html>"),
    "plot": (["plot", RUN, "-o"], b"<svg"),
}


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def written(arguments: list[str], out: Path) -> int:
    return guard(lambda: cli.main([*arguments, str(out)], standalone_mode=False))


@pytest.mark.parametrize("surface", SURFACES)
def test_a_pipe_is_written_through(tmp_path: Path, surface: str) -> None:
    arguments, expected = SURFACES[surface]
    pipe, seen = tmp_path / "out.svg", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert written(arguments, pipe) == 0
    reader.join(60)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and expected.lower() in seen[0].lower()


@pytest.mark.parametrize("surface", SURFACES)
def test_a_link_stays_and_its_file_is_written(tmp_path: Path, surface: str) -> None:
    arguments, expected = SURFACES[surface]
    (tmp_path / "shared.svg").write_text("old")
    for name, target in (("link.svg", "shared.svg"), ("dangling.svg", "new.svg")):
        link = tmp_path / name
        link.symlink_to(target)
        assert written(arguments, link) == 0
        assert link.is_symlink() and expected.lower() in (tmp_path / target).read_bytes().lower()


def test_a_device_is_written_through(tmp_path: Path) -> None:
    jsonio.write_text(Path("/dev/null"), "lost")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(GatesError, match="can't write /dev/full: No space left"):
        jsonio.write_text(Path("/dev/full"), "lost")


def test_no_folder_and_no_socket_is_replaced(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for place in (tmp_path / "socket", tmp_path):
            with pytest.raises(GatesError, match="can't write"):
                jsonio.write_text(place, "text")
    assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)


@pytest.mark.parametrize("redirect", ["> out", "| cat > out", ">> out"])
def test_stdout_named_as_a_file_keeps_what_is_printed_beside_it(tmp_path: Path, redirect: str) -> None:
    command = f"{sys.executable} -m gates decide {RUN} --junit /dev/stdout {redirect.replace('out', str(tmp_path / 'out'))}"
    assert subprocess.run(command, shell=True, cwd=ROOT, timeout=120, check=False).returncode == 0
    text = (tmp_path / "out").read_text()
    assert text.startswith("<?xml") and text.endswith("\n") and "\nmerge: " in text


def test_a_link_into_a_run_directory_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(list_runs(ROOT / "results" / "recorded" / "h200" / "stage2_wmma_pv")[-1], run)
    before = (run / "COMPARE.md").read_bytes()
    (tmp_path / "link.xml").symlink_to(run / "COMPARE.md")
    done = CliRunner().invoke(cli, ["decide", RUN, "--junit", str(tmp_path / "link.xml")])
    assert isinstance(done.exception, GatesError) and "whose files are evidence" in done.exception.what
    assert (run / "COMPARE.md").read_bytes() == before


def test_a_plain_file_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    out.write_text("old" * 10**6)
    inode = out.stat().st_ino
    assert written(SURFACES["junit"][0], out) == 0
    assert out.stat().st_ino != inode and out.read_text().startswith("<?xml") and [path.name for path in tmp_path.iterdir()] == ["out.xml"]
