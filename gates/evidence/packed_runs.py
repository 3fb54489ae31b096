"""Pack run directories, sweeps and searches, unpack them, and open them for what reads a folder."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.scratch_folder import ScratchFolder
from gates.evidence import archive

SUFFIX = ".zip"
COPIES = ("COMPARE.md", "verdict.json")  # files of a run that stay readable beside its packed file
_MADE_BY_PACKING = {"sweep.json": archive.SWEEP, "evolution.json": archive.EVOLUTION}  # manifests, by a record that has none of its own


def is_run(path: Path) -> bool:
    """Return whether ``path`` begins as a packed run does; the rest of the file is not looked at."""
    return _first_name(path) == archive.RUN


def record_of(path: Path) -> str:
    """Return ``sweep.json`` or ``evolution.json`` if ``path`` begins as a packed sweep or search does, else an empty string."""
    first = _first_name(path)
    return next((record for record, manifest in _MADE_BY_PACKING.items() if manifest == first), "")


def _first_name(path: Path) -> str:
    try:
        if path.suffix != SUFFIX or not path.is_file():
            return ""
        with jsonio.open_plain(path) as file:
            return archive.first_name(file.read(64))
    except (OSError, GatesError):
        return ""


def pack(folder: Path, out: Path | None = None) -> Path:
    """Write the run, sweep or search in ``folder`` as ``<its name>.zip`` to the folder ``out`` (default: beside it); return the file.

    Raises GatesError if it is none of them, if a file was changed after the run, and if another file has the name.
    """
    files, place = _files_in(folder), folder if folder.name.strip(".") else folder.resolve()
    if archive.RUN not in files and (record := next((name for name in _MADE_BY_PACKING if name in files), "")):
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        files[_MADE_BY_PACKING[record]] = jsonio.dumps({"schema_version": 1, "sha256": digests}).encode()
    if problem := archive.problem_of(files):
        raise GatesError(
            f"can't pack {folder}: {problem}", hint="name the folder of a run, a sweep or a search; `gates verify` names all problems"
        )
    data, target = archive.write(files), (out or place.parent) / f"{place.name}{SUFFIX}"
    try:
        archive.read(data)  # what would be refused is not written
    except archive.BadArchive as why:
        raise GatesError(f"can't pack {folder}: {why}") from None
    jsonio.make_folder(target.parent)
    if os.path.lexists(target) and (not target.is_file() or target.read_bytes() != data):
        raise GatesError(f"can't write {target}: something else has that name", hint="name another folder with --out")
    jsonio.write_bytes(target, data)
    return target


def replace(folder: Path) -> Path:
    """Pack ``folder`` beside itself, keep the readable copies there, remove the folder; return the packed file."""
    target = pack(folder)
    for name, copy in copies(target).items():
        if (folder / name).is_file():
            jsonio.write_bytes(copy, (folder / name).read_bytes())
    shutil.rmtree(folder)
    return target


def copies(packed: Path) -> dict[str, Path]:
    """Return the places of the readable copies of a packed run, by the names of the files."""
    return {name: packed.with_name(f"{packed.stem}.{name}") for name in COPIES}


def copy_problems(packed: Path) -> list[str]:
    """Return one sentence for each readable copy that differs from the file in the packed run."""
    folder = opened(packed)
    return [
        f"{copy.name} beside it is not its {name}"
        for name, copy in copies(packed).items()
        if copy.is_file() and not ((folder / name).is_file() and copy.read_bytes() == (folder / name).read_bytes())
    ]


def unpack(packed: Path, out: Path | None = None) -> Path:
    """Write the folder that ``packed`` holds to the folder ``out`` (default: beside it), whole or not at all; return it.

    Raises GatesError for a file that ``pack`` did not write, and if the folder is there already.
    """
    files, parent = _files_of(packed), out or packed.parent
    target = parent / packed.stem
    if os.path.lexists(target):
        raise GatesError(f"can't unpack {packed}: {target} is there already", hint="name another folder with --out")
    jsonio.make_folder(parent)
    try:
        with ScratchFolder(parent, ".unpacking-") as folder:
            _write(files, folder)
            folder.chmod(0o755)
            folder.rename(target)
    except OSError as error:
        raise GatesError(f"can't write {target}: {error.strerror}", hint="name a writable folder with --out") from None
    return target


_opened: dict[tuple[str, int, int, int], Path] = {}  # a packed file (path, inode, size, time of change in ns) -> its folder
_origins: dict[Path, Path] = {}  # that folder -> the packed file
_home: list[ScratchFolder] = []


def opened(path: Path) -> Path:
    """Return the folder of a packed run, sweep or search, unpacked once to a temporary folder of this process; any other path as it is."""
    if path.suffix != SUFFIX or not path.is_file():
        return path
    found = path.stat()
    key = str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns
    if key not in _opened:
        files = _files_of(path)
        if not _home:
            _home.append(ScratchFolder(Path(tempfile.gettempdir()), "gates-unpacked-"))
            atexit.register(_remove, os.getpid())
        folder = _home[0].path / str(len(_opened)) / path.resolve().parent.name / path.stem  # below its task, as the packed file is
        _write(files, folder)
        _opened[key], _origins[folder] = folder, path
    return _opened[key]


def origin(folder: Path) -> Path:
    """Return the packed file that ``opened`` gave ``folder`` for, any other path as it is. Messages and reports name it."""
    return _origins.get(folder, folder)


def _remove(owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        _home[0].close()


def _files_of(packed: Path) -> dict[str, bytes]:
    """Return the files of a packed run, sweep or search as its folder has them."""
    try:
        with jsonio.open_plain(packed) as file:
            files = archive.read(file.read(archive.MOST_BYTES + 1))
    except OSError as error:
        raise GatesError(f"can't read {packed}: {error.strerror}", hint="name a file that `gates pack RUN` wrote") from None
    except archive.BadArchive as why:
        raise GatesError(
            f"{packed} is not a packed run: {why}", hint="`gates pack RUN` writes one; nothing of this file was unpacked"
        ) from None
    return {name: data for name, data in files.items() if name not in _MADE_BY_PACKING.values()}


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _files_in(folder: Path) -> dict[str, bytes]:
    """Return the files below ``folder`` by name, no more of them than can be packed."""
    files, size = dict[str, bytes](), 0
    for path in sorted(folder.rglob("*")):
        name, found = path.relative_to(folder).as_posix(), path.lstat()
        if stat.S_ISDIR(found.st_mode):
            continue
        if not stat.S_ISREG(found.st_mode):
            raise GatesError(f"can't pack {folder}: {name} is a symbolic link or a device", hint="evidence is plain files")
        size += found.st_size
        if size > archive.MOST_BYTES:
            raise GatesError(f"can't pack {folder}: its files have more than {archive.MOST_BYTES // 2**20} MiB")
        files[name] = path.read_bytes()
    return files
