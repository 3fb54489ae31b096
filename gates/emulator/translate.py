"""From one .cu to C++ that g++ compiles with the emulator's headers.

    python -m gates.emulator.translate kernel.cu -o kernel.cpp --depfile kernel.d -I include -D TILE=32

Preprocess with g++ (the emulator's headers first), refuse features that the emulator lacks, rewrite
launches, ``__shared__`` and ``__global__``. Line markers stay, so messages name lines of the .cu file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gates.core.errors import EXIT_USAGE, GatesError
from gates.emulator import unsupported
from gates.emulator.flags import CXX_FLAGS, INCLUDE_DIR, first_errors
from gates.emulator.rewrite import rewrite
from gates.emulator.source import Source
from gates.emulator.tokens import tokenize, user_parts

# Defined for every source. __CUDA_ARCH__ selects the code for a device of compute capability 8.9.
BUILT_IN = {"GATES_EMULATOR": "1", "__CUDACC__": "1", "__CUDA_ARCH__": "890"}
_MISSING = re.compile(r"^(?P<where>[^\n:]+:\d+):\d+: fatal error: (?P<header>\S+): No such file", re.MULTILINE)
_RULES = sorted(Path(__file__).parent.glob("*.py"))


def translate(
    source: Path,
    output: Path,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: Sequence[Path | str] = (),
    depfile: Path | None = None,
    cxx: str = "g++",
    flags: Sequence[str] = (),
) -> None:
    """Write the C++ form of ``source`` to ``output``; raises GatesError naming file and line."""
    text = preprocess(source, output, defines=defines or {}, include_dirs=include_dirs, depfile=depfile, cxx=cxx, flags=flags)
    output.write_text(translate_text(text), encoding="utf-8")


def translate_text(text: str) -> str:
    """Rewrite preprocessed text; only the parts that come from the user's files are touched."""
    parts = user_parts(text, lambda file: Path(file).is_relative_to(INCLUDE_DIR))
    source = Source(text, tokenize(text, parts))
    for index, token in enumerate(source.tokens):
        found = unsupported.identifier(token.text) if token.kind == "identifier" else None
        if found is not None:
            feature, remedy = found
            raise source.error(index, f"the CPU emulator does not support {feature} ({token.text})", remedy)
    return rewrite(source)


def preprocess(
    source: Path,
    output: Path,
    *,
    defines: Mapping[str, object],
    include_dirs: Sequence[Path | str],
    depfile: Path | None,
    cxx: str,
    flags: Sequence[str] = (),
) -> str:
    """What ``g++ -E`` makes of ``source``."""
    if not source.is_file():
        raise GatesError(f"no such source: {source}")
    own = [flag for flag in CXX_FLAGS if flag != "-shared"]
    argv = [cxx, *own, "-E", "-x", "c++", f"-I{INCLUDE_DIR}", "-include", str(INCLUDE_DIR / "cuda_runtime.h")]  # as nvcc includes it
    argv += [f"-I{folder}" for folder in include_dirs]
    argv += [*(f"-D{name}={value}" for name, value in {**BUILT_IN, **defines}.items()), *flags]
    with tempfile.TemporaryDirectory() as folder:
        preprocessed = Path(folder) / "out.ii"
        if depfile is not None:
            argv += ["-MD", "-MF", str(depfile), "-MT", str(output)]
        argv += ["-o", str(preprocessed), str(source)]
        try:
            finished = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise GatesError(f"can't start {cxx}: {error.strerror}", hint="install g++ 12 or newer") from None
        if finished.returncode != 0:
            raise _preprocessor_error(source, finished.stderr)
        if depfile is not None:
            _add_rules(depfile)
        return preprocessed.read_text(encoding="utf-8", errors="surrogateescape")


def _add_rules(depfile: Path) -> None:
    rules = " ".join(str(path).replace(" ", r"\ ") for path in _RULES)
    depfile.write_text(depfile.read_text(encoding="utf-8").rstrip("\n") + f" \\\n {rules}\n", encoding="utf-8")


def _preprocessor_error(source: Path, stderr: str) -> GatesError:
    missing = _MISSING.search(stderr)
    found = unsupported.header(missing["header"]) if missing else None
    if missing and found:
        feature, remedy = found
        return GatesError(f"{missing['where']}: the CPU emulator does not support {feature} ({missing['header']})", hint=remedy)
    return GatesError(f"can't preprocess {source}:\n{first_errors(stderr)}")


def _definition(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value or "1"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of ``python -m gates.emulator.translate``."""
    parser = argparse.ArgumentParser(prog="python -m gates.emulator.translate", description="translate one .cu for the CPU emulator")
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--depfile", type=Path)
    parser.add_argument("-I", dest="include_dirs", action="append", default=[], metavar="DIR")
    parser.add_argument("-D", dest="defines", action="append", default=[], type=_definition, metavar="NAME=VALUE")
    parser.add_argument("--flag", dest="flags", action="append", default=[], metavar="FLAG", help="for the preprocessor")
    parser.add_argument("--cxx", default="g++")
    options = parser.parse_args(argv)
    try:
        translate(
            options.source,
            options.output,
            defines=dict(options.defines),
            include_dirs=options.include_dirs,
            depfile=options.depfile,
            cxx=options.cxx,
            flags=options.flags,
        )
    except GatesError as error:
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
