"""The cubin that is taken out of an object is the one that nvcc makes alone; what host code adds is not taken for it."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from static_kit import make_task, needs_nvcc

from gates.build.build import build
from gates.build.dumps import read_logs
from gates.build.objects import cubin
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError

KERNEL = "namespace { __global__ void k(float* x) { x[threadIdx.x] *= 3; } }\nvoid launch(float* x) { k<<<1, 32>>>(x); }\n"
FORGED = '__attribute__((section(".nv_fatbin"), used)) const unsigned long long forged[4] = {0x00100001ba55ed50, 16};\n'
ENTRY = struct.pack("<2HIQ12xI8xQ16x", 2, 257, 64, 8, 89, 0) + b"sm_89 is"
PTX = struct.pack("<2HIQ12xI8xQ16x", 1, 257, 64, 8, 89, 0) + b"the ptx "


@needs_nvcc
def test_a_cubin_out_of_an_object_is_the_one_that_nvcc_makes_alone(tmp_path: Path) -> None:
    task, toolchain = make_task(tmp_path, KERNEL), find_toolchain()
    result = build(task, toolchain, tmp_path / "build", want={"cubin"})
    (target,) = result.cubins("sm_89")
    alone = tmp_path / "alone.cubin"
    options = ("-cubin", "-arch=sm_89", "-Xptxas", "-v", "-lineinfo", "-std=c++17", "-DUSE_X=1")
    subprocess.run([toolchain.need("nvcc").path, *options, str(task.sources[0]), "-o", str(alone)], check=True)
    assert Path(target.path or "").read_bytes() == alone.read_bytes()
    assert (read_logs(result)["sm_89"] or "").count("Compiling entry function") == 1
    (tmp_path / "k.cu").write_text(KERNEL + FORGED)
    failure = build(task, toolchain, tmp_path / "build", want={"cubin"}).failure("cubin")
    assert failure and failure.sentence == (
        "taking the cubin out of its object failed (exit 2): error: emulator/k.o: its section of device code holds more or less than "
        "nvcc's one fat binary: put nothing there"
    )


def elf(*contents: bytes, name: bytes = b".nv_fatbin") -> bytes:
    """An object with a section of ``name`` for each of ``contents``."""
    names = b"\0.names\0" + name + b"\0"
    held = [names, *contents]
    places = [64 + 64 * (len(held) + 1) + sum(map(len, held[:number])) for number in range(len(held))]
    head = struct.pack("<16s2H I 3Q I 6H", b"\x7fELF\2\1\1", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, len(held) + 1, 1)
    rows = [struct.pack("<2I4Q2I2Q", 1 if i == 0 else 8, 1, 2, 0, places[i], len(held[i]), 0, 0, 1, 0) for i in range(len(held))]
    return head + bytes(64) + b"".join(rows) + b"".join(held)


def fat(*entries: bytes) -> bytes:
    return struct.pack("<I2HQ", 0xBA55ED50, 1, 16, sum(map(len, entries))) + b"".join(entries)


@pytest.mark.parametrize("name", [b".nv_fatbin", b"__nv_relfatbin"])
def test_the_one_cubin_is_found_beside_ptx(name: bytes) -> None:
    assert cubin(elf(fat(PTX, ENTRY) + bytes(8), name=name), "sm_89") == b"sm_89 is"


WHOLE, COMPRESSED = fat(ENTRY), struct.pack("<2HIQ12xI8xQ16x", 2, 257, 64, 8, 89, 0x2000) + b"12345678"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (elf(), "nvcc's one fat binary"),
        (elf(WHOLE, WHOLE), "nvcc's one fat binary"),
        (elf(WHOLE + WHOLE), "nvcc's one fat binary"),
        (elf(b"\1" + WHOLE), "nvcc's one fat binary"),
        (elf(WHOLE[:-1]), "nvcc's one fat binary"),
        (elf(WHOLE[:9]), "nvcc's one fat binary"),
        (elf(fat(COMPRESSED)), "nvcc's one fat binary"),
        (elf(fat(ENTRY[:4] + bytes(4) + ENTRY[8:])), "nvcc's one fat binary"),
        (elf(fat(PTX)), "0 cubins for sm_89, expected 1"),
        (elf(fat(ENTRY, ENTRY)), "2 cubins for sm_89, expected 1"),
        (elf(WHOLE)[:99], "cut short"),
        (b"kernel\n", "cut short"),
        (bytes(99), "not a 64-bit ELF"),
    ],
)
def test_anything_else_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(GatesError, match=says):
        cubin(data, "sm_89")
