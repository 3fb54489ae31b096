"""The sanitizer's judge over records, and its log's lines one by one; no process is started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gates.core.errors import EXIT_CHECKER
from gates.core.records import Status
from gates.gate.reasons import UNSUPPORTED
from gates.gate.sanitizer import log
from gates.gate.sanitizer.evidence import EMULATOR, SanitizerEvidence, SanitizerRun
from gates.gate.sanitizer.judge import DEVICE_TOOLS, judge
from gates.gate.sanitizer.log import Finding, counted, device_findings, short_place, summary, unsupported

CLEAN = SanitizerRun("memcheck", ("small", "tail"), "forward", True, 4, 4, "", "exit 0", 0, False, 0, 0, "", ())
WRITE = Finding("memcheck", "invalid __global__ write", "error", "store(float *)", "tile.cu:34", "Invalid __global__ write of size 4", 2)
RACE = Finding("racecheck", "race", "warning", "sum(float *)", "w.cu:9", "Race reported", 3)
WAIT = Finding("synccheck", "barrier error", "library", "wait()", "barrier.h:1", "Barrier error detected. Missing wait.", 1)


def of(*runs: SanitizerRun, mode: str = "device", **changes: Any) -> SanitizerEvidence:
    """Evidence of ``runs``; on a device with a clean run of each other tool."""
    others = {run.tool for run in runs}
    more = [replace(CLEAN, tool=tool) for tool in DEVICE_TOOLS if tool not in others] if mode == "device" else []
    return replace(SanitizerEvidence(1, mode, "stage", "2025.3", (), "", "", (*runs, *more)), **changes)


def emulated(**changes: Any) -> SanitizerEvidence:
    return of(replace(CLEAN, tool=EMULATOR, **changes), mode="emulator")


@pytest.mark.parametrize(
    ("evidence", "status", "code"),
    [
        (of(CLEAN), Status.PASS, "sanitizer.pass"),
        (of(CLEAN, unavailable="no tool", remedy="install it"), Status.NOT_RUN, "sanitizer.not_available"),
        (replace(of(), runs=()), Status.NOT_RUN, "sanitizer.nothing_checked"),
        (of(CLEAN, mode="emulator"), Status.PASS, "sanitizer.pass"),
        (replace(of(), runs=of().runs[1:]), Status.NOT_RUN, "sanitizer.tool_missing"),
        (of(replace(CLEAN, findings=(WRITE,), summary_errors=2)), Status.FAIL, "sanitizer.finding"),
        (of(replace(CLEAN, summary_errors=1)), Status.FAIL, "sanitizer.finding"),  # counted, and none was read
        (of(replace(CLEAN, unsupported="Device not supported")), Status.NOT_RUN, "sanitizer.not_supported"),
        (of(replace(CLEAN, unsupported="killed before it began")), Status.NOT_RUN, "sanitizer.not_started"),
        (emulated(unsupported="Device not supported"), Status.NOT_RUN, "sanitizer.not_started"),
        (of(replace(CLEAN, timed_out=True)), Status.INCONCLUSIVE, "sanitizer.timeout"),
        (emulated(timed_out=True), Status.FAIL, "sanitizer.timeout"),
        (of(replace(CLEAN, launch_error="invalid argument")), Status.FAIL, "sanitizer.launch_error"),
        (of(replace(CLEAN, returncode=-11)), Status.FAIL, "sanitizer.crash"),
        (emulated(returncode=1), Status.FAIL, "sanitizer.crash"),
        (of(replace(CLEAN, returncode=1)), Status.INCONCLUSIVE, "sanitizer.exit_code"),
        (of(replace(CLEAN, returncode=EXIT_CHECKER)), Status.INCONCLUSIVE, "sanitizer.exit_code"),
        (of(replace(CLEAN, returncode=EXIT_CHECKER, summary_warnings=1)), Status.PASS, "sanitizer.pass"),
        (of(replace(CLEAN, returncode=1, summary_warnings=1)), Status.INCONCLUSIVE, "sanitizer.exit_code"),
        (of(replace(CLEAN, returncode=EXIT_CHECKER, findings=(WAIT,), summary_errors=1)), Status.PASS, "sanitizer.pass"),
        (of(replace(CLEAN, summary_errors=None)), Status.NOT_RUN, "sanitizer.no_summary"),
        (of(replace(CLEAN, summary_errors=None, seen=False)), Status.NOT_RUN, "sanitizer.no_summary"),
        (emulated(summary_errors=None), Status.NOT_RUN, "sanitizer.no_summary"),
        (emulated(summary_errors=None, seen=False), Status.NOT_RUN, "sanitizer.kernel_not_seen"),
        (of(replace(CLEAN, seen=False)), Status.NOT_RUN, "sanitizer.kernel_not_seen"),
        (of(replace(CLEAN, launches=3)), Status.NOT_RUN, "sanitizer.kernel_not_seen"),
        (of(replace(CLEAN, launches=5)), Status.PASS, "sanitizer.pass"),
    ],
)
def test_each_end_of_a_tool_has_its_code(evidence: SanitizerEvidence, status: Status, code: str) -> None:
    result = judge(evidence)
    assert (result.status, result.code) == (status, code), result.sentence


def test_checks_name_what_was_found_where() -> None:
    result = judge(of(replace(CLEAN, findings=(WRITE, RACE), summary_errors=2)))
    (failed,) = [check for check in result.checks if check.status is Status.FAIL]
    assert (failed.name, failed.observed, failed.limit, failed.unit, failed.where) == (
        "memcheck: invalid __global__ write",
        2,
        0,
        "findings",
        "small tail forward",
    )
    assert failed.hint.startswith("Invalid __global__ write of size 4 at tile.cu:34 in store(float *). ")
    seen = judge(of(replace(CLEAN, launches=3))).checks[0]
    assert (seen.observed, seen.limit, seen.unit) == ("3 of 4 launches proved", None, "")
    counted_only = judge(of(replace(CLEAN, summary_errors=7))).checks[0]
    assert counted_only.observed == 7 and counted_only.hint.startswith("the summary counts errors. ")
    many = tuple(replace(WRITE, where=f"tile.cu:{line}") for line in range(1, 9))
    assert [check.hint.partition(" in ")[0][-1] for check in judge(of(replace(CLEAN, findings=many))).checks[:5]] == list("12345")
    assert len([check for check in judge(of(replace(CLEAN, findings=many))).checks if check.status is Status.FAIL]) == 5
    bare = judge(of(replace(CLEAN, findings=(replace(WRITE, where="", kernel=""),)))).checks[0]
    assert bare.hint.startswith("Invalid __global__ write of size 4. ")


def test_what_the_emulator_can_t_do_is_not_run_and_any_other_finding_fails() -> None:
    lacking = replace(WRITE, tool=EMULATOR, kind=UNSUPPORTED, message="wgmma is not emulated")
    result = judge(emulated(findings=(lacking,), summary_errors=1))
    assert (result.status, result.code, result.checks[0].observed) == (Status.NOT_RUN, "sanitizer.not_emulated", "wgmma is not emulated")
    assert judge(emulated(findings=(replace(WRITE, tool=EMULATOR),), summary_errors=1)).code == "sanitizer.finding"
    assert judge(of(replace(CLEAN, findings=(replace(lacking, tool="memcheck"),)))).code == "sanitizer.finding"


def test_warnings_are_counted_and_the_first_is_named() -> None:
    clean = "no findings (memcheck, racecheck, initcheck, synccheck; small, tail)"
    assert judge(of(CLEAN)).sentence == clean
    one = judge(of(replace(CLEAN, tool="racecheck", findings=(RACE,), summary_warnings=1)))
    assert one.sentence.endswith("small, tail); 1 warning shown, not counted (racecheck: race at w.cu:9)")
    (shown,) = [check for check in one.checks if check.unit == "warnings"]
    assert (shown.name, shown.observed, shown.hint) == ("racecheck warning: race", 3, "Race reported at w.cu:9 in sum(float *)")
    both = judge(
        of(replace(CLEAN, findings=(replace(RACE, where=""),), summary_warnings=2), replace(CLEAN, tool="synccheck", findings=(WAIT,)))
    )
    assert both.sentence.endswith("; 3 warnings shown, not counted (racecheck: race)")
    assert [check.name for check in both.checks if check.unit == "warnings"] == [
        "racecheck warning: race",
        "synccheck inside a library: barrier error",
    ]
    none = judge(of(replace(CLEAN, summary_warnings=None, shapes=("small", "small zero_rows", "small ones"))))
    assert none.sentence.startswith("no findings (memcheck, ") and "small, tail; 2 kinds of structured values)" in none.sentence
    unread = judge(of(replace(CLEAN, summary_warnings=2)))
    assert unread.sentence == f"{clean}; 2 warnings shown, not counted"


@pytest.mark.parametrize(
    ("line", "kind", "severity", "kernel", "where"),
    [
        ("Error: Race reported between Write access at k(int *)+0x2f0 in sum.cu:47", "race_shared", "error", "k(int *)", "sum.cu:47"),
        ("WARN: Race reported between Read access at 0x1f in C:\\src\\a.hpp:9:k(int *)", "race_shared", "warning", "", ""),
        ("Info: 4 hazards left", "race_shared", "warning", "", ""),
        ("Internal Error: no memory: left", "no memory", "error", "", ""),
        ("Invalid __shared__ read of size 16 bytes", "shared_out_of_bounds", "error", "", ""),
        ("Invalid __global__ write of size 4", "out_of_bounds", "error", "", ""),
        ("Invalid __local__ write of size 4", "local_out_of_bounds", "error", "", ""),
        ("Uninitialized __shared__ memory read", "uninitialised_shared", "error", "", ""),
        ("Uninitialized __local__ memory read", "uninitialised_local", "error", "", ""),
        ("Barrier error detected. Missing wait.", "barrier error", "error", "", ""),
        ("Invalid argument: x", "invalid argument", "error", "", ""),
        ("Uninitialized __global__ memory read of size 4", "uninitialised_global", "error", "", ""),
        ("Barrier error detected. Divergent thread(s)", "barrier_divergence", "error", "", ""),
        ("Program hit cudaErrorLaunchFailure (error 719)", "cudaerrorlaunchfailure", "error", "", ""),
        ("x" * 70, "x" * 60, "error", "", ""),
        ("Invalid read at 0x70 in kernel_name [1 hazard]", "invalid read at", "error", "kernel_name", ""),
    ],
)
def test_a_headline(line: str, kind: str, severity: str, kernel: str, where: str) -> None:
    (found,) = device_findings(f"========= {line}\n", "memcheck")
    assert (found.kind, found.severity, found.kernel, found.where, found.count) == (kind, severity, kernel, where, 1)


def test_a_misaligned_access_is_said_below_its_headline() -> None:
    text = "========= Invalid __global__ read of size 4\n=========     at k()+0x1 in a.cu:3\n=========     Access at 0x1 is {}\n"
    kinds = [device_findings(text.format(what), "memcheck")[0].kind for what in ("misaligned", "out of bounds", "misaligned too")]
    assert kinds == ["misaligned", "out_of_bounds", "out_of_bounds"]
    assert device_findings("=========     Access at 0x1 is misaligned\n", "memcheck") == []


def test_a_fault_that_has_a_code_fails_by_it() -> None:
    named = judge(of(replace(CLEAN, findings=(replace(WRITE, kind="out_of_bounds"),)))).checks[0]
    assert (named.code, named.limit, named.unit) == ("sanitizer.out_of_bounds", 0, "findings")


def test_lines_that_are_no_findings() -> None:
    lines = ("COMPUTE-SANITIZER", "", "LEAK SUMMARY: 0 bytes", "Target application returned 1", "Program closed", "Suppressed 2 reports")
    assert device_findings("\n".join(f"========= {line}" for line in lines) + "\nno prefix\n", "memcheck") == []
    assert device_findings("=========     at k(int *)+0x10 in a.cu:3\n========= Device not supported\n", "memcheck") == []
    (found,) = device_findings(
        "not its line\n========= Invalid read\n=========     at k()+0x1 in a.cu:3\n=========     at j()+0x1 in b.cu:4", "m"
    )
    assert (found.kernel, found.where) == ("k()", "a.cu:3")  # the first place below it
    (found,) = device_findings("========= Invalid read at k()+0x1\n=========     at j()+0x1 in b.cu:4", "m")
    assert (found.kernel, found.where) == ("k()", "")  # a headline with a place keeps it


def test_each_headline_has_its_own_place() -> None:
    text = "".join(f"========= Invalid {what}\n=========     at {what}()+0x1 in {what}.cu:3\n" for what in ("read", "write"))
    assert [(one.kernel, one.where) for one in device_findings(text, "m")] == [("read()", "read.cu:3"), ("write()", "write.cu:3")]


def test_addresses_are_left_out_and_equal_findings_are_counted() -> None:
    found = device_findings(
        "========= Invalid read of 0x7f12 " + "y" * 400 + "\n========= Invalid read of 0x7f99 " + "y" * 400 + "\n", "memcheck"
    )
    assert found[0] == found[1] and found[0].message.startswith("Invalid read of 0x…") and len(found[0].message) == 300
    assert [one.count for one in counted([*found, WRITE])] == [2, 1]


@pytest.mark.parametrize(
    ("text", "tool", "expected"),
    [
        ("========= ERROR SUMMARY: 3 errors\n", "memcheck", (3, 0)),
        ("========= ERROR SUMMARY: 3 errors\n========= ERROR SUMMARY: 1 error\n", "memcheck", (1, 0)),
        ("========= RACECHECK SUMMARY: 9 hazards displayed (1 error, 4 warnings)\r\n", "racecheck", (1, 4)),
        ("nothing\n", "memcheck", (None, None)),
    ],
)
def test_the_last_summary_counts(text: str, tool: str, expected: tuple[int | None, int | None]) -> None:
    assert summary(text, tool) == expected


def test_what_says_that_the_device_is_not_known() -> None:
    assert unsupported("", "") == "" and unsupported("========= ERROR SUMMARY: 0 errors", "all well") == ""
    assert unsupported("========= Error: Device not supported\n", "") == "Error: Device not supported"
    assert unsupported("", "x\nInsufficient driver version\n") == "Insufficient driver version"


def test_a_missing_wait_is_excused_only_inside_a_library() -> None:
    text = "========= Barrier error detected. {what}\n=========     at {kernel}+0x10{place}\n"
    inside = " in /usr/local/cuda/include/cuda/std/barrier.h:8"

    def severity(tool: str = "synccheck", what: str = "Missing wait.", kernel: str = "k(int *)", place: str = inside) -> str:
        (found,) = device_findings(text.format(what=what, kernel=kernel, place=place), tool)
        return found.severity

    assert severity() == severity(place=inside.replace("/", "\\")) == "library"
    assert severity(kernel="void cuda::barrier<1>::wait(int)", place="") == "library"
    assert severity(tool="racecheck") == severity(what="Divergent thread(s)") == severity(place=" in /src/a.cu:8") == "error"
    assert severity(kernel="my_cuda_wait(int)", place="") == severity(kernel="k(cuda::barrier<1> *)", place="") == "error"


def test_faults_that_a_program_has_are_not_about_the_tool() -> None:
    tool = Finding("memcheck", "x", "error", "", "", "Failed to attach")
    assert tool.about_the_tool and not replace(tool, kernel="k").about_the_tool and not replace(tool, where="a.cu:1").about_the_tool
    for message in ("Leaked 4 bytes", "Program hit cudaErrorAssert", "some hazard", "race condition"):
        assert not replace(tool, message=message).about_the_tool


@pytest.mark.parametrize(
    ("where", "short"), [("/a/b.cu:12", "b.cu:12"), ("C:\\a\\b.cu:12", "b.cu:12"), ("/a/b.cu", "b.cu"), ("b.cu:1", "b.cu:1")]
)
def test_a_place_is_its_file_s_name_and_line(where: str, short: str) -> None:
    assert short_place(where) == short and log._base("a/b/c.cu") == "c.cu"
