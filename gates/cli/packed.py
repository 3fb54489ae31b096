"""The commands ``gates pack`` and ``gates unpack``."""

from __future__ import annotations

from pathlib import Path

import click

from gates.cli.options import FILE, FOLDER, RESULTS, run_names
from gates.cli.output import print_text

_OUT = click.option("--out", type=FOLDER, help="Folder for what is written.  [default: next to it]")


@click.command("pack")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_names)
@_OUT
@click.option(
    "--replace",
    "replaced",
    is_flag=True,
    help="Then remove the directory. A run's COMPARE.md and verdict.json stay next to the packed file.",
)
@RESULTS
def pack_command(runs: tuple[str, ...], out: Path | None, replaced: bool, results: Path) -> None:
    """Write each RUN as one .zip file, which all commands read.

    The file is the same bytes each time. RUN is a run directory, latest:TASK, recorded:DEVICE/TASK, the folder of a sweep or a search, or
    recorded:DEVICE for all that was recorded on it.

    Example: gates pack latest:stage2
    """
    from gates.cli.findings import verifiable
    from gates.core.errors import GatesError
    from gates.evidence.packed_runs import origin, pack, replace

    if replaced and out is not None:
        raise GatesError("--replace and --out exclude each other", hint="--replace writes next to the directory")
    for name in runs:
        for folder in verifiable(name, results):
            if (packed := origin(folder)).is_file():
                print_text(f"packed already: {packed}")
            else:
                print_text(f"written: {replace(folder) if replaced else pack(folder, out)}")


@click.command("unpack")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@_OUT
def unpack_command(files: tuple[Path, ...], out: Path | None) -> None:
    """Give back the directory that each packed FILE holds, bit for bit.

    FILE is a packed run, sweep or search. A file that `gates pack` did not write is refused before anything is written.

    Example: gates unpack run.zip --out build
    """
    from gates.evidence.packed_runs import unpack

    for file in files:
        print_text(f"written: {unpack(file, out)}")
