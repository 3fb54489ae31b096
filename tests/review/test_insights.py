"""`gates insights`: every fact stands where it says, each rule fires on its evidence and on nothing else, nothing is guessed."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages_kit import check_markdown
from places import RECORDED
from runs_kit import RUN

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.kernel_names import instance_of
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import list_runs
from gates.gate.ncu import judge as ncu
from gates.render.insights import insights_json, insights_markdown
from gates.review.history import history
from gates.review.insights.facts import Evidence, Fact, Facts, member
from gates.review.insights.insights import insights_of
from gates.review.insights.measured import facts_of
from gates.review.insights.rules import BOUND, FIRST, MEASURED, RULES, UNKNOWN, steps_of, unjudged

STAGES = {folder.name.split("_")[0]: list_runs(folder)[-1] for folder in sorted((RECORDED / "h100").glob("stage*"))}
NO_DEVICE = list_runs(RECORDED / "cpu" / "stage2_wmma_pv")[-1]


def copied(tmp_path: Path, name: str = "run", source: Path = RUN) -> Path:
    return Path(shutil.copytree(source, tmp_path / "results" / "stage2_wmma_pv" / name))


def change(run: Path, file: str, edit: Any) -> Path:
    data = json.loads((run / file).read_text())
    edit(data)
    (run / file).write_text(json.dumps(data))
    return run


def counters(data: dict[str, Any], kernel: int = 0) -> dict[str, dict[str, Any]]:
    return {one["metric"]: one for one in data["sides"]["candidate"]["kernels"][kernel]["counters"]}


def fired(run: Path) -> set[str]:
    return {step.rule for step in steps_of(facts_of(run)[0], most=len(RULES))}


# facts


def test_registers_are_the_linker_s_where_there_is_one(tmp_path: Path) -> None:
    def linked(data: dict[str, Any]) -> None:
        for kernel in data["kernels"]:
            kernel["linked"] = {"registers": 254, "static_smem_bytes": kernel["static_smem_bytes"], "stack_bytes": 0, "barriers": 1}

    before, _ = facts_of(RUN)
    facts, _ = facts_of(change(copied(tmp_path), "ptxas.json", linked))
    assert facts["registers"].value == 254 and facts["registers"].sources[0].endswith(".linked.registers")
    assert facts["theoretical_occupancy"].value < before["theoretical_occupancy"].value and facts["occupancy_limiter"].value == "registers"


@pytest.mark.parametrize("run", [*STAGES.values(), NO_DEVICE, RUN], ids=lambda run: f"{run.parent.name} {run.name[-5:]}")
def test_every_fact_stands_where_it_says(run: Path) -> None:
    facts, sections = facts_of(run)
    files = {path.name: json.loads(path.read_text()) for path in run.glob("*.json")}
    for fact in facts.values():
        for source in fact.sources:
            file, _, path = source.partition(": ")
            value: Any = files[file]
            for step in path.replace("]", "").replace("[", ".").split("."):
                value = value[int(step)] if isinstance(value, list) else value[step]
            if len(fact.sources) == 1 and not isinstance(fact.value, str):
                assert value == fact.value, source
    assert {fact.key for found in sections.values() for fact in found} <= set(facts)
    assert all(fact.sources for fact in facts.values() if fact.value is not None)


def test_derived_facts_are_those_of_the_gates_own_code() -> None:
    facts, _ = facts_of(STAGES["stage2"])
    evidence = load_evidence(STAGES["stage2"])
    performance, side = evidence["performance"], evidence["ncu"].sides["candidate"]
    cold, warm = (performance.figures[mode]["candidate"].p50_us for mode in ("cold", "warm"))
    assert facts.number("bank_conflicts") == ncu.value(side, "bank_conflicts")[0]
    assert facts.number("tensor_pipe") == ncu.value(side, "tensor_pipe")[0]
    assert facts.number("memory_wait_pct") == pytest.approx(100 * (cold - warm) / cold)
    assert facts.number("over_floor") == pytest.approx(cold / performance.calibration.empty_kernel_us)
    assert facts.number("achieved_flops") == pytest.approx(performance.work.flops / cold / 1e6)
    assert facts.number("memory_floor_us") == pytest.approx(
        1e6 * (performance.work.bytes - performance.work.output_bytes) / performance.device.peak_bytes_per_s
    )
    verdict = json.loads((STAGES["stage2"] / "verdict.json").read_text())
    occupancy = next(check for check in verdict["gates"][0]["checks"] if check["name"] == "occupancy" and check["where"].endswith("sm_90"))
    assert facts.number("theoretical_occupancy") == occupancy["observed"]
    assert facts["occupancy_limiter"].value == "registers"


def test_without_a_device_facts_have_the_gates_reason() -> None:
    facts, _ = facts_of(NO_DEVICE)
    for key in ("p50_us", "speedup_pct", "floor_us", "achieved_flops", "memory_wait_pct"):
        assert (facts[key].value, facts[key].missing) == (None, "performance not run: no CUDA device")
    assert facts["tensor_pipe"].missing == facts["stalled"].missing == "ncu not run: no CUDA device"
    assert facts.number("registers") and facts.number("theoretical_occupancy") and facts["kernel"].value == "sdpa_fp8_kernel"


def test_a_gate_that_does_not_apply_tells_its_reason_unless_it_measured(tmp_path: Path) -> None:
    run = change(
        copied(tmp_path),
        "verdict.json",
        lambda data: [data["gates"][index].update(status="not_applicable", sentence="a library call") for index in (0, 4)],
    )
    (run / "ptxas.json").unlink()
    facts, _ = facts_of(run)
    assert facts["registers"].missing == facts["theoretical_occupancy"].missing == "ptxas not applicable: a library call"
    assert facts.number("p50_us")
    change(run, "performance.json", lambda data: data.update(work=None))
    assert facts_of(run)[0]["flops"].missing == "not in performance.json"


def test_a_stage_without_kernels_of_its_own_and_a_chip_that_is_not_known(tmp_path: Path) -> None:
    run = change(copied(tmp_path, source=NO_DEVICE), "run.json", lambda data: data["task"].update(kernels=[], arch=[], kind="python"))
    facts, sections = facts_of(run)
    assert (
        facts["kernel"].missing == "not in run.json"
        and facts["registers"].missing == "not in ptxas.json"
        and facts["kind"].value == "python"
    )
    assert not fired(run) - {"measure"} and all(sections.values())
    run = change(copied(tmp_path, "other"), "run.json", lambda data: data["device"].update(compute_capability="99.0"))
    change(run, "ptxas.json", lambda data: data["kernels"][1].update(arch="sm_990"))
    facts, _ = facts_of(run)
    assert facts.number("registers") and "does not follow from" in facts["theoretical_occupancy"].missing


def test_a_value_has_a_source_and_what_has_none_a_reason() -> None:
    for wrong in ({"value": 1.0}, {"value": None}, {"value": 1.0, "sources": ("a: b",), "missing": "why"}):
        with pytest.raises(ValueError, match="fact k"):
            Fact("k", "what", **wrong)


@pytest.mark.parametrize("name", ["plain", "torch.compile", "a b", 'quo"te', "[0]", "back\\slash", "7"])
def test_any_name_can_stand_in_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"top": {name: [{"x": 5}]}}))
    path = f"top{member(name)}[0].x"
    assert Evidence(tmp_path).at("run.json", path) == 5
    assert Evidence(tmp_path).at("run.json", f"{path}.y") is None and Evidence(tmp_path).at("no.json", path) is None


def test_the_kernel_that_takes_longest_is_the_one_spoken_of(tmp_path: Path) -> None:
    def add(data: dict[str, Any]) -> None:
        kernels = data["sides"]["candidate"]["kernels"]
        kernels.insert(0, json.loads(json.dumps(kernels[0])))
        kernels[0]["kernel"] = "void helper_kernel<64>(float*)"
        counters(data)["duration_ns"]["value"] = 10.0
        counters(data)["tensor_pipe"]["value"] = 99.0

    run = change(copied(tmp_path), "ncu.json", add)
    facts, _ = facts_of(run)
    assert facts["kernel"].value == "sdpa_fp8_kernel" and facts["tensor_pipe"].sources == (
        "ncu.json: sides.candidate.kernels[1].counters[0].value",
    )
    change(run, "ncu.json", lambda data: counters(data)["duration_ns"].update(value=1e9))
    facts, _ = facts_of(run)
    assert (
        facts["kernel"].value == "helper_kernel"
        and facts.number("tensor_pipe") == 99.0
        and facts["registers"].missing == "not in ptxas.json"
    )


def test_stalls_are_shown_where_they_were_counted(tmp_path: Path) -> None:
    assert facts_of(RUN)[0]["stalled"].missing == "not in ncu.json"
    stalls = {"stall_barrier": 3.0, "stall_global_memory": 5.0}

    def add(data: dict[str, Any]) -> None:
        data["sides"]["candidate"]["kernels"][0]["counters"] += [
            {"metric": name, "value": value, "unit": "warp", "source": "s", "reason": ""} for name, value in stalls.items()
        ]

    facts, sections = facts_of(change(copied(tmp_path), "ncu.json", add))
    assert (facts.number("stalled"), facts.number("barrier_stall_pct")) == (8.0, 37.5)
    assert [fact.key for fact in sections["What limits it"]][-3:] == ["stalled", "stall_global_memory", "stall_barrier"]


# rules

P50, FLOOR = {"p50_us": 10.0}, {"floor_us": 1.0}
# rule -> (facts on which it fires, changes that each keep it from firing, ceiling in us)
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], float | None]] = {
    "mend": ({"failed": "max_abs_err 1", "failed_gate": "correctness"}, [{"failed_gate": "performance"}], None),
    "measure": ({"untimed": "no CUDA device"}, [], None),
    "memory_wait": (
        {**P50, "other_p50_us": 8.0, "memory_wait_pct": 20.0, "sass async_copy": 0},
        [{"memory_wait_pct": 9.9}, {"sass async_copy": 1}, {"other_p50_us": 12.0}],
        8.0,
    ),
    "deeper_pipeline": (
        {**P50, "other_p50_us": 8.0, "memory_wait_pct": 20.0, "sass async_copy": 4},
        [{"memory_wait_pct": 9.9}, {"sass async_copy": 0}, {"other_p50_us": 12.0}],
        8.0,
    ),
    "launch_bound": ({"p50_us": 1.9, "launch_floor_us": 1.0}, [{"p50_us": 2.1}], 1.0),
    "at_memory_floor": ({**P50, "memory_floor_us": 8.0, "launch_floor_us": 1.0}, [{"memory_floor_us": 6.9}, {"launch_floor_us": 9.0}], 8.0),
    "reads_again": ({**P50, "reads_over_least": 2.0, "dram_throughput": 50.0}, [{"reads_over_least": 1.2}, {"dram_throughput": 29.0}], 5.0),
    "more_ctas": ({**P50, "occupancy": 6.0, "theoretical_occupancy": 25.0}, [{"occupancy": 13.0}], 2.4),
    "occupancy": (
        {**P50, "occupancy": 20.0, "theoretical_occupancy": 25.0, "occupancy_limiter": "registers", "sm_throughput": 30.0},
        [{"theoretical_occupancy": 50.0}, {"occupancy": 12.0}, {"occupancy_limiter": "warps"}, {"sm_throughput": 61.0}],
        2.5,
    ),
    "tensor_cores": (
        {"sass tensor": 0, "sass fma": 500, "intensity": 400.0, "floor_us": 1.5},
        [{"sass tensor": 1}, {"sass fma": 0}, {"intensity": 8.0}],
        1.5,
    ),
    "tensor_idle": (
        {**P50, "tensor_pipe": 20.0, "sass tensor": 32, "intensity": 400.0},
        [{"tensor_pipe": 51.0}, {"sass tensor": 0}, {"intensity": 8.0}],
        2.0,
    ),
    "warpgroup": (
        {"tensor_pipe": 60.0, "tensor_gmma": 0, "sass tensor": 32},
        [{"tensor_pipe": 49.0}, {"tensor_gmma": 8}, {"sass tensor": 0}],
        None,
    ),
    "bank_conflicts": ({**P50, "bank_conflicts": 2.0}, [{"bank_conflicts": 1.04}], 5.0),
    "spills": ({"spill_bytes": 8, "registers": 255}, [{"spill_bytes": 0}], None),
    "local_arrays": ({"sass local_memory": 12, "spill_bytes": 0}, [{"sass local_memory": 0}, {"spill_bytes": 4}], None),
    "barriers": ({"barrier_stall_pct": 30.0, "stall_barrier": 3.0}, [{"barrier_stall_pct": 24.0}], None),
    "conversions": ({"sass conversion pct": 9.0, "sass tensor": 32}, [{"sass conversion pct": 7.9}, {"sass tensor": 0}], None),
}


def planted(values: dict[str, Any]) -> Facts:
    facts = Facts(Evidence(RUN))
    for key, value in values.items():
        facts[key] = Fact(key, key, value, "", ("run.json: task.name",))
    return facts


def rules_of(values: dict[str, Any]) -> set[str]:
    return {step.rule for step in steps_of(planted(values), most=len(RULES))}


def test_each_rule_has_a_case() -> None:
    assert list(CASES) == [rule.key for rule in RULES]
    assert all(set(values) == set(rule.needs) for rule, (values, _, _) in zip(RULES, CASES.values(), strict=True))
    assert all(rule.step.endswith(".") and (rule.ceiling is None) == (rule.kind in (FIRST, UNKNOWN)) for rule in RULES)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_fires_on_its_evidence_and_tells_it(rule: str) -> None:
    values, _, ceiling = CASES[rule]
    step = next(step for step in steps_of(planted(values), most=len(RULES)) if step.rule == rule)
    assert {fact.key: fact.value for fact in step.evidence} == values
    assert step.ceiling_us == (None if ceiling is None else pytest.approx(ceiling))
    if "p50_us" in values and ceiling:
        assert step.gain_pct == pytest.approx(100 * (values["p50_us"] / ceiling - 1))


@pytest.mark.parametrize(("rule", "kept_from"), [(rule, one) for rule, (_, changes, _) in CASES.items() for one in changes])
def test_a_rule_does_not_fire_on_other_evidence(rule: str, kept_from: dict[str, Any]) -> None:
    assert rule not in rules_of({**CASES[rule][0], **kept_from})


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_is_not_judged_without_one_of_its_facts(rule: str) -> None:
    values = CASES[rule][0]
    for key in values:
        facts = planted({name: value for name, value in values.items() if name != key})
        assert rule not in {step.rule for step in steps_of(facts, most=len(RULES))}
        facts[key] = Fact(key, key, None, missing="it was not counted")
        assert rule not in {step.rule for step in steps_of(facts, most=len(RULES))}
        assert (rule in unjudged(facts).get("it was not counted", ())) == (rule not in ("mend", "measure"))


def test_the_order_is_first_measured_bound_unknown_and_then_by_gain() -> None:
    every = {**P50, **FLOOR}
    for rule in ("mend", "memory_wait", "more_ctas", "tensor_idle", "spills"):
        every |= CASES[rule][0]
    steps = steps_of(planted(every), most=len(RULES))
    assert [(step.rule, step.kind) for step in steps] == [
        ("mend", FIRST),
        ("memory_wait", MEASURED),
        ("tensor_idle", BOUND),
        ("more_ctas", BOUND),
        ("spills", UNKNOWN),
    ] and steps[2].gain_pct > steps[3].gain_pct
    assert len(steps_of(planted(every))) == 3


def test_no_ceiling_lies_below_the_floor() -> None:
    (step,) = steps_of(planted({**CASES["tensor_idle"][0], "tensor_pipe": 0.1, "floor_us": 4.0}))
    assert (step.ceiling_us, step.gain_pct) == (4.0, pytest.approx(150.0))


# on recorded runs


def test_what_the_rules_say_of_the_recorded_stages() -> None:
    """The ladder went the ways that they name: tensor cores first, then asynchronous copies."""
    found = {stage: fired(run) for stage, run in STAGES.items()}
    assert "tensor_cores" in found["stage0"] and "tensor_cores" not in found["stage1"] | found["stage2"] | found["stage3"]
    assert [stage for stage, rules in found.items() if "memory_wait" in rules] == ["stage0", "stage1", "stage2"]
    assert all({"more_ctas"} <= rules for rules in found.values())
    assert not any(
        rules & {"spills", "local_arrays", "launch_bound", "at_memory_floor", "reads_again", "mend", "measure"} for rules in found.values()
    )
    assert "bank_conflicts" in found["stage0"] and "bank_conflicts" not in found["stage2"]


def test_a_measured_ceiling_held_for_the_stage_that_took_the_step() -> None:
    step = next(step for step in steps_of(facts_of(STAGES["stage2"])[0]) if step.rule == "memory_wait")
    reached = facts_of(STAGES["stage3"])[0].number("p50_us")
    assert step.ceiling_us is not None and step.ceiling_us <= reached <= 1.05 * step.ceiling_us


def test_planted_evidence_reaches_the_rules(tmp_path: Path) -> None:
    run = copied(tmp_path)
    assert not fired(run) & {"spills", "local_arrays", "bank_conflicts", "reads_again", "deeper_pipeline", "mend"}
    change(run, "sass.json", lambda data: data["functions"][1]["classes"].update(local_memory=6, async_copy=4))
    change(
        run,
        "ncu.json",
        lambda data: [
            counters(data)[name].update(value=value)
            for name, value in (("shared_load_conflicts", 300000.0), ("dram_read_bytes", 2e6), ("dram_throughput", 60.0))
        ],
    )
    assert fired(run) >= {"local_arrays", "bank_conflicts", "reads_again", "deeper_pipeline"} and "memory_wait" not in fired(run)
    change(run, "ptxas.json", lambda data: data["kernels"][1].update(spill_store_bytes=16))
    assert "spills" in fired(run) and "local_arrays" not in fired(run)
    change(run, "verdict.json", lambda data: [data["gates"][index].update(status="fail", sentence=f"gate {index}") for index in (4, 5)])
    steps = steps_of(facts_of(run)[0])
    assert steps[0].rule == "mend" and steps[0].evidence[0].value == "gate 5"  # not the one about speed
    change(run, "verdict.json", lambda data: data["gates"][5].update(status="pass"))
    assert "mend" not in fired(run) and facts_of(run)[0]["failed"].value == "gate 4"


def test_without_a_device_the_first_step_is_to_measure() -> None:
    found = insights_of(NO_DEVICE)
    assert found.steps[0].rule == "measure" and not {step.rule for step in found.steps} & {"memory_wait", "more_ctas"}
    assert "memory_wait" in found.unjudged["performance not run: no CUDA device"]
    text = insights_markdown([found])
    assert (
        "no value (performance not run: no CUDA device): p50, cold L2;" in text
        and "us" not in text.split("## Where the time goes")[1].split("no value")[0].split()
    )


def test_evidence_that_is_not_sound_has_no_insights(tmp_path: Path) -> None:
    run = change(copied(tmp_path), "ncu.json", lambda data: counters(data)["tensor_pipe"].update(value=90.0))
    with pytest.raises(GatesError, match="ncu.json was changed after the run"):
        insights_of(run)


# what was tried


def test_what_was_tried_holds_rejects_of_this_problem_on_this_device(tmp_path: Path) -> None:
    copied(tmp_path, "c-this")
    rejected = copied(tmp_path, "a-rejected")
    change(
        rejected, "run.json", lambda data: (data.update(started="2025-01-01T00:00:00+00:00"), data["task"]["toggles"].update(USE_WMMA_PV=7))
    )
    change(rejected, "verdict.json", lambda data: data.update(decision="reject", reason="failed: performance (performance.too_slow)"))
    change(copied(tmp_path, "b-other-problem"), "run.json", lambda data: data["task"].update(problem="other"))
    change(copied(tmp_path, "d-other-device"), "run.json", lambda data: data["device"].update(name="Other GPU"))
    (copied(tmp_path, "e-broken") / "run.json").write_text("{")
    entries = history(tmp_path / "results")
    assert len(entries) == 5
    found = insights_of(Path(str(tmp_path / "results" / ".." / "results" / "stage2_wmma_pv" / "c-this")), entries)
    assert [Path(attempt.run).name for attempt in found.attempts] == ["a-rejected", "c-this"]
    first = found.attempts[0]
    assert (first.decision, first.reason, first.toggles["USE_WMMA_PV"]) == ("reject", "failed: performance (performance.too_slow)", 7)
    assert first.p50_us and first.speedup_pct and first.baseline == "stage1_wmma_qk"
    text = insights_markdown([found])
    assert "| c-this (this one) |" in text and "performance.too_slow" in text


def test_a_run_outside_the_results_is_among_what_was_tried() -> None:
    assert [attempt.run for attempt in insights_of(RUN).attempts] == [str(RUN)]


def test_the_newest_attempts_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    found = insights_of(RUN)
    many = found.attempts * 15
    text = insights_markdown([type(found)(**{**vars(found), "attempts": many})])
    assert text.count("| h100_stage2") == 12 and "3 earlier ones: `gates history`" in text


# the command


def test_the_command_gives_markdown_and_json(tmp_path: Path) -> None:
    copied(tmp_path)
    run, results = str(tmp_path / "results" / "stage2_wmma_pv" / "run"), ["--results", str(tmp_path / "results")]
    text = CliRunner().invoke(cli, ["insights", "latest:stage2", *results], catch_exceptions=False)
    assert text.exit_code == 0 and text.output == insights_markdown([insights_of(Path(run), history(tmp_path / "results"))])
    for title in (
        "# stage2_wmma_pv: merge",
        "## The task",
        "## Where the time goes",
        "## What limits it",
        "## Machine code",
        "## Tried before",
        "## Next steps",
    ):
        assert f"{title}\n" in text.output
    assert "- tensor pipe busy: " in text.output and "(`ncu.json: sides.candidate.kernels[0].counters[0].value`)" in text.output
    made = CliRunner().invoke(cli, ["insights", run, run, "--format", "json", *results], catch_exceptions=False)
    data = json.loads(made.output, parse_constant=lambda name: pytest.fail(name))
    assert data["schema_version"] == 1 and [one["task"] for one in data["runs"]] == ["stage2_wmma_pv"] * 2
    step = data["runs"][0]["steps"][0]
    assert step["kind"] == "measured" and step["evidence"][0]["sources"][0] == "performance.json: figures.cold.candidate.p50_us"
    assert math.isclose(step["gain_pct"], 100 * (step["evidence"][1]["value"] / step["ceiling_us"] - 1))


def test_hostile_text_in_evidence_stays_text(tmp_path: Path) -> None:
    def poison(data: dict[str, Any]) -> None:
        data["task"]["title"] = "x\n# heading <script> `code` [link](http://example.com)"
        data["task"]["toggles"] = {"BAD`NAME": 1}

    run = change(copied(tmp_path), "run.json", poison)
    facts, sections = facts_of(run)
    recorded = insights_of(RUN)
    (step, *_) = recorded.steps
    found = replace(recorded, sections=sections, steps=(replace(step, step="<b>@everyone</b>", basis="#1"),))
    text = insights_markdown([found])
    assert "# heading <script> `code` [link](http://example.com)" in check_markdown(text)
    assert '`run.json: task.toggles["BAD\'NAME"]`' in text
    assert json.dumps(insights_json([found]), allow_nan=False)


def test_wrong_names_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="not a run directory"):
        CliRunner().invoke(cli, ["insights", str(tmp_path)], catch_exceptions=False, standalone_mode=False)


def test_of_several_instances_the_profiled_one_is_told_and_no_launch_of_another() -> None:
    run = list_runs(RECORDED / "h200" / "fp16_v9_pipeline")[-1]
    facts, _ = facts_of(run)
    kernels, profiled = Evidence(run).at("ptxas.json", "kernels"), Evidence(run).at("ncu.json", "sides.candidate.kernels[0].kernel")
    (one,) = (kernel for kernel in kernels if kernel["arch"] == "sm_90" and instance_of(kernel["demangled"]) == instance_of(profiled))
    assert facts["registers"].value == one["registers"] and facts["sass tensor"].value
    assert facts["threads"].value is None and facts["theoretical_occupancy"].value is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void a::k<a::T<(int)64, (bool)1>, (bool)0>(a::P)", "void a::k<a::T<64, true>, false>(a::P)"),
        ("k(float *)", "k(float*)"),
        ("void k<(unsigned int)3>()", "void k<3>()"),
    ],
)
def test_an_instance_by_both_spellings(one: str, other: str) -> None:
    assert instance_of(one) == instance_of(other) != instance_of("void k<(int)4>()")
