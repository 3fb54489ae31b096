"""Single edits of evidence whose digests were made anew: `gates verify` names each, for other evidence of the run shows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import RECORDED

from gates.evidence.run_directory import list_runs
from gates.verify.run import consistency_problems

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
    (
        "ptxas.json",
        lambda d: d["kernels"][0].update(barriers=2),
        "ptxas.json: sdpa_fp8_kernel sm_89 has not the figures that build.log shows",
    ),
    ("ptxas.json", lambda d: d["kernels"][1].update(base_name="other"), "ptxas.json: other is not what _ZN4sdpa15sdpa_fp8_kernel"),
    (
        "ptxas.json",
        lambda d: d["called_functions"].append(
            {"name": "f", "demangled": "f", "arch": "sm_89", "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0}
        ),
        "other called functions than build.log shows",
    ),
    (
        "baseline/ptxas.json",
        lambda d: d["kernels"][0].update(registers=1),
        "baseline/ptxas.json: sdpa_fp8_kernel sm_89 has not the figures",
    ),
    (
        "baseline/ptxas.json",
        lambda d: d.update(expected_kernels=["k"]),
        "baseline/ptxas.json: kernels is k, run.json gives sdpa_fp8_kernel",
    ),
    ("sass.json", lambda d: d["functions"][0].update(demangled="other(int)"), "does not read other(int)"),
    ("sass.json", lambda d: d["functions"].pop(), "sass.json has no machine code of "),
    ("baseline/sass.json", lambda d: d.update(archs=["sm_90", "sm_89"]), "baseline/sass.json covers sm_90, sm_89, build.json sm_89, sm_90"),
    (
        "baseline/sass.json",
        lambda d: d["functions"][0].update(demangled="sdpa::sdpa_fp8_kernel(int)"),
        "baseline/sass.json calls sdpa_fp8_kernel sdpa::sdpa_fp8_kernel(int)",
    ),
]
CASES: list[Edit] = [
    ("correctness.json", lambda d: d.update(device="x"), "correctness.json: device is x, run.json gives cuda"),
    ("correctness.json", lambda d: d.update(end_to_end_bad_atol=0.5), "end_to_end_bad_atol is 0.5, run.json gives 0.06"),
    (
        "correctness.json",
        lambda d: d["cases"][0].update(orders=["forward"]),
        "small seed 0: its thread orders forward are not those of the plan",
    ),
    ("correctness.json", lambda d: case(d, "odd").update(seed=5), "the plan has no such seed for odd cases"),
    (
        "correctness.json",
        lambda d: case(d, "edge").update(orders=["forward", "reversed"]),
        "its thread orders forward, reversed are not those",
    ),
    ("correctness.json", lambda d: d["cases"][1].update(launch_count=3), "small seed 1: 3 launches are counted, 0 are listed"),
    ("correctness.json", lambda d: d["cases"][1].update(first_difference="out[0]"), "0 elements differ between calls, the first is out[0]"),
    (
        "correctness.json",
        lambda d: d["cases"][2]["outputs"][0].update(name="o"),
        "small seed 2: the outputs out were written, the errors are of o",
    ),
    ("correctness.json", lambda d: d["cases"][3]["outputs"][0].update(dtype="float32"), "in another case of the shape 262144 of float"),
    ("correctness.json", lambda d: d["cases"][4]["outputs"][0].update(worst_got=0.0), "the worst element is 0.0 in place of"),
    (
        "correctness.json",
        lambda d: d["cases"][5]["outputs"][0].update(bad_pct=0.05),
        "mission seed 2: bad_pct 0.05 is no share of 262144 elements",
    ),
    (
        "correctness.json",
        lambda d: d["cases"][5]["end_to_end"][0].update(bad_pct=100.0),
        "bad_pct 100.0 does not follow from the largest error",
    ),
    (
        "correctness.json",
        lambda d: case(d, "family")["outputs"][0].update(max_err_over_bound=0.9),
        "max_err_over_bound is 0.9, its element has the error",
    ),
    (
        "correctness.json",
        lambda d: case(d, "family")["outputs"][0].update(reference_mean_abs=1e9),
        "reference_mean_abs is larger than reference_max_abs",
    ),
    (
        "correctness.json",
        lambda d: d["baseline_cases"][0]["outputs"][0].update(reference_max_abs=9.0),
        "the reference of out is not that of the candidate's case",
    ),
    (
        "correctness.json",
        lambda d: d["baseline_cases"][1].update(orders=[]),
        "the baseline's small seed 1 has the role headline and the thread orders ",
    ),
    (
        "correctness.json",
        lambda d: d["baseline_cases"].append({**d["baseline_cases"][-1], "shape": "x"}),
        "the baseline has the case x seed",
    ),
]
MEASURED: list[Edit] = [
    ("sanitizer.json", lambda d: d.update(mode="emulator"), "sanitizer.json: mode is emulator, run.json gives device"),
    ("sanitizer.json", lambda d: d.update(tool_version="Version 1"), "tool_version is Version 1, run.json gives 2025.3.1.0"),
    ("sanitizer.json", lambda d: d["runs"][0].update(order="x"), "sanitizer.json: orders is x"),
    ("sanitizer.json", lambda d: d["runs"][1].update(launches=99), "racecheck  has 99 launches of 14"),
    ("sanitizer.json", lambda d: d["runs"][2].update(expected_launches=7), "the runs expect 1, 2 launches per shape"),
    ("sanitizer.json", lambda d: d["runs"][3].update(cause="exit 1"), "ended with exit 1, its exit code is 0"),
    ("performance.json", lambda d: d["device"].update(driver="1"), "device.driver is 1, run.json gives 580"),
    ("performance.json", lambda d: d.update(shape="big"), "performance.json: shape is big, run.json gives mission"),
    ("performance.json", lambda d: d.update(gated_mode="warm"), "gated_mode is warm, run.json gives cold"),
    (
        "performance.json",
        lambda d: d["series"][0]["blocks"][0].update(pair=7),
        "cold: the valid blocks are not one of each side in each pair",
    ),
    (
        "performance.json",
        lambda d: d["series"][1]["launches"].update(candidate=1),
        "warm: a sample of the candidate has 1 launches, 57 elsewhere",
    ),
    (
        "performance.json",
        lambda d: d.update(span={"began": "2026-11-30T10:32:43.196+00:00", "ended": "2026-11-30T10:32:44.000+00:00"}),
        "its processes used the card for 0.804 s, one of them alone took",
    ),
    ("performance.json", lambda d: d["inputs"]["seeds"].pop(3), "the seeds of its inputs do not follow each other from 1720846987 on"),
    ("ncu.json", lambda d: d.update(shape="small"), "ncu.json: shape is small, run.json gives mission"),
    ("ncu.json", lambda d: d.update(chip="sm_80"), "ncu.json: chip is sm_80, run.json gives sm_90"),
    ("ncu.json", lambda d: d.update(version="1"), "ncu.json: version is 1, run.json gives 2025.3.1.0"),
    ("ncu.json", lambda d: d["sides"]["candidate"].update(name="x"), "sides.candidate.name is x, run.json gives stage2_wmma_pv"),
    (
        "ncu.json",
        lambda d: d["sides"]["baseline"]["kernels"][0].update(kernel="k", launch=2),
        "sides.baseline.kernels is k, run.json gives sdpa_fp8_kernel",
    ),
    ("ncu.json", lambda d: d["sides"]["candidate"]["launches"].pop(), "is not in its list of launches"),
    (
        "ncu.json",
        lambda d: d["sides"]["candidate"]["kernels"][0]["counters"][2].update(source="sm__cycles.sum"),
        "the source of tensor_inst is sm__cycles.sum, run.json gives sm__inst",
    ),
    ("ncu.json", lambda d: d["sides"]["baseline"]["kernels"][0]["counters"].pop(), "have not the same counters"),
    (
        "sass.json",
        lambda d: d["functions"][0]["classes"].update(tensor=31),
        "has 31 instructions of the class tensor, 32 of its commonest are",
    ),
    ("sass.json", lambda d: d["functions"][1]["top_mnemonics"].pop("IMAD"), "instructions, its commonest are"),
]
TERMS: list[Edit] = [
    ("run.json", lambda d: d.update(profile="cpu"), "run.json says cpu profile with a device"),
    ("run.json", lambda d: d["asked_gates"].reverse(), "run.json asks for the gates ncu, performance"),
    ("run.json", lambda d: d["git"].update(sha="0" * 40), "run.json names the revision 0000"),
    ("run.json", lambda d: d["task"].update(kind="c"), "task: the kind c, the stream current or the digest_rule 2 is unknown"),
    ("run.json", lambda d: d["task"].update(digest="1"), "task: digest 1 is no sha256"),
    ("run.json", lambda d: d["task"]["arch"].append("sm_90"), "task: arch names one twice: sm_89, sm_90, sm_90"),
    ("run.json", lambda d: d["baseline"].update(seeds=[2, 1, 0]), "baseline: its seeds are not those of the task"),
    ("run.json", lambda d: d["task"].update(shapes={}, judged_shapes=[]), "run.json, baseline: its shapes are not those of the task"),
    ("run.json", lambda d: d["baseline"].update(digest_rule=1), "run.json names a build of stage1_wmma_qk, its digest_rule is 1"),
]


def case(data: Any, role: str) -> Any:
    return next(one for one in data["cases"] if one["role"] == role)


GROUPS = {"builds": BUILDS, "cases": CASES, "measured": MEASURED, "terms": TERMS}


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
