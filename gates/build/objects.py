"""What compilers leave in ELF files (64 bits), cubins and host objects alike: sections, and the cubin that nvcc put into an object.

    python -m gates.build.objects OBJECT -arch=sm_89 -o CUBIN

takes the cubin out without a second compilation. It prints ``OBJECT.log``, the compiler's output for OBJECT, since ptxas's report holds
for the cubin as well.

Format of sections: System V ABI, "Sections" (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html).
The layout of a fat binary is NVIDIA's own: it was read off nvcc's output, and is checked as it is read.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from gates.core.errors import EXIT_USAGE, GatesError

_HEADER = struct.Struct("<16s2H I 3Q I 6H")
_SECTION = struct.Struct("<2I 4Q 2I 2Q")
_NOBITS, _ALLOC = 8, 2
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")  # the second with relocatable device code
_FAT_HEAD = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
_ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, bytes of this header, bytes of the content, architecture's number, flags
_MAGIC, _ELF = 0xBA55ED50, 2
_COMPRESSED = 0x2000 | 0x8000


@dataclass(frozen=True)
class Section:
    """``content`` is empty if the file holds none (SHT_NOBITS); ``loaded``: a device loads it (SHF_ALLOC)."""

    name: str
    size: int
    loaded: bool
    content: bytes


def sections(data: bytes) -> list[Section]:
    """The sections in the order of the file. Raises GatesError for another file, or one that is cut short."""
    try:
        fields = _HEADER.unpack_from(data)
        if fields[0][:6] != b"\x7fELF\x02\x01":
            raise GatesError("not a 64-bit ELF file")
        start, size, count, names = fields[6], *fields[11:14]
        rows = [_SECTION.unpack_from(data, start + size * number) for number in range(count)]
    except struct.error:
        raise GatesError("the ELF file is cut short") from None
    held = [row for row in rows if row[1] != _NOBITS]
    if any(row[4] + row[5] > len(data) for row in held) or names >= max(count, 1):
        raise GatesError("the ELF file is cut short")
    texts = data[rows[names][4] : rows[names][4] + rows[names][5]] if rows else b""
    return [
        Section(
            texts[row[0] :].partition(b"\0")[0].decode("utf-8", "replace"),
            row[5],
            bool(row[2] & _ALLOC),
            data[row[4] : row[4] + row[5]] if row[1] != _NOBITS else b"",
        )
        for row in rows
    ]


def cubin(data: bytes, arch: str) -> bytes:
    """The machine code for ``arch`` (such as sm_90a) in the object ``data``.

    Raises GatesError unless the object holds one fat binary with one cubin for ``arch``, uncompressed: host code could add others.
    """
    held = [section.content for section in sections(data) if section.name in _SECTIONS and section.content]
    try:
        (content,) = held
        found = [code for kind, number, code in _entries(content) if kind == _ELF and number == int(arch[3:].rstrip("af"))]
    except (ValueError, struct.error):
        raise GatesError("its section of device code holds more or less than nvcc's one fat binary: put nothing there") from None
    if len(found) != 1:
        raise GatesError(f"the object holds {len(found)} cubins for {arch}, expected 1")
    return found[0]


def _entries(content: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, architecture and content of each entry. Raises ValueError or struct.error for what is not one fat binary alone."""
    magic, _, place, size = _FAT_HEAD.unpack_from(content)
    end, found = place + size, []
    if magic != _MAGIC or end > len(content) or content[end:].strip(b"\0"):
        raise ValueError
    while place < end:
        kind, _, head, length, number, flags = _ENTRY.unpack_from(content, place)
        if head < _ENTRY.size or place + head + length > end or flags & _COMPRESSED:
            raise ValueError
        found.append((kind, number, content[place + head : place + head + length]))
        place += head + length
    return found


def main(argv: list[str]) -> int:
    """Command line of ``python -m gates.build.objects``."""
    source, arch, output = argv[0], argv[1].removeprefix("-arch="), argv[3]
    try:
        Path(output).write_bytes(cubin(Path(source).read_bytes(), arch))
        print(Path(f"{source}.log").read_text(encoding="utf-8", errors="replace"), end="")
    except GatesError as error:
        print(f"error: {source}: {error.what}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
