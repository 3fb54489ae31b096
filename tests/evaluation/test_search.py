"""A search over candidates with made-up evaluations: what it finds, when it stops, and that nothing is done twice."""

from __future__ import annotations

import dataclasses
import difflib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from evolution_kit import BLOCKS, Bench, here, searched
from places import RECORDED, TASKS
from static_kit import needs_nvcc

from gates.cli.findings import findings, verifiable
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evaluation.evolution import search, strategies
from gates.evaluation.evolution import verify as checks
from gates.evaluation.evolution.proposers import ByPatches, ByToggles, FromFolder
from gates.evaluation.evolution.record import read_evolution
from gates.evaluation.evolution.verify import verify_evolution
from gates.evaluation.overlay import Candidate
from gates.evaluation.terms import Terms
from gates.evidence.packed_runs import opened, replace
from gates.render.console import Silence
from gates.sweep.record import read_sweep
from gates.verify.run import verify_run

VALUES = tuple(range(32, 544, 32))
BEST = 320


def truth(candidate: Candidate, toggles: Mapping[str, int]) -> float | None:
    """One hill, and wrong numbers at every fifth value."""
    block = toggles["BLOCK"]
    return None if block % 160 == 32 else 2.0 - abs(block - BEST) / 256 - 0.25


PARAM = ByToggles({"BLOCK": VALUES})


@pytest.mark.parametrize("strategy", ["greedy", "beam", "map-elites"])
def test_a_planted_best_is_found_and_judged_whole(strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(truth)
    folder, found = searched(monkeypatch, tmp_path, bench, PARAM, strategy=strategy)
    assert found.champion is not None and found.member(found.champion).toggles["BLOCK"] == BEST
    assert (found.run, found.decision, found.stopped) == ("blocks/20260101T000000Z-made-up", "hold", "nothing new was proposed 3 times")
    assert [name for what, name in bench.asked if what == "evaluate"] == [one.id for one in found.members], "each once"
    assert bench.asked[-1] == ("run", found.champion) and len(found.members) == len(VALUES)
    page = (folder / "tree.html").read_text(encoding="utf-8")
    assert "champion: BLOCK=320 (score 1.7500)" in page and page.count("<li") == len(found.members) and "http" not in page


def test_elites_are_timed_again_so_a_lucky_timing_does_not_keep_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda _, toggles: 1.3 if toggles["BLOCK"] == 256 else 1.0, noise=lambda number: 9.0 if number == 3 else 1.0)
    _, found = searched(monkeypatch, tmp_path, bench, PARAM)
    lucky = found.members[1]  # the third piece of work, after the task as it is and its second timing
    assert lucky.score == 9.0 * (1.3 if lucky.toggles["BLOCK"] == 256 else 1.0) and found.generations[1].best == lucky.id
    assert found.champion is not None and found.member(found.champion).toggles["BLOCK"] == 256
    assert strategies.score_of(lucky, found.generations) in (1.0, 1.3)


@pytest.mark.parametrize(
    ("device", "options", "expected"),
    [
        (True, {}, [16, 4]),
        (True, {"workers": 2}, [16, 8]),
        (True, {"scheduler": "tcp://127.0.0.1:1"}, [2, 2]),
        (False, {}, [16, 5]),
    ],
)
def test_candidates_share_the_cores(
    device: bool, options: dict[str, object], expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has all of them; then three (and with a device the elite, again) share them. The task times several shapes."""
    monkeypatch.setattr(search, "core_count", lambda: 16)
    shutil.copytree(BLOCKS.parent, tmp_path / "tasks", ignore=lambda _, names: [name for name in names if name.startswith("__")])
    path = tmp_path / "tasks" / BLOCKS.name / "task.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("shape: small, min_speedup_pct: 15", "shapes: {small: 15, large: null}"))
    bench, jobs = Bench(truth, device=device), list[int | None]()
    monkeypatch.setattr(bench, "evaluate", lambda ask: (jobs.append(ask.terms.jobs), Bench.evaluate(bench, ask))[1])
    bench.cluster.functions["evaluate_there"] = bench.evaluate
    bench.cluster.devices = tuple(dataclasses.replace(one, total_memory_bytes=141 * 2**30) for one in bench.cluster.devices)
    _, found = searched(monkeypatch, tmp_path, bench, PARAM, evaluations=4, population=3, task=path.parent, **options)
    assert jobs == [expected[0]] + [expected[1]] * 3 and found.timed_shape == "small"


def test_a_search_begins_with_other_toggles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a proposer that knows the toggle, and each start is a search of its own."""
    one, two = (searched(monkeypatch, tmp_path, Bench(truth), PARAM, toggles={"BLOCK": begin}, evaluations=4) for begin in ("64", "256"))
    assert [found.members[0].toggles for _, found in (one, two)] == [{"BLOCK": 64}, {"BLOCK": 256}] and one[0] != two[0]
    assert len({member.id for member in one[1].members}) == 4 and one[1].members[1].parent == one[1].members[0].id
    assert Terms(toggles={"BLOCK": 64}).task(str(BLOCKS), {"BLOCK": 96}).toggles == {"BLOCK": 96}


def test_nothing_faster_is_no_champion_and_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda *_: 0.99)
    _, found = searched(monkeypatch, tmp_path, bench, PARAM)
    assert (found.champion, found.run, found.decision) == (None, None, None) and "run" not in dict(bench.asked)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"evaluations": 4}, "4 evaluations"),
        ({"generations": 2}, "2 generations"),
        ({"budget_s": 1e-6}, "the budget of 1e-06 s is spent"),
        ({"population": 1, "generations": 99}, "5 generations brought less than 0.5 %"),
    ],
)
def test_it_stops_for_one_reason(options: dict[str, float], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda *_: 1.0)
    assert searched(monkeypatch, tmp_path, bench, PARAM, **options)[1].stopped == says


def test_a_task_that_does_not_pass_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = searched(monkeypatch, tmp_path, Bench(lambda *_: None), PARAM)
    assert found.stopped == "the task as it is does not pass: correctness.max_abs_err" and len(found.members) == 1


def test_without_a_device_candidates_are_ordered_by_what_a_compiler_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(truth, device=False)
    _, found = searched(monkeypatch, tmp_path, bench, PARAM)
    assert {what for what, _ in bench.asked} == {"evaluate", "run"} and all(one.score is None for one in found.members)
    assert found.champion is not None and found.member(found.champion).toggles["BLOCK"] == 64, (
        "the fewest registers of those that are right"
    )


def test_an_interrupted_search_continues_and_does_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searched(monkeypatch, tmp_path / "whole", Bench(truth), PARAM)[1]
    asked: list[tuple[str, str]] = []
    for _ in range(40):
        bench = Bench(truth, stop_after=1)
        try:
            _, found = searched(monkeypatch, tmp_path / "parts", bench, PARAM)
        except KeyboardInterrupt:
            asked += bench.asked
            continue
        asked += bench.asked
        break
    assert [one.id for one in found.members] == [one.id for one in whole.members] and found.champion == whole.champion
    assert len([name for what, name in asked if what == "evaluate"]) == len(found.members), "none lost, none counted twice"
    again = Bench(truth)
    assert searched(monkeypatch, tmp_path / "parts", again, PARAM)[1] == found and not again.asked


def test_a_watched_folder_is_waited_for_only_if_nothing_else_is_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    both, bench = (ByToggles({"BLOCK": (64, 96, 128)}), FromFolder(watched, poll_s=0.01)), Bench(lambda *_: 1.0)

    def arrives(*_: object) -> str:  # once the toggles are exhausted
        if len(bench.asked) >= 3 and not (watched / "late").exists():
            (watched / "late").mkdir()
            (watched / "late" / "candidate.json").write_text('{"toggles": {"BLOCK": 160}}')
        return ""

    monkeypatch.setattr(search, "tree_html", arrives)
    _, found = searched(monkeypatch, tmp_path, bench, *both, generations=3, budget_s=5.0)
    assert [one.name for one in found.members if one.proposer == "from"] == ["late"]
    assert {one.toggles["BLOCK"] for one in found.members} == {64, 96, 128, 160} and found.generations[1].spent_s < 4


def test_a_file_done_ends_a_watched_search_once_all_folders_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes while the search waits; without it the search waits for its whole budget. What is refused is told, with why."""
    watched, told, waits = tmp_path / "watched", list[str](), list[str]()
    for name, given in {"a": {"BLOCK": 64}, "b": {"BLOCK": 96}, "c": {"BLOCK": 160}}.items():
        (watched / name).mkdir(parents=True)
        (watched / name / "candidate.json").write_text(json.dumps({"toggles": given, "name": "smaller" if name == "a" else ""}))
    (watched / "wrong").mkdir()
    (watched / "wrong" / "kernel.cuu").write_text("text")
    monkeypatch.setattr(Silence, "done", lambda _, text: told.append(text))

    def comes(_: Silence, text: str) -> None:
        if "waiting" in text:
            waits.append(text)
            (watched / "done").touch()

    monkeypatch.setattr(Silence, "step", comes)
    for place in ("waits", "at once"):
        _, found = searched(monkeypatch, tmp_path / place, Bench(lambda *_: 1.0), FromFolder(watched, poll_s=0.01), population=2)
        assert found.stopped == f"all of {watched} was tried, and its file `done` says that no more comes"
        assert [one.name for one in found.members] == ["blocks", "a/smaller", "b", "c"]
        assert len(waits) == 1 and "a file `done` there ends it, Ctrl-C keeps all" in waits[0]
        why = [text for text in told if text.startswith("wrong: refused: kernel.cuu: blocks has no such source; a candidate may replace")]
        assert len(why) == ("waits", "at once").index(place) + 1
    (watched / "done").unlink()
    began = time.monotonic()
    monkeypatch.setattr(Silence, "step", lambda *_: None)
    _, found = searched(monkeypatch, tmp_path / "late", Bench(lambda *_: 1.0), FromFolder(watched, poll_s=0.01), budget_s=0.5)
    assert found.stopped == "the budget of 0.5 s is spent" and time.monotonic() - began >= 0.5


def test_the_recorded_sweep_s_winner_is_found_in_a_fifth_of_the_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = read_sweep(opened(next((RECORDED / "h200-sweep" / "sweeps" / "fp16_v8_tiles").glob("*.zip"))))
    timed = {timing.variant: timing.low for part in sweep.rounds for timing in part.timings}
    known = {tuple(one.toggles[name] for name in sweep.params): one for one in sweep.variants}

    def recorded(_: Candidate, toggles: Mapping[str, int]) -> float | None:
        one = known[tuple(toggles[name] for name in sweep.params)]
        return None if one.dropped else 1.0 if one.name == sweep.winner else timed[one.name]

    monkeypatch.setattr(search, "write_evolution", lambda *_: None)  # which waits for the disk
    monkeypatch.setattr(search, "tree_html", lambda *_: "")
    near = {1.0, timed["TILE_M=64,TILE_N=32,NUM_WARPS=4,STAGES=2,USE_WMMA=2"]}
    assert len(known) == 756
    for seed in range(5):
        begin = {"TILE_M": 96, "TILE_N": 32, "NUM_WARPS": 6, "STAGES": 3, "USE_WMMA": 1}  # the slowest variant that is right
        task = from_start(tmp_path / f"{seed}", begin)
        budget = {"evaluations": 756 // 5, "generations": 999, "population": 8}
        monkeypatch.setattr(strategies, "STALLED_GENERATIONS", 12)
        params = ByToggles({name: tuple(values) for name, values in sweep.params.items()})
        _, found = searched(monkeypatch, tmp_path / f"{seed}", Bench(recorded), params, task=task, seed=seed, **budget)
        best, score = strategies.best_of(found)
        assert score in near, (seed, score, found.stopped, found.member(best).name)


def from_start(root: Path, toggles: Mapping[str, int]) -> Path:
    """A task with these toggles, whose evaluations are made up."""
    folder = root / "blocks"
    folder.mkdir(parents=True)
    shown = ", ".join(f"{name}: {value}" for name, value in toggles.items())
    text = (BLOCKS / "task.yaml").read_text(encoding="utf-8").replace("{BLOCK: 128}", f"{{{shown}}}")
    (folder / "task.yaml").write_text(text, encoding="utf-8")
    for name in ("blocks.cu", "saxpy_problem.py"):
        (folder / name).write_text((BLOCKS.parent / name).read_text(encoding="utf-8"), encoding="utf-8")
    return folder


# what can be checked from the folder


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search without a device, whose evaluations count as sound."""
    monkeypatch.setattr(checks, "verify_evaluation", lambda _: [])
    folder, _ = searched(monkeypatch, tmp_path, Bench(truth, device=False), PARAM)
    assert verify_evolution(folder) == []
    return folder


@pytest.mark.parametrize("place", sorted(RECORDED.glob("*/evolve/*/*")), ids=lambda place: place.stem)
def test_a_recorded_search_is_sound_and_found_the_sweep_s_winner(place: Path) -> None:
    found, sweep = read_evolution(opened(place)), read_sweep(opened(next((RECORDED / "h200-sweep" / "sweeps").rglob("*.zip"))))
    assert findings(place) == ([], []) and len(found.members) == 45 and found.champion is not None
    assert found.member(found.champion).toggles == sweep.variant(sweep.winner or "").toggles != found.members[0].toggles
    assert found.decision == "merge" and (place.parents[2] / f"{found.run}.zip").is_file()


def test_a_packed_search_is_checked_as_its_folder(ended: Path) -> None:
    packed = replace(ended)
    assert not ended.exists() and findings(packed) == ([], [])
    assert verifiable(str(packed), Path("results")) == [packed]


def changed(folder: Path, place: list[str | int], value: object) -> list[str]:
    data = jsonio.read(folder / "evolution.json")
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    (folder / "evolution.json").write_text(json.dumps(data), encoding="utf-8")
    return verify_evolution(folder)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (["members", 1, "score"], 3.0, "score in evolution.json is not that of its evaluation"),
        (["members", 1, "valid"], True, "valid in evolution.json is not that of its evaluation"),
        (["members", 2, "toggles", "BLOCK"], 4096, "is not the digest of its task, texts and toggles"),
        (["members", 1, "parent"], None, "is not a candidate of an earlier generation"),
        (["members", 7, "generation"], 0, "is not in generation 0"),
        (["generations", 2, "parents"], [], "its parents are not those that beam chooses"),
        (["generations", 1, "best_score"], 2.0, "the scores say"),
        (["generations", 1, "members"], [], "its generations are not those of its members"),
        (["champion"], None, "as the champion, the scores say"),
        (["run"], None, "a champion has a run and a decision"),
        (["run"], "../elsewhere", "is not a name of a run of blocks"),
        (["ended"], "", "it has not ended"),
        (["seed"], "x", "seed"),
    ],
)
def test_a_changed_record_is_not_sound(place: list[str | int], value: object, says: str, ended: Path) -> None:
    member = read_evolution(ended).members[1]
    value = not member.valid if place[-1] == "valid" else value
    assert any(says in problem for problem in changed(ended, place, value)), verify_evolution(ended)


def test_another_search_s_record_is_refused(ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(ended, ["id"], "0" * 12)
    with pytest.raises(GatesError, match="is not of this search"):
        searched(monkeypatch, tmp_path, Bench(truth, device=False), PARAM)


# with a compiler


@needs_nvcc
def test_a_search_over_patches_on_the_cpu_from_proposal_to_a_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer registers count without a device: one patch needs fewer, another does not compile, a third does not fit."""
    source, patches = (TASKS / "saxpy.cu").read_text(encoding="utf-8"), tmp_path / "patches"
    patches.mkdir()
    fewer = source.replace("#if USE_COALESCED", "#if 0").replace("USE_COALESCED ? 4 : kRun", "kRun")
    for name, text in {"fewer": fewer, "broken": source.replace("out[i] = ", "out[i] = nothing + ")}.items():
        lines = (one.splitlines(keepends=True) for one in (source, text))
        (patches / f"{name}.patch").write_text("".join(difflib.unified_diff(*lines, "a/saxpy.cu", "b/saxpy.cu")), encoding="utf-8")
    (patches / "elsewhere.patch").write_text("--- a/x.cu\n+++ b/x.cu\n@@ -1 +1 @@\n-a\n+b\n", encoding="utf-8")
    terms = {"task": TASKS / "saxpy_fast", "stage": "numbers", "evaluations": 3}
    folder, found = searched(monkeypatch, tmp_path, here(), ByPatches(patches), **terms)
    assert {one.name: one.code for one in found.members} == {
        "saxpy_fast": "correctness.pass",
        "broken": "ptxas.build_failed",
        "fewer": "correctness.pass",
    }
    assert [(one.name, one.why) for one in found.generations[1].refused] == [
        ("elsewhere", "the diff changes x.cu, which is not one source")
    ]
    assert found.champion == found.members[2].id and found.decision == "hold" and found.run is not None
    assert verify_evolution(folder) == [] == verify_run(tmp_path / "results" / found.run)
    (text,) = (folder / "candidates" / found.champion).rglob("saxpy.cu")
    text.write_text(source, encoding="utf-8")
    assert verify_evolution(folder) == [f"candidates/{found.champion}/saxpy.cu is not the text that was evaluated"]
