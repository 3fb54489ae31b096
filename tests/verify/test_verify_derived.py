"""What a run holds beside evidence, each with a fresh digest: a file of no run, a report and
counters that are not those of the evidence.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from runs_kit import PLACES, sign

from gates.cli import findings as found_by_verify
from gates.cli.guard import guard
from gates.cli.main import cli
from gates.comparison.within import compare_within
from gates.core import jsonio
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate.ncu.evidence import NcuEvidence
from gates.gate.registry import ROWS
from gates.render.compare import REPORT_VERSION, footer
from gates.verify import run as verify
from gates.verify.files import FILES
from gates.verify.profile import profile_problems
from gates.verify.report import report_problems

FULL = list_runs(ROOT / "results" / "recorded" / "h200" / "stage2_wmma_pv")[-1]
# As the package ncu-report answers: the report is JSON here, {"launches": [[name, {metric: value}], ...]}.
READER = """
import json, os
class Metric:
    def __init__(self, value): self._value = value
    def value(self): return self._value
    def unit(self): return ""
class Action:
    NameBase_DEMANGLED = 0
    def __init__(self, name, metrics): self._name, self._metrics = name, metrics
    def name(self, base): return self._name
    def metric_by_name(self, name): return Metric(self._metrics[name]) if name in self._metrics else None
class Report:
    def __init__(self, launches): self._launches = launches
    def num_ranges(self): return 1
    def range_by_idx(self, index): return self
    def num_actions(self): return len(self._launches)
    def action_by_idx(self, index): return Action(*self._launches[index])
def load_report(path):
    text = open(path).read()
    if text == "crash":
        os.abort()
    return Report(json.loads(text)["launches"])
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    target = tmp_path / "run"
    shutil.copytree(FULL, target)
    info, verdict = read_record(RunInfo, target, "run.json"), read_record(Verdict, target, "verdict.json")
    (target / "COMPARE.md").write_text(compare_within(target, info, verdict).markdown())
    sign(target)
    return target


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "baseline/notes.txt",
        "compare.json",
        "baseline/run.json",
        "more/run.json",
        "profile2.ncu-rep",
        "baseline/baseline/ptxas.json",
        "COMPARE.md.orig",
    ],
)
def test_a_file_of_no_run(run: Path, name: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    shutil.copyfile(run / "run.json", run / name)
    assert f"{name} is not in the manifest" in verify.verify_run(run)
    sign(run, rendered=False)
    assert f"{name} is not a file of a run" in verify.verify_run(run)


def test_each_file_that_a_run_writes_is_one_of_a_run() -> None:
    names = {path.relative_to(run).as_posix() for run in map(opened, PLACES) for path in run.rglob("*") if path.is_file()}
    optional = {f"{folder}{gate}.json" for gate, row in ROWS.items() if row.optional for folder in ("", "baseline/")}
    assert names <= FILES
    assert FILES - names - optional <= {f"baseline/{gate}.json" for gate in ("correctness", "sanitizer", "performance", "ncu")}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "Approved.\n",
        lambda text: text.replace("pass", "fail", 1),
        lambda text: text.replace("merge", "reject", 1),
        lambda text: re.sub(r"\| cold p50 \| us \| [0-9.]+", "| cold p50 | us | 99.9", text),
        lambda text: text.replace("registers", "register", 1),
        lambda _: "",
        lambda text: text.replace("\n", "\r\n"),
    ],
)
def test_a_report_that_the_evidence_does_not_render(run: Path, change) -> None:
    assert verify.verify_run(run) == []
    with (run / "COMPARE.md").open("w", newline="") as file:
        file.write(change(_text(run)))
    sign(run, rendered=False)
    assert any("COMPARE.md" in problem for problem in verify.verify_run(run)), verify.verify_run(run)


def _text(run: Path) -> str:
    info, verdict = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")
    return compare_within(run, info, verdict).markdown()


def test_a_report_of_another_version_is_compared_in_what_every_version_has(run: Path) -> None:
    older = _text(run).replace("Kernel time", "Time of the kernel").removesuffix(footer(REPORT_VERSION)) + footer(REPORT_VERSION + 1)
    (run / "COMPARE.md").write_text(older)
    assert report_problems(run) == (
        [],
        [
            f"COMPARE.md was rendered by report version {REPORT_VERSION + 1}: not checked beyond its decision, gates, speed-up and "
            f"kernel times"
        ],
    )
    for before, after, expected in (
        ("# merge: ", "# hold: ", "does not begin with '# merge: '"),
        ("| correctness | pass |", "| correctness | FAIL |", "does not give correctness as pass"),
        ("**Speed-up +7", "**Speed-up +9", "gives a speed-up of +9"),
        ("| cold p50 | us | ", "| cold p50 | us | 9", "says cold p50 9"),
    ):
        assert before in older
        (run / "COMPARE.md").write_text(older.replace(before, after))
        problems, notes = report_problems(run)
        assert notes == [] and len(problems) == 1 and expected in problems[0]


def test_a_report_that_lost_its_version(run: Path) -> None:
    (run / "COMPARE.md").write_text(_text(run).removesuffix(footer(REPORT_VERSION)).removesuffix("\n"))
    info = json.loads((run / "run.json").read_text())
    build = info["task"].pop("build")
    (run / "run.json").write_text(json.dumps(info))
    assert report_problems(run) == ([], [])  # as the first versions wrote it
    info["task"]["build"] = build
    (run / "run.json").write_text(json.dumps(info))
    assert report_problems(run) == (["COMPARE.md has lost its last line, which gives the report's version"], [])


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the package ncu-report, here and in processes started from here."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "ncu_report.py").write_text(READER)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
    monkeypatch.setattr("gates.verify.profile._reader_version", lambda: "")
    return folder


def report_of(run: Path, role: str) -> dict:
    side = read_record(NcuEvidence, run, "ncu.json").sides[role]
    return {
        "launches": [
            [kernel.kernel, {counter.source: counter.value for counter in kernel.counters if counter.value is not None}]
            for kernel in side.kernels
        ]
    }


def test_counters_are_those_of_the_report(run: Path, reader: Path) -> None:
    for role, name in (("candidate", "profile.ncu-rep"), ("baseline", "baseline/profile.ncu-rep")):
        (run / name).write_text(json.dumps(report_of(run, role)))
    sign(run, rendered=False)
    assert verify.verify_run(run) == []
    good = report_of(run, "candidate")
    ((kernel, metrics),) = good["launches"]
    source = next(name for name, value in metrics.items() if value)
    for launches, expected in (
        ([[kernel, {**metrics, source: metrics[source] * 1.01}]], f"profile.ncu-rep disagree: {source} of"),
        ([], "holds no profile"),
        ([["other(int)", metrics]], "it has the launches other #1"),
        ([[kernel, metrics]] * 2, "it has the launches"),
        ([[kernel, {name: value for name, value in metrics.items() if name != source}]], "is None, ncu.json says"),
    ):
        (run / "profile.ncu-rep").write_text(json.dumps({"launches": launches}))
        sign(run, rendered=False)
        problems = verify.verify_run(run)
        assert problems and (expected in problems[0] or (not launches and "launches none" in problems[0])), problems
    for text in ("crash", "{", ""):
        (run / "profile.ncu-rep").write_text(text)
        sign(run, rendered=False)
        assert any("profile.ncu-rep can't" in problem or "can't read profile.ncu-rep" in problem for problem in verify.verify_run(run))
    (run / "profile.ncu-rep").unlink()
    assert verify.verify_run(run) == ["profile.ncu-rep is missing"]
    sign(run, rendered=False)
    assert (
        "profile.ncu-rep is missing: the counters of the candidate in ncu.json were not checked against it"
        in found_by_verify.findings(run)[1]
    )


def test_a_report_that_is_not_there_was_not_checked(run: Path) -> None:
    (run / "COMPARE.md").unlink()
    assert verify.verify_run(run) == ["COMPARE.md is missing"]
    sign(run, rendered=False)
    problems, notes = found_by_verify.findings(run)
    assert problems == [] and "COMPARE.md is missing: not checked" in notes


def test_a_figure_by_way_of_ncu_s_csv_has_two_decimals(run: Path, reader: Path) -> None:
    data = jsonio.read(run / "ncu.json")
    for side in data["sides"].values():
        for kernel in side["kernels"]:
            for counter in kernel["counters"]:
                counter["value"] = None if counter["value"] is None else round(counter["value"], 2)
    for role, name in (("candidate", "profile.ncu-rep"), ("baseline", "baseline/profile.ncu-rep")):
        (run / name).write_text(json.dumps(report_of(run, role)))
    jsonio.write(run / "ncu.json", data)
    assert profile_problems(run, read_record(NcuEvidence, run, "ncu.json")) == ([], [])


def test_without_the_reader_it_is_said(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("gates.verify.profile.importlib.util.find_spec", lambda name: None)
    assert guard(lambda: cli.main(["verify", str(run)], standalone_mode=False)) == 0
    assert "note: ncu.json was not checked against profile.ncu-rep: ncu-report is not installed" in capsys.readouterr().out


def test_an_older_reader_than_the_report_s_ncu_is_no_fault_of_the_run(run: Path, monkeypatch: pytest.MonkeyPatch, reader: Path) -> None:
    monkeypatch.setattr("gates.verify.profile._reader_version", lambda: "2024.1.0")
    problems, (note,) = profile_problems(run, read_record(NcuEvidence, run, "ncu.json"))
    assert problems == [] and "it is from ncu 2025.3.1.0, the installed ncu-report is 2024.1.0" in note


def test_real_reports(run: Path) -> None:
    pytest.importorskip("ncu_report")
    assert profile_problems(run, read_record(NcuEvidence, run, "ncu.json")) == ([], [])
    data = bytearray((run / "profile.ncu-rep").read_bytes())
    shutil.copyfile(run / "baseline" / "profile.ncu-rep", run / "profile.ncu-rep")
    assert "disagree" in profile_problems(run, read_record(NcuEvidence, run, "ncu.json"))[0][0]
    (run / "profile.ncu-rep").write_bytes(data[: len(data) // 2])
    assert profile_problems(run, read_record(NcuEvidence, run, "ncu.json"))[0] != []


@pytest.mark.parametrize("error", [TypeError("unexpected"), MemoryError("no memory"), OSError(5, "Input/output error", "disk")])
def test_one_bad_run_keeps_no_other_from_being_checked(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(run, bad)
    whole = found_by_verify.findings

    def findings(folder: Path, signers: Path | None = None) -> tuple[list[str], list[str]]:
        if folder == bad:
            raise error
        return whole(folder)

    monkeypatch.setattr(found_by_verify, "findings", findings)
    code = guard(lambda: cli.main(["verify", "nowhere", str(bad), str(run)], standalone_mode=False))
    told = capsys.readouterr()
    assert code == (2 if isinstance(error, OSError) else 4) and f"{run}: sound\n" in told.out and "Traceback" not in told.err
    assert sum("error: " in line for line in told.err.splitlines()) == 2 and f"{bad}: not checked\n" in told.out


def test_the_whole_command_over_hostile_runs(run: Path, tmp_path: Path) -> None:
    """Null limits, a folder for a file, an unreadable file: each is told, and the last run is checked."""
    hostile = []
    for number, change in enumerate(
        (
            lambda folder: _edit(folder, lambda data: data["baseline"]["limits"].update(ptxas=None)),
            lambda folder: (folder / "ptxas.json").unlink() or (folder / "ptxas.json").mkdir(),
            lambda folder: (folder / "verdict.json").write_text("[" * 10**5),
        )
    ):
        folder = tmp_path / f"hostile{number}"
        shutil.copytree(run, folder)
        change(folder)
        sign(folder, rendered=False)
        hostile.append(str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "gates", "verify", *hostile, str(run)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2 and done.stdout.count(": not sound") == 3 and f"{run}: sound" in done.stdout and done.stderr == ""
    assert "run.json: baseline" in done.stdout


def _edit(folder: Path, change) -> None:
    data = jsonio.read(folder / "run.json")
    change(data)
    jsonio.write(folder / "run.json", data)
