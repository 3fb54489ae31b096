"""The sections of an ELF file, such as a cubin or a host object. Format: System V ABI, "Sections" (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gates.core.errors import GatesError

_HEADER = struct.Struct("<16s2H I 3Q I 6H")
_SECTION = struct.Struct("<2I 4Q 2I 2Q")
_NOBITS, _ALLOC = 8, 2


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
