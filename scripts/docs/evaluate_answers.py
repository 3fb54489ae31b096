"""Write docs/guide/answers.json: what `gates evaluate` answers on the CPU for a right candidate and for three that fail, and on a device
for a slow one, of the recorded search.

Example: python scripts/docs/evaluate_answers.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gates
from gates.core.records import to_json
from gates.evaluation.evolution.record import read_evolution
from gates.evaluation.record import read_evaluation
from gates.evidence.packed_runs import opened

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "answers.json"
TASK = ROOT / "tests" / "tasks" / "saxpy_fast"
SOURCE = (TASK.parent / "saxpy.cu").read_text(encoding="utf-8")
HEAD = "int64_t n, float a) {\n"
SHARED = """int64_t n, float factor) {
  __shared__ float a;
  if (threadIdx.x % 32 == 0) a = factor;
  __syncwarp();  // orders one warp alone
"""
CANDIDATES = {  # name -> the text of saxpy.cu
    "pass": SOURCE,
    "compile_error": SOURCE.replace("out[i] = ", "out[i] = nothing + ", 1),
    "wrong_number": SOURCE.replace("out[i] = ", "out[i] = 0.5f * "),
    "race": SOURCE.replace(HEAD, SHARED, 1),
}


def answer(name: str, folder: Path) -> gates.Evaluation:
    """The evaluation of a candidate, kept below ``folder``."""
    files = {"saxpy.cu": CANDIDATES[name]}
    return gates.evaluate(TASK, files=files, name=name, profile="cpu", results=folder, build_dir=folder / "build")


def slow() -> dict[str, Any]:
    """The answer about the slowest valid candidate of the recorded search."""
    folder = opened(next((ROOT / "results" / "recorded" / "h200-evolve" / "evolve").rglob("*.zip")))
    found = read_evolution(folder)
    slowest = min((one for one in found.members if one.score is not None), key=lambda one: one.score or 0.0)
    return to_json(read_evaluation(folder / "evaluations" / found.task / slowest.id))


def main() -> int:
    """Evaluate and write all of them."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: to_json(answer(name, Path(folder))) for name in CANDIDATES} | {"slow": slow()}
    PAGE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
