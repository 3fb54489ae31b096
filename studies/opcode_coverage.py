"""Which opcodes of PTX files no comparison with a device covers: python studies/opcode_coverage.py FILE.ptx...

An opcode with its types and roundings is covered if a random program may hold it (studies/random_ptx/), or a conformance item's kernel
does, whose results are recorded (studies/conformance/, compiled here with nvcc). Exit code: 1 if one is not covered.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conformance.items import SOURCES  # noqa: E402
from conformance.library import FOLDER  # noqa: E402
from random_ptx.instructions import LANE, WARP  # noqa: E402

from gates.build.toolchain import find_toolchain  # noqa: E402

_STATEMENT = re.compile(r"(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:\.[\w:]+)*)(?=\s|$)")
# Where an access lies, how it is cached and whether its bits are a number changes nothing of a load, store, move or choice.
_SPACES = re.compile(r"\.(param|global|shared|local|const|shared::cta|volatile|relaxed|gpu|sys|nc|weak|acquire|release|L[12]::\w+)\b")
_BITS = re.compile(r"\.[ubf](8|16|32|64)\b")
_NOT_SHOWN = {"ret", "bra", "call", "exit", "trap", "param0", "param1"}


def opcodes(text: str) -> set[str]:
    """The opcodes of PTX text, without what makes no difference to the result."""
    found = set()
    for line in text.splitlines():
        for part in line.split("//")[0].split(";"):
            match = _STATEMENT.match(part.strip().lstrip("{").strip())
            if match and not part.strip().endswith(":"):
                opcode = match[1].removesuffix(".uni")
                opcode = opcode.replace("mov.s", "mov.b")
                if opcode.split(".")[0] in ("ld", "st", "mov", "selp"):
                    opcode = _BITS.sub(r".b\1", _SPACES.sub("", opcode))
                found.add(opcode)
    return found - _NOT_SHOWN


def of_random_programs() -> set[str]:
    """What random programs draw from."""
    return opcodes("\n".join(re.sub(r"\{!?[A-Za-z]i?\}", "%x", template) for part in (*LANE.values(), WARP) for template in part))


def of_conformance(nvcc: str) -> set[str]:
    """What nvcc makes of the sources of the conformance items."""

    def compiled(source: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.ptx")
            command = [nvcc, "-std=c++17", "-O3", "-w", "-arch=sm_90a", "-ptx", str(FOLDER / f"{source}.cu"), "-o", str(out)]
            subprocess.run(command, check=True, capture_output=True)
            return out.read_text(encoding="utf-8")

    with ThreadPoolExecutor() as pool:
        return opcodes("\n".join(pool.map(compiled, SOURCES)))


def uncovered(texts: Iterable[str], covered: set[str]) -> list[str]:
    """The opcodes of ``texts`` that are not ``covered``, in order."""
    return sorted(set().union(*map(opcodes, texts)) - covered)


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def main(files: tuple[Path, ...]) -> None:
    """Print them."""
    covered = of_random_programs() | of_conformance(str(find_toolchain().need("nvcc").path))
    left = uncovered((path.read_text(encoding="utf-8", errors="replace") for path in files), covered)
    for opcode in left:
        click.echo(opcode)
    click.echo(f"{len(left)} opcodes of {len(files)} files are not covered")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
