"""A recorded run in the formats of public suites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from places import RECORDED

from gates.core.errors import GatesError
from gates.evidence.packed_runs import opened
from gates.review.export import FORMATS, export

TIMED = next((RECORDED / "h100" / "stage2_wmma_pv").glob("*.zip"))
REJECTED = next((RECORDED / "cpu-reject").rglob("*.zip"))


def test_a_timed_run_has_times_and_errors_in_each_format() -> None:
    run = opened(TIMED)
    (entry,) = json.loads(export(run, "kernelbench"))["stage2_wmma_pv"]
    assert entry["compiled"] and entry["correctness"] and 0 < entry["runtime"] < entry["ref_runtime"] < 10, "ms"
    trace = json.loads(export(run, "flashinfer-bench"))["evaluation"]
    assert trace["status"] == "PASSED" and trace["correctness"]["max_absolute_error"] < 2e-3
    assert trace["performance"]["latency_ms"] == entry["runtime"] and trace["performance"]["speedup_factor"] > 1
    lines = dict(line.split(": ", 1) for line in export(run, "kernelbot").splitlines())
    assert lines["check"] == "pass" and float(lines["benchmark.0.mean"]) == pytest.approx(1e6 * entry["runtime"], rel=0.2), "ns"


def test_what_was_not_measured_is_absent_and_a_reject_is_told() -> None:
    run = opened(REJECTED)
    (entry,) = json.loads(export(run, "kernelbench")).popitem()[1]
    assert (entry["runtime"], entry["metadata"]["decision"]) == (-1.0, "reject")
    assert "performance" not in json.loads(export(run, "flashinfer-bench"))["evaluation"]
    with pytest.raises(GatesError, match="this run has none"):
        export(opened(next((RECORDED / "cpu-thorough" / "stage0_scalar").glob("*.zip"))), "flashinfer-bench")
    assert "benchmark-count" not in export(run, "kernelbot")


def test_an_edited_run_is_not_exported(tmp_path: Path) -> None:
    import shutil

    run = Path(shutil.copytree(opened(REJECTED), tmp_path / "run"))
    (run / "verdict.json").write_text((run / "verdict.json").read_text().replace('"reject"', '"merge"'))
    with pytest.raises(GatesError):
        export(run, next(iter(FORMATS)))
