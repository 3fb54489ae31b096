"""What ``nvcc_flags`` of a task may not ask for: another program than the toolkit's, options from a file, a product elsewhere.

The engine chooses compilers, inputs and outputs; a flag that could change them would run a program of the task's, or make a product that the
gates never see. The rest of a flag's meaning is the task's affair.
"""

from __future__ import annotations

from collections.abc import Sequence

_PROGRAM, _OPTIONS, _PLACE = "runs another program", "takes options from a file", "writes where the engine does not look"
# Names of nvcc's options, long and short, and of those that the host compiler gets through -Xcompiler or by itself.
_NAMES = {
    **dict.fromkeys(("run", "run-args", "compiler-bindir", "ccbin", "archiver-binary", "arbin", "fplugin", "wrapper", "B"), _PROGRAM),
    **dict.fromkeys(("options-file", "optf", "specs"), _OPTIONS),
    **dict.fromkeys((
        "output-file", "o", "output-directory", "odir", "keep-dir", "time", "dependency-output", "MF", "dumpdir", "fdevice-time-trace",
    ), _PLACE),
}
_PASSED_ON = ("Xcompiler", "compiler-options", "Xlinker", "linker-options", "Xptxas", "ptxas-options", "Xnvlink", "nvlink-options", "Xarchive", "archive-options")


def objection(flags: Sequence[str]) -> tuple[str, str] | None:
    """The first of ``flags`` that may not be given, and what it does; None where all may.

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
    return [part for text in (flag if not passed else "", passed) for part in text.replace('"', "").replace("'", "").replace(",", " ").split()]


def _glued(part: str) -> str | None:
    """An option of the host compiler whose value follows without a sign between."""
    if part.startswith("-B") and part[2:3] in ("/", ".", "~"):
        return _PROGRAM
    return _PROGRAM if part.startswith("-fplugin-") else None
