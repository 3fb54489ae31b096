"""Several timed shapes: what task.yaml may ask, what the judge says of each and of their mean, and what reports show."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import pytest
from performance_gates import LIMITS, fed, simulated_family

from gates.comparison import sections
from gates.comparison.within import speeds_of
from gates.core import records
from gates.core.records import GateResult, Status
from gates.core.schema import schema_errors
from gates.gate.performance import collect, family
from gates.gate.performance.evidence import NOT_RUN, Backend, PerformanceEvidence, ShapeRow
from gates.gate.performance.judge import judge
from gates.gate.performance.runner import session as session_module
from gates.gate.performance.soundness import contradictions
from gates.gate.performance.thresholds import comparable, thresholds
from gates.gate.policy import Terms, looser
from gates.gate.registry import ROWS
from gates.render.compare import shape_row
from gates.stats.stopping_rule import ABOVE, BELOW, CONFIDENCE, family_confidence, rule, rule_at
from gates.task import problem as problems
from gates.worker.job import FinishedJob

EACH = {"shapes": {"mission": 15, "long": 5, "tiny": None}}
MEAN = {"shapes": ["mission", "long"], "min_speedup_pct": 15, "no_regression_pct": 2}


def measured(ratios: dict[str, float], pairs: int = 24, **changes) -> PerformanceEvidence:
    """Evidence of shapes whose candidate takes 10 us, and whose baseline takes as many times as long."""
    each = [
        fed([10.0, 10.1, 10.2], [us * ratio for us in (10.0, 10.1, 10.2)], pairs=pairs, shape=shape, **changes)
        for shape, ratio in ratios.items()
    ]
    return replace(each[0], further=tuple(each[1:]))


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"shape": "a", "min_speedup_pct": 1}, None),
        (EACH, None),
        (MEAN, None),
        ({"shape": "a"}, "'min_speedup_pct' is a required property"),
        ({"shapes": ["a", "b"], "min_speedup_pct": 1}, "'no_regression_pct' is a required property"),
        ({"shapes": ["a"], "min_speedup_pct": 1, "no_regression_pct": 1}, "['a'] is too short"),
        ({**EACH, "shape": "a"}, "leave it out: shapes names what is timed"),
        ({**EACH, "min_speedup_pct": 1}, "leave it out: shapes has a threshold for each shape (performance.shapes.NAME)"),
        ({"shapes": {"a": None}}, "at least one shape needs a threshold"),
        ({"shape": "a", "min_speedup_pct": 1, "no_regression_pct": 1}, "it needs a list of shapes"),
        ({"shape": "a", "min_speedup_pct": 1, "also": ["b"]}, "Additional properties are not allowed ('also' was unexpected)"),
    ],
)
def test_what_task_yaml_may_ask(limits, problem) -> None:
    found = list(jsonschema.Draft202012Validator(ROWS["performance"].limits()).iter_errors(limits))
    said = [error.schema["$comment"] if error.validator == "not" else error.message for error in found]
    assert said == ([] if problem is None else [problem])


def test_thresholds_of_each_form() -> None:
    one, each, mean = (thresholds(limits) for limits in (LIMITS, EACH, MEAN))
    assert (dict(one.shapes), one.mean_pct, one.confidence, one.least_pairs) == ({"mission": 15.0}, None, CONFIDENCE, 12)
    assert dict(each.shapes) == {"mission": 15.0, "long": 5.0, "tiny": None} and each.confidence == family_confidence(2)
    assert dict(mean.shapes) == {"mission": -2.0, "long": -2.0} and (mean.mean_pct, mean.least_pairs) == (15.0, 24)
    assert mean.confidence == family_confidence(3)


def test_every_shape_by_its_own_threshold() -> None:
    evidence = measured({"mission": 1.2, "long": 1.1, "tiny": 0.5})
    result = judge(evidence, EACH)
    assert result.status is Status.PASS, result.sentence
    assert result.sentence.startswith("mission 1.200x, 99.2 % interval 1.200 to 1.200, threshold 1.150")
    assert result.sentence.endswith("; long 1.100x; tiny 0.500x")
    slow = judge(measured({"mission": 1.2, "long": 1.04, "tiny": 0.5}), EACH)
    assert (slow.status, slow.code) == (Status.FAIL, "performance.too_slow") and slow.sentence.startswith("long 1.040x")
    failed = [check for check in slow.checks if check.status is Status.FAIL]
    assert [(check.name, check.where, check.limit) for check in failed] == [("speedup_p50", "long, cold L2", 5.0)]


def test_a_wrong_output_on_any_shape_fails_also_where_speed_is_not_judged() -> None:
    evidence = measured({"mission": 1.2, "long": 1.1, "tiny": 0.5})
    wrong = tuple(replace(one, nonfinite=3) if one.side == "candidate" else one for one in evidence.outputs)
    tiny = replace(evidence.further[1], outputs=wrong)
    result = judge(replace(evidence, further=(evidence.further[0], tiny)), EACH)
    assert (result.status, result.code) == (Status.FAIL, "performance.wrong_output")
    assert "tiny: candidate before timing" in result.sentence


def test_what_a_quick_shape_leaves_of_the_time_is_for_those_after_it(monkeypatch) -> None:
    """All in one process, the smallest first, which begins with the other implementations when everything is measured."""
    took, given, told = {"tiny": 1.0, "mission": 0.0, "long": 36.0}, {}, []
    sizes = {"mission": {"N": 512, "causal": 0}, "tiny": {"N": 8, "causal": 1}, "long": {"N": 8192, "causal": 0}}

    class Made:
        def __init__(self, job, problem, ask, before, pid, clock, first) -> None:
            self.shape = job["shape"]
            given[self.shape] = job["budget_s"], job["bar_pct"], first and first.shape

        def measure(self):
            unpaired = {"mode": "cold", "launches": {}, "blocks": [], "stopped": "pairs"}
            return {"elapsed_s": took[self.shape], "series": [unpaired], "gated_mode": "cold"}

        def backends(self, *, again):
            return {"again": again}

    monkeypatch.setattr(session_module, "Session", Made)
    monkeypatch.setattr(problems, "load", lambda *_: SimpleNamespace(SHAPES=sizes, __name__="p"))
    writer = SimpleNamespace(write=lambda kind, shape="", **data: told.append((kind, shape, data.get("backends") or data.get("shapes"))))
    shapes = {"long": 5.0, "mission": 15.0, "tiny": 0.0}
    job = {"shapes": shapes, "budget_s": 60.0, "others": True, "candidate": {"problem": "p", "folder": "."}}
    collect.measure(job, writer, lambda: None, {}, None)
    assert given == {"tiny": (20.0, 0.0, None), "mission": (29.5, 15.0, "tiny"), "long": (59.0, 5.0, "tiny")}
    assert [kind for kind, _, _ in told] == ["order"] + ["measured"] * 3 + ["backends"] * 3 + ["done"]
    assert told[0][2] == list(took)
    assert [(shape, found) for kind, shape, found in told if kind == "backends"] == [(shape, {"again": True}) for shape in took]


DIED, LATE = FinishedJob("n", -11, "killed by SIGSEGV", False, 3.0, (), ""), FinishedJob("n", -9, "killed", True, 60.0, (), "")
STOPPED = {"type": "stopped", "nonce": "n", "code": "performance.no_device", "message": "no card"}


@pytest.mark.parametrize(
    ("first", "ended", "asked", "codes"),
    [
        (["a", "b", "c"], DIED, ["a b c"], ["", "", ""]),
        (["a"], DIED, ["a b c", "c"], ["", "performance.runner_died", ""]),
        (["a"], LATE, ["a b c", "b c"], ["", "", ""]),
        ([], LATE, ["a b c", "b c"], ["performance.time_limit", "", ""]),
        ([STOPPED], DIED, ["a b c"], ["performance.no_device"]),
    ],
    ids=["all at once", "a crash", "the time of all", "the time of one", "no device"],
)
def test_a_process_that_ends_early_is_followed_by_another_for_the_rest(monkeypatch, tmp_path, first, ended, asked, codes) -> None:
    jobs: list[str] = []

    def run_job(folder, job, work, **_):
        jobs.append(" ".join(job["shapes"]))
        lines = list(job["shapes"]) if len(jobs) > 1 else first
        told = [
            {"type": "measured", "nonce": "n", "shape": one, "evidence": {"elapsed_s": 1.0}, "seconds": 2.0}
            if isinstance(one, str)
            else one
            for one in lines
        ]
        return replace(ended if len(jobs) == 1 else DIED, lines=tuple(map(json.dumps, told)))

    monkeypatch.setattr(collect, "run_job", run_job)
    monkeypatch.setattr(collect, "is_c", lambda side: False)
    side = {"name": "new", "library": "new.so", "folder": str(tmp_path)}
    raws = collect.run_timings(side, shapes={"a": 15.0, "b": 0.0, "c": 0.0}, work=tmp_path, limit_s=60.0, budget_s=50.0)
    assert jobs == asked and [raw["code"] for raw in raws] == codes
    assert [raw["shape"] for raw in raws] == ["a", "b", "c"][: len(codes)]


def test_the_shape_at_which_a_process_ended_is_found_by_its_own_order(monkeypatch, tmp_path) -> None:
    """It measures ``c``, dies at ``a`` and never comes to ``b``; the records are in the order of the task."""
    asked: list[list[str]] = []

    def run_job(folder, job, work, **_):
        asked.append(list(job["shapes"]))
        order = ["c", "a", "b"] if len(asked) == 1 else list(job["shapes"])
        told = [{"type": "order", "nonce": "n", "shapes": order}]
        told += [{"type": "measured", "nonce": "n", "shape": one, "evidence": {"elapsed_s": 1.0}, "seconds": 2.0} for one in order[:1]]
        return replace(DIED, lines=tuple(map(json.dumps, told)))

    monkeypatch.setattr(collect, "run_job", run_job)
    monkeypatch.setattr(collect, "is_c", lambda side: False)
    side = {"name": "new", "library": "new.so", "folder": str(tmp_path)}
    raws = collect.run_timings(side, shapes={"a": 15.0, "b": 0.0, "c": 0.0}, work=tmp_path, limit_s=60.0, budget_s=50.0)
    assert asked == [["a", "b", "c"], ["b"]]
    assert [(raw["shape"], raw["code"]) for raw in raws] == [("a", "performance.runner_died"), ("b", ""), ("c", "")]


@pytest.mark.parametrize("shapes", [[], ["a"], ["a", "b", "c"], ["a", "a"], ["a", "x"], None, 5])
def test_an_order_of_other_shapes_is_not_taken(shapes) -> None:
    told = [
        {"type": "order", "nonce": "n", "shapes": shapes},
        {"type": "measured", "nonce": "n", "shape": "a", "evidence": {}, "seconds": 1.0},
    ]
    found = collect._reached(replace(DIED, lines=tuple(map(json.dumps, told))), ["a", "b"])
    assert {shape: read["code"] for shape, read in found.items()} == {"a": "", "b": "performance.runner_died"}


def test_the_mean_passes_where_one_shape_alone_would_not() -> None:
    result = judge(measured({"mission": 1.6, "long": 1.0}), MEAN)
    assert result.status is Status.PASS, result.sentence
    mean = next(check for check in result.checks if check.where == family.MEAN)
    assert mean.observed == pytest.approx(100 * (math.sqrt(1.6) - 1)) and mean.limit == 15.0
    assert result.sentence.startswith("geometric mean 1.265x, 99.4 % interval") and "worst shape long 1.000x" in result.sentence


@pytest.mark.parametrize(
    ("ratios", "code"), [({"mission": 1.6, "long": 0.97}, "performance.too_slow"), ({"mission": 1.2, "long": 1.0}, "performance.too_slow")]
)
def test_a_regression_or_too_small_a_mean_fails(ratios, code) -> None:
    result = judge(measured(ratios), MEAN)
    assert (result.status, result.code) == (Status.FAIL, code)


def test_a_mean_of_too_few_pairs_or_of_an_unfit_machine_is_no_verdict() -> None:
    few = judge(measured({"mission": 1.6, "long": 1.0}, pairs=12), MEAN)
    assert (few.status, few.code) == (Status.INCONCLUSIVE, "performance.too_few_pairs")
    evidence = measured({"mission": 1.6, "long": 1.2})
    shared = replace(evidence, further=(replace(evidence.further[0], other_processes=(7,)),))
    result = judge(shared, MEAN)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.other_process")
    assert next(check for check in result.checks if check.where == family.MEAN).code == "performance.other_process"


def test_a_shape_that_was_not_timed_or_whose_launch_failed_is_no_pass() -> None:
    evidence = measured({"mission": 1.2})
    assert judge(evidence, EACH).code == "performance.other_shape"
    stopped = PerformanceEvidence("new", "old", "long", "stopped", "performance.launch_failed", "long: too many rows")
    result = judge(replace(measured({"mission": 1.2, "tiny": 1.0}), further=(stopped,)), {"shapes": {"mission": 15, "long": 5}})
    assert (result.status, result.code) == (Status.FAIL, "performance.launch_failed") and "too many rows" in result.sentence
    nothing = PerformanceEvidence("new", "old", "mission", NOT_RUN, "performance.no_device", "no CUDA device")
    assert judge(nothing, EACH) == GateResult("performance", Status.NOT_RUN, "performance.no_device", "no CUDA device")


def test_a_first_rung_is_measured_on_every_shape() -> None:
    result = judge(measured({"mission": 1.2, "long": 1.1}), {"shapes": {"mission": 15, "long": 5}}, not_applicable_reason="first rung")
    assert result.status is Status.NOT_APPLICABLE and result.sentence.startswith("first rung")
    assert [check.where for check in result.checks if check.name == "p50"] == ["mission, cold L2", "long, cold L2"]


def test_evidence_of_several_shapes_is_one_file_that_says_what_its_samples_say() -> None:
    evidence = measured({"mission": 1.2, "long": 1.1})
    data = records.to_json(evidence)
    assert schema_errors("performance", data) == [] and records.from_json(PerformanceEvidence, data, "performance.json") == evidence
    assert list(contradictions(evidence)) == []
    figures = evidence.further[0].figures
    forged = replace(figures["cold"]["candidate"], p50_us=1.0)
    told = {**figures, "cold": {**figures["cold"], "candidate": forged}}
    (said,) = contradictions(replace(evidence, further=(replace(evidence.further[0], figures=told),)))
    assert said.startswith("long: figures.cold.candidate.p50_us is 1.0")
    with pytest.raises(ValueError, match="one twice"):
        replace(evidence, further=(evidence.further[0], evidence.further[0]))


def test_reports_have_a_row_a_shape_the_worst_first() -> None:
    evidence = measured({"mission": 1.2, "long": 1.04, "tiny": 0.5})
    rows = [shape_row(speed) for speed in speeds_of({"performance": evidence}, EACH)]
    assert [row[0] for row in rows] == ["long", "mission", "tiny"]
    assert rows[0] == ("long", "1.040x", "1.040x", "1.040x", "1.050x", "12") and rows[2][4] == "none"
    assert speeds_of({"performance": measured({"mission": 1.2})}, LIMITS) == ()
    one = replace(evidence.further[0], backends={"cudnn": Backend(12.0, ""), "broken": Backend(None, "no kernel")})
    shown = {row.name: (row.baseline, row.candidate) for row in sections._shape_rows(replace(evidence, further=(one,)))}
    assert (
        shown["long cold, against cudnn"] == (12.0, pytest.approx(10.1, rel=1e-3)) and shown["long cold, against broken"][0] == "no kernel"
    )
    old = replace(measured({"mission": 1.2}), also={"long": {"candidate": ShapeRow(20.0, 19.0), "baseline": ShapeRow(30.0, 29.0)}})
    assert {row.name: row.baseline for row in sections._shape_rows(old)} == {"long cold": 30.0, "long warm": 29.0}


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (LIMITS, LIMITS, ()),
        ({**EACH}, LIMITS, ()),
        ({"shapes": {"mission": 10, "long": 5}}, LIMITS, ("performance.shapes.mission: 15 -> 10",)),
        (LIMITS, EACH, ("performance.shapes.long: 5 dropped",)),
        (MEAN, {**MEAN, "no_regression_pct": 1}, ("performance.shapes.mission: -1 -> -2", "performance.shapes.long: -1 -> -2")),
        (MEAN, {**MEAN, "min_speedup_pct": 20}, ("performance.min_speedup_pct: 20 -> 15",)),
    ],
)
def test_looser_thresholds_are_told(ours, theirs, said) -> None:
    terms = [Terms({"performance": limits}, {}, (), (), ()) for limits in (ours, theirs)]
    assert looser(*terms) == said
    assert comparable({}, EACH) == {}


def test_simulated_families_pass_fail_and_stay_open() -> None:
    limits = {"shapes": ["a", "b", "c"], "min_speedup_pct": 15, "no_regression_pct": 3}
    assert simulated_family({"a": 1.5, "b": 1.2, "c": 1.0}, limits, 1).status is Status.PASS
    assert simulated_family({"a": 1.5, "b": 1.2, "c": 0.94}, limits, 2).status is Status.FAIL
    assert simulated_family({"a": 1.2, "b": 1.12, "c": 1.0}, limits, 3).status is Status.FAIL
    assert simulated_family({"a": 1.17, "b": 1.16, "c": 1.13}, {"shapes": {"a": 15, "b": 15, "c": 15}}, 4).status is Status.FAIL


@pytest.mark.parametrize("spread", [0.004, 0.012])
def test_a_family_at_its_thresholds_is_wrong_in_at_most_5_percent(spread) -> None:
    """Eight shapes and their mean, the truth at each threshold itself, where both verdicts count as wrong. Shapes share errors."""
    chance, families, shapes = random.Random(7), 200, 8
    wrong = {"each": 0, "mean": 0}
    for number in range(families):
        shared = [chance.gauss(0.0, spread / 2) for _ in range(48)]
        taken = [[one + chance.gauss(0.0, spread) for one in shared] for _ in range(shapes)]
        confidence = family_confidence(shapes + 1)
        outcomes = [rule(one, 0.0, -100.0, number, confidence) for one in taken]
        wrong["each"] += any(found.outcome in (ABOVE, BELOW) for found in outcomes)
        found = rule_at([math.fsum(pair) / shapes for pair in zip(*taken, strict=True)][:24], 0.0, -100.0, number, confidence)
        wrong["mean"] += found.outcome in (ABOVE, BELOW) and not any(one.outcome in (ABOVE, BELOW) for one in outcomes)
    assert sum(wrong.values()) <= 0.05 * families, wrong
    apart = [[math.log(1.03) + chance.gauss(0.0, spread) for _ in range(48)] for _ in range(shapes)]
    assert all(rule(one, 0.0, -100.0, 1, family_confidence(shapes + 1)).outcome == ABOVE for one in apart)
