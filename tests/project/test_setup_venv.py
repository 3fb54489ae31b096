"""`make setup`: an environment whose making was stopped is made anew, and nobody else's is touched."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import setup_venv


class Killed(BaseException):
    """Nothing of the script runs after it, as after SIGKILL."""


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the script on tmp_path/venv with a stub of venv and pip; ``stop`` names the step that is killed half-way."""
    venv = tmp_path / "venv"

    def call(stop: str = "") -> list[str]:
        done = []

        def step(argv: list[str], **_: Any) -> SimpleNamespace:
            name = "venv" if "venv" in argv[1:3] else "pip"
            done.append(name)
            (venv / "bin").mkdir(parents=True, exist_ok=True)
            (venv / "bin" / ("python" if name == "venv" else "half-installed")).touch()
            if name == stop:
                raise Killed
            if name == "pip":
                (venv / "bin" / "half-installed").rename(venv / "bin" / "gates")
            return SimpleNamespace(returncode=0)

        monkeypatch.setattr(setup_venv.subprocess, "run", step)
        monkeypatch.setattr(sys, "argv", ["setup_venv.py", "--venv", str(venv)])
        assert setup_venv.main() == 0
        return done

    return call


@pytest.mark.parametrize("stop", ["venv", "pip"])
def test_a_stopped_setup_is_made_anew_and_then_left_alone(tmp_path: Path, setup: Any, stop: str) -> None:
    with pytest.raises(Killed):
        setup(stop)
    broken = tmp_path / "venv" / "lib" / "half.dist-info"
    broken.mkdir(parents=True)
    with pytest.raises(Killed):  # and again, after emptying it
        setup("venv")
    assert not broken.exists()
    assert setup() == ["venv", "pip"]
    assert sorted(path.name for path in (tmp_path / "venv" / "bin").iterdir()) == ["gates", "python"]
    assert setup() == []


def test_a_stopped_update_is_done_again_and_removes_nothing(tmp_path: Path, setup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    setup()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(setup_venv, "fingerprint", lambda extras: "newer")
        setup("pip")
    assert (tmp_path / "venv" / "bin" / "gates").exists()
    assert setup() == ["venv", "pip"]


def test_an_environment_of_someone_else_is_never_emptied(tmp_path: Path, setup: Any) -> None:
    mine = tmp_path / "venv" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(Killed):
        setup("pip")
    assert setup() == ["venv", "pip"] and mine.exists()


def test_a_colon_separates_folders_so_no_environment_is_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_venv.subprocess, "run", lambda *_, **__: pytest.fail("something was started"))
    monkeypatch.setattr(sys, "argv", ["setup_venv.py", "--venv", str(tmp_path / "a:b")])
    assert setup_venv.main() == 2
    assert "a:b has a ':' in its name" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
