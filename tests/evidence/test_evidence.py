"""Run directories: whole or absent, never overwritten, found again by name."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from random import Random

import pytest

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evidence.run_directory import (
    Git,
    RunDirectory,
    Verdict,
    list_runs,
    portable,
    read_record,
    resolve_run,
    run_label,
)


def publish(results: Path, label: str = "20260101T000000Z-abc-cpu") -> Path:
    with RunDirectory(results, "task") as directory:
        directory.write_json("run.json", {"a": 1})
        return directory.publish(label)


def test_a_run_is_published_whole(tmp_path: Path) -> None:
    run = publish(tmp_path)
    assert {path.name for path in run.iterdir()} == {"run.json", "manifest.json"}
    assert stat.S_IMODE(run.stat().st_mode) == 0o755
    assert list_runs(tmp_path / "task") == [run]


def test_a_run_of_the_same_second_gets_a_number(tmp_path: Path) -> None:
    assert [publish(tmp_path).name for _ in range(3)] == [f"20260101T000000Z-abc-cpu{end}" for end in ("", "-2", "-3")]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunDirectory(tmp_path, "task") as directory:
        directory.write_json("run.json", {})
        raise RuntimeError
    assert list((tmp_path / "task").iterdir()) == []


def test_what_a_killed_run_left_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, "task") as living:
        dead = tmp_path / "task" / ".writing-dead"
        dead.mkdir()
        (dead / "run.json").write_text("{}")
        for path in (dead, living.path):
            os.utime(path, (0, 0))
        publish(tmp_path)
        assert not dead.exists()
        assert living.path.exists()


def test_a_read_only_place_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="can't write results under") as caught:
        RunDirectory(Path("/proc/nowhere"), "task")
    assert "--results" in caught.value.hint


def test_runs_are_found_by_path_latest_and_recorded(tmp_path: Path) -> None:
    first, second = publish(tmp_path, "20260101T000000Z-a-cpu"), publish(tmp_path, "20260102T000000Z-a-cpu")
    recorded = publish(tmp_path / "recorded" / "h100")
    assert resolve_run(str(first), tmp_path) == first
    assert resolve_run("latest:task", tmp_path) == second
    assert resolve_run("recorded:h100/task", tmp_path) == recorded
    assert resolve_run(str(recorded.parent), tmp_path) == recorded
    for name, expected in (
        ("latest:other", "no run found"),
        (str(tmp_path), "is not a run directory"),
        (str(first.parent), "holds 2 runs"),
        ("latest:../task", "no run found"),
        (f"latest:{first.parent}", "no run found"),
        ("recorded:../task", "no run found"),
    ):
        with pytest.raises(GatesError, match=expected):
            resolve_run(name, tmp_path)
    with pytest.raises(GatesError) as caught:
        resolve_run("recorded:h100", tmp_path)
    assert caught.value.hint == "it is a device: name one of its runs, such as recorded:h100/task"


def test_labels_hold_time_revision_and_device() -> None:
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert (
        run_label(started, Git("0123456789ab", True, "git"), "NVIDIA H100 80GB HBM3")
        == "20260102T030405Z-01234567-dirty-nvidia-h100-80gb-hbm3"
    )
    assert run_label(started, Git(None, False, "none"), "cpu") == "20260102T030405Z-norev-cpu"


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text('{"schema_version": 99}')
    with pytest.raises(GatesError, match="schema version 99 is newer"):
        read_record(Verdict, tmp_path, "verdict.json")


def test_paths_of_the_machine_are_left_out(tmp_path: Path) -> None:
    assert portable(f"g++ {tmp_path}/a.cu", tmp_path) == "g++ ./a.cu"


WRITER = """
import sys
from pathlib import Path
from gates.evidence.run_directory import RunDirectory
print("ready", flush=True)
while True:
    with RunDirectory(Path(sys.argv[1]), "task") as directory:
        for name in ("run.json", "verdict.json", "baseline/ptxas.json"):
            directory.write_json(name, {"name": name, "values": list(range(3000))})
        directory.publish("20260101T000000Z-abc-cpu")
"""


def test_killed_at_twenty_moments_of_writing_it_leaves_whole_runs_alone(tmp_path: Path) -> None:
    """SIGKILL at random moments, two writers at a time in one folder; whole runs are killed in test_pipeline."""
    random = Random(20)
    for _ in range(10):
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(2)]
        assert all(writer.stdout.readline() == b"ready\n" for writer in writers)
        for writer in writers:
            time.sleep(random.uniform(0.0, 0.08))
            writer.kill()
            writer.communicate()
    runs = list_runs(tmp_path / "task")
    assert len(runs) > 4
    for run in runs:
        listed = json.loads((run / "manifest.json").read_text())["sha256"]
        assert listed == {
            path.relative_to(run).as_posix(): jsonio.sha256(path)
            for path in run.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        assert set(listed) == {"run.json", "verdict.json", "baseline/ptxas.json"}
    left = set((tmp_path / "task").iterdir()) - set(runs)
    assert left and all(path.name.startswith(".writing-") for path in left)
    for path in left:
        os.utime(path, (0, 0))  # as if they had died a while ago
    publish(tmp_path)
    assert len(list_runs(tmp_path / "task")) == len(list((tmp_path / "task").iterdir())) == len(runs) + 1


def test_a_run_is_never_written_into_another(tmp_path: Path) -> None:
    run = publish(tmp_path)
    for folder in (run, run / "deep"):
        with pytest.raises(GatesError, match="whose files are evidence"):
            RunDirectory(folder, "task")
    assert {path.name for path in run.iterdir()} == {"run.json", "manifest.json"}


def test_the_latest_run_is_the_one_that_started_last(tmp_path: Path) -> None:
    """Whatever the folders are called: of a copy, with a number, of another device; one that can't be read is none."""

    def run(name: str, started: object) -> None:
        (tmp_path / "task" / name).mkdir(parents=True)
        (tmp_path / "task" / name / "run.json").write_text(json.dumps({"started": started}))

    def latest() -> str:
        return resolve_run("latest:task", tmp_path).name

    run("20260101T000000Z-a-h200", "2026-01-01T00:00:00.000+00:00")
    run("zz-copied", "2025-01-01T00:00:00.000+00:00")
    assert latest() == "20260101T000000Z-a-h200"
    for number in (2, 10, 9):
        run(f"20260101T000000Z-a-h200-{number}", "2026-01-01T00:00:00.000+00:00")
    assert latest() == "20260101T000000Z-a-h200-10"
    run("0-first", "2026-01-01T00:00:00.001+00:00")
    assert latest() == "0-first"
    for number, broken in enumerate((None, 7, "soon", ["2027"])):
        run(f"zz-{number}", broken)
    (tmp_path / "task" / "zzz").mkdir()
    (tmp_path / "task" / "zzz" / "run.json").write_text("{")
    assert latest() == "0-first"


def test_the_beginning_of_a_name_is_enough_where_it_is_one_task_s(tmp_path: Path) -> None:
    for task in ("fp16_v1_scalar", "fp16_v10_hopper", "fp16_v2_tiles"):
        for name in ("20260101T000000Z-a", "20260102T000000Z-b"):
            (tmp_path / task / name).mkdir(parents=True)
            (tmp_path / task / name / "run.json").touch()
    assert resolve_run("latest:fp16_v1", tmp_path) == tmp_path / "fp16_v1_scalar" / "20260102T000000Z-b"
    with pytest.raises(GatesError, match="names runs of several tasks: fp16_v10_hopper, fp16_v1_scalar, fp16_v2_tiles"):
        resolve_run("latest:fp16", tmp_path)
    with pytest.raises(GatesError, match="no run found"):
        resolve_run("latest:fp16_v", tmp_path)


def test_a_task_s_folder_is_as_good_as_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = publish(tmp_path / "results", "20260101T000000Z-a-cpu")
    (tmp_path / "d" / "task").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GatesError, match="no run found"):
        resolve_run("latest:./d/task", tmp_path / "results")  # a folder, but not a task's
    (tmp_path / "d" / "task" / "task.yaml").touch()
    assert resolve_run("latest:./d/task", tmp_path / "results") == resolve_run("latest:d/task/", tmp_path / "results") == run
    monkeypatch.chdir(tmp_path / "d" / "task")
    assert resolve_run("latest:.", tmp_path / "results") == run


def test_a_run_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    run = tmp_path / "results" / "recorded" / "h100" / "stage3_cp_async" / "run"
    run.mkdir(parents=True)
    (run / "run.json").touch()
    with pytest.raises(GatesError) as caught:
        resolve_run("recorded:h100/stage7", tmp_path / "results")
    assert caught.value.hint == "did you mean recorded:h100/stage3_cp_async?"
    with pytest.raises(GatesError) as caught:
        resolve_run("latest:stage7", tmp_path / "elsewhere")
    assert "--results names the one that holds runs" in caught.value.hint
