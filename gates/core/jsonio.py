"""Strict JSON files: no NaN, no duplicate keys, bounded size, written whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import os
import re
import stat
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from gates.core.errors import GatesError

MAX_BYTES = 64 * 2**20  # far above any evidence file; a larger one is not ours


def dumps(data: Any) -> str:
    """Readable strict JSON text; raises ValueError for NaN and infinities."""
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def dumps_lines(data: dict[str, Any]) -> str:
    """Strict JSON text with a line per member of ``data``, and a line per item of a member that is a list; raises ValueError as ``dumps``
    does.
    """

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    def member(value: Any) -> str:
        return "[\n  " + ",\n  ".join(map(text, value)) + "\n ]" if isinstance(value, list) and value else text(value)

    return "{\n " + ",\n ".join(f"{text(str(key))}: {member(value)}" for key, value in data.items()) + "\n}\n"


def dumps_wide(data: Any, width: int = 600) -> str:
    """Strict JSON text in which an object or array of at most ``width`` characters has one line; raises ValueError as ``dumps`` does."""

    def text(value: Any, indent: str) -> str:
        line = json.dumps(value, allow_nan=False, ensure_ascii=False)
        if len(line) <= width or not isinstance(value, (dict, list)):
            return line
        inner = indent + " "
        if isinstance(value, list):
            return "[\n" + ",\n".join(inner + text(one, inner) for one in value) + f"\n{indent}]"
        members = (f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {text(one, inner)}" for key, one in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"

    return text(data, "") + "\n"


def write(path: Path, data: Any) -> None:
    """Write ``data`` to ``path`` by renaming a whole temporary file over it."""
    write_text(path, dumps(data))


def make_folder(path: Path) -> None:
    """Make a folder for a report; raises GatesError where that can't be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GatesError(f"can't write {path}: {error.strerror}", hint="name a writable folder with --out") from None


def probe_folder(path: Path) -> None:
    """Raise OSError, with the place as its ``filename``, where ``path`` can't be made or nothing written there; leaves nothing."""
    place = Path(path).resolve()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(place)) from None


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, as ``write_bytes`` does."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: a plain file whole or not at all; raises GatesError if the disk refuses.

    A link keeps its place: the file that it names is written. A device or a pipe is written through, and so is the
    file that is this process's own stdout or stderr, whose other text would be lost with the old file.
    """
    try:
        stream = _stream(path)
        if stream is None:
            _replace(Path(os.path.realpath(path)), data)
            return
        with os.fdopen(stream, "wb") as file:
            file.write(data)
    except OSError as error:
        raise GatesError(
            f"can't write {path}: {error.strerror}",
            hint="free some space or name another directory with --results",
        ) from None


def _stream(path: Path) -> int | None:
    """A descriptor to write ``path`` through; None for a plain file and a new one, which a whole file may replace. OSError for a folder."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    for stream in (sys.stdout, sys.stderr):
        try:
            number = stream.fileno()
            if os.path.samestat(found, os.fstat(number)):
                stream.flush()
                return os.dup(number)
        except (AttributeError, OSError, ValueError):  # closed, or not a file, as under a test's capture
            continue
    return None


def _replace(path: Path, data: bytes) -> None:
    """Rename a whole temporary file over the plain file ``path``."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_FLAT = bytes.maketrans(b"123456789E", b"000000000e")  # with one kind of digit, long numbers are found as fast as words
_LONG_NUMBER = re.compile(b"0" * 20 + b"0*")
_LARGE_EXPONENT = re.compile(rb"0e0000*(?:[\s,\]}]|$)")


def _may_be_out_of_range(text: str) -> bool:
    """Whether a number of the JSON ``text`` may be one to refuse: a whole part of 20 digits, or an exponent of 3.

    Where none is, none need be looked at by itself: samples come by the thousand. Most long numbers are fractions or parts of digests.
    """
    flat = text.encode("utf-8", "replace").translate(_FLAT, b"+")
    if _LARGE_EXPONENT.search(flat):
        return True
    starts = (found.start() for found in _LONG_NUMBER.finditer(flat))
    return any(start == 0 or flat[start - 1] in b" \t\r\n[,:-" for start in starts)


def loads(text: str, where: str) -> Any:
    """Parse strict JSON; errors are GatesErrors that name ``where``, the line and the column."""

    def no_constant(name: str) -> Any:
        raise GatesError(f"{where}: {name} is not JSON{_place(text, name)}", hint="this file was not written by gates, or was edited")

    def finite(literal: str) -> float:
        number = float(literal)
        if not math.isfinite(number):
            raise GatesError(f"{where}: number {literal:.40} is out of range{_place(text, literal[:64])}")
        return number

    def bounded(literal: str) -> int:
        if len(literal) > 20:
            raise GatesError(f"{where}: number {literal[:20]}… is out of range{_place(text, literal[:64])}")
        return int(literal)

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise GatesError(f"{where}: key {twice!r} appears twice in one object")
        return result

    checked: dict[str, Any] = {"parse_float": finite, "parse_int": bounded} if _may_be_out_of_range(text) else {}
    try:
        data = json.loads(text, parse_constant=no_constant, object_pairs_hook=no_duplicates, **checked)
        if "\\u" in text:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        return data
    except json.JSONDecodeError as error:
        raise GatesError(
            f"{where}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}",
            hint="the file is truncated or was edited",
        ) from None
    except UnicodeEncodeError:
        raise GatesError(f"{where}: text that is not Unicode (a lone surrogate)") from None
    except RecursionError:
        raise GatesError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise GatesError(f"{where}: not readable as JSON: {error}") from None


def carrying(nonce: str, lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the ``lines`` that are strict JSON objects with that nonce."""
    found = []
    for line in lines:
        with contextlib.suppress(GatesError):
            data = loads(line, "result line")
            if isinstance(data, dict) and data.get("nonce") == nonce:
                found.append(data)
    return found


def _place(text: str, literal: str) -> str:
    """Where ``literal`` stands first outside of a string, as an end of a sentence: json's hooks are not told."""
    for found in re.finditer(rf'"(?:[^"\\]|\\.)*"|(?<![0-9A-Za-z.+-]){re.escape(literal)}', text):
        if found[0] == literal:
            start = found.start()
            return f", at line {text.count(chr(10), 0, start) + 1}, column {start - text.rfind(chr(10), 0, start)}"
    return ""


def read(path: Path) -> Any:
    """Read a strict JSON file; raises GatesError that names the path."""
    return loads(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a JSON file, which may be gzipped (``.gz``), not parsed; raises GatesError that names the path."""
    try:
        with open_plain(path) as plain, gzip.open(plain) if path.suffix == ".gz" else plain as file:
            content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise GatesError(f"{path}: larger than {MAX_BYTES // 2**20} MiB")
            return content.decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise GatesError(f"{path}: not a whole gzip file") from None
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GatesError(f"{path}: not UTF-8 text") from None


def open_plain(path: Path) -> BinaryIO:
    """``path`` opened for reading bytes, without waiting; raises GatesError for a pipe, a device or a folder, OSError as open does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would block otherwise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise GatesError(f"can't read {path}: it is not a plain file")
    return os.fdopen(descriptor, "rb")


def sha256(path: str | Path) -> str:
    """Return the hex digest of a file; raises GatesError where it is no plain file or can't be read."""
    total = hashlib.sha256()
    try:
        with open_plain(Path(path)) as file:
            while block := file.read(2**20):
                total.update(block)
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}") from None
    return total.hexdigest()
