"""Install the gates for one job into a virtual environment of its own; sets the output `python`.

What is installed: this checkout, or with GATES_VERSION that release, with pinned versions, and the NVIDIA
compiler or disassembler wheels only where the machine has none. A test suite is not needed here, so the
environment is smaller than the one that `make setup` makes.

Example: python scripts/ci/install_gates.py --venv /tmp/gates-venv
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from ci_common import CiError, run_step, set_output

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


def main() -> int:
    """Make the environment; the exit code is 0, or 2 where something can't be installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--venv", type=Path, help="folder of the environment  [default: in RUNNER_TEMP]")
    parser.add_argument("--source", type=Path, default=ROOT, help="checkout to install  [default: this one]")
    arguments = parser.parse_args()
    venv = (arguments.venv or Path(os.environ.get("RUNNER_TEMP") or "/tmp") / "kernel-gates-venv").absolute()
    for step in steps(venv, arguments.source.resolve(), os.environ.get("GATES_VERSION", "").strip()):
        if subprocess.run(step, stdout=sys.stderr, check=False).returncode != 0:
            raise CiError(f"`{' '.join(step)}` failed", "see the lines above")
    set_output("python", str(venv / "bin" / "python"))
    return 0


def steps(venv: Path, source: Path, version: str) -> list[list[str]]:
    """The commands that make the environment."""
    from setup_venv import wanted_extras

    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        raise CiError(f"Python {sys.version.split()[0]} is not supported", "set up one of 3.10 to 3.13 before this step")
    if version and not re.fullmatch(r"[0-9][0-9A-Za-z.!+]*", version):
        raise CiError(f"version {version!r} is no version", 'e.g. version: "0.1.0"; left out, the action\'s own code is used')
    extras = ",".join(sorted(wanted_extras()))
    what = f"kernel-gates[{extras}]=={version}" if version else f"{source}[{extras}]"
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    return [[sys.executable, "-m", "venv", str(venv)], [*pip, "--constraint", str(ROOT / "constraints.txt"), what]]


if __name__ == "__main__":
    sys.exit(run_step(main))
