"""The evidence of the size gate: the bytes of each cubin that a device loads.

A cubin is an ELF file. Beside code it holds line tables, PTX text and names of sources, which no device loads and which grow with the
names of folders. So the bytes of the sections are counted that the file marks as loaded (SHF_ALLOC) and holds (not SHT_NOBITS).
Format: System V ABI, "Sections" (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.core.errors import GatesError

_HEADER = struct.Struct("<16s2H I 3Q I 6H")
_SECTION = struct.Struct("<2I 4Q 2I 2Q")
_NOBITS, _ALLOC = 8, 2


@dataclass(frozen=True)
class Binary:
    """One cubin: its name in the build folder, and its bytes that a device loads."""

    name: str
    arch: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class SizeEvidence:
    """The compiled code of a task, for every architecture that was asked for."""

    archs: tuple[str, ...]
    binaries: tuple[Binary, ...]
    problems: tuple[str, ...] = ()
    schema_version: int = 1
    build: str = ""  # the identity of the build that was judged

    def of(self, arch: str) -> int | None:
        """The bytes of an architecture, all its cubins together; None without any."""
        found = [binary.bytes for binary in self.binaries if binary.arch == arch]
        return sum(found) if found else None


def gather(archs: Iterable[str], cubins: Mapping[str, Iterable[tuple[str, Path, str]]]) -> SizeEvidence:
    """Measure ``cubins``: architecture -> (name, file, sha256) of each."""
    binaries, problems = [], []
    for arch, files in cubins.items():
        for name, path, sha256 in files:
            try:
                binaries.append(Binary(name, arch, loaded_bytes(path.read_bytes()), sha256))
            except (OSError, GatesError) as error:
                problems.append(f"{name}: {getattr(error, 'what', None) or getattr(error, 'strerror', None) or error}")
    return SizeEvidence(tuple(archs), tuple(binaries), tuple(problems))


def loaded_bytes(data: bytes) -> int:
    """The bytes of an ELF file's sections that are loaded. Raises GatesError for another file, or one that is cut short."""
    try:
        fields = _HEADER.unpack_from(data)
        if fields[0][:6] != b"\x7fELF\x02\x01":
            raise GatesError("not a 64-bit ELF file")
        start, size, count = fields[6], fields[11], fields[12]
        sections = [_SECTION.unpack_from(data, start + size * number) for number in range(count)]
    except struct.error:
        raise GatesError("the ELF file is cut short") from None
    loaded = [section for section in sections if section[2] & _ALLOC and section[1] != _NOBITS]
    if any(section[4] + section[5] > len(data) for section in loaded):
        raise GatesError("the ELF file is cut short")
    return sum(section[5] for section in loaded)
