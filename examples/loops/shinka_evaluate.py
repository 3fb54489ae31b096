"""ShinkaEvolve: `eval_program_path="shinka_evaluate.py"`, with GATES_TASK and GATES_SOURCE set; writes correct.json and metrics.json."""

import argparse
import json
import os
from pathlib import Path

import gates


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", type=Path, required=True)
    parser.add_argument("--results_dir", type=Path, required=True)
    asked = parser.parse_args(arguments)
    asked.results_dir.mkdir(parents=True, exist_ok=True)
    files = {os.environ["GATES_SOURCE"]: asked.program_path.read_text()}
    found = gates.evaluate(os.environ["GATES_TASK"], files=files, stage="speed")
    told = {"combined_score": found.score or 0.0, "public": dict(found.metrics), "private": {}, "text_feedback": found.feedback}
    (asked.results_dir / "metrics.json").write_text(json.dumps(told))
    (asked.results_dir / "correct.json").write_text(json.dumps({"correct": found.valid, "error": None if found.valid else found.code}))


if __name__ == "__main__":
    main()
