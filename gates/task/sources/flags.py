"""Refuse ``nvcc_flags`` of a task that name another program, an options file or another output.

The engine chooses compilers, inputs and outputs. A flag that changes them could run a program of the task, or make a product that no
gate sees. All other flags are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

_PROGRAM, _OPTIONS, _PLACE = "runs another program", "takes options from a file", "writes where the engine does not look"
# Names of nvcc's options, long and short, and of those that the host compiler gets through -Xcompiler or by itself.
_NAMES = {
    **dict.fromkeys(("run", "run-args", "compiler-bindir", "ccbin", "archiver-binary", "arbin", "fplugin", "wrapper", "B"), _PROGRAM),
    **dict.fromkeys(("options-file", "optf", "specs"), _OPTIONS),
    **dict.fromkeys(
        (
            "output-file",
            "o",
            "output-directory",
            "odir",
            "keep-dir",
            "time",
            "dependency-output",
            "MF",
            "dumpdir",
            "fdevice-time-trace",
        ),
        _PLACE,
    ),
}
_PASSED_ON = (
    "Xcompiler",
    "compiler-options",
    "Xlinker",
    "linker-options",
    "Xptxas",
    "ptxas-options",
    "Xnvlink",
    "nvlink-options",
    "Xarchive",
    "archive-options",
)


def objection(flags: Sequence[str]) -> tuple[str, str] | None:
    """Return the first of ``flags`` that is not allowed, and its effect; None if all are allowed.

    ``["-O3", "-Xcompiler=-fplugin=it.so"]`` gives ``("-Xcompiler=-fplugin=it.so", "runs another program")``.
    """
    for flag in flags:
        for part in _parts(flag):
            if part.startswith("@"):
                return flag, _OPTIONS
            name = part.lstrip("-").partition("=")[0]
            if part.startswith("-") and (what := _NAMES.get(name) or _glued(part)):
                return flag, what
    return None


def _parts(flag: str) -> list[str]:
    """The flag itself, and the flags inside it that it passes on: ``-Xcompiler=-O2,-fplugin=it.so``; nvcc reads quotes and blanks, too."""
    name, _, rest = flag.lstrip("-").partition("=")
    passed = rest if name in _PASSED_ON else ""
    return [
        part for text in (flag if not passed else "", passed) for part in text.replace('"', "").replace("'", "").replace(",", " ").split()
    ]


def _glued(part: str) -> str | None:
    """An option of the host compiler whose value follows without a sign between."""
    if part.startswith("-B") and part[2:3] in ("/", ".", "~"):
        return _PROGRAM
    return _PROGRAM if part.startswith("-fplugin-") else None
