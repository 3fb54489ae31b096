"""Faults that the correctness gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gates.core.records import GateResult
from gates.gate.correctness import judge
from gates.gate.correctness.evidence import SCHEMA_VERSION, Case, CorrectnessEvidence, NullErrors, OutputErrors
from gates.gate.plant import CLOSE, SOUND, Outcome

GATE = "correctness"


def _case(seed: int, output: OutputErrors) -> Case:
    return Case(
        "small", seed, "headline", "ok", "", inputs_sha256=f"in{seed}", reference_sha256=f"out{seed}", launch_count=2, outputs=(output,)
    )


def _judged_cases(output: OutputErrors) -> GateResult:
    evidence = CorrectnessEvidence(
        SCHEMA_VERSION,
        "emulator",
        "selftest",
        2,
        (),
        1e-5,
        None,
        (_case(0, output), _case(1, output)),
        None,
        (),
        (),
        (),
    )
    return judge.judge(evidence, CLOSE)


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    zeros = NullErrors("zeros", 9.5, 2.1, 100.0)
    right = OutputErrors("out", "float32", 1000, 0, 2.4e-7, 3.0e-8, 0.0, (7,), 1.0, 1.0, 9.5, 2.1, 6e-8, (zeros,))
    yield Outcome(GATE, SOUND, _judged_cases(right))
    bad = dataclasses.replace(right, nonfinite=1, worst_got="nan")
    yield Outcome(GATE, "one NaN in the output", _judged_cases(bad))
    all_nan = dataclasses.replace(bad, nonfinite=1000, max_abs_err=None, mean_abs_err=None, bad_pct=None)
    yield Outcome(GATE, "nothing but NaN", _judged_cases(all_nan))
    nothing = dataclasses.replace(right, max_abs_err=9.5, mean_abs_err=2.1, bad_pct=100.0, worst_got=0.0)
    yield Outcome(GATE, "zeros", _judged_cases(nothing))
