"""What is wrong with a run is told causes first, and alike wherever a reader looks."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from gates.core.records import Check, Decision, GateResult, Status
from gates.evidence.run_directory import SCHEMA_VERSION, Verdict
from gates.render import console
from gates.render.ci.junit import junit
from gates.render.ci.sarif import sarif
from gates.render.compare import _faults
from gates.render.findings import fact, findings, head_line

COPY = (
    "asynchronous copy never waited for: a thread reads byte 64 of shared memory, to which it is on its way (block (0, 0, 0), "
    "thread (0, 0, 0)); the other access is at ./kernels/load.cuh:136"
)


def failed(name: str, code: str, where: str, observed: object = 5, hint: str = "", **more: object) -> Check:
    return Check(name, Status.FAIL, observed, 0, "", where, code, hint, **more)


SYMPTOMS = [
    failed(name, f"correctness.{name}", f"{shape} seed 0", hint="Usual causes: many.")
    for shape in ("small", "tail")
    for name in ("non_finite", "max_abs_err")
]
SEEN = [
    failed("copy_not_awaited", "correctness.copy_not_awaited", f"{shape} seed 0", COPY, "sdpa ./load.cuh:122. It is undefined.")
    for shape in ("small", "tail")
]
CHECKED = [
    failed(
        "emulator: copy_not_awaited", "sanitizer.copy_not_awaited", f"{shape} forward", 1, f"{COPY} at load.cuh:122 in sdpa. Look there."
    )
    for shape in ("small", "odd")
]
COUNT = failed("cases", "correctness.cases", "", "0/2")
GATES = (
    GateResult("ptxas", Status.PASS, "ptxas.pass", "within budget", (Check("registers", Status.PASS, 40, 64, ""),)),
    GateResult("correctness", Status.FAIL, "correctness.non_finite", "non_finite; 5 more", (*SYMPTOMS, *SEEN, COUNT)),
    GateResult("sanitizer", Status.FAIL, "sanitizer.finding", "2 findings", tuple(CHECKED)),
    GateResult("performance", Status.NOT_RUN, "performance.no_device", "no CUDA device"),
)
HEAD = f"load.cuh:122 {COPY}"


def test_a_located_cause_comes_first_and_once_whoever_saw_it() -> None:
    first, *rest = findings(GATES)
    assert (first.head, first.gates, len(first.checks)) == (HEAD, ("correctness", "sanitizer"), 4)
    assert [one.code for one in rest] == ["correctness.non_finite", "correctness.max_abs_err"]
    assert rest[0].elsewhere() == "at small seed 0 and in 1 more place" and first.elsewhere() == "at small seed 0 and in 3 more places"


def test_what_a_kernel_returned_is_the_whole_sentence_and_a_number_keeps_its_name() -> None:
    said = "the kernel returned shape [64] for out; the reference has [16]"
    message = Check("case", Status.FAIL, said, None, "", "given seed 0", "correctness.bad_output")
    number = failed("max_abs_err", "correctness.max_abs_err", "given seed 0")
    assert [findings([GateResult("correctness", Status.FAIL, one.code, "", (one,))])[0].head for one in (message, number)] == [
        said,
        "max_abs_err 5, limit 0",
    ]


def test_a_finding_without_its_line_is_one_more_place_of_the_one_with_it() -> None:
    """Lines are looked up for the first findings alone. Another kind, or no line at all, is an entry of its own."""
    located = failed("race_shared", "correctness.race_shared", "small seed 0", "read", "saxpy ./saxpy.cu:22. Two threads.")
    plain, other = (failed(name, f"correctness.{name}", "tail seed 0", "read byte 0") for name in ("race_shared", "race_global"))

    def entries(*checks: Check) -> list[tuple[str, int]]:
        found = findings((GateResult("correctness", Status.FAIL, "correctness.race_shared", "a race", checks),))
        return [(one.place, len(one.checks)) for one in found]

    assert entries(plain, located, plain) == [("saxpy.cu:22", 3)]
    assert entries(located, other) == [("saxpy.cu:22", 1), ("", 1)] and entries(plain, plain) == [("", 2)]


def test_wrong_accesses_come_before_races_and_these_before_what_nothing_has_written() -> None:
    faults = ("uninitialised_shared", "race_global", "out_of_bounds", "race_shared")
    checks = tuple(failed(one, f"correctness.{one}", "small seed 0", "read", f"k ./k.cu:{at}. Why.") for at, one in enumerate(faults, 1))
    found = findings((GateResult("correctness", Status.FAIL, "correctness.race_shared", "faults", checks),))
    assert [one.code.partition(".")[2] for one in found] == ["out_of_bounds", "race_global", "race_shared", "uninitialised_shared"]


def test_every_surface_names_the_line_first() -> None:
    verdict = Verdict(SCHEMA_VERSION, Decision.REJECT, "failed: correctness", GATES)
    assert head_line(Decision.REJECT, "stage3", GATES, "failed") == f"reject · stage3 · {HEAD}"
    told = console.failures(verdict)
    assert told[2].startswith(f"  correctness: {HEAD} at small seed 0") and "Usual causes: many." not in "\n".join(told)
    report = "\n".join(_faults(findings(GATES)))
    assert report.startswith(f"## What is wrong\n\n1. **{HEAD}**") and "many" not in report
    cases = {case.get("name"): case for case in ElementTree.fromstring(junit("stage3", "2026-01-01T00:00:00", GATES)).iter("testcase")}
    for gate in ("correctness", "sanitizer"):
        told = cases[gate].find("failure")
        assert told.text.startswith(HEAD) and told.get("message") == f"{gate}.copy_not_awaited: {HEAD}"
    results = json.loads(sarif("stage3", GATES, {}, {"load.cuh": "kernels/load.cuh"}, {}))["runs"][0]["results"]
    at_line = [
        one for one in results if one.get("locations", [{}])[0].get("physicalLocation", {}).get("region", {}).get("startLine") == 122
    ]
    assert sorted(one["ruleId"] for one in at_line) == ["correctness.copy_not_awaited", "sanitizer.copy_not_awaited"], (
        "one result a rule and line"
    )
    assert all("And in 1 more place." in one["message"]["text"] for one in at_line)


def test_a_failed_build_is_told_once() -> None:
    sentence = "nvcc: k.cu:7:3: error: expected a ';'"
    gates = [GateResult(name, Status.FAIL, f"{name}.build_failed", sentence) for name in ("ptxas", "sass", "correctness")]
    (one,) = findings(gates)
    assert (
        one.head == sentence
        and "\n".join(console.failures(Verdict(SCHEMA_VERSION, Decision.REJECT, "", tuple(gates)))).count(sentence) == 1
    )
    assert fact(Decision.REJECT, gates, "why") == sentence


def test_what_was_only_not_decided_comes_after_what_failed() -> None:
    open_ = Check("steady", Status.INCONCLUSIVE, 3, 1, "%", "long", "performance.unsteady")
    gates = (GateResult("performance", Status.INCONCLUSIVE, "performance.unsteady", "unsteady", (open_,)), GATES[1])
    assert [one.gate for one in findings(gates)][-1] == "performance"


def test_the_fact_of_a_merge_is_its_speed_and_of_a_hold_its_reason() -> None:
    fast = GateResult(
        "performance",
        Status.PASS,
        "performance.pass",
        "1.696x, 98.3 % interval 1.692 to 1.700, bar 1.150, noise floor 0.10 %",
        (Check("p50", Status.PASS, 1.0, None, "us"),),
    )
    assert fact(Decision.MERGE, (fast,), "every gate passed") == "1.696x, 98.3 % interval 1.692 to 1.700"
    assert fact(Decision.HOLD, (fast,), "no verdict from ncu") == "no verdict from ncu"
    assert fact(Decision.MERGE, (GATES[0],), "every gate passed") == "every gate passed"


def test_lines_of_source_keep_their_form_in_the_report() -> None:
    lines = ("    121 |     a;", ">   122 |     wait(<b>);", "    123 |     ```")
    check = failed("emulator: race", "sanitizer.finding", "small", 1, "race at load.cuh:122 in k. Look there.", notes=lines)
    report = "\n".join(_faults(findings((GateResult("sanitizer", Status.FAIL, "sanitizer.finding", "race", (check,)),))))
    assert "   ```cpp\n       121 |     a;\n   >   122 |     wait(<b>);\n       123 |     ```\n   ```\n" in report
    assert [line for line in report.splitlines() if line.lstrip().startswith("```")] == ["   ```cpp", "   ```"]
