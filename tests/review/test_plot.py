"""`gates plot`: a picture of every kind of timing evidence, and a clear error without any."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import command_kit
import pytest
from click.testing import CliRunner
from performance_gates import LIMITS, evidence, fed
from places import ROOT
from runs_kit import RUN
from test_judge_command import copy_of

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import list_runs
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import not_run
from gates.render.figures import load_matplotlib, save
from gates.render.plot import draw
from gates.review.timing_plot import picture_of
from gates.stats.samples import Block, Series

pytest.importorskip("matplotlib")

RECORDED = ROOT / "results" / "recorded" / "h100"
STAGES = [list_runs(folder)[-1] for folder in sorted(RECORDED.glob("stage*"))]


def drawn(record, out: Path, **limits) -> str:
    """The text of the SVG of ``record``."""
    import matplotlib

    limits = {**LIMITS, **limits}
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw(record, limits, performance.judge(record, limits, not_applicable_reason="" if record.baseline else "first rung"), out)
    return out.read_text()


def test_a_real_run_as_png(tmp_path) -> None:
    out = picture_of(RUN, tmp_path / "timing.png")
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and out.stat().st_size > 20_000


def test_what_the_picture_says(tmp_path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        text = picture_of(RUN, tmp_path / "timing.svg").read_text()
    for part in (
        "stage2_wmma_pv against stage1_wmma_qk: pass",
        "(candidate)",
        "(baseline)",
        "second load",
        "time of a launch (us)",
        "SM clock (MHz)",
        "power (W)",
        "threshold 1.150",
        "noise floor 1 ± 0.0015",
        "98.3 % interval 1.6962 to 1.7017",
        "12 pairs",
    ):
        assert part in text, part


def test_the_interval_has_the_confidence_of_the_run(tmp_path) -> None:
    record = load_evidence(RUN)["performance"]
    text = drawn(dataclasses.replace(record, confidence=0.99575), tmp_path / "several.svg")
    assert "99.6 % interval" in text and "interval 1.6962 to 1.7017" not in text


def test_the_bar_is_in_the_close_up_where_it_lies_among_the_pairs(tmp_path) -> None:
    blocks = []
    for pair in range(48):
        old = 11.5 * (1 + 0.02 * ((pair * 7919 % 13) / 6 - 1))
        blocks += [Block("candidate", pair, (10.0,) * 20, sm_mhz=1980.0), Block("baseline", pair, (old,) * 20, sm_mhz=1980.0)]
    control = tuple(Block(side, pair, (11.5,) * 20) for pair in range(12) for side in ("baseline", "control"))
    text = drawn(evidence(tuple(blocks), control), tmp_path / "open.svg")
    assert text.count("threshold 1.150") >= 2  # both lower panels; a line of the heading may break there
    assert "inconclusive" in text


def test_ratios_that_differ_in_their_last_digit_alone_are_drawn(tmp_path) -> None:
    """As of kernels whose times the timer tells in whole steps: there is no width to divide."""
    blocks = []
    for pair in range(12):
        blocks += [
            Block("candidate", pair, (10.0,) * 20, sm_mhz=1980.0),
            Block("baseline", pair, (12.0 + 2e-15 * (pair % 2),) * 20, sm_mhz=1980.0),
        ]
    control = tuple(Block(side, pair, (12.0,) * 20) for pair in range(12) for side in ("baseline", "control"))
    assert "12 pairs" in drawn(evidence(tuple(blocks), control), tmp_path / "steps.svg")


def test_disturbed_blocks_and_stalls_are_shown(tmp_path) -> None:
    record = fed([10.0] * 19 + [900.0], [12.0] * 20)
    blocks = record.series[0].blocks
    bad = tuple(dataclasses.replace(block, valid=index > 1) for index, block in enumerate(blocks))
    text = drawn(dataclasses.replace(record, series=(dataclasses.replace(record.series[0], blocks=bad),)), tmp_path / "a.svg")
    assert "disturbed, taken again" in text and "12 slower samples above, up to 900 us" in text


def test_without_a_clock_or_a_baseline_or_enough_pairs(tmp_path) -> None:
    record = fed([10.0] * 20, [12.0] * 20, pairs=4)
    blind = tuple(dataclasses.replace(block, sm_mhz=None) for block in record.series[0].blocks)
    record = dataclasses.replace(record, control=None, series=(dataclasses.replace(record.series[0], blocks=blind),))
    text = drawn(record, tmp_path / "blind.svg")
    assert "neither clock nor power" in text and "too few pairs" in text
    control = tuple(Block(side, pair, (10.0,) * 20) for pair in range(12) for side in ("candidate", "control"))
    alone = evidence((), control, baseline=None)
    alone = dataclasses.replace(
        alone, series=(Series("cold", {"candidate": 50}, tuple(b for b in control if b.side == "candidate"), "pairs"),)
    )
    assert "no baseline" in drawn(alone, tmp_path / "alone.svg")


def test_a_run_without_timing_is_an_error(tmp_path) -> None:
    with pytest.raises(GatesError, match="measured nothing") as caught:
        picture_of(list_runs(RECORDED.parent / "cpu" / "stage2_wmma_pv")[-1])
    assert caught.value.exit_code == 2
    run = copy_of(tmp_path)
    (run / "performance.json").unlink()
    with pytest.raises(GatesError, match=r"is not sound: performance\.json is missing"):
        picture_of(run)
    record = not_run("new", "old", "mission", "performance.no_device", "no CUDA device")
    with pytest.raises(GatesError, match=r"no CUDA device \(performance\.no_device\)"):
        drawn(record, tmp_path / "none.svg")
    empty = dataclasses.replace(fed([10.0] * 20, [12.0] * 20), series=(), control=None)
    with pytest.raises(GatesError, match="no timing samples in mode cold"):
        drawn(empty, tmp_path / "none.svg")


def test_where_it_can_not_be_written(tmp_path) -> None:
    with pytest.raises(GatesError, match=r"\.png or \.svg"):
        picture_of(RUN, tmp_path / "timing.pdf")
    with pytest.raises(GatesError, match="can't write"):
        picture_of(RUN, tmp_path / "none" / "timing.png")


@pytest.mark.parametrize(
    "command",
    [
        "plot RUN -o RUN/x.png",
        "plot RUN -o RUN/baseline/x.svg",
        "compare STAGE1 RUN --force --out RUN",
        "compare STAGE1 RUN STAGE3 --out RUN/x",
        "profile stage0 --out RUN",
    ],
)
def test_no_picture_and_no_report_is_written_into_a_run(tmp_path, command) -> None:
    run = tmp_path / "run"
    shutil.copytree(STAGES[2], run)
    before = sorted(run.rglob("*"))
    words = [part.replace("RUN", str(run)).replace("STAGE1", str(STAGES[1])).replace("STAGE3", str(STAGES[3])) for part in command.split()]
    with pytest.raises(GatesError, match="whose files are evidence"):
        CliRunner().invoke(cli, words, catch_exceptions=False)
    assert sorted(run.rglob("*")) == before


def test_without_matplotlib_the_error_names_the_remedy(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GatesError) as caught:
        picture_of(RUN, tmp_path / "timing.png")
    assert "matplotlib is not installed" in caught.value.what and "kernel-gates[plot]" in caught.value.hint


def test_a_notebook_and_a_matplotlibrc_change_no_picture(tmp_path) -> None:
    (tmp_path / "rc").write_text("text.usetex: True\nfigure.figsize: 100, 100\nsvg.fonttype: none\naxes.facecolor: red\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    settings = [
        {},
        {"MPLBACKEND": "module://matplotlib_inline.backend_inline"},
        {"MPLBACKEND": "nonsense", "MATPLOTLIBRC": "binary"},
        {"MATPLOTLIBRC": "rc"},
    ]
    commands = ["plot", str(RUN), "-o", "timing.svg"], ["compare", *map(str, STAGES[1:4]), "--plot", "--out", "."]
    code = f"from gates.cli.main import cli\nfor words in {commands}: cli.main(words, standalone_mode=False)"
    pictures = []
    for more in settings:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **more}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (more, done.stderr)
        timing = re.sub(rb"<dc:date>.*?</dc:date>", b"", (tmp_path / "timing.svg").read_bytes())
        pictures.append((timing, next(tmp_path.glob("*/ladder.png")).read_bytes()))
    assert all(picture == pictures[0] for picture in pictures)


def test_the_command(tmp_path) -> None:
    done = command_kit.gates("plot", RUN, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "written: results/stage2_wmma_pv-timing.png"), done.stderr
    assert (tmp_path / "results" / "stage2_wmma_pv-timing.png").is_file()
    refused = command_kit.gates("plot", tmp_path, cwd=tmp_path)
    assert refused.returncode == 2 and "not a run directory" in refused.stderr


def test_no_label_breaks_a_picture(tmp_path: Path) -> None:
    figure_of, context = load_matplotlib()
    with context({}):
        figure = figure_of()
        figure.suptitle("a\x1b\u202e<b>")
        save(figure, tmp_path / "x.svg", context, hint="")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert r"a\x1b\x202e" in text and "\u202e" not in text  # letters are drawn; a remark beside them has the text
