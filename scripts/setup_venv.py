"""Make the virtual environment that `make` uses, with pinned versions; do nothing when it is up to date.

An environment that was begun here and not finished is made anew: what a killed pip leaves may look installed.

Runs on a bare Python 3.10 to 3.13. The CUDA compiler and disassembler are installed from their
wheels only where the machine has none; what is installed, and why, is printed.

Example: python3 scripts/setup_venv.py --venv .venv
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNFINISHED = "unfinished"  # in the stamp of an environment that is being made


def main() -> int:
    """Create or update the environment named on the command line; the exit code is 0, or 2 on bad input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="folder of the environment (default: .venv)")
    venv = parser.parse_args().venv.absolute()
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return fail(f"Python {sys.version.split()[0]} is not supported", "name one of 3.10 to 3.13: make PYTHON=python3.12 …")
    for what, place in (("this checkout", ROOT), ("the environment", venv)):
        if os.pathsep in str(place):
            return fail(
                f"{what} {place} has a {os.pathsep!r} in its name, which separates folders in PATH",
                "rename the folder, or name another one (make VENV=FOLDER)",
            )
    extras = wanted_extras()
    stamp, want = venv / ".kernel-gates", fingerprint(extras)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == want and (venv / "bin" / "gates").exists():
        return 0
    if not has_compiler(os.environ.get("CXX") or "g++"):
        return fail("no C++ compiler", "install g++ 12 or newer, or name one in CXX")
    say(f"setting up {venv}: Python {sys.version.split()[0]}, versions from constraints.txt")
    say("torch, click, pandas and the other libraries: needed by every run")
    for extra, reason in extras.items():
        say(f"extra '{extra}': {reason}")
    begin(venv, stamp)
    names = ",".join(["dev", *extras])
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    steps = [
        [sys.executable, "-m", "venv", str(venv)],
        [
            *pip,
            "install",
            "--quiet" if not sys.stderr.isatty() else "--progress-bar=on",
            "--constraint",
            str(ROOT / "constraints.txt"),
            "--editable",
            f"{ROOT}[{names}]",
        ],
    ]
    for step in steps:
        if subprocess.run(step, stdout=sys.stderr).returncode != 0:
            return fail(f"`{' '.join(step)}` failed", "see the lines above; then run `make setup` again")
    stamp.write_text(want, encoding="utf-8")
    say("done")
    return 0


def has_compiler(command: str) -> bool:
    """Whether CXX names a program, or a launcher and a program, as in "ccache g++"."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return shutil.which(command) is not None or bool(words) and all(shutil.which(word) for word in words)


def begin(venv: Path, stamp: Path) -> None:
    """Mark a new environment as unfinished, and empty one that carries the mark; one made by someone else is never emptied."""
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == UNFINISHED:
        say(f"{venv} was not finished; making it anew")
        for path in venv.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != stamp:  # the mark is kept until the end
                path.unlink()
    elif not venv.exists():
        venv.mkdir(parents=True)
        stamp.write_text(UNFINISHED, encoding="utf-8")
    else:
        stamp.unlink(missing_ok=True)  # an update that is stopped is not taken for what was there before


def wanted_extras() -> dict[str, str]:
    """The optional dependencies this machine lacks, each with the reason why it is installed."""
    extras = {}
    cuda_home = os.environ.get("CUDA_HOME")
    search = os.pathsep.join(filter(None, [f"{cuda_home}/bin" if cuda_home else "", os.environ.get("PATH", "")]))
    if shutil.which("nvcc", path=search) is None:
        extras["cuda"] = "NVIDIA's compiler wheels (about 1 GB), since no nvcc is in CUDA_HOME or PATH; the ptxas gate needs it"
    if shutil.which("cuobjdump", path=search) is None:
        extras["disasm"] = "cuobjdump and nvdisasm wheels, since there are none in CUDA_HOME or PATH; the sass gate needs them"
    if Path("/dev/nvidiactl").exists():
        extras["gpu"] = "clock and counter readers, since this machine has an NVIDIA device"
    return extras


def fingerprint(extras: dict[str, str]) -> str:
    """Changes whenever what should be installed changes."""
    total = hashlib.sha256()
    for name in ("constraints.txt", "pyproject.toml"):
        total.update((ROOT / name).read_bytes())
    total.update(repr((sorted(extras), sys.version_info[:3], str(ROOT))).encode())
    return total.hexdigest()


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def fail(what: str, hint: str) -> int:
    """Print one clear error."""
    print(f"error: {what}\nhint: {hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("error: interrupted; run the command again", file=sys.stderr)
        sys.exit(130)
