"""The emulator's runtime as an object file: the same for every kernel, so it is compiled once for each compiler and its flags.

    python -m gates.emulator.runtime_object -o runtime.o --depfile runtime.d --cxx g++ -- -O2 …

It is kept in ``kernel-gates`` below ``XDG_CACHE_HOME`` (``~/.cache``), by a digest of all that decides it: the preprocessed
source, the flags, the compiler. Whatever is wrong with what is kept there, and wherever nothing can be kept, it is compiled.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gates.core import jsonio
from gates.core.errors import EXIT_USAGE, GatesError
from gates.emulator.flags import INCLUDE_DIR, first_errors

SOURCE = Path(__file__).resolve().parent / "runtime" / "runtime.cpp"
# What a library exports says so itself. The folder of the build does not come into it.
_OWN_FLAGS = ("-fvisibility=hidden", "-fno-working-directory", f"-I{INCLUDE_DIR}", "-DGATES_EMULATOR")
_DIGEST_BYTES = hashlib.sha256().digest_size


def write_runtime_object(output: Path, flags: Sequence[str], *, cxx: str = "g++", depfile: Path | None = None) -> str:
    """Write the runtime, compiled with ``flags``, to ``output``; hands back what was done, for a log.

    ``depfile`` gets the make rule of the headers that it was compiled from. Raises GatesError where ``cxx`` can't compile it.
    """
    with tempfile.TemporaryDirectory() as folder:
        preprocessed, made = Path(folder) / "runtime.ii", Path(folder) / "runtime.o"
        rule = ("-MD", "-MF", str(depfile), "-MT", str(output)) if depfile else ()
        _run([cxx, *flags, *_OWN_FLAGS, "-E", *rule, "-o", str(preprocessed), str(SOURCE)])
        digest = hashlib.sha256("\0".join((*_identity(cxx), *flags, *_OWN_FLAGS, "")).encode() + preprocessed.read_bytes()).hexdigest()
        kept = _cache_folder() / f"runtime-{digest}.o"
        data, found = _read(kept), "found in the cache"
        if data is None:
            # what was digested, and no file that may have changed since
            _run([cxx, *flags, *_OWN_FLAGS, "-fpreprocessed", "-c", "-o", str(made), str(preprocessed)])
            data, found = made.read_bytes(), "compiled"
            with contextlib.suppress(OSError):  # an unwritable or full cache costs time, nothing else
                _keep(kept, data)
        output.write_bytes(data)
    return f"{shlex.join([cxx, *flags, *_OWN_FLAGS, '-c', str(SOURCE)])}\nruntime {digest[:16]}: {found}\n"


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise GatesError(f"can't start {argv[0]}: {error.strerror}", hint="install g++ 12 or newer") from None
    if done.returncode != 0:
        raise GatesError(f"{argv[0]} can't compile the emulator's runtime (exit {done.returncode}):\n{first_errors(done.stderr)}")
    return done.stdout + done.stderr


def _identity(cxx: str) -> tuple[str, ...]:
    """What tells a compiler from another, also after an update of the same version: its words about itself, and the bytes of the programs that do the work."""
    found = [_run([cxx, "-v"])]
    for name in ("cc1plus", "as"):
        told = _run([cxx, f"-print-prog-name={name}"]).strip()
        program = Path(told if os.sep in told else shutil.which(told) or told)
        found += [str(program), jsonio.sha256(program) if program.is_file() else ""]
    return tuple(found)


def _cache_folder() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))  # to be passed over where it is relative, says its specification
    return (given if given.is_absolute() else Path(os.path.expanduser("~"), ".cache")) / "kernel-gates"


def _read(kept: Path) -> bytes | None:
    """The object, which is followed by its digest; None where there is none, it is not whole, or another entry's."""
    try:
        with jsonio.open_plain(kept) as file:
            data = file.read()
    except (OSError, GatesError):
        return None
    made, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return made if _digest(kept, made) == digest else None


def _digest(kept: Path, data: bytes) -> bytes:
    """Of an entry, by its name and content."""
    return hashlib.sha256(kept.name.encode() + data).digest()


def _keep(kept: Path, data: bytes) -> None:
    """Two builds may do this at once: each writes a file of its own, and the last name wins."""
    if not kept.is_absolute():
        return  # no home folder
    kept.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix="partial-", dir=kept.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data + _digest(kept, data))
        os.replace(temporary, kept)
    except BaseException:
        os.unlink(temporary)
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of ``python -m gates.emulator.runtime_object``."""
    parser = argparse.ArgumentParser(
        prog="python -m gates.emulator.runtime_object", description="the emulator's runtime, compiled or from the cache"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--depfile", type=Path)
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("flags", nargs="*", help="of the compiler, after --")
    options = parser.parse_args(argv)
    try:
        print(write_runtime_object(options.output, options.flags, cxx=options.cxx, depfile=options.depfile), end="")
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
