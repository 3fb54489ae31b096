"""`gates judge`: verdicts anew from stored evidence, other limits, and nothing written."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from runs_kit import RUN, sign

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.records import Decision, Status
from gates.render.judgement import judgement_table
from gates.review.rejudge import changed_limits, judge_again


def now(judgement, gate: str):
    return next(result for _, result in judgement.gates if result.gate == gate)


def recorded_limits() -> dict:
    return json.loads((RUN / "run.json").read_text())["task"]["limits"]


def test_under_its_own_limits_a_run_keeps_its_verdict() -> None:
    judgement = judge_again(RUN)
    assert (judgement.decision, judgement.exit_code, judgement.changes) == (Decision.MERGE, 0, ())
    assert all((old.status, old.code) == (new.status, new.code) for old, new in judgement.gates)
    assert "*" not in judgement_table(judgement)


@pytest.mark.parametrize(
    ("setting", "gate", "status", "code"),
    [
        ("performance.min_speedup_pct=80", "performance", Status.FAIL, "performance.too_slow"),
        ("performance.min_speedup_pct=69.9", "performance", Status.INCONCLUSIVE, "performance.bar_within_interval"),
        ("performance.min_speedup_pct=69", "performance", Status.PASS, "performance.pass"),
        ("performance.max_std_us=0.001", "performance", Status.FAIL, "performance.unsteady"),
        ("performance.cache=warm", "performance", Status.INCONCLUSIVE, "performance.other_mode"),
        ("performance.shape=small", "performance", Status.INCONCLUSIVE, "performance.other_shape"),
        ("ptxas.max_registers=32", "ptxas", Status.FAIL, "ptxas.registers"),
        ("sass.require.tensor=1000000", "sass", Status.FAIL, "sass.required"),
        ("sass.forbid=[tensor]", "sass", Status.FAIL, "sass.forbidden"),
        ("correctness.max_abs_err=1e-9", "correctness", Status.FAIL, "correctness.max_abs_err"),
        ("correctness.end_to_end.max_abs_err=0.1", "correctness", Status.FAIL, "correctness.end_to_end"),
        ("ncu.rises=[dram_bytes]", "ncu", Status.FAIL, "ncu.not_risen"),
        ("ncu.steady.bank_conflicts_pct=0", "ncu", Status.PASS, "ncu.pass"),
    ],
)
def test_another_limit_another_verdict(setting, gate, status, code) -> None:
    judgement = judge_again(RUN, [setting])
    result = now(judgement, gate)
    assert (result.status, result.code) == (status, code), result.sentence
    expected = {Status.FAIL: 1, Status.INCONCLUSIVE: 3, Status.PASS: 0}[status]
    assert judgement.exit_code == expected and judgement.recorded_decision is Decision.MERGE


def test_outputs_of_timed_launches_keep_the_changed_limit_too() -> None:
    assert now(judge_again(RUN, ["correctness.max_abs_err=1e-9"]), "performance").code == "performance.wrong_output"


def test_the_table_shows_both_verdicts_and_what_was_set() -> None:
    text = judgement_table(judge_again(RUN, ["performance.min_speedup_pct=80", "ptxas.max_registers=64"]))
    assert "performance.min_speedup_pct: 15 -> 80" in text and "ptxas.max_registers: 128 -> 64" in text
    row = next(line for line in text.splitlines() if line.startswith("* performance"))
    assert row.split()[2:4] == ["pass", "FAIL"]
    assert text.splitlines()[-1].startswith("decision under these limits: reject") and text.endswith("recorded: merge")


@pytest.mark.parametrize(
    ("setting", "what", "hint"),
    [
        ("perf.min_speedup_pct=1", "no gate 'perf'", "performance"),
        ("performance.min_speedup=1", "performance has no limit 'min_speedup'", "min_speedup_pct"),
        ("correctness.end_to_end.max_abs_er=1", "correctness.end_to_end has no limit 'max_abs_er'", "max_abs_err"),
        ("ptxas.max_registers.low=1", "ptxas.max_registers has no limit 'low'", ""),
        ("sanitizer.findings=1", "sanitizer has no limit 'findings'", ""),
        ("ncu.steady.dram_pct=1", "ncu.steady can't name 'dram_pct'", "dram_bytes_pct"),
        ("ncu.min.tensor_pip=1", "ncu.min can't name 'tensor_pip'", "tensor_pipe"),
        ("sass.require.tensr=1", "sass.require can't name 'tensr'", "tensor"),
        ("ptxas.max_registers=fast", "max_registers: must be a whole number, not 'fast'", "writing-a-task"),
        ("ptxas.max_registers=0", "less than the minimum", ""),
        ("performance.metrics=[p50, p91]", "'p91' is not one of", ""),
        ("correctness.match_baseline=1", "must be true or false, not 1", ""),
        ("performance.min_speedup_pct=true", "must be a number, not true", ""),
        ("performance.min_speedup_pct=.nan", "not a finite number", ""),
        ("performance.min_speedup_pct=[", "not a YAML value", ""),
        ("performance.min_speedup_pct=", "must be a number, not an empty value", ""),
        ("performance=1", "not GATE.KEY=VALUE", "performance.shapes.mission=20"),
        ("performance.min_speedup_pct", "not GATE.KEY=VALUE", ""),
        ("correctness.bad_atol=1", "can't be done again", "task.yaml"),
        ("correctness.end_to_end.bad_atol=1", "can't be done again", "task.yaml"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting, what, hint) -> None:
    with pytest.raises(GatesError) as caught:
        changed_limits(recorded_limits(), [setting])
    assert what in caught.value.what and hint in (caught.value.hint or "")


def test_a_limit_that_the_run_did_not_have_needs_its_section_whole() -> None:
    with pytest.raises(GatesError, match="'shape' is a required property"):
        changed_limits({"performance": {}}, ["performance.min_speedup_pct=1"])
    limits, (change,) = changed_limits({"ncu": {}}, ["ncu.min.tensor_pipe=5"])
    assert limits == {"ncu": {"min": {"tensor_pipe": 5}}} and change.recorded is None


def test_the_recorded_limits_stay_as_they_are() -> None:
    recorded = recorded_limits()
    changed_limits(recorded, ["correctness.end_to_end.max_abs_err=0.1"])
    assert recorded == recorded_limits()


def copy_of(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def test_changed_evidence_is_not_judged(tmp_path) -> None:
    run = copy_of(tmp_path)
    (run / "ptxas.json").write_text((run / "ptxas.json").read_text().replace('"registers":', '"registers": '))
    with pytest.raises(GatesError, match=r"not sound: ptxas\.json was changed"):
        judge_again(run)


def test_a_gate_without_evidence_keeps_what_was_recorded(tmp_path) -> None:
    run = copy_of(tmp_path)
    (run / "performance.json").unlink()
    verdict = json.loads((run / "verdict.json").read_text())
    for index, gate in enumerate(verdict["gates"]):
        if gate["gate"] == "performance":
            verdict["gates"][index] = {**gate, "status": "not_run", "code": "performance.no_device", "checks": []}
    verdict.update(decision="hold", reason="no verdict from performance (not_run: performance.no_device)")
    (run / "verdict.json").write_text(json.dumps(verdict))
    sign(run)
    judgement = judge_again(run, ["performance.min_speedup_pct=0"])
    assert now(judgement, "performance").status is Status.NOT_RUN and judgement.exit_code == 3


def test_a_run_that_is_not_sound_decides_nothing(tmp_path) -> None:
    run = copy_of(tmp_path)
    info = json.loads((run / "run.json").read_text())
    info["ended"] = "2020-01-01T00:00:00+00:00"
    (run / "run.json").write_text(json.dumps(info))
    sign(run)
    judgement = judge_again(run)
    assert judgement.decision is Decision.MERGE and judgement.exit_code == 2
    text = judgement_table(judgement)
    assert "NOT SOUND" in text and "before it started" in text and "merge" not in text
    assert CliRunner().invoke(cli, ["judge", str(run)]).exit_code == 2


def test_the_command_writes_nothing_starts_without_torch_and_exits_as_decide(tmp_path) -> None:
    run = copy_of(tmp_path)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    code = (
        "import sys; sys.argv = ['gates', 'judge', sys.argv[1], '--set', 'performance.min_speedup_pct=80']\n"
        "from gates.cli.main import guard, cli\n"
        "code = guard(lambda: cli.main(standalone_mode=False))\n"
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "performance.too_slow" in done.stdout
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_it_starts_fast() -> None:
    code = "from gates.cli.main import cli; from gates.review import rejudge; from gates.render import judgement"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime  # a busy machine does not count
    assert spent_s < 0.5


def test_counters_of_a_task_without_kernels_of_its_own_are_not_tried() -> None:
    from gates.evidence.judging import is_left_out

    assert is_left_out("ncu", ()) and is_left_out("sass", ("k",))
    assert not is_left_out("ncu", ("k",)) and not is_left_out("performance", ())  # a first rung is measured all the same
