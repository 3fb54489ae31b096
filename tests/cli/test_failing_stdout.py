"""stdout and stderr that fail: exit codes stay, what was done is told, and nobody sees a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import command_kit
import pytest
from places import ROOT

RUN = "recorded:h200/stage2"
COMMANDS = [
    "--help",
    "--version",
    "run --help",
    "list",
    "doctor",
    "history",
    f"decide {RUN}",
    f"decide {RUN} --json",
    f"verify {RUN}",
    f"judge {RUN}",
    f"insights {RUN}",
    "explain ptxas",
    f"compare recorded:h200/stage1 {RUN} --out OUT",
]


def shell(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = command.replace("OUT", str(tmp_path / "out")).replace("GATES", f"{sys.executable} -m gates")
    return subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_has_gone_away_is_no_error(tmp_path: Path, arguments: str) -> None:
    done = shell(f"GATES {arguments} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_disk_behind_stdout_is_told_with_what_was_lost(tmp_path: Path, arguments: str) -> None:
    done = shell(f"GATES {arguments} > /dev/full", tmp_path)
    good = command_kit.gates(*arguments.replace("OUT", str(tmp_path / "out")).split(), cwd=ROOT)
    verdict = arguments.split()[0] in ("decide", "verify", "judge", "compare")
    assert done.returncode == (good.returncode if verdict else 2)
    head, _, rest = done.stderr.partition("\n")
    assert head == "error: can't write to stdout: No space left on device; the text was:"
    assert rest.strip() and rest.splitlines()[-1] == good.stdout.splitlines()[-1]
    assert "Traceback" not in done.stderr and "nothing was published" not in done.stderr


def test_a_run_that_was_published_says_so_and_keeps_its_exit_code(tmp_path: Path, saxpy: Path) -> None:
    run = (
        f"GATES run {saxpy}/tasks/saxpy_fast --profile cpu --shapes small --seeds 0 --inputs default --results OUT --build-dir "
        f"{saxpy}/build"
    )
    done = shell(f"{run} > /dev/full", tmp_path)
    (published,) = (tmp_path / "out").glob("*/*/verdict.json")
    assert done.returncode == 0 and f"evidence: {published.parent}" in done.stderr and "decision: hold" in done.stderr
    silent = shell(f"{run} 2> /dev/full", tmp_path)
    assert silent.returncode == 0 and "decision: hold" in silent.stdout and len(list((tmp_path / "out").glob("*/*/verdict.json"))) == 2


@pytest.mark.parametrize("arguments", ["", "decide nowhere", "run --profile none"])
def test_a_full_stderr_changes_no_exit_code(tmp_path: Path, arguments: str) -> None:
    for redirect in ("2> /dev/full", "2>&1 > /dev/null | true; exit ${PIPESTATUS[0]}"):
        assert shell(f"GATES {arguments} {redirect}", tmp_path).returncode == 2
