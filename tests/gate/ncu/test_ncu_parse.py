"""What the profiler left, parsed: each way to have no counters has its code and words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gates.core.errors import GatesError
from gates.gate.ncu import evidence as parser
from gates.gate.ncu.evidence import NcuEvidence, ProfiledSide, not_run, parse
from gates.hardware.ncu_metrics import METRICS

TABLE = '"ID","Kernel Name","a","b"\n"","","%","Kbyte"\n"0","k(int)","21.5","2"\n"1","other()","1","1"\n'
PROOF = {"nonce": "n", "type": "case", "launches": 1, "error": ""}
ENDED = {"nonce": "n", "lines": [json.dumps(PROOF)], "returncode": 0, "timed_out": False, "cause": "exit 0"}


def side(proof: dict[str, Any] | None = None, ended: dict[str, Any] | None = None, **changes: Any) -> ProfiledSide:
    """A side of one kernel with two metrics, changed."""
    lines = [json.dumps({**PROOF, **(proof or {})})]
    raw = {
        "name": "new",
        "kernels": ["k"],
        "sources": {"tensor_pipe": "a", "dram_bytes": "b"},
        "unknown": [],
        "report": "profile.ncu-rep",
        "csv": TABLE,
        "log": "",
        "job": {**ENDED, "lines": lines, **(ended or {})},
        **changes,
    }
    return parse(
        {
            "task": "t",
            "baseline": None,
            "shape": "s",
            "chip": "sm_90",
            "version": "1",
            "code": "",
            "message": "",
            "sides": {"candidate": raw},
        }
    ).sides["candidate"]


def test_counters_and_why_others_are_absent() -> None:
    found = side(unknown=["dram_bytes"])
    assert found.launches == ("k(int) #1", "other() #2") and found.code == "" and found.name == "new"
    (kernel,) = found.kernels
    counters = {counter.metric: counter for counter in kernel.counters}
    assert (counters["tensor_pipe"].value, counters["tensor_pipe"].unit, counters["tensor_pipe"].source) == (21.5, "%", "a")
    assert (counters["dram_bytes"].value, counters["dram_bytes"].reason) == (None, "ncu does not know this metric")
    assert counters["occupancy"].reason == "this chip has no such metric" and "bank_conflicts" not in counters
    assert list(counters) == [name for name in METRICS if name in counters]
    assert {name for name, metric in METRICS.items() if metric.parts is None} == set(counters)
    assert {counter.metric: counter for counter in side().kernels[0].counters}["dram_bytes"].value == 2000.0


def test_a_unit_that_ncu_leaves_out_is_the_metric_s() -> None:
    counters = {counter.metric: counter for counter in side(csv=TABLE.replace('"%"', '""')).kernels[0].counters}
    assert (counters["tensor_pipe"].unit, counters["dram_bytes"].unit) == ("%", "byte")


DENIED = "==PROF== x\n  ==ERROR== ERR_NVGPUCTRPERM - no permission  \n==PROF== y"


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"log": DENIED}, "ncu.no_permission", "==ERROR== ERR_NVGPUCTRPERM - no permission"),
        ({"log": "driver resource was unavailable", "report": None}, "ncu.counters_taken", "driver resource was unavailable"),
        ({"log": "Failed to access the following", "report": None}, "ncu.metrics_inaccessible", "Failed to access the following"),
        ({"log": "No kernels were profiled", "report": None}, "ncu.no_kernel", "No kernels were profiled"),
        ({"log": "No kernels were profiled"}, "", ""),  # said, and yet there is a report
        ({"ended": {"timed_out": True, "cause": "ended after 9 s"}}, "ncu.time_limit", "ncu was ended after 9 s"),
        (
            {"ended": {"returncode": 1, "lines": [], "cause": "exit 1"}, "log": "==ERROR== first\n==ERROR== last"},
            "ncu.failed",
            "ncu ended before the profiled program began (exit 1): ==ERROR== last",
        ),
        ({"ended": {"returncode": 1}}, "", ""),  # the launch was proved
        (
            {"ended": {"lines": []}},
            "ncu.not_launched",
            "the profiled program gave no proof that it launched the kernel (exit 0): it printed nothing",
        ),
        ({"proof": {"launches": 0}}, "ncu.not_launched", "no proof"),
        ({"proof": {"launches": "1"}}, "ncu.not_launched", "no proof"),
        ({"proof": {"error": "invalid argument"}}, "ncu.not_launched", "no proof"),
        ({"proof": {"type": "phase"}}, "ncu.not_launched", "no proof"),
        ({"proof": {"type": "begun"}}, "ncu.not_launched", "no proof"),
        ({"proof": {"nonce": "another"}}, "ncu.not_launched", "no proof"),
        ({"report": None, "csv": None}, "ncu.failed", "ncu left no report (exit 0): it printed nothing"),
        ({"report": None}, "", ""),
        ({"csv": "garbage"}, "ncu.unreadable", ""),
        ({"csv": TABLE.partition('"0"')[0]}, "ncu.no_kernel", "the report holds no kernel"),
        ({"kernels": ["absent"]}, "ncu.no_kernel", "was not profiled"),
        ({"csv": TABLE.replace("other()", "k(int)")}, "ncu.ambiguous_kernel", "match"),
    ],
)
def test_each_failure_has_its_code(changes: dict[str, Any], code: str, message: str) -> None:
    found = side(**changes)
    assert found.code == code and message in found.message and bool(found.kernels) is (not code), found
    if code in ("ncu.ambiguous_kernel",) or changes.get("kernels"):
        assert found.launches, "the launches that there were are named"


def test_a_record_says_why_nothing_was_profiled() -> None:
    assert not_run("t", None, "s", "ncu.no_device", "no device").message == "no device"
    with pytest.raises(ValueError, match="no reason code"):
        NcuEvidence("t", None, "s", "sm_90")
    with pytest.raises(ValueError, match="schema_version is 2"):
        NcuEvidence("t", None, "s", "", schema_version=2, code="ncu.no_device")
    assert issubclass(GatesError, Exception) and parser.SCHEMA_VERSION == 1
