"""A recorded sweep is sound; one whose record was edited is not, and it is said what does not fit."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from places import DATA
from runs_kit import RECORDED, SWEEPS

from gates.cli.main import cli
from gates.core import jsonio
from gates.core.records import from_json
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import list_runs
from gates.sweep import verify as sweep_verify
from gates.sweep import work
from gates.sweep.record import Timing
from gates.sweep.verify import verify_sweep
from gates.task.sources.identity import identity_of

EARLIER = DATA / "sweeps"  # four rounds, of a version that let slower variants go on, and the run of the winner
EDITED = opened(EARLIER / "8d19c7bb00f8.zip")
INCUMBENT, NEXT, WRONG = (
    "TILE_M=32,TILE_N=32,NUM_WARPS=2,STAGES=2",
    "TILE_M=64,TILE_N=32,NUM_WARPS=4,STAGES=2",
    "TILE_M=16,TILE_N=32,NUM_WARPS=2,STAGES=2",
)


def variant(data: Any, name: str) -> Any:
    return next(one for one in data["variants"] if one["name"] == name)


def timing(data: Any, number: int, name: str = NEXT) -> Any:
    return next(one for one in data["rounds"][number]["timings"] if one["variant"] == name)


def sent_home(data: Any) -> None:
    """The next fastest leaves after the first round, though it was not slower beyond doubt."""
    timing(data, 0).update(code="performance.pass")
    data["rounds"][1]["timings"].remove(timing(data, 1))
    data["rounds"][1]["variants"].remove(NEXT)


CHANGES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda d: d.update(seed="0"), "sweep.json: seed: '0' is not of type 'integer'"),
    (lambda d: d.update(ended=""), "it has not ended: gates sweep --resume "),
    (lambda d: d.update(schema_version=2), "sweep.json: schema version 2 is newer"),
    (lambda d: d.update(variants=[]), "its variants are not those of its parameters"),
    (lambda d: d["params"].update(STAGES=[1, 2]), "its variants are not those of its parameters"),
    (lambda d: d["params"].update(STAGES=list(range(10**6))), "its variants are not those of its parameters"),
    (lambda d: d["variants"].pop(), "its variants are not those of its parameters"),
    (lambda d: variant(d, NEXT).update(name="../../escaped"), "its variants are not those of its parameters"),
    (lambda d: d.update(task_digest="0" * 64), "the digests of the task and its variants contradict each other"),
    (
        lambda d: variant(d, NEXT).update(digest=variant(d, WRONG)["digest"]),
        "the digests of the task and its variants contradict each other",
    ),
    (lambda d: d["rounds"][0]["variants"].append("TILE_M=1"), "speaks of TILE_M=1, which are no variants of it"),
    (lambda d: variant(d, WRONG).update(dropped=""), f"{WRONG} is not dropped, what was found of it says dropped (nvcc failed"),
    (lambda d: variant(d, NEXT).update(dropped="too good"), f"{NEXT} is dropped (too good), what was found of it says not dropped"),
    (
        lambda d: timing(d, 3).update(ratio=1.1),
        f"{NEXT}, round 4: ratio in sweep.json is not that of variants/{NEXT}/performance.round4.json",
    ),
    (lambda d: timing(d, 3).update(faster=True, code="performance.pass"), f"{NEXT}, round 4: faster, code in"),
    (lambda d: timing(d, 0).update(device_uuid="GPU-1"), f"{NEXT}, round 1: timed on GPU-1, which sweep.json does not name"),
    (lambda d: d.update(winner=NEXT), f"sweep.json names {NEXT} as the winner (nothing is faster"),
    (lambda d: d.update(winner=None), "sweep.json names None as the winner (nothing is faster"),
    (lambda d: d.update(winner_reason="9.99x"), f"as the winner (9.99x), its timings {INCUMBENT}: nothing is faster"),
    (lambda d: timing(d, 0).update(sentence="9.99x"), f"{NEXT}, round 1: sentence in sweep.json is not that of"),
    (lambda d: d["devices"][0].update(name="NVIDIA B200"), "of a NVIDIA H200, sweep.json of a NVIDIA B200"),
    (
        lambda d: variant(d, INCUMBENT).update(correctness=None),
        f"{INCUMBENT} was timed, without a verdict of ptxas and a pass of correctness",
    ),
    (lambda d: variant(d, NEXT).update(ptxas=None), f"{NEXT} was timed, without a verdict of ptxas and a pass of correctness"),
    (lambda d: d["rounds"][1].update(budget_s=1e9), "round 2 had 10 s, not 1e+09"),
    (lambda d: d["rounds"].pop(), "performance.round4.json is of no round in sweep.json"),
    (lambda d: d.update(rounds=[], ranking="not run", winner=None, run=None, decision=None), "has devices and no ranking of what was left"),
    (lambda d: d.update(run="../elsewhere"), "'../elsewhere' is not a name of a run of fp16_v8_tiles"),
    (lambda d: d.update(run="fp16_v8_tiles/" + "a" * 300), "File name too long"),
    (lambda d: d.update(run=None), "a winner has a run and a decision, and nothing else has"),
    (lambda d: d.update(task="stage3"), "is of fp16_v8_tiles and a threshold of 0 %, not of stage3 and 0 %"),
    (lambda d: d.update(ranking="not run: no CUDA device"), "sweep.json has a winner or rounds without a ranking"),
    (lambda d: d.update(reference=NEXT), f"what was timed against is {NEXT}, not {INCUMBENT}"),
    (lambda d: timing(d, 2).update(code="performance.pass") or d["rounds"].pop(), "there was no last round"),
    (lambda d: d["rounds"].pop(0), "the first round is not of all that were left"),
    (lambda d: d["rounds"][3]["timings"].pop(), "round 4 did not time each of its variants once"),
    (sent_home, "round 2 is not of the better half of the one before"),
    (lambda d: d.update(decision="hold"), "is not the run of the winner, or its decision is not hold"),
]


@pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.parts[-4])
def test_every_recorded_sweep_is_sound(folder: Path) -> None:
    assert verify_sweep(opened(folder)) == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a sweep, to be written anew by each test, among its evidence and the run of its winner."""
    results = tmp_path_factory.mktemp("results")
    shutil.copytree(EARLIER / "fp16_v8_tiles", results / "fp16_v8_tiles")
    return Path(shutil.copytree(EDITED, results / "sweeps" / "fp16_v8_tiles" / EDITED.name)) / "sweep.json"


READ, EVIDENCE = jsonio.read, functools.cache(jsonio.read)
PARSED = functools.cache(lambda kind, where: from_json(kind, EVIDENCE(Path(where)), where))
TIMINGS: dict[tuple[Any, ...], Timing] = {}


@pytest.fixture
def record(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record alone is changed by tests that ask for it: they read each file of evidence once, and work each timing out once."""

    def timing_of(variant: str, evidence: Any, terms: dict[str, str], *figures: Any) -> Timing:
        key = variant, id(evidence), *terms.values(), *figures
        return TIMINGS.get(key) or TIMINGS.setdefault(key, work.timing_of(variant, evidence, terms, *figures))

    monkeypatch.setattr(jsonio, "read", lambda path: EVIDENCE(path) if "variants" in path.parts else READ(path))
    monkeypatch.setattr(sweep_verify, "from_json", lambda kind, data, where: PARSED(kind, where))
    monkeypatch.setattr(sweep_verify, "timing_of", timing_of)
    return made


@pytest.mark.parametrize(("change", "problem"), CHANGES)
def test_a_record_that_was_edited_is_not(change: Callable[[Any], Any], problem: str, record: Path) -> None:
    path, data = record, json.loads((EDITED / "sweep.json").read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    found = verify_sweep(path.parent)
    assert any(problem in text for text in found), found


def named(folder: Path) -> Path:
    """The sweep as this version writes it: evidence names the builds that it is about."""
    data = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    digests = {one["name"]: one["digest"] for one in data["variants"]}
    for path in folder.glob("variants/*/*.json"):
        evidence = json.loads(path.read_text(encoding="utf-8"))
        evidence["build"] = identity_of(digests[path.parent.name], "0" * 64)
        if path.name.startswith("performance"):
            evidence["baseline_build"] = identity_of(digests[data["reference"]], "0" * 64)
        path.write_text(json.dumps(evidence), encoding="utf-8")
    return folder


def test_two_variants_that_changed_places_with_their_timings_are_found(tmp_path: Path) -> None:
    folder = named(Path(shutil.copytree(EDITED, tmp_path / "a" / "b" / "sweep")))
    assert verify_sweep(folder) == []
    data = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    last = data["rounds"][-1]["variants"]
    one, other = last[0], next(name for name in data["rounds"][0]["variants"] if name not in last)
    names = {one: other, other: one}
    for part in data["rounds"]:
        part["variants"] = [names.get(name, name) for name in part["variants"]]
        for entry in part["timings"]:
            entry["variant"] = names.get(entry["variant"], entry["variant"])
    for key in ("resources", "ptxas", "correctness", "dropped"):
        first, second = variant(data, one), variant(data, other)
        first[key], second[key] = second[key], first[key]
    (folder / "sweep.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "variants" / one).rename(folder / "kept")
    (folder / "variants" / other).rename(folder / "variants" / one)
    (folder / "kept").rename(folder / "variants" / other)
    found = verify_sweep(folder)
    assert any(f"variants/{one}/performance.round1.json is from another build than {one}" in text for text in found), found


def test_samples_that_are_missing_are_told(tmp_path: Path) -> None:
    shutil.copytree(EDITED, tmp_path / "a" / "b" / "sweep")
    (tmp_path / "a" / "b" / "sweep" / "variants" / NEXT / "performance.round2.json").unlink()
    (text,) = verify_sweep(tmp_path / "a" / "b" / "sweep")
    assert "performance.round2.json" in text


def test_the_command_checks_all_of_a_device(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["verify", "recorded:h200-sweep", "--results", str(RECORDED.parent)])
    first, second, total = (line for line in done.output.splitlines() if not line.startswith("  note"))
    assert done.exit_code == 0 and first.endswith("-nvidia-h200.zip: sound") and second.endswith("/94df14572477.zip: sound")
    assert total == "2 of 2 sound"
    shutil.copytree(list_runs(RECORDED / "h200-sweep" / "fp16_v8_tiles")[-1], tmp_path / "run")
    shutil.copy(EDITED / "sweep.json", tmp_path / "run")
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "run")])
    assert done.exit_code == 2 and "run: not sound\n  sweep.json is not in the manifest" in done.output
    shutil.copytree(EDITED, tmp_path / "sweep")
    (tmp_path / "sweep" / "sweep.json").write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "sweep")])
    assert done.exit_code == 2 and "sweep: not sound\n  sweep.json: top: 'schema_version' is a required property" in done.output


def test_evidence_is_no_link(tmp_path: Path) -> None:
    shutil.copytree(EDITED, tmp_path / "sweep")
    one = tmp_path / "sweep" / "variants" / NEXT / "performance.round1.json"
    one.unlink()
    one.symlink_to(EDITED / "variants" / NEXT / "performance.round1.json")
    assert verify_sweep(tmp_path / "sweep") == [
        f"variants/{NEXT}/performance.round1.json is a link: evidence lies in the sweep's own folder"
    ]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("1.00x, bar 0.0", True),
        ("1.002x, bar 0", True),
        ("1.00x, threshold 0.0", True),
        ("1.01x, bar 0.0", False),
        ("1.00x, bars 0.0", False),
        ("1.00x, bar 0.0, 3 more", False),
    ],
)
def test_a_sentence_may_have_other_digits_but_no_other_figure(other: str, same: bool) -> None:
    assert sweep_verify._says_the_same("1.00x, bar 0.0", other) is same
