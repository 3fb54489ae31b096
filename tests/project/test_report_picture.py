"""The picture of a report is made by a browser that is on PATH; without one the script says what to install."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import report_picture

BROWSER = """#!/bin/sh
for option in "$@"; do case "$option" in --screenshot=*) out="${option#--screenshot=}";; file:*) page="${option#file://}";; esac; done
[ -n "$FAILS" ] && { echo "no display" >&2; exit 7; }
[ "$(cat "$page")" = "the page" ] && cp "$SHOWS" "$out"
"""


def size(picture: Path) -> tuple[int, ...]:
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">2I", head[16:24])


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for PATH, with a browser that shows the page as the picture of the README."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "google-chrome"
    file.write_text(BROWSER, encoding="utf-8")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:/bin:/usr/bin")
    monkeypatch.setenv("SHOWS", str(report_picture.PICTURE))
    monkeypatch.setattr(report_picture, "BROWSERS", ("google-chrome",))
    monkeypatch.setattr(report_picture, "write_report", lambda results, runs, out: out.write_text("the page") and out)
    return file


def test_the_page_is_given_to_the_browser(browser: Path, tmp_path: Path) -> None:
    assert report_picture.main(tmp_path / "report.png") == 0
    assert size(tmp_path / "report.png") == size(report_picture.PICTURE) == report_picture.SIZE


def test_what_is_lacking_is_said(
    browser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAILS", "yes")
    assert report_picture.main(tmp_path / "report.png") == 1 and "wrote no picture (exit 7): no display" in capsys.readouterr().err
    browser.unlink()
    assert report_picture.main(tmp_path / "report.png") == 3 and "no browser on PATH: google-chrome" in capsys.readouterr().err
    assert not (tmp_path / "report.png").exists()
