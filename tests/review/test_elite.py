"""`gates elite`: the best mergeable variants, compared only where their figures mean the same."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from places import RECORDED
from runs_kit import RUN, sign

from gates.cli.main import cli
from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.evidence.judging import decision_of, load_evidence, rejudge
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.gate.performance.evidence import summaries
from gates.render.elite import elite_json, elite_table
from gates.review.decide import accept_looser_terms
from gates.review.leaderboard import elite
from gates.stats.samples import CANDIDATE


def variant(results: Path, name: str, digest: str, *, time: float = 1.0, day: int = 1, **changes: Any) -> Path:
    """A sound run whose candidate took ``time`` times as long as the recorded one's; ``changes`` are of run.json's parts."""
    run = Path(shutil.copytree(RUN, results / "stage2_wmma_pv" / name))
    info: RunInfo = read_record(RunInfo, run, "run.json")
    declared = {"declared_shapes": ("small", "mission"), "declared_seeds": (0, 1, 2)}
    own = {"task": {"digest": digest, **declared}, "baseline": declared, "device": {}}
    parts = {key: dataclasses.replace(getattr(info, key), **fields, **changes.get(key, {})) for key, fields in own.items()}
    info = dataclasses.replace(info, started=f"2026-01-{day:02}T00:00:00+00:00", **parts)
    performance = load_evidence(run)["performance"]
    slower = [
        dataclasses.replace(
            series,
            blocks=tuple(
                dataclasses.replace(block, samples_us=tuple(time * sample for sample in block.samples_us))
                if block.side == CANDIDATE
                else block
                for block in series.blocks
            ),
        )
        for series in (*performance.series, performance.single)
    ]
    card = dataclasses.replace(performance.device, **changes.get("device", {}))
    performance = dataclasses.replace(performance, series=tuple(slower[:-1]), single=slower[-1], device=card)
    jsonio.write(run / "performance.json", records.to_json(dataclasses.replace(performance, figures=summaries(performance))))
    jsonio.write(run / "run.json", records.to_json(info))
    gates = [rejudge(run, info, result.gate) for result in read_record(Verdict, run, "verdict.json").gates]
    jsonio.write(run / "verdict.json", records.to_json(Verdict(1, *decision_of(info, gates), tuple(gates))))
    sign(run)
    return run


def names(results: Path, k: int = 3) -> list[list[str]]:
    return [[Path(entry.path).name for entry in group.best] for group in elite(results, "stage2", k).groups]


def test_the_fastest_come_first_and_a_variants_newest_run_speaks_for_it(tmp_path: Path) -> None:
    variant(tmp_path, "a", "1" * 64, time=1.2)
    variant(tmp_path, "b", "2" * 64, time=1.0)
    variant(tmp_path, "c", "3" * 64, time=1.1)
    variant(tmp_path, "d", "3" * 64, time=1.3, day=2)  # the same files again, and slower
    found = elite(tmp_path, "stage2", 3)
    assert names(tmp_path) == [["b", "a", "d"]] and names(tmp_path, 2) == [["b", "a"]]
    (group,) = found.groups
    speeds = [entry.speedup_pct for entry in group.best]
    assert speeds == sorted(speeds, reverse=True) and (group.shape, group.cache, group.baseline) == ("mission", "cold", "stage1_wmma_qk")
    assert (found.not_mergeable, found.unsound) == (0, ())


def test_what_may_not_be_merged_is_counted_and_not_listed(tmp_path: Path) -> None:
    variant(tmp_path, "good", "1" * 64, time=1.2)
    slow = variant(tmp_path, "slow", "2" * 64, time=1.6)  # below the threshold of 15 %
    assert read_record(Verdict, slow, "verdict.json").decision.value == "reject"
    variant(tmp_path, "overridden", "3" * 64, time=0.9, task={"overrides": {"DEBUG_PRINT": 0}})
    found = elite(tmp_path, "stage2", 3)
    assert names(tmp_path) == [["good"]] and found.not_mergeable == 2
    assert "timed and not mergeable: 2; `gates history`" in elite_table(found)


def test_a_run_that_is_not_sound_is_named_whatever_it_claims(tmp_path: Path) -> None:
    variant(tmp_path, "good", "1" * 64)
    forged = variant(tmp_path, "forged", "2" * 64, time=1.1)
    path = forged / "verdict.json"
    path.write_text(path.read_text() + " ")
    found = elite(tmp_path, "stage2", 3)
    assert names(tmp_path) == [["good"]] and found.not_mergeable == 0
    ((run, why),) = found.unsound
    assert run == str(forged) and "verdict.json was changed after the run" in why and f"not sound:\n  {forged}" in elite_table(found)


def test_looser_terms_that_a_reviewer_accepted_count(tmp_path: Path) -> None:
    limits = json.loads((RUN / "run.json").read_text())["baseline"]["limits"]
    limits["ptxas"]["max_registers"] = 127
    run = variant(tmp_path, "looser", "1" * 64, baseline={"limits": limits})
    assert names(tmp_path) == [] and elite_table(elite(tmp_path, "stage2", 1)).startswith("no mergeable run that was timed")
    accept_looser_terms(run, "more rows a tile")
    (group,) = elite(tmp_path, "stage2", 1).groups
    assert group.best[0].decision == "merge"


def test_devices_and_baselines_are_lists_of_their_own(tmp_path: Path) -> None:
    variant(tmp_path, "here", "1" * 64, time=1.2)
    variant(tmp_path, "there", "2" * 64, time=1.0, device={"name": "Other GPU"})
    variant(tmp_path, "other-baseline", "3" * 64, time=1.1, baseline={"digest": "4" * 64})
    assert sorted(names(tmp_path)) == [["here"], ["other-baseline"], ["there"]]
    text = elite_table(elite(tmp_path, "stage2", 3))
    assert (
        f"on Other GPU, mission, cold L2, over stage1_wmma_qk ({json.loads((RUN / 'run.json').read_text())['baseline']['digest'][:8]})"
        in text
        and "(44444444)" in text
    )


def test_runs_without_a_time_have_no_place_and_a_first_rung_is_ranked_by_p50() -> None:
    assert elite(RECORDED / "cpu", "stage2", 3).groups == ()
    (group,) = elite(RECORDED / "h100", "stage0", 3).groups
    assert group.baseline is None and "first rung, by p50" in elite_table(elite(RECORDED / "h100", "stage0", 3))
    assert len(elite(RECORDED, "stage0", 3).groups) == 2  # one a device


def test_the_command_prints_a_table_or_json(tmp_path: Path) -> None:
    variant(tmp_path, "a", "1" * 64, time=1.2)
    variant(tmp_path, "b", "2" * 64)
    done = CliRunner().invoke(cli, ["elite", "stage2", "-k", "1", "--results", str(tmp_path)], catch_exceptions=False)
    (group,) = elite(tmp_path, "stage2", 1).groups
    assert done.exit_code == 0 and done.output.splitlines()[2].split() == [
        "1",
        f"{group.best[0].speedup_pct:+.1f}",
        "%",
        f"{group.best[0].p50_us:.2f}",
        "22222222",
        "b",
    ]
    made = CliRunner().invoke(cli, ["elite", "stage2", "--json", "--results", str(tmp_path)], catch_exceptions=False)
    assert json.loads(made.output) == elite_json(elite(tmp_path, "stage2", 3)) and [
        Path(one["path"]).name for one in json.loads(made.output)["groups"][0]["best"]
    ] == ["b", "a"]


def test_bad_input_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="no run of 'stage9'"):
        elite(RECORDED, "stage9", 3)
    assert CliRunner().invoke(cli, ["elite", "stage2", "-k", "0"]).exit_code == 2
