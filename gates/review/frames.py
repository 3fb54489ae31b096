"""Evidence as pandas frames: one row a timing sample, one row a correctness case and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gates.stats.samples import BASELINE, CANDIDATE

if TYPE_CHECKING:
    import pandas

    from gates.gate.correctness.evidence import CorrectnessEvidence
    from gates.gate.performance.evidence import PerformanceEvidence

_BLOCK = ("pair", "side", "valid", "sm_mhz", "power_w", "temperature_c")
SAMPLES = ("mode", *_BLOCK, "sample", "time_us")
_CASE = ("shape", "seed", "inputs", "role", "status", "message")
_OUTPUT = ("dtype", "elements", "nonfinite", "max_abs_err", "mean_abs_err", "bad_pct", "max_err_over_bound")
CASES = ("side", *_CASE, "output", *_OUTPUT)


def samples(evidence: PerformanceEvidence | None) -> pandas.DataFrame:
    """Every timing sample in us, with its cache mode, pair, side and the card's state; columns are ``SAMPLES``.

    ``mode`` is cold, warm, single (one launch a sample) or control (the baseline against itself). Rows of a block
    that was disturbed have ``valid`` False and count for nothing. No evidence, or none of times: no rows.
    """
    import pandas

    series = [one for one in (*evidence.series, evidence.single, evidence.control) if one is not None] if evidence else []
    rows = [
        (one.mode, *(getattr(block, name) for name in _BLOCK), number, sample)
        for one in series
        for block in one.blocks
        for number, sample in enumerate(block.samples_us)
    ]
    return pandas.DataFrame(rows, columns=list(SAMPLES))


def cases(evidence: CorrectnessEvidence | None) -> pandas.DataFrame:
    """One row a case and output of candidate and baseline, with its errors against the reference; columns are ``CASES``.

    A case without outputs (a crash, a refused launch) has one row, without figures. No evidence: no rows.
    """
    import pandas

    sides = ((CANDIDATE, evidence.cases), (BASELINE, evidence.baseline_cases)) if evidence else ()
    rows = []
    for side, found in sides:
        for case in found:
            told = (side, *(getattr(case, name) for name in _CASE))
            rows += [(*told, output.name, *(getattr(output, name) for name in _OUTPUT)) for output in case.outputs]
            if not case.outputs:
                rows.append((*told, None, *(None,) * len(_OUTPUT)))
    return pandas.DataFrame(rows, columns=list(CASES))
