"""The revision is that of the checkout itself, whatever the environment says, and unknown where git refuses to tell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gates.evidence.revision import revision
from gates.evidence.run_directory import Git

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git")
pytestmark = needs_git


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["GATES_REVISION"]:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "a").write_text("1")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


def test_a_checkout_and_what_changed_in_it(checkout: Path) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    assert revision(checkout) == Git(sha, False, "git")
    (checkout / "results").mkdir()
    (checkout / "results" / "r").touch()
    assert not revision(checkout).dirty
    (checkout / "b").touch()
    assert revision(checkout) == Git(sha, True, "git")


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"])
def test_what_a_hook_sets_leads_to_no_other_repository(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    expected = revision(checkout)
    value = {
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git" / "index.lock",
        "GIT_OBJECT_DIRECTORY": other / ".git" / "objects",
    }.get(variable, other / ".git")
    monkeypatch.setenv(variable, str(value))
    assert revision(checkout) == expected and expected.sha == git_without(checkout)


def git_without(folder: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True, env=clean
    ).stdout.strip()


def refusing(folder: Path, words: str) -> Path:
    """A git that refuses with ``words``."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\necho "fatal: {words}" >&2\nexit 128\n')
    program.chmod(0o755)
    return folder


def test_a_checkout_of_another_owner_is_unknown_and_not_clean(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{refusing(tmp_path / 'bin', 'detected dubious ownership in repository at x')}:{os.environ['PATH']}")
    assert revision(checkout) == Git(None, True, "unknown: git refused (dubious ownership)")
    monkeypatch.setenv("GATES_REVISION", "0123456789")
    assert revision(checkout) == Git("0123456789", False, "GATES_REVISION")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_checkout_of_another_owner(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 12345, 12345)
    assert revision(checkout) == Git(None, True, "unknown: git refused (dubious ownership)")


def test_no_checkout_is_none_and_a_broken_one_is_unknown(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert revision(tmp_path / "plain") == Git(None, False, "none")
    (checkout / ".git" / "HEAD").write_text("junk")
    found = revision(checkout)
    assert (found.sha, found.dirty) == (None, True) and found.source.startswith("unknown: git refused (")
