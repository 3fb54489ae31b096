"""ptxas's remarks on what code costs: read once, kept with a count, shown once each wherever a run is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from places import DATA
from runs_kit import sign

from gates.comparison.within import compare_within
from gates.core.records import to_json
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.gate.ptxas.advice import advice
from gates.gate.ptxas.evidence import gather
from gates.gate.ptxas.judge import judge
from gates.gate.ptxas.log import parse_log
from gates.render.console import verdict_table
from gates.render.insights import insights_markdown
from gates.render.report import html
from gates.review.insights.insights import insights_of
from gates.review.rejudge import judge_again
from gates.review.report.run_view import Page, view
from gates.verify.run import verify_run

SERIALIZED = (
    "Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline"
)


def remark(name: str, code: str = "C7511") -> str:
    return f"ptxas info    : ({code}) {SERIALIZED} in the function '{name}'\n"


def block(name: str, arch: str) -> str:
    return (
        f"ptxas info    : Compiling entry function '{name}' for '{arch}'\nptxas info    : Function properties for {name}\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 90 registers, used 1 barriers\n"
    )


@pytest.mark.parametrize(
    ("line", "kernel", "code", "text"),
    [
        (remark("tile"), "tile", "C7511", SERIALIZED),
        (
            "ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.\n",
            "",
            "C7508",
            "Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry",
        ),
        (
            "ptxas warning : Value of threads per SM for entry tile is out of range. .minnctapersm will be ignored\n",
            "tile",
            "",
            "Value of threads per SM is out of range. .minnctapersm will be ignored",
        ),
        (
            "ptxas /tmp/k.ptx, line 20; warning : .minnctapersm is ignored when neither .maxntid nor .reqntid is specified.\n",
            "",
            "",
            ".minnctapersm is ignored when neither .maxntid nor .reqntid is specified",
        ),
        (
            "ptxas warning : Registers are spilled to local memory in function 'tile', 8 bytes spill stores, 8 bytes spill loads\n",
            "tile",
            "",
            "Registers are spilled to local memory, 8 bytes spill stores, 8 bytes spill loads",
        ),
        (
            "ptxas warning : Too big maxrregcount value specified 512, will be ignored\n",
            "",
            "",
            "Too big maxrregcount value specified 512, will be ignored",
        ),
    ],
)
def test_a_remark_that_names_a_consequence_is_advice(line: str, kernel: str, code: str, text: str) -> None:
    (found,) = parse_log(line).advice
    assert (found.kernel, found.code, found.text) == (kernel, code, text)


@pytest.mark.parametrize(
    "line",
    [
        "ptxas info    : 0 bytes gmem\n",
        "ptxas info    : Used 90 registers\n",
        "ptxas error   : performance.cu is ignored\n",
        "nvlink info : ignored\n",
        "ptxas info    : Overriding global maxrregcount 64 with entry-specific value 128 computed using thread count\n",
        "k.cu(3): warning: attribute is ignored\n",
        "ptxas info    : Compiling entry function 'slow_performance' for 'sm_90'\n",
    ],
)
def test_other_lines_are_not(line: str) -> None:
    assert parse_log(line).advice == ()


def test_instances_and_architectures_share_one_line() -> None:
    names = ("_Z4tileILi64EEvPf", "_Z4tileILi128EEvPf")
    logs = {arch: "".join(map(remark, names)) + "".join(block(name, arch) for name in names) for arch in ("sm_90", "sm_90a")}
    logs["sm_90"] += remark("_Z5otherPf", "C7514")
    evidence = gather(logs, [], ("tile",), {})
    assert [one.sentence() for one in evidence.advice] == [
        f"tile: {SERIALIZED} (C7511), 4 times, sm_90, sm_90a",
        f"other: {SERIALIZED} (C7514), sm_90",
    ]
    checks = [check for check in judge(evidence, {}).checks if check.name in ("advice", "warning")]
    assert [(check.name, check.status.value, check.where) for check in checks] == [("advice", "pass", "tile"), ("advice", "pass", "other")]


def test_figures_alone_make_no_other_advice() -> None:
    text = "".join(
        f"ptxas warning : Registers are spilled to local memory in function 'k', {size} bytes spill stores, 8 bytes spill loads\n"
        for size in (8, 16)
    )
    (one,) = gather({"sm_89": text}, [], (), {}).advice
    assert one.count == 2


def test_it_is_shown_once_each_wherever_a_run_is_read(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(DATA / "runs" / "h100_stage2", run)
    quiet = shown_everywhere(run)
    assert all("advice" not in text for text in quiet.values())
    evidence = json.loads((run / "ptxas.json").read_text(encoding="utf-8"))
    evidence["advice"] = [{"text": SERIALIZED, "kernel": "sdpa_fp8_kernel", "code": "C7511", "count": 4, "archs": ["sm_89", "sm_90"]}]
    (run / "ptxas.json").write_text(json.dumps(evidence), encoding="utf-8")
    verdict = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    sign(run)
    again = judge_again(run)
    verdict["gates"] = [to_json(now) for _, now in again.gates]
    (run / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    sign(run)
    assert verify_run(run) == []
    for name, text in shown_everywhere(run).items():
        assert text.count("serialized") == 1 and "C7511" in text and "sdpa_fp8_kernel" in text and "4 times" in text, name


def shown_everywhere(run: Path) -> dict[str, str]:
    info, verdict = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")
    assert load_evidence(run)["ptxas"].kernels
    return {
        "console": verdict_table(info, verdict),
        "COMPARE.md": compare_within(run, info, verdict).markdown(),
        "insights": insights_markdown([insights_of(run)]),
        "html": html(Page("0", "now", (view(run),), 0, (), ())),
    }


def test_an_error_is_no_advice() -> None:
    assert advice("error", "performance is ignored") is None
