"""Edge shapes, input families, the error bound, null answers and replays: each finds what the plain cases let through."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
from correctness_kit import LIMITS, gate, in_process, side, task_folder

from gates.cli.task_runner import _findings
from gates.core.errors import GatesError
from gates.core.records import Status, from_json, shown, to_json
from gates.gate.correctness import evidence as parse
from gates.gate.correctness.judge import judge
from gates.gate.correctness.runner.accuracy import figures
from gates.task import problem as problems
from gates.task.problem import ProblemError
from gates.worker.describe import describe
from gates.worker.problem_check import check_answers

BOUND = {**LIMITS, "max_err_over_bound": 1.0}
PROBLEM = """
import torch
SHAPES = {"small": {"N": 1000}, "tail": {"N": 1023}, "n1": {"N": 1}, "n17": {"N": 17}, "n33": {"N": 33}}
ODD_SHAPES = ("tail",)
EDGE_SHAPES = ("n1", "n17", "n33")
FAMILY_SHAPES = ("n33", "small")
AXES = {"out": ("N",)}
ARGUMENTS = ("x", "y", "out", "N", "a")
def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(shape["N"], generator=g), "y": torch.randn(shape["N"], generator=g), "a": 2.5}
def equal(shape, seed, device):
    return {**make_inputs(shape, seed, device), "x": torch.full((shape["N"],), 1.0 + seed)}
def zeros(shape, seed, device):
    return {"x": torch.zeros(shape["N"]), "y": torch.zeros(shape["N"]), "a": 2.5}
def tiny(shape, seed, device):
    inputs = make_inputs(shape, seed, device)
    return {"x": inputs["x"] * 1e-8, "y": inputs["y"] * 1e-8, "a": 2.5}
INPUT_FAMILIES = {"equal": equal, "zeros": zeros, "tiny": tiny}
def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"])}
def reference(inputs, shape):
    return {"out": inputs["a"] * inputs["x"].double() + inputs["y"].double()}
def error_bound(inputs, shape):  # two roundings to float, and one of the subnormal kind
    size = (inputs["a"] * inputs["x"].double()).abs() + inputs["y"].double().abs()
    return {"out": 2.0**-23 * size + 2.0**-149}
def null_outputs(inputs, shape):
    return {"copy_of_y": {"out": inputs["y"]}}
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process(monkeypatch)


def side_of(library: Path, entry: str, tmp_path: Path, text: str = PROBLEM):
    return side(library, entry, task_folder(tmp_path / "task", "planted_thorough", text), "planted_thorough")


def failed(result) -> set[tuple[str, str]]:
    return {(check.code, check.where) for check in result.checks if check.status is Status.FAIL and check.where}


def roles(evidence: parse.CorrectnessEvidence) -> dict[str, int]:
    found = [case.role for case in evidence.cases]
    return {role: found.count(role) for role in parse.ROLES if role in found}


def test_an_honest_kernel_passes_whatever_is_tried(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "honest", tmp_path)
    evidence, result = gate(tmp_path / "q", candidate, shapes=("small",), limits={**BOUND, "match_baseline": True}, baseline=candidate)
    assert roles(evidence) == {"headline": 3, "odd": 1, "family": 3}
    assert result.status is Status.PASS, result.sentence
    assert result.sentence == "3/3 cases and 1 odd shape, 2 cases with special inputs; 1 weak, not counted (n33 seed 0 inputs zeros)"
    assert {case.role for case in evidence.baseline_cases} == {"headline", "odd"}
    evidence, result = gate(tmp_path / "t", candidate, shapes=("small",), limits=BOUND, thorough=True)
    assert roles(evidence) == {"headline": 3, "odd": 1, "edge": 9, "family": 3 * 2 * 3}
    assert result.status is Status.PASS, result.sentence
    assert "3/3 cases and 1 odd shape, 9 edge cases, 12 cases with special inputs; 6 weak, not counted" in result.sentence
    assert len({case.key for case in evidence.cases}) == len(evidence.cases)


def test_a_kernel_that_is_wrong_on_special_inputs_alone(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "wrong_on_equal_x", tmp_path)
    evidence, result = gate(tmp_path / "w", candidate, shapes=("small",), limits=BOUND)
    assert failed(result) == {("correctness.max_err_over_bound", "n33 seed 0 inputs equal")}
    assert next(check for check in result.checks if check.name == "cases").observed == "3/3"
    check = next(check for check in result.checks if check.name == "max_err_over_bound" and check.code)
    assert check.observed > 1000 and "out[16] is off by" in check.hint and "rounding explains" in check.hint
    without = PROBLEM.replace("INPUT_FAMILIES = ", "_families = ")
    _, result = gate(tmp_path / "x", side_of(library, "wrong_on_equal_x", tmp_path / "b", without), shapes=("small",), limits=BOUND)
    assert result.status is Status.PASS


def test_without_a_bound_special_inputs_keep_the_absolute_limits(library: Path, tmp_path: Path) -> None:
    text = PROBLEM.replace("def error_bound", "def _bound")
    _, result = gate(tmp_path / "w", side_of(library, "wrong_on_equal_x", tmp_path, text), shapes=("small",))
    assert {where for _, where in failed(result)} == {"n33 seed 0 inputs equal"}
    _, result = gate(tmp_path / "x", side_of(library, "honest", tmp_path / "b", text), shapes=("small",), limits=BOUND)
    assert result.status is Status.INCONCLUSIVE and result.code == "correctness.no_bound"


def test_a_kernel_that_is_wrong_at_one_edge_shape(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "wrong_at_17", tmp_path)
    _, result = gate(tmp_path / "q", candidate, shapes=("small",), limits=BOUND)
    assert result.status is Status.PASS
    _, result = gate(tmp_path / "t", candidate, shapes=("small",), seeds=(0, 1), limits=BOUND, thorough=True)
    assert failed(result) == {("correctness.max_err_over_bound", f"n17 seed {seed} (edge)") for seed in (0, 1)}


def test_an_error_that_absolute_limits_let_through(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "wrong_where_small", tmp_path)
    _, result = gate(tmp_path / "a", candidate, shapes=("small",))
    assert result.status is Status.PASS, result.sentence
    _, result = gate(tmp_path / "b", candidate, shapes=("small",), limits=BOUND)
    assert failed(result) == {("correctness.max_err_over_bound", "n33 seed 0 inputs tiny")}


def test_a_null_answer_must_fail_where_the_kernel_passes(library: Path, tmp_path: Path) -> None:
    text = PROBLEM.replace('"a": 2.5}', '"a": 0.0}')  # the product does not matter: y alone is right
    evidence, result = gate(tmp_path / "w", side_of(library, "gives_y", tmp_path, text), shapes=("small",), limits=BOUND)
    assert result.status is Status.FAIL
    assert {null.kind for null in evidence.cases[0].outputs[0].nulls} == {"zeros", "mean", "rows_shifted", "copy_of_y"}
    check = next(check for check in result.checks if check.code == "correctness.too_weak")
    assert check.where == "small seed 0" and "copy_of_y of out" in check.observed
    shifted = PROBLEM.replace('torch.randn(shape["N"], generator=g), "y"', 'torch.randn(1, generator=g).repeat(shape["N"]), "y"')
    shifted = shifted.replace('"y": torch.randn(shape["N"], generator=g)', '"y": torch.zeros(shape["N"])')
    _, result = gate(tmp_path / "s", side_of(library, "honest", tmp_path / "s2", shifted), shapes=("small",), limits=BOUND)
    assert any(check.code == "correctness.too_weak" for check in result.checks)


def test_weak_cases_are_named_and_do_not_count(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "honest", tmp_path)
    evidence, result = gate(tmp_path / "w", candidate, shapes=("small",), limits=BOUND)
    check = next(check for check in result.checks if check.name == "weak_cases")
    assert (check.status, check.observed) == (Status.PASS, 1) and check.where == "n33 seed 0 inputs zeros: zeros of out"
    headline = tuple(
        dataclasses.replace(case, role="headline", inputs="default") if case.inputs == "zeros" else case for case in evidence.cases
    )
    again = judge(dataclasses.replace(evidence, cases=headline, asked=4), BOUND)
    assert again.status is Status.FAIL and "correctness.too_weak" in {check.code for check in again.checks}


def test_a_replay_tries_the_named_cases_and_nothing_else(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "wrong_on_equal_x", tmp_path)
    evidence, result = gate(tmp_path / "a", candidate, shapes=("n33",), seeds=(0,), inputs=("equal",), limits=BOUND, extra_seeds=(7,))
    assert [case.key for case in evidence.cases] == [("n33", 0, "equal")] and evidence.cases[0].role == "family"
    assert failed(result) == {("correctness.max_err_over_bound", "n33 seed 0 inputs equal")}
    assert next(check for check in result.checks if check.name == "cases").observed == "0/1"
    evidence, result = gate(tmp_path / "b", candidate, shapes=("n17", "small"), seeds=(0,), inputs=("default", "tiny"), limits=BOUND)
    assert [case.role for case in evidence.cases] == ["edge", "headline", "family", "family"]
    assert result.status is Status.PASS and result.sentence == "4/4 cases"
    evidence, result = gate(tmp_path / "c", candidate, shapes=("n33",), seeds=(0,), inputs=("zeros",), limits=BOUND)
    assert result.status is Status.INCONCLUSIVE and result.code == "correctness.too_weak"
    assert result.sentence == "cases (n33 seed 0 inputs zeros: zeros of out): no case fails; all are weak by nature, so none counts"
    assert [
        text
        for text in _findings(result)
        if text.startswith("cases (n33 seed 0 inputs zeros: zeros of out): a null answer keeps all limits")
    ]
    assert [check.name for check in result.checks].count("cases") == 1


def test_an_error_where_the_bound_is_0_is_told_in_words(library: Path, tmp_path: Path) -> None:
    """No ratio is, and the number that stands for it has 309 digits."""
    text = PROBLEM.replace('return {"out": 2.0**-23 * size + 2.0**-149}', 'return {"out": 0 * size}')
    _, result = gate(tmp_path / "w", side_of(library, "honest", tmp_path, text), shapes=("small",), seeds=(0,), limits=BOUND)
    assert result.status is Status.FAIL
    assert result.sentence.startswith("max_err_over_bound (small seed 0): wrong where the bound is 0, limit 1"), result.sentence
    assert shown(1.797e308) == "1.797e+308" and shown(123456789.0) == "123456789"


def test_unknown_and_repeated_names_are_refused(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "honest", tmp_path)
    with pytest.raises(GatesError, match="no inputs 'equals'") as caught:
        gate(tmp_path / "w", candidate, shapes=("small",), inputs=("equals",))
    assert "equal" in caught.value.hint
    with pytest.raises(GatesError, match="inputs tiny is given twice"):
        gate(tmp_path / "w", candidate, shapes=("small",), inputs=("tiny", "tiny"))


def test_a_long_plan_takes_several_processes(library: Path, tmp_path: Path) -> None:
    candidate = side_of(library, "honest", tmp_path)
    evidence, result = gate(tmp_path / "w", candidate, shapes=("small",), seeds=(0, 1), limits=BOUND, limit_s=1e-6)
    assert len(evidence.processes) == len(evidence.cases) == 6 and result.status is Status.PASS


def test_evidence_from_before_is_still_judged(library: Path, tmp_path: Path) -> None:
    candidate = side(library, "honest")
    evidence, _ = gate(tmp_path, candidate, shapes=("small",), quick=False)
    data = json.loads(json.dumps(to_json(evidence)))
    del data["replay"]
    for case in data["cases"]:
        del case["inputs"]
        for output in case["outputs"]:
            output["nulls"] = [null for null in output["nulls"] if null["kind"] in ("zeros", "mean")]
            for name in ("max_err_over_bound", "bound_index", "bound_error", "bound_at"):
                del output[name]
            for null in output["nulls"]:
                del null["max_err_over_bound"]
    old = from_json(parse.CorrectnessEvidence, data, "correctness.json")
    assert old.cases[0].key == ("small", 0, "default")
    assert judge(old, LIMITS).status is Status.PASS
    assert judge(old, BOUND).code == "correctness.no_bound"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("EDGE_SHAPES = (", 'EDGE_SHAPES = ("n18", '), "EDGE_SHAPES names n18, which SHAPES does not have"),
        (('ODD_SHAPES = ("tail",)', 'ODD_SHAPES = "tail"'), "ODD_SHAPES must be a tuple of names, not str"),
        (('("n33", "small")', '("n33", "n33")'), "FAMILY_SHAPES names a shape twice"),
        (('{"equal": equal', '{"default": equal'), "INPUT_FAMILIES has the name 'default'"),
        (('{"equal": equal', '{"all,equal": equal'), "INPUT_FAMILIES has the name 'all,equal'"),
        (('{"equal": equal', '{"equal": 3'), "INPUT_FAMILIES must map names to functions"),
        (('AXES = {"out": ("N",)}', 'AXES = {"out": "N"}'), "AXES['out'] must be a tuple of names"),
        (('AXES = {"out": ("N",)}', 'AXES = {"out": ("N", "N")}'), "AXES['out'] names an axis twice"),
        (("def error_bound", "error_bound = 1\ndef _bound"), "error_bound must be a function"),
        (('EDGE_SHAPES = ("n1",', 'EDGE_SHAPES = (["n1"],'), "EDGE_SHAPES must hold names of shapes, not ['n1']"),
        (('SHAPES = {"small": {"N": 1000}', 'SHAPES = {"small": 1000'), "SHAPES must map each name to its sizes"),
    ],
)
def test_a_problem_with_a_wrong_optional_name(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in PROBLEM
    folder = task_folder(tmp_path, "planted_optional", PROBLEM.replace(*change))
    with pytest.raises(GatesError) as caught:
        problems.load("planted_optional", folder)
    assert message in caught.value.what


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('AXES = {"out": ("N",)}', 'AXES = {"out": ("row", "column")}', "AXES['out'] names 2 axes, the output has the shape [1000]"),
        ('AXES = {"out": ("N",)}', 'AXES = {"oot": ("N",)}', "AXES is about oot, which the reference does not give"),
        ('{"out": 2.0**-23 * size + 2.0**-149}', "None", "error_bound gives NoneType, not a mapping of output names to tensors"),
        ('{"out": 2.0**-23 * size + 2.0**-149}', '{"out": 0.5}', "error_bound gives float for out, not a tensor"),
        ('{"out": 2.0**-23 * size + 2.0**-149}', '{"out": size[:5]}', "error_bound gives out the shape [5], the reference [1000]"),
        ('{"copy_of_y": {"out": inputs["y"]}}', "None", "null_outputs gives NoneType, not a mapping of names to answers"),
        (
            '{"copy_of_y": {"out": inputs["y"]}}',
            '{"copy_of_y": {"out": inputs["y"][:1]}}',
            "null_outputs 'copy_of_y' gives out the shape [1]",
        ),
        ("MISTAKES", "None", "mistakes gives NoneType, not a mapping of names to functions"),
        ("MISTAKES", '{"half": inputs["y"]}', "mistakes['half'] is Tensor, not a function"),
        ("MISTAKES", '{"half": lambda: {"out": inputs["y"][:500]}}', "mistakes['half'] gives out the shape [500], the reference [1000]"),
        ("MISTAKES", '{"half": lambda: None}', "mistakes['half'] gives NoneType, not a mapping"),
        (
            "MISTAKES",
            '{}\n\ndef make_outputs(shape, device):\n    return {"out": torch.empty(3)}',
            "make_outputs makes out of the shape [3], the reference gives [1000]",
        ),
        (
            "MISTAKES",
            '{}\n\ndef make_inputs(shape, seed, device):\n    raise OSError("no data set")',
            "make_inputs raises OSError: no data set",
        ),
        ("MISTAKES", "{}\n\ndef reference(inputs, shape):\n    raise SystemExit", "reference raises SystemExit"),
    ],
)
def test_what_a_problem_offers_must_fit_its_outputs(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = f"{PROBLEM}\ndef mistakes(inputs, shape):\n    return MISTAKES\n"
    assert text.count(old) == 1
    text = text.replace(old, new).replace("MISTAKES", '{"y alone": lambda: {"out": inputs["y"]}, "can not be": lambda: 1 / 0}')
    folder = task_folder(tmp_path, "planted_offers", text)
    with pytest.raises(GatesError) as caught:
        check_answers(problems.load("planted_offers", folder), ["small"])
    assert caught.value.exit_code == 2 and message in caught.value.what and str(folder / "planted_offers.py") in caught.value.what


@pytest.mark.parametrize(
    ("generator", "named"),
    [("generator=g", ""), ("generator=None", "y"), ("generator=g).sqrt_(", "")],
    ids=["seeded", "unseeded", "seeded with NaN"],
)
def test_inputs_that_do_not_follow_the_seed_are_refused(tmp_path: Path, generator: str, named: str) -> None:
    text = PROBLEM.replace('"y": torch.randn(shape["N"], generator=g)', f'"y": torch.randn(shape["N"], {generator})')
    folder = task_folder(tmp_path, "planted_drawn", text)
    problem = problems.load("planted_drawn", folder)
    if not named:
        check_answers(problem, ["small"])
        return
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith("def make_inputs"))
    with pytest.raises(GatesError) as caught:
        check_answers(problem, ["small"])
    where = f"{folder / 'planted_drawn.py'}:{line}: "
    assert caught.value.what == f"{where}make_inputs gives other values for {named} when it is called again with seed 0"
    assert "torch.Generator().manual_seed(seed)" in caught.value.hint


def test_a_sound_problem_is_taken_and_a_wrong_one_refused_before_anything_is_built(tmp_path: Path) -> None:
    check_answers(problems.load("planted_sound", task_folder(tmp_path / "a", "planted_sound", PROBLEM)), ["small", "n33"])
    folder = task_folder(tmp_path / "b", "planted_early", PROBLEM.replace('AXES = {"out": ("N",)}', 'AXES = {"out": ("a", "b")}'))
    with pytest.raises(GatesError, match=r"AXES\['out'\] names 2 axes"):
        describe(folder, "planted_early", ["small"], work=tmp_path, limit_s=60)


def test_figures_over_the_bound() -> None:
    want = torch.tensor([1.0, 2.0, 3.0, 70000.0], dtype=torch.float64)
    got = torch.tensor([1.0, 2.0, 3.0, float("inf")], dtype=torch.float16)  # 70000 is beyond half: rounding gives infinity
    record = figures("out", got, want, 0.1, torch.full((4,), 0.5, dtype=torch.float64))
    assert (record["nonfinite"], record["max_err_over_bound"]) == (0, 0.0)
    got[1] = 2.25
    record = figures("out", got, want, 0.1, torch.tensor([0.5, 0.5, 0.0, 0.5]), {"own": want})
    assert (record["max_err_over_bound"], record["bound_index"], record["bound_error"], record["bound_at"]) == (0.5, [1], 0.25, 0.5)
    assert {null["kind"]: null["max_err_over_bound"] == 0.0 for null in record["nulls"]}["own"]
    got[2] = 3.5  # there the bound is 0
    record = figures("out", got, want, 0.1, torch.tensor([0.5, 0.5, 0.0, 0.5]))
    assert record["max_err_over_bound"] > 1e300 and record["bound_index"] == [2]
    assert json.dumps(record, allow_nan=False)
    for bad in (float("nan"), -1.0):
        with pytest.raises(ProblemError, match="negative or NaN"):
            figures("out", got, want, 0.1, torch.full((4,), bad))
    with pytest.raises(ProblemError, match="error_bound 'out' has shape"):
        figures("out", got, want, 0.1, torch.ones(3))


def test_the_report_shows_bounds_by_group_and_names_weak_cases(library: Path, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from gates.comparison.sections import _error_rows
    from gates.comparison.within import weak_notes

    evidence, result = gate(tmp_path / "t", side_of(library, "honest", tmp_path), shapes=("small",), limits=BOUND, thorough=True)
    rows = {row.name: row.candidate for row in _error_rows({}, {"correctness": evidence})}
    assert {
        "small max_abs_err",
        "tail mean_abs_err",
        "small max_err_over_bound",
        "edge shapes max_err_over_bound",
        "inputs equal max_err_over_bound",
    } <= set(rows)
    assert not any(name.startswith(("n1 ", "n33 ")) for name in rows), "edge shapes and families have no absolute rows"
    (note,) = weak_notes(SimpleNamespace(gates=[result]))
    assert re.match(r"\d+ cases were not counted, because a trivial output \(zeros of out\) also passes: n33 seed 0 inputs zeros, ", note)
    assert note.endswith(" and 1 more")


def test_a_run_directory_holds_the_cases_that_it_names(library: Path, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from gates.gate.correctness.soundness import headline_problems

    def info(seeds: tuple[int, ...], inputs: tuple[str, ...]) -> SimpleNamespace:
        return SimpleNamespace(judged_shapes=("small",), shapes={"small": {}}, seeds=seeds, judged_inputs=inputs)

    candidate = side_of(library, "honest", tmp_path)
    evidence, _ = gate(tmp_path / "a", candidate, shapes=("small",), limits=BOUND, thorough=True)
    assert headline_problems(info((0, 1, 2), ()), evidence) == []
    assert "3 headline cases, run.json asks for 4" in headline_problems(info((0, 1, 2, 3), ()), evidence)[0]
    replay, _ = gate(tmp_path / "b", candidate, shapes=("small",), seeds=(0,), inputs=("tiny", "default"), limits=BOUND)
    assert headline_problems(info((0,), ("tiny", "default")), replay) == []
    assert headline_problems(info((0,), ("tiny", "equal")), replay) and headline_problems(info((0,), ()), replay)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2.0**-23 * size + 2.0**-149}", "size * float('inf') + float('inf')}", "infinite where the reference is finite"),
        ('{"out": 2.0**-23 * size + 2.0**-149}', '{"oot": size}', "error_bound is about oot"),
        ('{"copy_of_y": {"out": inputs["y"]}}', '{"copy_of_y": {"zz": inputs["y"]}}', "null_outputs 'copy_of_y' is about zz"),
        ('{"copy_of_y": {"out": inputs["y"]}}', '{1: {"out": inputs["y"]}}', "names are text"),
        ('"x": torch.full((shape["N"],), 1.0 + seed)', '"x": torch.ones(shape["N"], dtype=torch.float16)', "x is torch.float16"),
    ],
)
def test_a_fault_of_the_problem_is_told_as_such(library: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert PROBLEM.count(old) == 1
    evidence, result = gate(
        tmp_path,
        side_of(library, "honest", tmp_path, PROBLEM.replace(old, new)),
        limits=BOUND,
        inputs=("equal",),
        shapes=("small",),
        seeds=(0,),
    )
    assert result.status is Status.FAIL and {case.status for case in evidence.cases} == {"problem_error"}
    assert message in evidence.cases[0].message


@pytest.mark.parametrize("mistakes", ["1 / 0", '{"c": lambda: 1 / 0}', '{"c": lambda: exit(0)}', '{"a\\n|b": lambda: None}', "None"])
def test_mistakes_that_fail_hide_no_fault_of_the_kernel(library: Path, tmp_path: Path, mistakes: str) -> None:
    text = f"{PROBLEM}\ndef mistakes(inputs, shape):\n    return {mistakes}\n"
    evidence, result = gate(tmp_path, side_of(library, "all_zeros", tmp_path, text), limits=BOUND, shapes=("small",), seeds=(0,))
    assert result.status is Status.FAIL and {case.status for case in evidence.cases if case.shape == "small"} == {"ok"}
    assert any(check.name == "max_abs_err" for check in result.checks if check.status is Status.FAIL)


def test_an_argument_that_nothing_provides_is_told_before_a_build(tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "typo", "planted_typo", PROBLEM + "\nARGUMENTS = (*ARGUMENTS[:-1], 'NN')\n")
    with pytest.raises(GatesError, match="name NN, which nothing provides") as caught:
        check_answers(problems.load("planted_typo", folder), ["small"])
    assert caught.value.hint.startswith("did you mean N?")
