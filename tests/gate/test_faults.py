"""One name for a fault: the emulator's runtime, compute-sanitizer's texts and the gates' codes agree."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from gates.diagnostics.explain import all_codes, explain
from gates.gate.faults import FAULTS
from gates.gate.reasons import UNSUPPORTED
from gates.gate.sanitizer.log import device_findings

RUNTIME = ROOT / "gates" / "emulator" / "cpu" / "runtime"


def test_every_fault_that_the_emulator_reports_has_a_code_and_every_code_is_reported() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(RUNTIME.glob("*.cpp")))
    named = set(re.findall(r'"cpu\.([a-z_]+)"', text)) - {UNSUPPORTED}
    assert named == set(FAULTS) - {"leak"}, "a leak is what several calls keep: gates/launch/replay.py counts it"


def test_every_fault_is_explained_in_both_gates() -> None:
    for name, fault in FAULTS.items():
        for gate in ("sanitizer", "correctness"):
            assert all_codes()[f"{gate}.{name}"].explanation == fault.explanation
            assert explain(f"{gate}.{name}").startswith(f"{gate}.{name}\n{fault.meaning}")


@pytest.mark.parametrize(
    ("tool", "headline", "detail", "kind"),
    [
        ("memcheck", "Invalid __global__ write of size 4 bytes", "Access at 0x7f65 is out of bounds", "out_of_bounds"),
        ("memcheck", "Invalid __global__ read of size 16 bytes", "Address 0x7f65 is misaligned", "misaligned"),
        ("memcheck", "Invalid __shared__ atomic of size 4 bytes", "Address 0x40000 is out of bounds", "shared_out_of_bounds"),
        ("memcheck", "Invalid __local__ read of size 4 bytes", "Address 0xfff is out of bounds", "local_out_of_bounds"),
        ("initcheck", "Uninitialized __global__ memory read of size 4 bytes", "", "uninitialised_global"),
        ("racecheck", "Error: Race reported between Write access at k(int *)+0x30 in a.cu:3", "", "race_shared"),
        ("synccheck", "Barrier error detected. Divergent thread(s) in block", "", "barrier_divergence"),
        ("synccheck", "Barrier error detected. Missing wait.", "", "barrier error"),
        ("memcheck", "Program hit cudaErrorInvalidValue (error 1) due to …", "", "cudaerrorinvalidvalue"),
    ],
)
def test_a_report_of_compute_sanitizer_has_the_name_of_its_fault(tool: str, headline: str, detail: str, kind: str) -> None:
    log = f"========= COMPUTE-SANITIZER\n========= {headline}\n" + (f"=========     {detail}\n" if detail else "")
    (found,) = device_findings(log, tool)
    assert found.kind == kind
