"""Judge every shipped stage on the emulator by its thorough set, and keep a row of each.

    python studies/cpu_device_stages.py --out results/recorded/cpu/stages.json

Each stage is a whole `gates run STAGE --profile cpu --thorough`, five minutes long or more. The file is written after each stage, and
rows of stages that are not run stay. The exit code is 1 if a gate of a stage failed or did not run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import cpu_kit  # noqa: E402

from gates.core import jsonio  # noqa: E402
from gates.evidence.judging import load_evidence  # noqa: E402
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record  # noqa: E402

MEASURED = "mission"  # its warp instructions are those of one call


def judged(stage: str, folder: Path) -> dict[str, Any]:
    """Run ``stage`` with its products below ``folder``; its row."""
    results, build = folder / "results", folder / "build"
    argv = ["run", str(ROOT / "tasks" / stage), "--profile", "cpu", "--thorough", "--results", str(results), "--build-dir", str(build)]
    done = subprocess.run([sys.executable, "-m", "gates", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    runs = list_runs(results / stage)
    if not runs:
        raise SystemExit(f"{stage}: no run was published (exit {done.returncode}):\n{done.stderr[-2000:]}")
    info, verdict, evidence = (
        read_record(RunInfo, runs[-1], "run.json"),
        read_record(Verdict, runs[-1], "verdict.json"),
        load_evidence(runs[-1]),
    )
    cases = evidence["correctness"].cases
    return {
        "digest": info.task.digest,
        "started": info.started,
        "cases": len(cases),
        "launches": sum(case.launch_count for case in cases) + sum(run.launches for run in evidence["sanitizer"].runs),
        "warp_instructions": cpu_kit.TaskOnCpu(ROOT / "tasks" / stage, folder)
        .run(cpu_kit.device(races=0, time_limit_ms=600_000), MEASURED)
        .warp_instructions,
        "seconds": {gate: info.phase_s[gate] for gate in ("build", "correctness", "sanitizer")},
        "gates": {result.gate: result.status.value for result in verdict.gates},
        "decision": verdict.decision,
    }


def main() -> int:
    shipped = sorted(path.parent.name for path in (ROOT / "tasks").glob("*/task.yaml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--only", nargs="+", metavar="STAGE", choices=shipped, default=shipped, help="these stages alone")
    options = parser.parse_args()
    rows = jsonio.read(options.out)["stages"] if options.out.is_file() else {}
    for stage in options.only:
        with tempfile.TemporaryDirectory() as temporary:
            rows[stage] = row = judged(stage, Path(temporary))
        jsonio.write(options.out, {"schema_version": 1, "stages": {name: rows[name] for name in shipped if name in rows}})
        print(f"{stage}: {row['cases']} cases, {row['launches']} launches, {row['seconds']}, {row['gates']}", file=sys.stderr, flush=True)
    wanted = {"pass", "not_applicable"}
    asked = ("ptxas", "sass", "correctness", "sanitizer")
    return int(any(rows[stage]["gates"][gate] not in wanted for stage in options.only for gate in asked))


if __name__ == "__main__":
    sys.exit(main())
