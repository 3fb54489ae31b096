"""Random PTX programs on the CPU device and on a CUDA device, compared bit for bit: python studies/compare_random_ptx.py --out FILE

Each instruction alone, then straight-line and branching programs of them (studies/random_ptx/), run on the same random registers. The
file has a digest of the device's results for each module, so that a machine without a device can compare as well, the instructions
that differ, and else the programs that do, made as short as they can be. Needs ptxas and g++.
Exit code: 0 if all are equal, 1 if not, 3 without a device.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from random_ptx import programs  # noqa: E402
from random_ptx.instructions import CLASSES  # noqa: E402
from random_ptx.sides import Card, assembled, on_cpu  # noqa: E402

from gates.build.toolchain import find_toolchain  # noqa: E402
from gates.core.errors import GatesError  # noqa: E402
from gates.emulator.cpu.build import runtime_library  # noqa: E402
from gates.launch import device as devices  # noqa: E402

PER_MODULE = 50
CRASHING = {(0, 1, 13)}  # (seed, module, program) at which ptxas 13.0.88 ends with a segmentation fault: another one is drawn
SHORTENED = 8  # programs that differ and are made shorter; others are counted


@dataclass(frozen=True)
class Part:
    """A module: its number, that of its programs, and whether they are of one instruction each."""

    alone: bool
    module: int
    count: int


def parts(count: int) -> list[Part]:
    """The modules of every instruction alone, and of ``count`` random programs."""
    made = []
    for alone, total in ((True, len(programs.TEMPLATES)), (False, count)):
        made += [Part(alone, first // PER_MODULE, min(PER_MODULE, total - first)) for first in range(0, total, PER_MODULE)]
    return made


def made(seed: int, part: Part) -> tuple[list[tuple[programs.Statement, ...]], np.ndarray]:
    """The programs of a module, and their records to start with: (programs, threads, bytes)."""
    drawn: list[tuple[programs.Statement, ...]] = []
    for index in range(part.count):
        again = " again" if not part.alone and (seed, part.module, index) in CRASHING else ""
        draw = programs.Draw(random.Random(f"{seed} {part.alone} {part.module} {index}{again}"))
        drawn.append(draw.alone(part.module * PER_MODULE + index) if part.alone else draw.program())
    first = (seed * 1000 + part.module) * 1000 + (500 if part.alone else 0)
    return drawn, np.stack([programs.inputs(first + index, programs.THREADS) for index in range(part.count)])


def text_of(drawn: list[tuple[programs.Statement, ...]]) -> tuple[str, list[str]]:
    """The module's text, and the names of its kernels."""
    names = [f"program{index}" for index in range(len(drawn))]
    return programs.module([programs.kernel(name, one) for name, one in zip(names, drawn, strict=True)]), names


def digest(records: np.ndarray) -> str:
    """Of results whose NaNs are alike."""
    return hashlib.sha256(programs.comparable(records).tobytes()).hexdigest()


def cpu_and_code(seed: int, part: Part, ptxas: str, arch: str) -> tuple[np.ndarray, bytes]:
    """What the CPU device gives for a module, and its machine code."""
    drawn, records = made(seed, part)
    text, names = text_of(drawn)
    return on_cpu(text, names, records), assembled(ptxas, arch, text)


def first_difference(one: np.ndarray, other: np.ndarray) -> str:
    """The first register that differs, for people: thread, register, and the value of each side."""
    thread, at = (int(found[0]) for found in np.nonzero(programs.comparable(one) != programs.comparable(other)))
    for name, begin in programs.offsets().items():
        _, size, count, _ = CLASSES[name]
        if begin <= at < begin + size * count:
            index = (at - begin) // size
            spot = slice(begin + index * size, begin + (index + 1) * size)
            values = [f"0x{int.from_bytes(side[thread, spot].tobytes(), 'little'):0{2 * size}x}" for side in (one, other)]
            return f"thread {thread}, %{name}{index}: {values[0]} on the CPU device, {values[1]} on the device"
    values = [int(side[thread, at]) for side in (one, other)]
    return f"thread {thread}, %p{at - programs.PREDICATES_AT}: {values[0]} on the CPU device, {values[1]} on the device"


def shortened(
    program: tuple[programs.Statement, ...], differs: Callable[[tuple[programs.Statement, ...]], bool]
) -> tuple[programs.Statement, ...]:
    """``program`` without the statements that it takes to differ no more: a branch or loop goes as a whole, or leaves its body."""
    for at in range(len(program) - 1, -1, -1):
        rest = program[:at] + program[at + 1 :]
        if differs(rest):
            program = rest
            continue
        if not isinstance(inner := program[at], str):
            bodies = (inner.then, inner.otherwise) if isinstance(inner, programs.If) else (inner.body,)
            flat = next((new for body in bodies if body and differs(new := program[:at] + body + program[at + 1 :])), None)
            if flat is not None:
                return shortened(flat, differs)
    return program


def explained(card: Card, ptxas: str, arch: str, program: tuple[programs.Statement, ...], records: np.ndarray) -> dict[str, Any]:
    """The shortest of ``program`` that still differs, and where."""

    def both(candidate: tuple[programs.Statement, ...]) -> tuple[np.ndarray, np.ndarray]:
        text, names = text_of([candidate])
        return on_cpu(text, names, records[None])[0], card.run(assembled(ptxas, arch, text), names, records[None])[0]

    def differs(candidate: tuple[programs.Statement, ...]) -> bool:
        one, other = both(candidate)
        return digest(one) != digest(other)

    return shown(short := shortened(program, differs), records, *both(short))


def shown(short: tuple[programs.Statement, ...], records: np.ndarray, one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """A program that differs, for people: where, and the registers that it was given there."""
    begin = int(np.nonzero((programs.comparable(one) != programs.comparable(other)).any(axis=1))[0][0])
    sources = {
        f"%{name}{index}": "0x" + records[begin, at + index * size : at + (index + 1) * size][::-1].tobytes().hex()
        for name, at in programs.offsets().items()
        for _, size, count, _ in (CLASSES[name],)
        for index in range(count)
    }
    texts = [str(statement) for statement in short]
    used = {name: value for name, value in sources.items() if any(name in text for text in texts)}
    return {"statements": texts, "difference": first_difference(one, other), "given": used}


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--programs", "count", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="file to write")
def main(count: int, seed: int, out: Path) -> None:
    """Compare, and write the file."""
    start, found, toolchain = time.monotonic(), devices.probe(), find_toolchain()
    if not found.devices:
        click.echo(f"error: {found.reason}", err=True)
        sys.exit(3)
    described = asdict(found.devices[0])
    del described["uuid"]
    arch, ptxas = f"sm_{described['compute_capability'].replace('.', '')}", str(toolchain.need("ptxas").path)
    runtime_library()
    chosen = parts(count)
    differing: list[tuple[Part, int]] = []
    details: list[dict[str, Any]] = []
    digests: dict[str, list[str]] = {"alone": [], "random": []}
    # Workers are forked before this process opens the device.
    with ProcessPoolExecutor(min(os.cpu_count() or 2, len(chosen)), multiprocessing.get_context("fork")) as pool:
        waiting = [pool.submit(cpu_and_code, seed, part, ptxas, arch) for part in chosen]
        card = Card()
        for part, future in zip(chosen, waiting, strict=True):
            given, cubin = future.result()
            drawn, records = made(seed, part)
            got = card.run(cubin, [f"program{index}" for index in range(part.count)], records)
            digests["alone" if part.alone else "random"].append(digest(got))
            for index in range(part.count):
                if digest(got[index]) != digest(given[index]):
                    differing.append((part, index))
                    if part.alone:
                        details.append(shown(drawn[index], records[index], given[index], got[index]))
    compared_s = round(time.monotonic() - start, 1)
    instructions = len(details)
    for part, index in differing[:SHORTENED] if not details else []:  # else those instructions are in them
        drawn, records = made(seed, part)
        details.append({"module": part.module, "program": index, **explained(card, ptxas, arch, drawn[index], records[index])})
    for detail in details:
        click.echo(f"{detail['difference']}\n  " + "\n  ".join(detail["statements"]) + f"\n  {detail['given']}")
    equal = count - sum(not part.alone for part, _ in differing)
    data = {
        "schema_version": 1,
        "ended": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": described,
        "nvcc_version": toolchain.nvcc.version if toolchain.nvcc else None,
        "seed": seed,
        "instructions": len(programs.TEMPLATES),
        "instructions_equal": len(programs.TEMPLATES) - instructions,
        "programs": count,
        "equal": equal,
        "compared_s": compared_s,
        "digests": digests,
        "differing": details,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    told = f"{data['instructions_equal']} of {data['instructions']} instructions, {equal} of {count} programs equal"
    click.echo(f"{told}, in {compared_s} s: {out}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    try:
        main()
    except GatesError as error:
        click.echo(f"error: {error.what}", err=True)
        sys.exit(error.exit_code)
