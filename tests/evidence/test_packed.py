"""Packed runs: what comes back, what reads them, and that a hostile archive is refused before a file is written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from runs_kit import RUN, sign

from gates.cli.findings import findings
from gates.cli.main import cli, guard
from gates.core.errors import GatesError
from gates.evidence import archive
from gates.evidence.packed_runs import copies, opened, origin, pack, replace, unpack
from gates.evidence.run_directory import list_runs, resolve_run
from gates.review.history import history

FILES = {"manifest.json": b"", "run.json": b"{}\n", "COMPARE.md": b"# merge\n", "baseline/build.log": b"log\n" * 100}


def listed(files: dict[str, bytes], manifest: str = "manifest.json") -> dict[str, bytes]:
    """``files`` with a manifest that lists all others."""
    others = {name: data for name, data in files.items() if name != manifest}
    return {
        **others,
        manifest: json.dumps(
            {"schema_version": 1, "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in others.items()}}
        ).encode(),
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copied(tmp_path: Path, name: str = "20260101T000000Z-a") -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "results" / "stage2_wmma_pv" / name))


def gates(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return done.exit_code, done.output if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)


def test_a_run_comes_back_bit_for_bit_and_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    run = copied(tmp_path)
    (run / "acceptance.json").write_text("{}")  # a reviewer's word is packed, too
    before = contents(run)
    one = pack(run, tmp_path / "one")
    os.utime(run / "run.json", (0, 0))
    (run / "run.json").chmod(0o600)
    assert pack(run, tmp_path / "two").read_bytes() == one.read_bytes() and pack(run, tmp_path / "two").name == f"{run.name}.zip"
    assert contents(unpack(one)) == before and unpack(one, tmp_path / "three").stat().st_mode & 0o777 == 0o755
    with zipfile.ZipFile(one) as file:  # any zip program reads it
        infos = file.infolist()
        assert (
            file.testzip() is None
            and infos[0].filename == "manifest.json"
            and {info.compress_type for info in infos} == {zipfile.ZIP_DEFLATED}
        )
    names = [info.filename for info in infos[1:]]
    assert (
        names == sorted(names)
        and {info.date_time[0] for info in infos} == {1980}
        and {info.external_attr >> 16 for info in infos} == {0o100644}
    )


@pytest.mark.parametrize("record", ["sweep.json", "evolution.json"])
def test_a_sweep_or_search_comes_back_bit_for_bit_without_the_manifest_of_its_packing(record: str, tmp_path: Path) -> None:
    sweep = tmp_path / "94df14572477"
    (sweep / "variants" / "A=1,B=2").mkdir(parents=True)
    (sweep / record).write_text('{"ended": ""}')
    (sweep / "variants" / "A=1,B=2" / "ptxas.json").write_text("{}")
    before, packed = contents(sweep), replace(sweep)
    assert not sweep.exists() and [path.name for path in tmp_path.iterdir()] == ["94df14572477.zip"]
    assert findings(packed)[0][0].startswith("it has not ended") and contents(opened(packed)) == before == contents(unpack(packed))


def test_commands_read_a_packed_run_as_its_directory(tmp_path: Path) -> None:
    run, results = copied(tmp_path), ("--results", tmp_path / "results")
    reads = (
        ("decide", "latest:stage2"),
        ("verify", run.parent),
        ("judge", "latest:stage2"),
        ("insights", "latest:stage2"),
        ("history", "stage2"),
        ("elite", "stage2"),
    )
    before = [gates(*command, *results) for command in reads]
    assert gates("pack", "--replace", "latest:stage2", *results)[0] == 0
    packed = run.with_name(f"{run.name}.zip")
    assert sorted(path.name for path in run.parent.iterdir()) == sorted([packed.name, f"{run.name}.verdict.json"])
    for command, (code, text) in zip(reads, before, strict=True):
        found = gates(*command, *results)
        assert (found[0], found[1].replace(packed.name, run.name).split()) == (code, text.split())
    assert gates("verify", packed)[1].startswith(f"{packed}: sound") and gates("compare", packed, "latest:stage2", *results)[1].startswith(
        "latest:stage2 is named twice"
    )
    statement = tmp_path / "results" / "stage2_wmma_pv" / f"{run.name}.attestation.json"
    assert gates("attest", packed)[0] == 0 and statement.is_file()
    assert "is packed: an acceptance is written into a run directory" in gates("decide", packed, "--accept-policy-change", "why")[1]
    assert gates("pack", packed) == (0, f"packed already: {packed}\n")


def test_a_run_that_is_there_as_both_counts_once_and_other_archives_do_not(tmp_path: Path) -> None:
    run = copied(tmp_path)
    packed = pack(run)
    (run.parent / "notes.zip").write_bytes(b"PK\3\4 something else")
    assert list_runs(run.parent) == [run] and len(history(tmp_path)) == 1 and resolve_run(str(run.parent), tmp_path) == run
    shutil.rmtree(run)
    (found,) = list_runs(run.parent)
    assert (
        (found.parent.name, found.name) == (run.parent.name, run.name)
        and origin(found) == packed
        and opened(packed) == found
        and [entry.path for entry in history(tmp_path)] == [str(packed)]
    )


def test_a_readable_copy_must_be_the_file_in_the_packed_run(tmp_path: Path) -> None:
    packed = replace(copied(tmp_path))
    copies(packed)["COMPARE.md"].write_text("# merge: all is well\n")
    assert findings(packed)[0] == [f"{packed.stem}.COMPARE.md beside it is not its COMPARE.md"]


def test_the_temporary_folder_goes_with_the_process(tmp_path: Path) -> None:
    packed = pack(copied(tmp_path))
    code = f"from pathlib import Path; from gates.evidence.packed_runs import opened; print(opened(Path({str(packed)!r})))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found.startswith(f"{tmp_path}/gates-unpacked-") and not list(tmp_path.glob("gates-unpacked-*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: (run / "notes.txt").write_text("x"), "notes.txt is not in manifest.json"),
        (lambda run: (run / "verdict.json").write_text("{}"), "verdict.json was changed after the run"),
        (lambda run: (run / "verdict.json").unlink(), "verdict.json is missing"),
        (lambda run: (run / "manifest.json").unlink(), "it has no manifest.json"),
        (lambda run: (run / "link").symlink_to("run.json"), "link is a symbolic link"),
        (lambda run: ((run / "build.log").write_bytes(b"0" * 2**23), sign(run)), "at most 256 MiB and 200 times its own size"),
        (lambda run: run.with_name(f"{run.name}.zip").write_text("mine"), "something else has that name"),
    ],
)
def test_what_can_not_be_packed_is_refused(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    run = copied(tmp_path)
    change(run)
    with pytest.raises(GatesError, match=message):
        replace(run)
    assert run.is_dir()


def zipped(files: dict[str, bytes], tmp_path: Path, **changes: object) -> bytes:
    """``files`` as Python's own zipfile writes them, in this order, each entry with ``changes``."""
    with zipfile.ZipFile(tmp_path / "made", "w") as file:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            for key, value in changes.items():
                setattr(info, key, value)
            file.writestr(info, data)
    return (tmp_path / "made").read_bytes()


def renamed(new: bytes) -> Callable[[bytes], bytes]:
    assert len(new) == len("run.json")
    return lambda data: data.replace(b"run.json", new)


def central(field: int, value: int, *, local: int | None = None, name: str = "run.json") -> Callable[[bytes], bytes]:
    """Set two bytes of the central record of ``name`` at ``field``, and of its local one at ``local``."""

    def change(data: bytes) -> bytes:
        changed, record = bytearray(data), data.rindex(name.encode()) - 46
        changed[record + field : record + field + 2] = struct.pack("<H", value)
        if local is not None:
            start = data.index(name.encode()) - 30
            changed[start + local : start + local + 2] = struct.pack("<H", value)
        return bytes(changed)

    return change


def deflated(data: bytes, name: str) -> bytes:
    """The compressed bytes of the file ``name``."""
    start = data.index(name.encode()) - 30
    size = struct.unpack_from("<I", data, start + 18)[0]
    return data[start + 30 + len(name) : start + 30 + len(name) + size]


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "encrypted": (central(8, 1, local=6), "run.json is encrypted"),
    "stored": (central(10, 0, local=8), "compression method 0"),
    "lzma": (central(10, 14, local=8), "compression method 14"),
    "link": (central(40, 0o120777), "symbolic link or another special file"),
    "above": (renamed(b"../a.txt"), "'../a.txt': it is outside the folder"),
    "absolute": (renamed(b"/etc/rcs"), "'/etc/rcs': it is outside the folder"),
    "backslash": (renamed(b"..\\a.txt"), "without backslashes"),
    "control": (renamed(b"run\n.jso"), "printable ASCII"),
    "not UTF-8": (renamed(b"run\xff.jso"), "printable ASCII"),
    "folder": (renamed(b"run.jso/"), "or a folder"),
    "other header": (lambda data: data.replace(b"run.json", b"ran.json", 1), "contradicts the index"),
    "size too large": (central(24, 4, local=22), "another size than it declares"),
    "size too small": (central(24, 2, local=22), "another size than it declares"),
    "CRC": (central(16, 7, local=14), "another CRC than it declares"),
    "packed size": (central(20, 4, local=18), "does not follow|belong to no file|contradicts"),
    "zip64": (lambda data: data[: data.rindex(b"run.json") - 22] + b"\xff" * 4 + data[data.rindex(b"run.json") - 18 :], "zip64"),
    "extra": (central(30, 4), "not as gates writes it"),
    "time": (central(12, 1, local=10), "not as gates writes it"),
    "data damaged": (
        lambda data: data.replace(deflated(data, "baseline/build.log"), b"\xff" * len(deflated(data, "baseline/build.log"))),
        "is damaged",
    ),
    "appended": (lambda data: data + b"more", "something was appended"),
    "second archive": (lambda data: data + data, "a second archive"),
    "before it": (lambda data: b"#!/bin/sh\n" + data, "does not begin with a file"),
    "cut short": (lambda data: data[:-5], "cut short"),
    "empty": (lambda data: b"", "does not begin with a file"),
    "comment": (lambda data: data[:-2] + b"\1\0x", "something was appended|a comment"),
    "count": (lambda data: data[:-12] + struct.pack("<H", 2) + data[-10:], "a second archive, a comment|index"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_written(tmp_path: Path, kind: str) -> None:
    change, message = HOSTILE[kind]
    good = archive.write(listed(FILES))
    refused(tmp_path, change(good), message)


def refused(tmp_path: Path, data: bytes, message: str) -> None:
    packed = tmp_path / "run.zip"
    packed.write_bytes(data)
    with pytest.raises(GatesError, match=message) as caught:
        unpack(packed, tmp_path / "out")
    assert caught.value.what.startswith(f"{packed} is not a packed run: ") and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"run.json": b""}, "has no manifest.json"),
        ({"manifest.json": b"{}"}, "lists no digests"),
        ({"manifest.json": b"[]"}, "lists no digests"),
        ({"manifest.json": b"\xff"}, "lists no digests"),
        ({"manifest.json": b"{"}, "not valid JSON"),
        ({**listed(FILES), "more.json": b""}, "more.json is not in manifest.json"),
        ({name: data for name, data in listed(FILES).items() if name != "run.json"}, "run.json is missing"),
        ({**listed(FILES), "run.json": b"{} "}, "run.json was changed after the run"),
        (listed({**FILES, "RUN.json": b""}), "differ in case alone"),
        (listed({**FILES, "baseline": b""}), "baseline is a file and a folder"),
    ],
)
def test_files_that_are_not_those_of_a_manifest_are_refused(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    refused(tmp_path, archive.write(files), message)


def test_a_bomb_is_refused_by_what_it_declares_and_by_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = listed({**FILES, "correctness.json": b"0" * 2**22})
    refused(tmp_path, archive.write(files), "it declares 419.* bytes of files")
    lying = bytearray(archive.write(files))
    for record, field in ((lying.index(b"correctness.json") - 30, 22), (lying.rindex(b"correctness.json") - 46, 24)):
        lying[record + field : record + field + 4] = struct.pack("<I", 10)
    inflated = list[int]()
    monkeypatch.setattr(archive.zlib, "decompressobj", lambda bits, make=zlib.decompressobj: Counting(make(bits), inflated))
    refused(tmp_path, bytes(lying), "correctness.json has another size than it declares")
    assert max(inflated) <= 1000, "no more than one byte beyond what was declared is inflated"
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    refused(tmp_path, archive.write(listed({**FILES, "a": os.urandom(600), "b": os.urandom(600)})), "it is larger than|declares")
    monkeypatch.setattr(archive, "MOST_FILES", 3)
    monkeypatch.setattr(archive, "MOST_BYTES", 2**20)
    refused(tmp_path, archive.write(listed(FILES)), "more than 3 files")


class Counting:
    """A decompressor that notes how many bytes each call gave."""

    def __init__(self, stream: object, sizes: list[int]) -> None:
        self.stream, self.sizes = stream, sizes

    def decompress(self, data: bytes, most: int) -> bytes:
        found = self.stream.decompress(data, most)
        self.sizes.append(len(found))
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def test_archives_of_zipfile_with_doubles_or_another_order_are_refused(tmp_path: Path) -> None:
    files = listed(FILES)
    first, *others = archive._ordered(files)
    ordered = {name: files[name] for name in (first, *others)}
    assert archive.read(zipped(ordered, tmp_path, create_system=3)) == files, "the form is the common one"
    refused(tmp_path, zipped({name: files[name] for name in (first, *reversed(others))}, tmp_path), "not in order")
    refused(tmp_path, zipped({name: files[name] for name in (*others, first)}, tmp_path), "has no manifest.json")
    refused(tmp_path, zipped(ordered, tmp_path, compress_type=zipfile.ZIP_LZMA), "compression method 14")
    with zipfile.ZipFile(tmp_path / "made", "w", zipfile.ZIP_DEFLATED) as file, pytest.warns(UserWarning, match="Duplicate"):
        for name in (first, "run.json", "run.json"):
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            file.writestr(info, files[name])
    refused(tmp_path, (tmp_path / "made").read_bytes(), "it has run.json twice")


def test_a_broken_packed_run_is_one_error_of_a_command_and_a_line_of_the_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "task" / "run.zip"
    packed.parent.mkdir()
    packed.write_bytes(archive.write(listed(FILES))[:-1])
    for command in ("verify", "decide", "unpack"):
        assert guard(lambda command=command: cli.main([command, str(packed)], standalone_mode=False)) == 2
        assert capsys.readouterr().err.startswith(f"error: {packed} is not a packed run: it does not end with its index")
    (entry,) = history(tmp_path)
    assert entry.task == "task" and "does not end with its index" in entry.broken
    packed.with_name("run").mkdir()
    packed.write_bytes(archive.write(listed(FILES)))
    with pytest.raises(GatesError, match="is there already"):
        unpack(packed)
