"""The format of packed runs: a zip archive that is the same bytes each time, read without trust. No I/O.

The manifest comes first, all other files by name, with fixed times and modes, compressed by deflate. Only this form is read. A hostile
archive may lie about sizes, hide bytes between its files, or name a place outside its folder. So each record must be the one that
``write`` makes, no byte may be left over, and all is checked against limits and against the manifest.

Source of the records: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gates.core import jsonio
from gates.core.errors import GatesError

ACCEPTANCE = "acceptance.json"  # a reviewer's word, written after the run and not in its manifest
RUN, SWEEP, EVOLUTION = "manifest.json", "sweep-manifest.json", "evolution-manifest.json"  # the first file
_FIRST = (RUN, SWEEP, EVOLUTION)
MOST_FILES = 10_000
MOST_BYTES = 256 * 2**20  # of all files together; they are held in memory
MOST_RATIO = 200  # of all files to the archive; evidence has at most 20

_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_VERSION, _MADE_BY, _DEFLATE, _DATE = 20, 3 << 8 | 20, 8, 1 << 5 | 1  # by Unix, method 8, 1980-01-01 00:00
_MODE = (stat.S_IFREG | 0o644) << 16
_ZIP64 = 0xFFFFFFFF
Files = Mapping[str, bytes]


class BadArchive(Exception):
    """Why bytes are not a packed run."""


@dataclass(frozen=True)
class _Entry:
    """One file of an archive. Its records follow from these values alone."""

    name: str
    crc: int
    packed: int  # bytes
    size: int  # bytes, unpacked
    offset: int  # of its local record in the archive

    def local(self) -> bytes:
        fixed = (_VERSION, 0, _DEFLATE, 0, _DATE)
        return _LOCAL.pack(b"PK\3\4", *fixed, self.crc, self.packed, self.size, len(self.name), 0) + self.name.encode("ascii")

    def central(self) -> bytes:
        fixed = (_MADE_BY, _VERSION, 0, _DEFLATE, 0, _DATE)
        return _CENTRAL.pack(
            b"PK\1\2", *fixed, self.crc, self.packed, self.size, len(self.name), 0, 0, 0, 0, _MODE, self.offset
        ) + self.name.encode("ascii")


def first_name(head: bytes) -> str:
    """Return the manifest that an archive has as its first file; empty if it has none. ``head``: its first 64 bytes."""
    named = head[_LOCAL.size :] if head.startswith(b"PK\3\4") else b""
    return next((name for name in _FIRST if named.startswith(name.encode())), "")


def problem_of(files: Files) -> str:
    """Return why ``files`` are not those of a run, a sweep or a search with its manifest; empty if they are."""
    if (size := sum(map(len, files.values()))) > MOST_BYTES or len(files) > MOST_FILES:
        return f"it has {len(files)} files and {size} bytes; at most {MOST_FILES} files and {MOST_BYTES // 2**20} MiB are packed"
    return _names_problem(_ordered(files)) or _manifest_problem(files)


def deflated(data: bytes) -> bytes:
    """Return ``data`` as raw deflate by zlib. Its strategy for filtered data packs JSON of numbers 3 % smaller."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, strategy=zlib.Z_FILTERED)
    return deflate.compress(data) + deflate.flush()


def write(files: Files, deflate: Callable[[bytes], bytes] = deflated) -> bytes:
    """Return the archive of ``files``, of which ``problem_of`` says nothing."""
    body, index = bytearray(), bytearray()
    for name in _ordered(files):
        data = deflate(files[name])
        entry = _Entry(name, zlib.crc32(files[name]), len(data), len(files[name]), len(body))
        body += entry.local() + data
        index += entry.central()
    return bytes(body + index + _end(len(files), len(index), len(body)))


def read(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive. Raises BadArchive for one that ``write`` did not write."""
    files = {entry.name: _inflated(data, entry) for entry in _index(data)}
    if problem := problem_of(files):
        raise BadArchive(problem)
    return files


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name not in _FIRST, name))


def _end(count: int, size: int, offset: int) -> bytes:
    return _END.pack(b"PK\5\6", 0, 0, count, count, size, offset, 0)


def _index(data: bytes) -> list[_Entry]:
    """Return the entries of an archive of which every byte belongs to a file or the index."""
    if len(data) > MOST_BYTES:
        raise BadArchive(f"it is larger than {MOST_BYTES // 2**20} MiB")
    if not data.startswith(b"PK\3\4"):
        raise BadArchive("it does not begin with a file")
    if data[-_END.size :][:4] != b"PK\5\6":
        raise BadArchive("it does not end with its index: it was cut short, or something was appended")
    _, _, _, _, count, size, place, _ = _END.unpack(data[-_END.size :])
    if data[-_END.size :] != _end(count, size, place) or place + size + _END.size != len(data):
        raise BadArchive("its index is not all that follows its files: it has a second archive, a comment, or sizes in zip64")
    if count > MOST_FILES:
        raise BadArchive(f"it has more than {MOST_FILES} files")
    entries, at, offset = list[_Entry](), place, 0
    for _ in range(count):
        entry = _indexed(data, at, offset)
        local = entry.local()
        if data[offset : offset + len(local)] != local:
            raise BadArchive(f"the header of {entry.name} contradicts the index")
        entries.append(entry)
        at, offset = at + len(entry.central()), offset + len(local) + entry.packed
    if offset != place or at != place + size:
        raise BadArchive("it has bytes that belong to no file")
    names = [entry.name for entry in entries]
    if problem := _names_problem(names):
        raise BadArchive(problem)
    if names != _ordered(names):
        raise BadArchive("its files are not in order: the manifest first, then by name")
    total = sum(entry.size for entry in entries)
    if total > MOST_BYTES or total > MOST_RATIO * len(data) + 2**20:
        raise BadArchive(
            f"it declares {total} bytes of files; at most {MOST_BYTES // 2**20} MiB and {MOST_RATIO} times its own size are read"
        )
    return entries


def _indexed(data: bytes, at: int, offset: int) -> _Entry:
    """Return the entry whose central record is at ``at`` and whose file is at ``offset``."""
    if at + _CENTRAL.size > len(data) or data[at : at + 4] != b"PK\1\2":
        raise BadArchive("its index is damaged")
    _, _, _, flags, method, _, _, crc, packed, size, length, _, _, _, _, mode, place = _CENTRAL.unpack_from(data, at)
    raw = data[at + _CENTRAL.size : at + _CENTRAL.size + length]
    name = raw.decode("utf-8", "backslashreplace")
    if problem := _name_problem(name):
        raise BadArchive(f"it names {name[:80]!r}: {problem}")
    if flags & 1:
        raise BadArchive(f"{name} is encrypted")
    if method != _DEFLATE:
        raise BadArchive(f"{name} has compression method {method}; only 8 (deflate) is read")
    if stat.S_IFMT(mode >> 16) not in (0, stat.S_IFREG):
        raise BadArchive(f"{name} is a symbolic link or another special file")
    if _ZIP64 in (packed, size, place):
        raise BadArchive(f"{name} has sizes in zip64")
    if place != offset:
        raise BadArchive(f"{name} does not follow the file before it")
    entry = _Entry(name, crc, packed, size, offset)
    if data[at : at + len(entry.central())] != entry.central():
        raise BadArchive(f"the record of {name} is not as gates writes it")
    return entry


def _name_problem(name: str) -> str:
    if not name.isascii() or not name.isprintable() or "\\" in name or len(name) > 250:
        return "a name is printable ASCII without backslashes, at most 250 characters"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "it is outside the folder, or a folder"
    return ""


def _names_problem(names: Sequence[str]) -> str:
    """Return which name can't be unpacked on every file system, or clashes with another; empty if none does."""
    seen = dict[str, str]()
    for name in names:
        if problem := _name_problem(name):
            return f"it names {name[:80]!r}: {problem}"
        if (other := seen.get(name.casefold())) is not None:
            return f"it has {name} twice" if other == name else f"{other} and {name} differ in case alone"
        seen[name.casefold()] = name
    folders = {str(folder) for name in seen for folder in PurePosixPath(name).parents}
    if both := sorted(folders & set(seen)):
        return f"{seen[both[0]]} is a file and a folder"
    return "" if names and names[0] in _FIRST else f"it has no {RUN}"


def _inflated(data: bytes, entry: _Entry) -> bytes:
    start, stream = entry.offset + len(entry.local()), zlib.decompressobj(-15)
    try:
        found = stream.decompress(data[start : start + entry.packed], entry.size + 1)  # one byte more than the size that was counted
    except zlib.error:
        raise BadArchive(f"{entry.name} is damaged") from None
    if len(found) != entry.size or not stream.eof or stream.unused_data:
        raise BadArchive(f"{entry.name} has another size than it declares")
    if zlib.crc32(found) != entry.crc:
        raise BadArchive(f"{entry.name} has another CRC than it declares")
    return found


def _manifest_problem(files: Files) -> str:
    """Return what the manifest and the other files disagree about; empty if nothing."""
    manifest = _ordered(files)[0]
    try:
        listed = jsonio.loads(files[manifest].decode("utf-8"), manifest)["sha256"]
        digests = {name: str(digest) for name, digest in listed.items()}
    except GatesError as error:
        return error.what
    except (UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return f"{manifest} lists no digests"
    present = set(files) - {manifest} - ({ACCEPTANCE} if manifest == RUN else set())
    if more := sorted(present - set(digests)):
        return f"{more[0]} is not in {manifest}"
    if missing := sorted(set(digests) - present):
        return f"{missing[0]} is missing"
    wrong = sorted(name for name in present if hashlib.sha256(files[name]).hexdigest() != digests[name])
    return f"{wrong[0]} was changed after the run" if wrong else ""
