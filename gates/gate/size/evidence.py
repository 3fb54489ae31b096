"""The evidence of the size gate: the bytes of each cubin that a device loads.

A cubin is an ELF file. Beside code it holds line tables, PTX text and names of sources, which no device loads and which grow with the
names of folders. So the bytes of the sections are counted that the file marks as loaded (SHF_ALLOC) and holds (not SHT_NOBITS).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.build.objects import sections
from gates.core.errors import GatesError


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
    return sum(len(section.content) for section in sections(data) if section.loaded)
