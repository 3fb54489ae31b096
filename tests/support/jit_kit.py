"""Call functions whose kernels a language in Python compiles on the emulator, in one process of their own, as the gates do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from places import ROOT

from gates.emulator.cpu.build import runtime_library

_CALLS = """
import json, sys, torch
from gates.core.errors import NotHere
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedFunction

x, y = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
CASES
side = {"library": sys.argv[1], "runtime": sys.argv[2], "arch": ["sm_90"], "emulated": True, "kind": sys.argv[3]}
for name, (given, wanted) in cases.items():
    function, said = EmulatedFunction({**side, "entry": name}), ""
    function.emulator.look_for_races()
    try:
        got = function(*given)
    except KernelError as error:
        got, said = None, str(error)
    except NotHere as error:
        got, said = None, f"{error.reason}: {error.what}"
    off = None if got is None or wanted is None else float((got - wanted).abs().max())
    faults, where = sorted({one["kind"] for one in function.findings}), [one["where"] for one in function.findings][:1]
    print(json.dumps({"name": name, "off": off, "faults": faults, "where": where, "kernels": [one["kernel"] for one in function.launches],
                      "said": said}))
"""


class Call(NamedTuple):
    """What came of a call: how far the result is off, the findings, the first one's place, the launched kernels, an error's text."""

    off: float | None
    faults: list[str]
    where: list[str]
    kernels: list[str]
    said: str


def calls(kind: str, source: Path, cases: str, folder: Path) -> dict[str, Call]:
    """Call the functions of ``source`` that ``cases`` names: Python text that makes ``cases``, {name: (arguments, right result or None)},
    of the vectors ``x`` and ``y``.
    """
    command = [sys.executable, "-c", _CALLS.replace("CASES", cases), str(source), str(runtime_library()), kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WARP_CACHE_PATH": str(folder)}
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)
    assert child.returncode == 0, child.stderr
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('{"name"')]  # a language may print, too
    return {line.pop("name"): Call(**line) for line in lines}
