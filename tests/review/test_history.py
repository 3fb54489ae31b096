"""`gates history`: what runs recorded, whatever state their files are in, and soon enough for a thousand of them."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from runs_kit import PLACES, RECORDED, RUN, sign

from gates.cli.main import cli
from gates.comparison.record import Comparison, Row
from gates.comparison.within import compare_within
from gates.core.errors import GatesError
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.render.history import history_table
from gates.review.history import entry_of, find_runs, history, newest

STAGES = [list_runs(folder)[-1] for folder in sorted((RECORDED / "h100").glob("stage*"))]
SOURCES = [*STAGES, *list_runs(RECORDED / "cpu" / "stage2_wmma_pv")]


COUNT = len(PLACES)


def compared(run: Path) -> Comparison:
    """A recorded run as COMPARE.md has it: its figures by another way than the history's."""
    return compare_within(run, read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json"))


def time_row(run: Path, name: str = "cold p50") -> Row:
    """The row ``name`` of a recorded run's kernel times."""
    return next(row for section in compared(run).sections for row in section.rows if row.name == name)


def many_runs(results: Path, count: int) -> Path:
    """``count`` runs under ``results``, an hour apart: copies of the recorded ones; of the older ones what a history reads."""
    files = {
        run: {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file() and path.suffix != ".ncu-rep"}
        for run in SOURCES
    }
    for number in range(count):
        source = SOURCES[number % len(SOURCES)]
        started = datetime(2026, 1, 1) + timedelta(hours=number)
        info = json.loads(files[source][Path("run.json")])
        info["started"] = f"{started.isoformat(timespec='milliseconds')}+00:00"
        run = results / info["task"]["name"] / f"{started:%Y%m%dT%H%M%SZ}-copy"
        last = number >= count - len(SOURCES)
        for name, content in files[source].items():
            if not last and str(name) not in ("run.json", "verdict.json", "performance.json"):
                continue
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(json.dumps(info, indent=1).encode() if name.name == "run.json" else content)
        if last:
            sign(run)  # a report verifies the newest ones
    return results


def cpu_seconds(*arguments: str | Path) -> float:
    """Processor time of a gates command that must end well; other work on the machine counts for little in it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "gates", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def copied(tmp_path: Path, name: str = "run") -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "some_task" / name))


def test_the_recorded_stages() -> None:
    entries = history(RECORDED)
    stages = ("stage0_scalar", "stage1_wmma_qk", "stage2_wmma_pv", "stage3_cp_async")
    assert len(entries) == COUNT and [entry.task for entry in entries] == sorted(entry.task for entry in entries)
    on_device = [entry for entry in entries if entry.device == "NVIDIA H100 80GB HBM3" and entry.task in stages]
    assert [entry.task for entry in on_device] == list(stages)
    assert {entry.task for entry in entries if entry.device == "cpu"} == {"stage0_scalar", "stage2_wmma_pv"}
    assert not any(entry.broken for entry in entries)
    for entry, run in zip(on_device, STAGES, strict=True):
        performance = json.loads((run / "performance.json").read_text())
        verdict = json.loads((run / "verdict.json").read_text())
        figures = performance["figures"][performance["gated_mode"]]
        assert (entry.p50_us, entry.p90_us) == (figures["candidate"]["p50_us"], figures["candidate"]["p90_us"])
        assert entry.baseline_p50_us == figures.get("baseline", {}).get("p50_us")
        checks = next(gate["checks"] for gate in verdict["gates"] if gate["gate"] == "performance")
        assert entry.speedup_pct == next((check["observed"] for check in checks if check["name"] == "speedup_p50"), None)
        assert entry.decision == verdict["decision"] == "merge"
    assert {(entry.p50_us, entry.decision) for entry in entries if entry.device == "cpu"} == {(None, "hold"), (None, "reject")}


def test_another_layout_of_the_json_is_read_too() -> None:
    entry = entry_of(RUN)
    assert entry.broken == "" and entry.p50_us is not None and entry.speedup_pct is not None and entry.speedup_pct > 60


def test_the_newest_is_last_and_one_task_can_be_chosen(tmp_path: Path) -> None:
    many_runs(tmp_path, 12)
    entries = history(tmp_path)
    assert len(entries) == 12
    for one, two in zip(entries, entries[1:], strict=False):
        assert (one.task, one.device, one.started) < (two.task, two.device, two.started)
    assert (
        {entry.task for entry in history(tmp_path, "stage2")}
        == {entry.task for entry in history(tmp_path, "stage2_wmma_pv")}
        == {entry.task for entry in history(tmp_path, "./tasks/stage2_wmma_pv/")}
        == {"stage2_wmma_pv"}
    )
    shutil.copytree(tmp_path / "stage2_wmma_pv", tmp_path / "longer")
    for run in (tmp_path / "longer").glob("*/run.json"):
        run.write_text(run.read_text().replace('"stage2_wmma_pv"', '"stage2_wmma_pv_fast"'))
    assert {entry.task for entry in history(tmp_path, "stage2_wmma_pv")} == {"stage2_wmma_pv"}  # an exact name takes that task alone
    assert {entry.task for entry in history(tmp_path, "stage2")} == {"stage2_wmma_pv", "stage2_wmma_pv_fast"}
    assert [entry.started for entry in newest(entries) if entry.task == "stage1_wmma_qk"] == ["2026-01-01T11:00:00.000+00:00"]
    with pytest.raises(GatesError, match="no run of 'stage22'") as caught:
        history(tmp_path, "stage22")
    assert "stage2_wmma_pv" in (caught.value.hint or "")


def test_runs_are_ordered_by_instant_whatever_their_clock_showed(tmp_path: Path) -> None:
    times = {
        "b": "2026-11-01T01:30:00-07:00",
        "a": "2026-11-01T01:15:00-08:00",
        "d": "2026-11-01T09:15:00+00:00",
        "c": "2026-11-01T09:00:00Z",
    }
    for name, started in times.items():
        run = copied(tmp_path, name)
        info = json.loads((run / "run.json").read_text(encoding="utf-8"))
        (run / "run.json").write_text(json.dumps({**info, "started": started}), encoding="utf-8")
    assert [Path(entry.path).name for entry in history(tmp_path)] == ["b", "c", "a", "d"]  # 8:30, 9:00, 9:15 and 9:15 by name
    assert all(entry.started.endswith("+00:00") for entry in history(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", None, "no run.json"),
        ("verdict.json", None, "no verdict.json"),
        ("run.json", b"[]", "holds no object"),
        ("run.json", b'{"task": 3}', "task is missing"),
        ("run.json", b"[" * 100_000, "not readable as JSON: RecursionError"),
        ("run.json", b'{"a": ' + b"1" * 5000 + b"}", "not readable as JSON: ValueError"),
        ("run.json", b"\xff\xfe", "not UTF-8"),
        ("verdict.json", b"{", "cut short"),
        ("verdict.json", b'{"decision": "perhaps"}', "decision 'perhaps' is not one of merge, reject, hold"),
        ("verdict.json", b'{\n "schema_version": 7,\n "decision": "merge"\n}', "schema version 7 is newer"),
        ("performance.json", b'{"status": "measured",', "cut short"),
        (
            "performance.json",
            b'{"status": "measured", "shape": "s", "figures": {"cold": {"candidate": {"p50_us": -1}}}}',
            "p50_us -1 is no time",
        ),
        (
            "performance.json",
            b'{"status": "measured", "shape": "s", "figures": {"cold": {"candidate": {"p50_us": NaN}}}}',
            "p50_us nan is no time",
        ),
    ],
)
def test_a_broken_run_is_listed_with_its_reason(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    copied(tmp_path, "sound")
    run = copied(tmp_path)
    (run / name).unlink()
    if content is not None:
        (run / name).write_bytes(content)
    entries = history(tmp_path)
    assert len(entries) == 2 and [entry.broken for entry in entries if entry.broken] == [entry_of(run).broken]
    assert reason in entry_of(run).broken
    text = history_table(entries)
    assert "can't be read:" in text and reason in text and str(run) in text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"started":"2', '"started":"never 2', "is no time"),
        ('"name":"stage2_wmma_pv"', '"name":"\\ud800"', "lone surrogate"),
        ('"name":"stage2_wmma_pv"', '"name":null', "name is missing or no text"),
    ],
)
def test_values_of_another_kind(tmp_path: Path, old: str, new: str, reason: str) -> None:
    run = copied(tmp_path)
    text = (run / "run.json").read_text()
    assert old in text
    (run / "run.json").write_text(text.replace(old, new, 1))
    assert reason in entry_of(run).broken


def test_pipes_links_and_runs_being_written_are_left_alone(tmp_path: Path) -> None:
    run = copied(tmp_path)
    (run / "verdict.json").unlink()
    os.mkfifo(run / "verdict.json")
    assert entry_of(run).broken == "no verdict.json"
    shutil.copytree(RUN, tmp_path / "some_task" / ".writing-x")
    (tmp_path / "some_task" / "linked").symlink_to(RUN)
    assert list(find_runs(tmp_path)) == [run]


def test_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="no results folder"):
        history(tmp_path / "none")
    with pytest.raises(GatesError, match="no run found"):
        history(tmp_path)


def test_a_name_can_not_steer_the_terminal(tmp_path: Path) -> None:
    run = copied(tmp_path)
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"stage2_wmma_pv"', '"a\\u001b[2Jb\\u202ec\\nd"', 1))
    table = history_table(history(tmp_path))
    assert r"a\x1b[2Jb\x202ec d" in table and "\x1b" not in table


def test_names_of_other_people_steer_no_terminal(tmp_path: Path) -> None:
    many_runs(tmp_path, 1)
    run = next(find_runs(tmp_path))
    info = json.loads((run / "run.json").read_text())
    info["task"]["name"], info["task"]["title"] = "a\x1b[2Jb", "one\r\ntwo \u202e"
    (run / "run.json").write_text(json.dumps(info))
    for option in ((), ("--csv",)):
        text = CliRunner().invoke(cli, ["history", *option, "--results", str(tmp_path)], catch_exceptions=False).output
        assert "a\\x1b[2Jb" in text and all(line.isprintable() for line in text.split("\n"))
    assert [row["title"] for row in csv.DictReader(io.StringIO(text))] == ["one  two \\x202e"]


def test_the_command_prints_a_table_json_and_csv(tmp_path: Path) -> None:
    runner = CliRunner()
    table = runner.invoke(cli, ["history", "stage2", "--results", str(RECORDED)], catch_exceptions=False).output
    assert table.splitlines()[0].split() == [
        "task",
        "device",
        "started",
        "(UTC)",
        "p50",
        "us",
        "p90",
        "us",
        "speed-up",
        "of",
        "the",
        "limit",
        "decision",
        "run",
    ]
    speed, row = compared(STAGES[2]).speed, time_row(STAGES[2])
    assert (
        speed is not None
        and f"{speed.speedup_pct:+.1f} %" in table
        and f"{row.candidate:.2f}" in table
        and "hold" in table
        and "stage1" not in table
    )
    data = json.loads(runner.invoke(cli, ["history", "--json", "--results", str(RECORDED)], catch_exceptions=False).output)
    assert (
        data["schema_version"] == 1
        and len(data["runs"]) == COUNT
        and {run["p50_us"] is None for run in data["runs"] if run["device"] == "cpu"} == {True}
    )
    rows = list(
        csv.DictReader(io.StringIO(runner.invoke(cli, ["history", "--csv", "--results", str(RECORDED)], catch_exceptions=False).output))
    )
    assert [row["task"] for row in rows] == [run["task"] for run in data["runs"]]
    for row, run in zip(rows, data["runs"], strict=True):
        assert row["speedup_pct"] == ("" if run["speedup_pct"] is None else repr(run["speedup_pct"]))
    with pytest.raises(GatesError, match="exclude each other"):
        runner.invoke(cli, ["history", "--csv", "--json"], catch_exceptions=False)


def test_a_thousand_runs_in_time(tmp_path: Path) -> None:
    many_runs(tmp_path, 1000)
    assert cpu_seconds("history", "--results", tmp_path) < 5  # 0.9 s measured
    assert cpu_seconds("report", "--all", "--results", tmp_path, "-o", tmp_path / "all.html") < 12  # 4.2 s measured


def test_a_row_names_its_run_and_what_was_set_from_outside(tmp_path: Path) -> None:
    run = tmp_path / "results" / "stage2_wmma_pv" / "20260101T000000Z-0123abcd-dirty-cpu"
    shutil.copytree(RUN, run)
    info = json.loads((run / "run.json").read_text())
    info["task"]["overrides"] = {"shapes": "small", "seeds": "0"}
    (run / "run.json").write_text(json.dumps(info))
    (entry,) = history(tmp_path / "results")
    assert entry.overridden == ("seeds", "shapes")
    assert history_table([entry]).splitlines()[-1].rstrip().endswith(f"{run} (with seeds, shapes set)")
