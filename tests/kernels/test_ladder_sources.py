"""One stage is one file: its name, its head comment, what it includes, and which toggles it uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from places import ROOT

FAMILIES = ("sdpa_fp8", "sdpa_fp16")
MOST_LINES = 250
LONG = {"fp16_v11_pingpong": 420, "stage5_wgmma": 400}  # stages that may have more lines
EVERYWHERE = {"DEBUG_PRINT", "CAUSAL"}  # toggles of all stages of a family
TILES = {"USE_SWIZZLE", "STRIPS"}  # of kernels/sdpa
LOADER = {"GENERAL", "BF16"}  # macros of kernels/loader.py, which no task has
TASKS = {
    path.parent.name: task
    for path in sorted((ROOT / "tasks").glob("*/task.yaml"))
    if Path((task := yaml.safe_load(path.read_text(encoding="utf-8")))["sources"][0]).parent.name in FAMILIES
}
SOURCES = {stage: ROOT / task["sources"][0] for stage, task in TASKS.items()}
PARTS = {path.relative_to(ROOT / "kernels").as_posix(): path for path in sorted((ROOT / "kernels").glob("*/parts/*"))}


def toggles(text: str) -> set[str]:
    """Macros that the text asks for: in #if, #ifndef and the like, and those whose names say so."""
    return set(re.findall(r"^#\s*(?:if|ifdef|ifndef|elif)\s+!?(\w+)", text, re.M)) | set(re.findall(r"\b(?:USE_\w+|DEBUG_PRINT)\b", text))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_holds_the_stages_and_their_parts_alone(family: str) -> None:
    folder = ROOT / "kernels" / family
    stages = {source for source in SOURCES.values() if source.parent == folder}
    assert len(stages) >= 5 and {path for path in folder.iterdir() if path.name != "parts"} == stages


@pytest.mark.parametrize("stage", TASKS)
def test_a_stage_is_one_file_with_its_name(stage: str) -> None:
    task, text = TASKS[stage], SOURCES[stage].read_text(encoding="utf-8")
    where, since = SOURCES[stage].relative_to(ROOT), f"// Since the stage before ({task.get('baseline')}):"
    assert [Path(source).name for source in task["sources"]] == [f"{stage}.cu"], (
        f"tasks/{stage}/task.yaml: `sources` is not {stage}.cu alone"
    )
    assert text.startswith(f"// {stage}: "), f"{where}: the first line must begin with `// {stage}: `"
    assert "baseline" not in task or f"\n{since}\n" in text, f"{where}: the head comment needs the line `{since}`, then what changed"
    lines, most = len(text.splitlines()), LONG.get(stage, MOST_LINES)
    assert lines <= most, f"{where}: {lines} lines, at most {most}: move code to parts/, or give the stage a row in LONG of this test"
    assert all(re.match(r"parts/|\.\./(cuda|sdpa)/", name) for name in re.findall(r'#include "(.*)"', text))
    own = toggles(text)
    assert not LOADER & (own | set(task["toggles"]))
    assert set(task["toggles"]) - EVERYWHERE - TILES <= own <= set(task["toggles"])
    assert len([name for name in own - TILES if name.startswith("USE_")]) <= 1


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_the_same_in_every_stage_that_includes_it(part: str) -> None:
    assert toggles(PARTS[part].read_text(encoding="utf-8")) <= EVERYWHERE | LOADER
    others = [path for path in PARTS[part].parents[1].rglob("*.cu*") if path != PARTS[part]]
    assert any(re.search(rf'"(parts/)?{PARTS[part].name}"', path.read_text(encoding="utf-8")) for path in others), "no file includes it"
