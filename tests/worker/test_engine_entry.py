"""The engine runs its own entry for every job: a task's runner.py is for people, and has no say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gates.worker.describe import describe
from gates.worker.job import FinishedJob


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "doubled.py").write_text(
        "import torch\nSHAPES = {'small': {'N': 4}}\ndef make_inputs(shape, seed, device): return {'x': torch.ones(4)}\n"
        "def reference(inputs, shape): return {'out': 2 * inputs['x'].double()}\n"
    )
    return tmp_path / "task"


@pytest.mark.parametrize(
    "runner",
    [
        None,
        "raise SystemExit(3)",
        (
            "import json, sys\njob = json.load(open(sys.argv[2]))\n"
            "open(job['result'], 'w').write(json.dumps({'type': 'shapes', 'shapes': {'small': {'N': 5}}, 'nonce': job['nonce']}))\n"
        ),
    ],
    ids=["none", "broken", "forging"],
)
def test_a_task_s_runner_has_no_say_in_a_job(folder: Path, tmp_path: Path, runner: str | None) -> None:
    if runner is not None:
        (folder / "runner.py").write_text(runner)
    assert describe(folder, "doubled", ["small"], work=tmp_path / "work", limit_s=60) == {"small": {"N": 4}}


@pytest.mark.parametrize("forked", [True, False])
def test_files_of_the_package_and_of_the_work_folder_hide_no_module(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: bool
) -> None:
    """gates/worker has a sandbox.py; the work folder can be written to by kernels."""
    monkeypatch.setenv("GATES_FORK", "1" if forked else "0")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "torch.py").write_text("raise SystemExit(7)")
    (folder / "doubled.py").write_text(
        (folder / "doubled.py").read_text() + "import importlib.util\nassert importlib.util.find_spec('sandbox') is None\n"
    )
    assert describe(folder, "doubled", ["small"], work=tmp_path / "work", limit_s=60) == {"small": {"N": 4}}


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", "it printed nothing"),
        ("one\ntwo\n", "two"),
        ("one\nTraceback (most recent call last):\n  File\nTypeError: two\n * of\nthree\n", "TypeError: two"),
        (
            "Traceback (most recent call last):\n  File\nKeyError: 1\n\nTraceback (most recent call last):\n  File\nOSError: 2\n",
            "OSError: 2",
        ),
        ("Traceback (most recent call last):\n  File", "File"),
    ],
)
def test_the_last_words_of_a_traceback_name_the_exception(printed: str, words: str) -> None:
    assert FinishedJob("", 1, "exit 1", False, 0.0, (), printed).last_words() == words
