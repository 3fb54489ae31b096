"""OpenEvolve: `openevolve-run kernel.cu openevolve_evaluator.py`, with GATES_TASK and GATES_SOURCE set; the cascade is OpenEvolve's."""

import os
from functools import partial
from pathlib import Path

from openevolve.evaluation_result import EvaluationResult

import gates


def judged(program_path, stage):
    files = {os.environ["GATES_SOURCE"]: Path(program_path).read_text()}
    found = gates.evaluate(os.environ["GATES_TASK"], files=files, stage=stage)
    passed = 0.0 if found.status == "fail" else 1.0  # of a stage before the last: whether to continue
    score = (found.score or 0.0) if stage == "speed" else passed
    return EvaluationResult({"combined_score": score, "valid": float(found.valid), **found.metrics}, {"feedback": found.feedback})


evaluate = partial(judged, stage="speed")
evaluate_stage1 = partial(judged, stage="static")
evaluate_stage2 = evaluate
