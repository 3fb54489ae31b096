"""scripts/record.sh: which tasks it runs with which options, and that one of them can neither stop nor starve the others."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from places import ROOT

STUB = """#!/bin/sh
echo "$*" >> {log}
case "$4" in stage1) exit 3;; stage2) exec sleep 30;; stage3) exit 1;; esac
"""


def record(folder: Path, *arguments: str, script: Path = ROOT / "scripts" / "record.sh") -> tuple[subprocess.CompletedProcess, list[str]]:
    """The script with a stub for the interpreter, and the command lines that this got."""
    log, python = folder / "log", folder / "python"
    python.write_text(STUB.format(log=log))
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", str(script), *arguments],
        env={**os.environ, "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, log.read_text().splitlines() if log.is_file() else []


def test_without_names_it_is_every_stage_rung_and_example_in_order(tmp_path: Path) -> None:
    done, calls = record(tmp_path, "h100")
    names = [call.split()[3] for call in calls]
    assert done.returncode == 0 and sorted(names) == sorted(
        [
            *(path.parent.name for path in (ROOT / "tasks").glob("*/task.yaml")),
            *(f"./{path.parent.relative_to(ROOT)}" for path in (ROOT / "examples").glob("*/*/task.yaml")),
        ]
    )
    order = [name for name in names if name.startswith("fp16_v")]
    assert order == sorted(order, key=lambda name: int(name.split("_")[1][1:]))
    for call in calls:
        folder = "h100-examples" if "examples/" in call else "h100"
        assert (
            "--profile full" in call
            and call.endswith(f"--results results/recorded/{folder}")
            and ("--thorough" in call) == (folder == "h100")
        )


def test_neither_a_failure_nor_a_hang_stops_the_next_task(tmp_path: Path) -> None:
    done, calls = record(tmp_path, "-t", "1", "h100", "stage0", "stage1", "stage2", "stage3", "stage0")
    assert [call.split()[3] for call in calls] == ["stage0", "stage1", "stage2", "stage3", "stage0"]
    assert done.returncode == 3 and "stopped: stage2 took longer than 1 s" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("./stage1",), ("-t", "soon", "h100"), ("-t", "0", "h100"), ("-x", "h100")])
def test_wrong_usage_runs_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done, calls = record(tmp_path, *arguments)
    assert done.returncode == 2 and calls == [] and done.stderr


def test_what_was_recorded_is_packed(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "record.sh"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts" / "record.sh", script)
    for place in ("h100/stage0_scalar", "h100-examples/gelu", "h200/stage0_scalar"):
        (tmp_path / "results" / "recorded" / place / "a run").mkdir(parents=True)
        (tmp_path / "results" / "recorded" / place / "a run" / "run.json").touch()
    done, calls = record(tmp_path, "h100", "stage0", script=script)
    assert done.returncode == 0 and calls[1:] == [
        "-m gates pack --replace results/recorded/h100/stage0_scalar/a run results/recorded/h100-examples/gelu/a run"
    ]
