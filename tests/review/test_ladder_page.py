"""docs/internals/ladder.md and the README's tables: no rung is left out, measurements stand beside predictions, and the prose's figures
are the evidence's.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from places import RECORDED, ROOT

from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, list_runs, read_record
from gates.gate.performance.evidence import ShapeRow

PAGE = (ROOT / "docs" / "internals" / "ladder.md").read_text(encoding="utf-8")

import attention_page  # noqa: E402
import ladder_page  # noqa: E402
import update_docs  # noqa: E402


def recorded(folder: Path, **runs: str) -> Path:
    """A folder of recorded runs: each rung's is a copy of the run named."""
    for rung, run in runs.items():
        shutil.copytree(RECORDED / run, folder / "h200" / rung)
    return folder


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:] if line.startswith("|")]


def test_the_page_and_its_charts_are_fresh() -> None:
    assert update_docs.ladders(PAGE, RECORDED) == PAGE, "run: python scripts/docs/update_docs.py"
    for family in update_docs.FAMILIES:
        assert (ladder_page.picture_name(family) in PAGE) == (ROOT / "docs" / "internals" / ladder_page.picture_name(family)).is_file()


def test_every_rung_there_is_stands_in_its_table_in_order() -> None:
    for family, prefix in (("fp8", "stage"), ("fp16", "fp16_v")):
        names = [rung.name for rung in ladder_page.rungs_of(family, RECORDED)]
        assert {path.parent.name for path in (ROOT / "tasks").glob(f"{prefix}*/task.yaml")} <= set(names)
        assert names == sorted(names, key=lambda name: int(name.removeprefix(prefix).split("_")[0]))
        missing = [name for name in names if f"**{name}**" not in PAGE]
        assert not missing, f"docs/internals/ladder.md: add a line `- **{missing[0]}**: …` on what the rung does, also for {missing[1:]}"


def test_a_measurement_stands_beside_its_prediction(tmp_path: Path) -> None:
    folder = recorded(
        tmp_path, fp16_v5_scalar="h100/stage0_scalar", fp16_v9_pipeline="h100/stage3_cp_async", fp16_v12_more="h100/stage2_wmma_pv"
    )
    found = {row[0]: row[1:] for row in rows(ladder_page.result_table("fp16", folder))}
    assert found["fp16_v5_scalar"][1:5] == ["27.01 us", "33 to 53 us, below", "-", "-"]
    assert found["fp16_v9_pipeline"] == [
        "11.94 us",
        "8.79 us",
        "5.3 to 8 us, above",
        "+35.5 %",
        "+35.0 to +36.1 %",
        "+45 to +140 %, below",
        "109",
        "61.2 KiB",
        "merge",
    ]
    assert found["fp16_v6_wmma_qk"][1:3] == ["not measured yet", "24 to 38 us"]
    assert list(found)[-1] == "fp16_v12_more" and found["fp16_v12_more"][1:3] == ["11.95 us", "-"]
    assert "fp16_v9" not in ladder_page.chart("fp8", folder) and "ladder-fp16.png" in ladder_page.chart("fp16", folder)
    (beside,) = rows(ladder_page.context_table("fp16", folder))
    assert beside[:3] == ["mission", "fp16_v9_pipeline", "8.79"] and beside[-1] == "1.17x"


def test_a_run_without_times_and_no_run_at_all_are_rows_too(tmp_path: Path) -> None:
    folder = recorded(tmp_path, stage2_wmma_pv="cpu/stage2_wmma_pv")
    found = {row[0]: row[1:] for row in rows(ladder_page.result_table("fp8", folder))}
    assert found["stage2_wmma_pv"][1] == "-" and found["stage2_wmma_pv"][-1] == "hold"
    assert found["stage0_scalar"][1] == "not measured yet" and len(found) >= 5
    assert "not measured yet" in ladder_page.chart("fp8", folder) and "not measured yet" in ladder_page.context_table("fp8", folder)


def test_the_confidence_of_an_interval_is_that_of_its_run(tmp_path: Path) -> None:
    v9 = "h200/fp16_v9_pipeline"
    several = recorded(tmp_path / "several", fp16_v8_tiles="h200/fp16_v8_tiles", fp16_v9_pipeline=v9)
    text = ladder_page.result_table("fp16", several)
    found = {row[0]: row[5] for row in rows(text)}
    assert "| interval |" in text and found["fp16_v9_pipeline"].endswith(" (99.6 %)") and " (98.3 %)" in found["fp16_v8_tiles"]
    assert "| 99.6 % interval |" in ladder_page.result_table("fp16", recorded(tmp_path / "alone", fp16_v9_pipeline=v9))
    of_fp8 = ladder_page.result_table("fp8", recorded(tmp_path / "fp8", stage4_mma="h200/stage4_mma"))
    assert "| 98.3 % interval |" in of_fp8


def test_the_chart_is_that_of_gates_compare(tmp_path: Path) -> None:
    ladder_page.draw_chart("fp8", RECORDED, tmp_path)
    ladder_page.draw_chart("fp16", tmp_path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ladder-fp8.png"] and (tmp_path / "ladder-fp8.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("value", "span", "place"),
    [
        (1.0, (2, 3), "below"),
        (2.0, (2, 3), "within"),
        (3.5, (2, 3), "above"),
        (None, (2, 3), ""),
        (1.0, None, ""),
    ],
)
def test_where_a_measurement_lies(value: float | None, span: tuple[float, float] | None, place: str) -> None:
    assert ladder_page._place(value, span) == place


def test_goals_take_the_shape_of_the_run_or_one_timed_beside() -> None:
    performance = load_evidence(list_runs(RECORDED / "h100" / "stage3_cp_async")[-1])["performance"]
    figures = performance.figures
    assert ladder_page._times(performance, "mission", "warm", None) == (figures["warm"]["candidate"].p50_us, None)
    assert ladder_page._times(performance, "mission", "cold", "cudnn") == (
        figures["cold"]["candidate"].p50_us,
        performance.backends["cudnn"].p50_us,
    )
    assert ladder_page._times(performance, "long", "cold", "cudnn") == (None, None)
    beside = replace(performance, also={"long": {"candidate": ShapeRow(20.0, 19.0), "cudnn": ShapeRow(24.0, 23.0)}})
    assert ladder_page._times(beside, "long", "cold", "cudnn") == (20.0, 24.0) and ladder_page._times(beside, "long", "warm", None) == (
        19.0,
        None,
    )


def test_a_goal_is_met_missed_or_not_measured_yet(tmp_path: Path) -> None:
    recorded(tmp_path, fp16_v9_pipeline="h100/stage3_cp_async")
    places = {(row[0], row[1], row[3]): row[-2:] for row in rows(ladder_page.goals_table(tmp_path))}
    assert places["mission", "fp16_v9_pipeline", "p50 at most 4 us"] == ["8.20 us", "missed"]
    assert places["long", "fp16_v10_hopper", "below cudnn"] == ["not measured yet", ""]


@pytest.mark.parametrize(
    ("limit", "found", "told"),
    [
        (5.07025, 5.06662, ("5.070 us", "5.067 us")),
        (4.7, 4.51, ("4.70 us", "4.51 us")),
        (4.7, 4.7, ("4.70 us", "4.70 us")),
    ],
)
def test_a_limit_and_a_time_are_told_apart(limit: float, found: float, told: tuple[str, str]) -> None:
    assert ladder_page._told_apart(limit, found) == told


def test_the_speed_of_attention_has_the_best_of_the_others(tmp_path: Path) -> None:
    def times(*values: float) -> dict[str, dict[str, float]]:
        return {name: {"us": us} for name, us in zip(("fp16_v11_pingpong", "cudnn", "flash", "fa4"), values, strict=False)}

    failed = {**times(20.0, 30.0), "flash": {"failed": "no such backend"}}
    shapes = {
        (1, 2, 3, 4, 128, True): failed,
        (1, 2, 3, 4, 64, False): failed,
        (4, 16, 4096, 4096, 64, False): times(10.0, 9.0, 8.0, 11.0),
        (5, 6, 7, 8, 128, False): times(10.0, 9.0, 8.0, 7.0),
    }
    (tmp_path / "h200").mkdir()
    data = {"rows": [{"name": str(shape), "shape": list(shape), "contenders": found} for shape, found in shapes.items()]}
    (tmp_path / "h200" / "attention.json").write_text(json.dumps(data), encoding="utf-8")
    assert rows(attention_page.speed_table(tmp_path)) == [
        ["1·2·3·4·128 causal", "20.0", "30.0 cudnn", "-", "1.50x"],
        ["4·16·4096·4096·64", "10.0", "8.0 flash", "11.0", "0.80x"],
        ["5·6·7·8·128", "10.0", "8.0 flash", "7.0", "0.70x"],
    ]


def test_the_run_of_attention_differs_from_the_ladders_by_what_the_page_says() -> None:
    (run,) = (rung.run for rung in ladder_page.rungs_of("fp16", RECORDED) if rung.name == "fp16_v11_pingpong")
    told = json.loads((RECORDED / "h200" / "attention.json").read_text(encoding="utf-8"))["rows"]
    speed = {tuple(row["shape"]): row["contenders"]["fp16_v11_pingpong"]["us"] for row in told}
    ours = {shape: us for shape, us, _ in ladder_page.context_times(run)}
    both = {
        "wide_big": (8, 16, 2048, 2048, 128, False),
        "wide_causal": (1, 32, 1024, 1024, 128, True),
        "wide_short": (32, 16, 512, 512, 128, False),
        "decode": (1, 32, 16, 8192, 128, False),
    }
    largest = max(abs(speed[shape] / ours[name] - 1) for name, shape in both.items())
    assert f"Its times differ by up to {100 * largest:.0f} % from the ladder's." in PAGE


def test_the_spread_of_a_rung_whose_baseline_has_two_speeds() -> None:
    runs = [run for folder in ("h200", "h200-evolve", "h200-sweep") for run in list_runs(RECORDED / folder / "fp16_v8_tiles")]
    found = [ladder_page.measured(run) for run in runs if read_record(RunInfo, run, "run.json").task.toggles["TILE_N"] == 32]
    gains, before = sorted(one.speedup_pct[0] for one in found), sorted(one.before_us for one in found)
    for text in (PAGE, (ROOT / "README.md").read_text(encoding="utf-8")):
        assert f"{gains[0]:+.1f} to {gains[-1]:+.1f} %" in text and "two speeds" in text
    assert len(found) == 3 and f"{before[0]:.1f} to {before[-1]:.1f} us" in PAGE


def test_figures_in_the_prose_are_those_of_the_evidence() -> None:
    stages = {folder.name[:6]: load_evidence(list_runs(folder)[-1])["performance"] for folder in (RECORDED / "h100").glob("stage*")}
    p50 = {
        (stage, mode, side): figure.p50_us
        for stage, found in stages.items()
        for mode in ("cold", "warm")
        for side, figure in found.figures[mode].items()
    }
    for stage in ("stage2", "stage3"):
        assert all(f"{p50[stage, mode, 'candidate']:.2f}" in PAGE for mode in ("cold", "warm"))
    saved = {stage: p50[stage, "cold", "baseline"] - p50[stage, "cold", "candidate"] for stage in ("stage1", "stage2")}
    assert f"stage 1 saved {saved['stage1']:.1f} us" in PAGE and f"stage 2 saved {saved['stage2']:.1f} us" in PAGE
    fp8 = load_evidence(list_runs(RECORDED / "h200" / "stage4_mma")[-1])["performance"]
    assert f"Warm {fp8.figures['warm']['candidate'].p50_us:.2f} us on the H200" in PAGE
    assert f"{stages['stage0'].calibration.empty_kernel_us:.2f} us" in PAGE
    assert f"{stages['stage0'].device.peak_bytes_per_s / 1e12:.2f} TB/s" in PAGE
