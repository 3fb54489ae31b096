"""runner.py: one job for the engine, or a table for people."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import OnceASession
from places import TASKS

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.cli import task_runner
from gates.core.errors import GatesError
from gates.launch.device import probe
from gates.task.load import load_task
from gates.worker import runner

FAST = TASKS / "saxpy_fast"


@pytest.fixture(scope="module")
def build_dir(kept: OnceASession) -> Path:
    folder = kept("saxpy_by_hand", lambda folder: None)
    built = build(load_task(FAST, environ={}), find_toolchain(), folder, want={"emulator"})
    assert built.path("emulator"), built.failures
    return folder


def by_hand(build_dir: Path, *arguments: str, folder: Path = FAST) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "runner.py"), "--device", "emulator", "--build-dir", str(build_dir), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_a_kernel_prints_is_shown(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path, dirs_exist_ok=True)
    source = tmp_path / "saxpy.cu"
    text, first = source.read_text(), "  const int64_t first = thread * 4;\n"
    assert first in text
    source.write_text(text.replace(first, first + '  if (thread == 5) printf("thread %d\\n", threadIdx.x);\n'))
    done = by_hand(tmp_path / "build", "--shape", "small", "--seed", "0", folder=tmp_path / "saxpy_fast")
    assert done.returncode == 0 and "printed by the kernel's process, the end of it:\nthread 5\n" in done.stderr, done.stderr


def test_table_of_an_honest_kernel(build_dir: Path) -> None:
    done = by_hand(build_dir, "--shapes", "small", "--seeds", "0,1", "--iters", "500")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "saxpy_fast on the CPU emulator"
    assert lines[1].split() == ["case", "status", "max_abs_err", "mean_abs_err", "bad_pct", "err/bound", "seconds"]
    assert lines[2].startswith("small seed 0") and lines[3].startswith("small seed 1")
    assert lines[4].startswith("tail seed 0 (odd)")
    assert lines[5] == "correctness: pass: 2/2 cases and 1 odd shape"
    assert lines[6].startswith("timing: left out")


def test_unknown_shape_names_the_nearest(build_dir: Path) -> None:
    done = by_hand(build_dir, "--shapes", "smal")
    assert done.returncode == 2
    assert "error: problem saxpy_problem has no shape 'smal'" in done.stderr
    assert "did you mean small" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "0,x"],
        ["--device", "tpu"],
        ["--shape", "small", "--shapes", "small,tail"],
        ["--seeds", "0", "--seed", "1"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        task_runner.main(str(FAST / "runner.py"), arguments)
    assert caught.value.code == 2


def test_no_device_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    if probe().devices:
        pytest.skip("there is a CUDA device")
    with pytest.raises(GatesError) as caught:
        task_runner._device("cuda")
    assert caught.value.exit_code == 3 and "no CUDA device" in caught.value.what
    assert task_runner._device("auto") is None


@pytest.mark.parametrize("job", [{"kind": "bake"}, {}, []])
def test_unknown_job_is_refused(tmp_path: Path, job: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        runner.job_main(path, FAST)
    assert caught.value.code == 2 and "job kind" in capsys.readouterr().err


def test_help_ends_in_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        task_runner.main(str(FAST / "runner.py"), ["--help"])
    assert caught.value.code == 0
    assert "--shapes small,mission --seeds 0,1,2 --iters 500" in capsys.readouterr().out


def test_a_reader_that_goes_away_ends_no_runner_with_a_traceback(build_dir: Path) -> None:
    command = f"{sys.executable} {FAST / 'runner.py'} --shape small --seed 0 --device emulator --build-dir {build_dir} | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stdout and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr, done.stderr
