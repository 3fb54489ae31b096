"""Several runs as a ladder: gains only as their own runs measured them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import RECORDED
from runs_kit import sign

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.records import Decision
from gates.evidence.run_directory import list_runs
from gates.render.ladder import draw
from gates.review.ladder import Ladder, ladder_of

STAGES = [list_runs(folder)[-1] for folder in sorted((RECORDED / "h100").glob("stage*"))]


def changed(tmp_path: Path, run: Path, old: str, new: str) -> Path:
    target = tmp_path / run.parent.name
    shutil.copytree(run, target)
    assert old in (target / "run.json").read_text(encoding="utf-8")
    for name in ("run.json", "performance.json"):  # both name the device
        text = (target / name).read_text(encoding="utf-8")
        (target / name).write_text(text.replace(old, new), encoding="utf-8")
    sign(target)
    return target


def test_gains_are_multiplied_along_the_ladder() -> None:
    ladder = ladder_of(STAGES)
    assert ladder.decision is Decision.MERGE and [rung.note for rung in ladder.rungs] == [""] * 4
    product = 1.0
    for rung in ladder.rungs[1:]:
        assert rung.ratio is not None and rung.low is not None and rung.high is not None and rung.low <= rung.ratio <= rung.high
        product *= rung.ratio
        assert rung.cumulative == pytest.approx(product)
    assert product > 2.5
    text = ladder.markdown()
    assert f"{product:.2f}x" in text and text.startswith("# merge: stage0_scalar to stage3_cp_async")


def test_a_missing_rung_breaks_the_product_and_is_named() -> None:
    ladder = ladder_of([STAGES[0], STAGES[2], STAGES[3]])
    assert [rung.cumulative for rung in ladder.rungs] == [1.0, None, None]
    assert ladder.rungs[1].ratio is None and ladder.rungs[1].note == "its run measured stage1_wmma_qk, not stage0_scalar"
    assert ladder.rungs[2].ratio is not None


def test_another_version_of_the_stage_before_is_no_baseline(tmp_path: Path) -> None:
    digest = json.loads((STAGES[2] / "run.json").read_text())["baseline"]["digest"]
    run = changed(tmp_path, STAGES[2], digest, "0" * 64)
    assert "another version of stage1_wmma_qk" in ladder_of([*STAGES[:2], run]).rungs[2].note


@pytest.mark.parametrize(
    ("below", "old", "new", "what"),
    [
        (STAGES[:2], "NVIDIA H100 80GB HBM3", "NVIDIA L40S", "different devices"),
        (STAGES[:1], "tasks.problems.sdpa_fp8", "tasks.problems.other", "different problems"),
    ],
)
def test_what_can_not_stand_on_one_ladder(tmp_path: Path, below: list[Path], old: str, new: str, what: str) -> None:
    with pytest.raises(GatesError, match=what):
        ladder_of([*below, changed(tmp_path, STAGES[2], old, new)])


def test_a_stage_with_a_problem_of_its_own_stands_on_the_stage_that_its_run_timed_on_it(tmp_path: Path) -> None:
    run = changed(tmp_path, STAGES[2], "tasks.problems.sdpa_fp8", "tasks.problems.other")
    rung = ladder_of([*STAGES[:2], run]).rungs[2]
    assert rung.ratio is not None and rung.cumulative is None
    assert rung.note.startswith("judged on tasks.problems.other, stage0_scalar on tasks.problems.sdpa_fp8: its gain is not counted")


def test_a_rung_timed_on_another_shape_stands_there_with_its_own_gain(tmp_path: Path) -> None:
    rungs = [list_runs(RECORDED / "h200" / name)[-1] for name in ("fp16_v8_tiles", "fp16_v9_pipeline", "fp16_v10_hopper")]
    ladder = ladder_of(rungs)
    assert [rung.shape for rung in ladder.rungs] == ["mission", "mission", "long"]
    assert ladder.rungs[1].cumulative == ladder.rungs[1].ratio and ladder.rungs[2].ratio is not None and ladder.rungs[2].cumulative is None
    assert "timed on long, fp16_v8_tiles on mission" in ladder.rungs[2].note and "| fp16_v10_hopper (long) |" in ladder.markdown()
    draw(ladder, tmp_path / "ladder.png")


def test_the_confidence_is_in_the_head_or_in_each_row_if_rows_differ() -> None:
    usual = ladder_of(STAGES[:3])
    assert "over the stage before (98.3 % interval)" in usual.markdown() and usual.markdown().count("98.3 %") == 1
    names = ("fp16_v8_tiles", "fp16_v9_pipeline", "fp16_v10_hopper")
    several = ladder_of([list_runs(RECORDED / "h200" / name)[-1] for name in names])
    text = several.markdown()
    assert several.rungs[1].confidence_pct == pytest.approx(99.575) and several.rungs[2].confidence_pct == pytest.approx(99.15)
    assert "(interval)" in text and ", 99.6 %)" in text and re.search(r", 99\.[12] %\)", text) and "98.3 %" not in text
    assert "over the stage before (99.6 % interval)" in Ladder(1, several.rungs[:2]).markdown()


def test_a_run_that_was_edited_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "run"
    shutil.copytree(STAGES[1], target)
    (target / "performance.json").write_text("{}")
    with pytest.raises(GatesError, match="not sound"):
        ladder_of([STAGES[0], target, STAGES[2]])


def test_what_was_not_measured_against_the_stage_before_is_hold_at_best() -> None:
    assert ladder_of(STAGES[:3]).decision is Decision.MERGE
    assert ladder_of(STAGES[2::-1]).decision is ladder_of([STAGES[0], STAGES[2]]).decision is Decision.HOLD


def test_a_stage_without_times_has_no_gain_over_the_first() -> None:
    timed = ladder_of(STAGES[:3])
    untimed = tuple(replace(rung, p50_us=None, ratio=None, cumulative=None if number else 1.0) for number, rung in enumerate(timed.rungs))
    assert "| 1.00x |" in timed.markdown() and "1.00x" not in Ladder(1, untimed).markdown()


def test_the_worst_decision_counts() -> None:
    rungs = ladder_of(STAGES[:3]).rungs
    for worst, code in ((Decision.HOLD, 3), (Decision.REJECT, 1)):
        ladder = Ladder(1, (rungs[0], replace(rungs[1], decision=worst, reason="failed: x"), rungs[2]))
        assert (ladder.decision, ladder.exit_code) == (worst, code) and f"is {worst.value}: failed: x" in ladder.markdown()


def test_the_picture_of_a_ladder_with_a_step_on_hold_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figures = []
    monkeypatch.setattr("gates.render.ladder.save", lambda figure, *_, **__: figures.append(figure))
    rungs = ladder_of(STAGES[:3]).rungs
    draw(Ladder(1, (rungs[0], replace(rungs[1], decision=Decision.HOLD, reason="looser"), rungs[2])), tmp_path / "ladder.png")
    (axis,) = figures[0].axes
    assert axis.get_title() == f"{rungs[2].cumulative:.2f}x over stage0_scalar\nover each bar: p50, and the gain over the stage before"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["stage0_scalar", "stage1_wmma_qk\n(hold)", "stage2_wmma_pv"]
    assert [bar.get_facecolor() == axis.patches[0].get_facecolor() for bar in axis.patches] == [True, False, True]


def test_the_command_writes_table_json_and_picture(tmp_path: Path) -> None:
    names = [f"recorded:h100/stage{number}" for number in range(4)]
    done = CliRunner().invoke(cli, ["compare", *names, "--plot", "--out", str(tmp_path), "--results", str(RECORDED.parent)])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "stage0_scalar...stage3_cp_async"
    assert json.loads((folder / "ladder.json").read_text())["rungs"][3]["task"] == "stage3_cp_async"
    assert (folder / "LADDER.md").read_text() in done.output and (folder / "ladder.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recorded:h100/stage1"], "two runs or more"),
        (["recorded:h100/stage1", "recorded:h100/stage2", "--plot"], "three runs or more"),
        (["recorded:h100/stage0", "recorded:h100/stage1", "recorded:h100/stage2", "--force"], "for two runs"),
    ],
)
def test_what_compare_can_not_do(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["compare", *arguments, "--results", str(RECORDED.parent)])
    assert isinstance(done.exception, GatesError) and message in done.exception.what
