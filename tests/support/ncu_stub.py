"""A stand-in for ncu, and an entry for jobs that proves its launches without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gates.hardware import ncu_metrics

ENTRY = """
import json, sys
job = json.load(open(sys.argv[2]))
def write(kind, **data):
    with open(job["result"], "a") as file:
        file.write(json.dumps({"type": kind, "nonce": job["nonce"], **data}) + "\\n")
if job["mode"] == "write":
    write("case", shape="mission", inputs="default", seed=0, path="none", bytes=0)
else:
    assert job["profile"] and job["launches"] == 1
    from gates.worker import turn
    for which in ("device_turn", "turn"):
        if which in job:
            turn.wait(job[which])
            with open("told", "a") as file:
                file.write(f"{which} {sys.argv[2].rpartition('/')[2].partition('.')[0]}\\n")
    write("case", index=0, shape="mission", launches=1, error="")
write("done", cases=1)
"""

STUB = """#!{python}
import pathlib, subprocess, sys, time
arguments = sys.argv[1:]
def option(name):
    return arguments[arguments.index(name) + 1]
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)")
    sys.exit(0)
if "--import" in arguments:
    assert option("--print-units") == "base"
    sys.stdout.write(pathlib.Path(option("--import")).read_text())
    sys.exit(0)
program = arguments[arguments.index("-o") + 2:]
log = pathlib.Path(option("--log-file"))
report = pathlib.Path(option("-o") + ".ncu-rep")
metrics = option("--metrics").split(",")
def launch():
    subprocess.run(program, check=True)
{body}
"""


def task(folder: Path, name: str = "new") -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    return {"name": name, "library": "none", "entry": "e", "folder": str(folder), "problem": "p", "emulated": False}


def stub(folder: Path, body: str) -> str:
    """The path of an executable ncu that does ``body``; names there: log, report, metrics, launch()."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ncu"
    path.write_text(STUB.format(python=sys.executable, body=body))
    path.chmod(0o755)
    return str(path)


def csv(values: Mapping[str, str], *, kernel: str = "sdpa_kernel(int)", chip: str = "sm_90", rows: int = 1) -> str:
    """A raw page with ``values`` by logical name, everything else 1."""
    names = {name: source for name, source in ncu_metrics.sources(chip, (2025, 3)).items()}
    header = ["ID", "Process ID", "Kernel Name", *names.values()]
    units = ["", "", "", *(ncu_metrics.METRICS[name].unit for name in names)]
    one = ["0", "17", kernel, *(values.get(name, "5000" if name == "duration_ns" else "1") for name in names)]
    table = [header, units, *([one] * rows)]
    return "==PROF== Connected to process 17\n" + "\n".join(",".join(f'"{item}"' for item in row) for row in table) + "\n"


def profiling(text: str) -> str:
    """The body of a stub that launches the program and leaves ``text`` as its report."""
    return f"launch()\nreport.write_text({text!r})\nlog.write_text('==PROF== Profiling done')\n"
