"""The emulator's runtime as one object file, which a task's library holds beside its kernels.

    python -m gates.emulator.cpu.runtime_object -o runtime.o --cxx g++

It comes from the user's cache (``build``), where it is compiled once for each compiler and each state of its sources.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gates.core.errors import EXIT_USAGE, GatesError
from gates.emulator.cpu.build import runtime_object


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of ``python -m gates.emulator.cpu.runtime_object``."""
    parser = argparse.ArgumentParser(
        prog="python -m gates.emulator.cpu.runtime_object", description="the emulator's runtime, compiled or from the cache"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--cxx", default="g++")
    options = parser.parse_args(argv)
    try:
        kept = runtime_object(options.cxx, otherwise=options.output.resolve().parent / "emulator.runtime")
        shutil.copyfile(kept, options.output)
        print(f"runtime {kept.parent.name}")
    except GatesError as error:
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"error: can't write {error.filename or options.output}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
