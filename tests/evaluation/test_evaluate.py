"""One candidate in, one answer out: what may be replaced, where the cascade stops, what is kept, and that an answer can be checked."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import evaluate_answers
import pytest
from click.testing import CliRunner
from evolution_kit import Bench, made_up
from places import RECORDED, TASKS
from static_kit import needs_nvcc
from sweep_kit import DEVICE

import gates
from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.evaluation import evaluate as engine
from gates.evaluation import evaluator as pool
from gates.evaluation.answer import worst_archs
from gates.evaluation.evolution.record import Member, read_evolution
from gates.evaluation.feedback import MOST_BYTES, cut, feedback
from gates.evaluation.overlay import Candidate, candidate_id, editable, laid_out, resolved
from gates.evaluation.record import gates_in
from gates.evaluation.terms import Terms, incumbent
from gates.evaluation.verify import verify_evaluation
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import resolve_run
from gates.gate.registry import ROWS
from gates.render.search.evolution import evolution_table
from gates.task.load import load_task

FAST = TASKS / "saxpy_fast"
SOURCE = (TASKS / "saxpy.cu").read_text(encoding="utf-8")
LINE = "out[i] = "


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluated")


def evaluated(results: Path, stage: str = "static", **more: object) -> gates.Evaluation:
    return gates.evaluate(FAST, profile="cpu", stage=stage, results=results, build_dir=results / "build", **more)  # type: ignore[arg-type]


def told(error: pytest.ExceptionInfo[GatesError]) -> str:
    return f"{error.value.what} | {error.value.hint}"


# what a candidate is


def test_only_the_stage_s_code_may_be_replaced() -> None:
    task = load_task(FAST, environ={})
    assert list(editable(task)) == ["saxpy.cu"]
    assert resolved(task, Candidate({"saxpy.cu": "x"})) == {"saxpy.cu": "x"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"saxpy_problem.py": "x"}, "has no such source; a candidate may replace: saxpy.cu"),
        ({"task.yaml": "x"}, "has no such source"),
        ({"runner.py": "x"}, "has no such source"),
        ({"../saxpy.cu": "x"}, "has no such source"),
        ({"/etc/passwd": "x"}, "has no such source"),
        ({"": "x"}, "has no such source"),
        ({"saxpi.cu": "x"}, "did you mean saxpy.cu?"),
        ({"saxpy.cu": "x" * (4 * 2**20 + 1)}, "more than 4 MiB"),
    ],
    ids=["problem", "task", "runner", "above", "absolute", "empty", "near", "large"],
)
def test_anything_else_is_refused(files: dict[str, str], says: str) -> None:
    with pytest.raises(GatesError) as error:
        resolved(load_task(FAST, environ={}), Candidate(files))
    assert says in told(error)


def test_an_id_is_of_the_texts_and_the_toggles_in_force() -> None:
    task = load_task(FAST, environ={})
    ids = [candidate_id(task, files, toggles) for files in ({}, {"saxpy.cu": "1"}, {"saxpy.cu": "2"}) for toggles in ({"A": 0}, {"A": 1})]
    assert len(set(ids)) == 6 and ids[0] == candidate_id(task, {}, {"A": 0})


def test_a_candidate_is_laid_out_whole_and_the_task_stays(tmp_path: Path) -> None:
    task = load_task(FAST, environ={})
    made = laid_out(task, {"saxpy.cu": SOURCE + "// other"}, {}, tmp_path / "it")
    assert made.sources[0].read_text(encoding="utf-8").endswith("// other") and made.sources[0].is_relative_to(tmp_path)
    assert made.problem_sha256() == task.problem_sha256() and made.digest() != task.digest()
    assert (TASKS / "saxpy.cu").read_text(encoding="utf-8") == SOURCE


def test_resources_are_shown_with_the_architectures_that_they_are_of() -> None:
    """The most registers and the least occupancy of this kernel are on different ones."""
    folder = resolve_run("recorded:h200/stage2", RECORDED.parent)
    archs = worst_archs(folder)
    assert archs == {"registers": "sm_90", "smem_bytes": "sm_89, sm_90", "spill_bytes": "sm_89, sm_90", "occupancy_pct": "sm_89"}
    metrics = {"registers": 123.0, "occupancy_pct": 16.7, "sass.mma": 8.0}
    assert feedback([], metrics, "", [], archs) == "no check failed\nregisters 123 (sm_90), occupancy_pct 16.7 (sm_89), sass.mma 8"
    one = Member("id", 0, "", "wide", "as it is", None, {}, {}, "pass", valid=True, metrics=metrics)
    found = read_evolution(opened(next((RECORDED / "h200-evolve" / "evolve" / "fp16_v8_tiles").glob("*.zip"))))
    said = evolution_table(found, [one], lambda _: None, lambda _: archs)
    assert "123 registers (sm_90), 17 % occupancy (sm_89) as it is" in said


def test_feedback_has_a_bound() -> None:
    assert cut("short") == "short" and len(cut("\u00fc" * 5000).encode()) <= MOST_BYTES and cut("x" * 5000).endswith(" [cut]")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--source", "saxpy.cu"], "is not NAME=FILE"),
        (["--source", "saxpy.cu=/nowhere/k.cu"], "No such file"),
        (["--source", "saxpy.cu=a", "--source", "saxpy.cu=b"], "given twice"),
        (["--toggle", "NOTHING=1"], "no such toggle"),
        (["--stage", "speed"], "CUDA"),
    ],
)
def test_bad_input_is_one_error(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["evaluate", str(FAST), "--results", str(tmp_path), *arguments])
    assert isinstance(done.exception, GatesError) and says in f"{done.exception.what} {done.exception.hint}", done.exception
    assert not (tmp_path / "evaluations").exists()


def test_a_text_with_blocks_may_differ_between_their_marks_alone(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks")
    source = tmp_path / "tasks" / "saxpy.cu"
    lines = SOURCE.splitlines(True)
    marked = "".join([*lines[:10], "// EVOLVE-BLOCK-START\n", *lines[10:30], "// EVOLVE-BLOCK-END\n", *lines[30:]])
    source.write_text(marked, encoding="utf-8")
    task = load_task(tmp_path / "tasks" / "saxpy_fast", environ={})
    for inside in (marked.replace(LINE, "// other\n" + LINE), marked.replace(LINE, "")):
        assert resolved(task, Candidate({"saxpy.cu": inside})) == {"saxpy.cu": inside}
    for outside in (
        marked + "// more\n",
        marked.replace("// EVOLVE-BLOCK-END\n", ""),
        SOURCE,
        marked.replace("kThreads = 128", "kThreads = 64"),
    ):
        with pytest.raises(GatesError, match="text outside the EVOLVE-BLOCK-START blocks differs"):
            resolved(task, Candidate({"saxpy.cu": outside}))


def test_editable_in_task_yaml_leaves_fewer_files(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks")
    (tmp_path / "tasks" / "more.cuh").write_text("// more\n")
    source, place = tmp_path / "tasks" / "saxpy.cu", tmp_path / "tasks" / "saxpy_fast" / "task.yaml"
    source.write_text('#include "more.cuh"\n' + SOURCE)
    text = place.read_text()
    for line, files in {"": ["more.cuh", "saxpy.cu"], "editable: [more.cuh]\n": ["more.cuh"]}.items():
        place.write_text(line + text)
        assert sorted(editable(load_task(place.parent, environ={}))) == files
    place.write_text("editable: [saxpi.cu]\n" + text)
    with pytest.raises(GatesError) as error:
        editable(load_task(place.parent, environ={}))
    assert "editable: saxpi.cu is not a source of the stage" in told(error) and "did you mean saxpy.cu?" in told(error)


def test_the_size_gate_judges_a_task_that_names_it_by_its_own_limits(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks")
    place = tmp_path / "tasks" / "saxpy_fast" / "task.yaml"
    place.write_text(place.read_text().replace("gates:\n", "gates:\n  size: {max_bytes: 90000, max_growth_pct: 5}\n"))
    limits = dict(engine._own_limits(load_task(place.parent, environ={})))
    assert limits["size"] == {"max_bytes": 90000} and "match_baseline" not in limits["correctness"]
    assert gates_in("static", limits) == ["ptxas", "sass", "size"] and gates_in("memory", limits) == ["sanitizer"]
    place.write_text(place.read_text().replace("max_bytes: 90000, ", ""))
    assert "size" not in dict(engine._own_limits(load_task(place.parent, environ={})))


def test_a_new_optional_gate_is_judged_at_the_stage_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "new", replace(ROWS["size"], name="new", evaluated="memory", against_baseline=()))
    task = load_task(FAST, environ={})
    task = replace(task, gates={**task.gates, "new": {}})
    limits = dict(engine._own_limits(task))
    assert gates_in("memory", limits) == ["sanitizer", "new"] and gates_in("memory", task.gates.keys() - {"new"}) == ["sanitizer"]
    assert "new" not in [*gates_in("static", limits), *gates_in("numbers", limits), *gates_in("speed", limits)]


# what it is timed against


def test_a_candidate_is_timed_against_the_task_its_baseline_or_a_run(tmp_path: Path) -> None:
    task = load_task(FAST, environ={})
    assert incumbent(task, Terms()) is task and incumbent(task, Terms(against="baseline")).name == "saxpy_slow"
    for against, says in {
        "elite": "no results folder",
        "latest:saxpy_fast": "no run found",
        f"{RECORDED}/h200/stage0_scalar": "is a run of stage0_scalar, not of saxpy_fast",
    }.items():
        with pytest.raises(GatesError) as error:
            incumbent(task, Terms(against=against, results=tmp_path / "none"))
        assert says in told(error)


def test_an_answer_is_given_again_only_for_what_it_was_timed_against(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "verify_evaluation", lambda _: [])
    found = replace(
        made_up("saxpy_fast", Candidate(), 1.2, stage="speed", score=1.2), tool_version=gates.__version__, asked="speed", against="task"
    )
    home = tmp_path / "saxpy_fast" / "ab"
    home.mkdir(parents=True)
    jsonio.write(home / "evaluation.json", to_json(found))
    assert engine._kept(home, "speed", None, "task") == found and engine._kept(home, "numbers", None, "baseline") == found
    assert engine._kept(home, "speed", None, "baseline") is None
    assert engine._kept(home, "speed", DEVICE, "task") is None


# the cascade


@needs_nvcc
def test_a_compile_error_is_one_entry_with_its_line_and_ends_at_once(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"saxpy.cu": SOURCE.replace(LINE, LINE + "nothing + ", 1)}
    found = evaluated(results, stage="memory", files=source, name="first")
    assert (found.status, found.stage, found.code, found.valid, found.score) == ("fail", "static", "ptxas.build_failed", False, None)
    assert [one.gate for one in found.gates] == ["ptxas"] and found.feedback.count("nothing") == 1 and "saxpy.cu:" in found.feedback
    assert "gates-evaluate" not in found.feedback, "no word of a folder that is gone"
    monkeypatch.setattr(engine, "build", lambda *_, **__: pytest.fail("the answer is kept"))
    again = evaluated(results, stage="memory", files=source, name="second")
    assert again.cached and (again.id, again.feedback, again.name) == (found.id, found.feedback, "second")


@pytest.fixture(scope="module")
def answers(results: Path) -> Iterator[dict[str, gates.Evaluation]]:
    """A right candidate and a wrong one, judged to their numbers."""
    wrong = {"saxpy.cu": SOURCE.replace(LINE, LINE + "0.5f * ")}
    yield {
        "right": evaluated(results, stage="numbers"),
        "wrong": evaluated(results, stage="memory", files=wrong, parent="p", note="halved"),
    }


@needs_nvcc
def test_a_right_candidate_passes_with_its_figures(answers: dict[str, gates.Evaluation], results: Path) -> None:
    found = answers["right"]
    assert (found.status, found.stage, found.valid, found.score) == ("pass", "numbers", True, None)
    assert [one.gate for one in found.gates] == ["ptxas", "sass", "correctness"] and found.metrics["registers"] > 0
    assert found.feedback.startswith("no check failed\nregisters ") and found.seconds["compile"] > 0
    folder = results / found.evidence
    assert folder.name == found.id and verify_evaluation(folder) == []
    assert not any(one["code"] for one in jsonio.read(folder / "sass.json")["functions"]), (
        "instructions, which nothing of a search compares"
    )
    assert gates.Evaluation is type(found) and jsonio.read(folder / "evaluation.json")["toggles"] == dict(found.toggles)


@needs_nvcc
def test_a_wrong_candidate_stops_at_its_numbers_and_names_the_worst_element(answers: dict[str, gates.Evaluation], results: Path) -> None:
    found = answers["wrong"]
    assert (found.status, found.stage, found.valid, found.score, found.parent, found.note) == (
        "fail",
        "numbers",
        False,
        None,
        "p",
        "halved",
    )
    assert found.gates[-1].gate == "correctness" and "expected" in found.feedback and "where:" in found.feedback
    assert verify_evaluation(results / found.evidence) == []


@needs_nvcc
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "pass"}, "status does not follow"),
        ({"valid": True}, "valid does not follow"),
        ({"score": 1.5}, "score does not follow"),
        ({"metrics": {"registers": 1.0}}, "metrics does not follow"),
        ({"feedback": "all is well"}, "feedback does not follow"),
        ({"gates": []}, "not those of the stages"),
    ],
    ids=["status", "valid", "score", "metrics", "feedback", "gates"],
)
def test_an_answer_that_was_changed_is_not_sound(
    answers: dict[str, gates.Evaluation], results: Path, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    import shutil

    folder = shutil.copytree(results / answers["wrong"].evidence, tmp_path / answers["wrong"].id)
    path, manifest = folder / "evaluation.json", folder / "manifest.json"
    path.write_text(jsonio.dumps({**jsonio.read(path), **change}), encoding="utf-8")
    assert verify_evaluation(folder) == ["evaluation.json was changed after the run"]
    data = jsonio.read(manifest)
    data["sha256"]["evaluation.json"] = jsonio.sha256(path)
    manifest.write_text(jsonio.dumps(data), encoding="utf-8")
    assert says in " ".join(verify_evaluation(folder))


@needs_nvcc
def test_the_command_prints_the_same_as_json(answers: dict[str, gates.Evaluation], results: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "mine.cu"
    wrong.write_text(SOURCE.replace(LINE, LINE + "0.5f * "), encoding="utf-8")
    command = ["evaluate", str(FAST), "--source", f"saxpy.cu={wrong}", "--results", str(results), "--profile", "cpu"]
    done = CliRunner().invoke(cli, [*command, "--json"])
    data = json.loads(done.stdout)
    assert done.exit_code == 1 and data["cached"] and data["id"] == answers["wrong"].id and data["feedback"] == answers["wrong"].feedback
    text = CliRunner().invoke(cli, command).stdout
    assert text.startswith(f"fail: saxpy_fast {data['id']}, last check: numbers (stored answer)\ncorrectness: ")
    checked = CliRunner().invoke(cli, ["verify", str(results / data["evidence"])])
    assert checked.exit_code == 0 and ": sound" in checked.stdout


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--stage", "speed", "--profile", "cpu"], "stage"),
        (["--source", "saxpy.cu"], "is not NAME=FILE"),
        (["--source", "saxpy.cu=/no/such/file"], "No such file"),
    ],
)
def test_with_json_an_error_is_one_object_too(tmp_path: Path, capfd: pytest.CaptureFixture[str], more: list[str], what: str) -> None:
    code = guard(lambda: cli(["evaluate", str(FAST), "--results", str(tmp_path), *more, "--json"], standalone_mode=False))
    out, err = capfd.readouterr()
    error = json.loads(out)["error"]
    assert code in (2, 3) and what in error["what"] + error["hint"] and err.endswith(f"error: {error['what']}\nhint: {error['hint']}\n")


@needs_nvcc
@pytest.mark.parametrize("name", ["pass", "compile_error", "wrong_number", pytest.param("race", marks=pytest.mark.slow)])
def test_the_documented_answers_are_as_they_come_out(answers: dict[str, gates.Evaluation], name: str, results: Path) -> None:
    told = jsonio.read(evaluate_answers.PAGE)[name]
    found = to_json(evaluated(results, stage="numbers", files={"saxpy.cu": evaluate_answers.CANDIDATES[name]}, name=name))
    assert found.keys() == told.keys() and [found[key] for key in ("status", "valid", "score")] == [
        told[key] for key in ("status", "valid", "score")
    ]
    assert found["gates"][-1]["code"] in [one["code"] for one in told["gates"]] and found["metrics"].keys() == told["metrics"].keys()
    assert found["files"] == told["files"] and found["feedback"].splitlines()[0].partition(" at ")[0] in told["feedback"]
    codes = [re.findall(r"\[(\w+\.\w+)\]$", one["feedback"], re.M) for one in (found, told)]
    assert codes[0] == codes[1] and len(codes[0]) == len(set(codes[0])), "each fault once"


def test_the_documented_slow_candidate_is_the_recorded_one() -> None:
    slow = jsonio.read(evaluate_answers.PAGE)["slow"]
    assert slow == evaluate_answers.slow() and slow["valid"] and slow["status"] == "pass" and slow["score"] < 1 < slow["p50_us"]


@needs_nvcc
@pytest.mark.parametrize(("old", "new"), [("saxpy_launch", "saxpy_lunch"), ('extern "C" int', "int")], ids=["name", "mangled"])
def test_a_candidate_without_the_launcher_fails(results: Path, old: str, new: str) -> None:
    found = evaluated(results, files={"saxpy.cu": SOURCE.replace(old, new)})
    assert found.status == "fail" and found.gates[-1].code == "ptxas.build_failed"
    assert "saxpy_launch is defined in no source" in found.feedback


@needs_nvcc
def test_many_at_once_are_each_judged_once(results: Path, tmp_path: Path) -> None:
    broken = [{"files": {"saxpy.cu": SOURCE.replace(LINE, LINE + f"nothing_{n} + ", 1)}, "name": f"n{n}"} for n in (0, 1, 0)]
    terms = Terms("static", profile="cpu", results=tmp_path, build_dir=tmp_path / "build")
    with gates.Evaluator(str(FAST), terms, workers=2) as evaluator:
        found = list(evaluator.map(broken))
    assert [one.status for one in found] == ["fail"] * 3 and found[0].id == found[2].id != found[1].id
    assert [f"nothing_{n}" in one.feedback for n, one in zip((0, 1, 0), found, strict=True)] == [True] * 3
    assert len(list((tmp_path / "evaluations" / "saxpy_fast").iterdir())) == 2


def test_each_of_many_at_once_has_its_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, together = list[int | None](), threading.Barrier(2)

    def judged(task: str, candidate: Candidate, terms: Terms, *_: object) -> gates.Evaluation:
        asked.append(terms.jobs)
        together.wait(60)
        return made_up(task, candidate, 1.0, stage="static", score=None)

    monkeypatch.setattr(pool, "evaluate_task", judged)
    monkeypatch.setenv("GATES_JOBS", "8")
    with gates.Evaluator(str(FAST), Terms("static", results=tmp_path), workers=2) as evaluator:
        list(evaluator.map({"toggles": {"N": n}} for n in range(4)))
    assert asked[0] in (4, 8) and asked[1:] == [4, 4, 4], "the first may be alone when it begins"


@needs_nvcc
def test_two_servers_on_one_results_folder_keep_one_answer(tmp_path: Path) -> None:
    terms = Terms("static", profile="cpu", results=tmp_path, build_dir=tmp_path / "build")
    broken = Candidate({"saxpy.cu": SOURCE.replace(LINE, LINE + "nothing + ", 1)})
    with gates.Evaluator(str(FAST), terms, workers=1) as one, gates.Evaluator(str(FAST), terms, workers=1) as other:
        answers = [future.result() for future in [one.submit(broken), other.submit(broken)]]
    assert [answer.status for answer in answers] == ["fail", "fail"] and answers[0].id == answers[1].id
    assert [path.name for path in (tmp_path / "evaluations" / "saxpy_fast").iterdir()] == [answers[0].id]
    assert verify_evaluation(tmp_path / answers[0].evidence) == []


def test_a_cluster_s_workers_judge_if_a_scheduler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda _, toggles: 1.0 + toggles["USE_COALESCED"])
    monkeypatch.setattr("gates.evaluation.evaluator.joined_cluster", lambda address: contextlib.nullcontext(bench.cluster))
    with gates.Evaluator(str(FAST), Terms("speed", results=tmp_path), workers=2, scheduler="tcp://127.0.0.1:1") as evaluator:
        found = list(evaluator.map({"toggles": {"USE_COALESCED": n}} for n in (0, 1)))
    assert [one.score for one in found] == [1.0, 2.0] and [what for what, _ in bench.asked] == ["evaluate"] * 2
    monkeypatch.undo()
    with pytest.raises(GatesError, match="is not the address of a Dask scheduler"):
        gates.Evaluator(str(FAST), Terms("speed", results=tmp_path), scheduler="nowhere")


def test_an_error_of_the_input_is_the_future_s(tmp_path: Path) -> None:
    with gates.Evaluator(str(FAST), Terms("static", results=tmp_path)) as evaluator:
        error = evaluator.submit(Candidate({"task.yaml": ""})).exception()
    assert isinstance(error, GatesError) and "no such source" in error.what


@pytest.mark.gpu
def test_a_score_is_the_interval_s_low_end_on_a_device(tmp_path: Path) -> None:
    same = gates.evaluate(FAST, stage="speed", results=tmp_path, build_dir=tmp_path / "build")
    slower = gates.evaluate(FAST, stage="speed", toggles={"USE_COALESCED": 0}, results=tmp_path, build_dir=tmp_path / "build")
    assert same.valid and same.status == "pass" and 0.9 < same.score <= same.score_high < 1.1, same
    assert slower.valid and slower.score_high < same.score_high and slower.p50_us > 0, slower
    assert [verify_evaluation(tmp_path / one.evidence) for one in (same, slower)] == [[], []]


@needs_nvcc
def test_an_answer_without_a_verdict_is_not_kept_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = engine.find_toolchain()
    bare = replace(whole, tools={**whole.tools, "cuobjdump": None, "nvdisasm": None}, remedies={"cuobjdump": "pip install it"})
    monkeypatch.setattr(engine, "find_toolchain", lambda: bare)
    for _ in range(2):
        found = evaluated(tmp_path)
        assert (found.status, found.cached) == ("inconclusive", False)
        assert re.match(r"sass: not run: .*\n  .*cuobjdump.*pip install it", found.feedback), found.feedback
    monkeypatch.setattr(engine, "find_toolchain", lambda: whole)
    assert [(one.status, one.cached) for one in (evaluated(tmp_path), evaluated(tmp_path))] == [("pass", False), ("pass", True)]
