"""Single edits of evidence whose digests were made anew: `gates verify` names each, for other evidence of the run shows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gates.evidence import list_runs
from gates.verify import consistency_problems

RECORDED = Path(__file__).resolve().parent.parent / "results" / "recorded"
FULL = list_runs(RECORDED / "h200" / "stage2_wmma_pv")[-1]
Edit = tuple[str, Callable[[Any], Any], str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(FULL, tmp_path_factory.mktemp("edits") / "run"))


def test_the_run_itself_is_consistent(run: Path) -> None:
    assert consistency_problems(run) == []


# Each by the file, the edit, and a part of the sentence that names it. Edits of one group stand beside each other in one run.
BUILDS: list[Edit] = [
    ("build.json", lambda d: d.update(archs=["sm_89"]), "build.json: archs is sm_89; run.json and its device give sm_89, sm_90"),
    ("build.json", lambda d: d.update(device_archs=["sm_89"]), "build.json: device_archs is sm_89; run.json and its device give sm_90"),
    ("build.json", lambda d: d.update(folder="0" * 16), "is not named by its digest"),
    ("build.json", lambda d: d.update(relocatable=True), "build.log gives none and sm_89, sm_90"),
    ("build.json", lambda d: d["targets"][0].update(log="sm_90/sdpa_fp8.ptxas.log"), "not a cubin and its log in the folder of sm_89"),
    ("build.json", lambda d: d["targets"][2].update(kind="library"), "target 2 is a library for None"),
    ("build.json", lambda d: d["targets"][3].update(path=None), "target 3 needs a product or the failure"),
    ("baseline/build.json", lambda d: d["targets"].pop(0), "baseline/build.json has no cubin for sm_89"),
    ("ptxas.json", lambda d: d["kernels"][0].update(barriers=2), "ptxas.json: sdpa_fp8_kernel sm_89 has not the figures that build.log shows"),
    ("ptxas.json", lambda d: d["kernels"][1].update(base_name="other"), "ptxas.json: other is not what _ZN4sdpa15sdpa_fp8_kernel"),
    ("ptxas.json", lambda d: d["called_functions"].append({"name": "f", "demangled": "f", "arch": "sm_89", "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0}),
     "other called functions than build.log shows"),
    ("baseline/ptxas.json", lambda d: d["kernels"][0].update(registers=1), "baseline/ptxas.json: sdpa_fp8_kernel sm_89 has not the figures"),
    ("baseline/ptxas.json", lambda d: d.update(expected_kernels=["k"]), "baseline/ptxas.json is about the kernels k, run.json names sdpa_fp8_kernel"),
    ("sass.json", lambda d: d["functions"][0].update(demangled="other(int)"), "does not read other(int)"),
    ("sass.json", lambda d: d["functions"].pop(), "sass.json has no machine code of "),
    ("baseline/sass.json", lambda d: d.update(archs=["sm_90", "sm_89"]), "baseline/sass.json covers sm_90, sm_89, build.json sm_89, sm_90"),
    ("baseline/sass.json", lambda d: d["functions"][0].update(demangled="sdpa::sdpa_fp8_kernel(int)"), "baseline/sass.json calls sdpa_fp8_kernel sdpa::sdpa_fp8_kernel(int)"),
]
GROUPS = {"builds": BUILDS}


@pytest.mark.parametrize("group", GROUPS)
def test_edits_are_named(run: Path, group: str) -> None:
    problems = problems_of(run, GROUPS[group])
    missing = [expected for _, _, expected in GROUPS[group] if not any(expected in problem for problem in problems)]
    assert not missing, (missing, problems)


def problems_of(run: Path, edits: list[Edit]) -> list[str]:
    try:
        for name, change, _ in edits:
            data = json.loads((run / name).read_text(encoding="utf-8"))
            change(data)
            (run / name).write_text(json.dumps(data), encoding="utf-8")
        return consistency_problems(run)
    finally:
        for name, _, _ in edits:
            shutil.copyfile(FULL / name, run / name)
