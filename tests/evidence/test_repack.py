"""Packed runs made smaller hold what they held; recorded evidence stays small."""

from __future__ import annotations

import subprocess
import sys
import types
import zlib
from pathlib import Path

import pytest
import repack
from places import ROOT
from runs_kit import RECORDED

from gates.evidence import archive

MOST_BYTES, MOST_FILES = 12 * 2**20, 200


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded run, packed carelessly; zopfli's place is taken by zlib."""
    fake = types.ModuleType("zopfli.zlib")
    fake.compress = lambda data, numiterations: zlib.compress(data, 9)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zopfli", types.SimpleNamespace(zlib=fake))
    source = min(RECORDED.rglob("*.zip"), key=lambda path: path.stat().st_size)

    def stored(data: bytes) -> bytes:
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        return deflate.compress(data) + deflate.flush()

    target = tmp_path / source.name
    target.write_bytes(archive.write(archive.read(source.read_bytes()), stored))
    return target


def test_contents_stay_and_the_file_is_smaller(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = packed.read_bytes()
    assert repack.main([str(packed.parent)]) == 0
    after = packed.read_bytes()
    assert len(after) < len(before) and archive.read(after) == archive.read(before)
    assert f"{len(before)} -> {len(after)} bytes" in capsys.readouterr().out
    assert repack.repack(packed) == (len(after), len(after)) and packed.read_bytes() == after


def test_no_folder_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert repack.main([]) == 2 and "no folder named" in capsys.readouterr().err


def test_recorded_evidence_is_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "results/recorded"], cwd=ROOT, capture_output=True, check=False)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name] or [path for path in RECORDED.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert size <= MOST_BYTES and len(files) <= MOST_FILES, f"{size} bytes in {len(files)} files: python scripts/repack.py results/recorded"
