"""Run directories: written under a temporary name, renamed when whole, read without trust.

results/<task>/<UTC time>-<short sha>[-dirty]-<device>/
"""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import gates
from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.core.records import Decision, GateResult
from gates.core.scratch_folder import ScratchFolder
from gates.evidence.packed_runs import is_run, opened, origin
from gates.task.load import called, nearest

SCHEMA_VERSION = 1
_TEMPORARY = ".writing-"


@dataclass(frozen=True)
class TaskInfo:
    """What a run judged: the stage's facts in force, so that the run can be judged again without it."""

    name: str
    title: str
    digest: str
    problem: str
    kernels: tuple[str, ...]
    toggles: dict[str, int]
    overrides: dict[str, Any]  # toggles, shapes, seeds, inputs or compiler variables set from outside
    arch: tuple[str, ...]
    shapes: dict[str, dict[str, int]]
    seeds: tuple[int, ...]
    limits: dict[str, dict[str, Any]]
    not_applicable: dict[str, str]
    problem_sha256: str | None = None  # of the problem module's files
    judged_shapes: tuple[str, ...] = ()  # those of ``shapes`` that correctness runs on every seed; empty: all
    declared_shapes: tuple[str, ...] = ()  # as task.yaml has them, whatever this run was told
    declared_seeds: tuple[int, ...] = ()
    judged_inputs: tuple[str, ...] = ()  # named from outside: correctness runs these and nothing else
    kind: str = "cuda"  # what the kernel is written in
    debug_build: bool = False  # compiled by nvcc -G
    digest_rule: int = 1  # which files ``digest`` covers: by rule 1, of the headers those beside a source alone
    build: str = ""  # identity of what was built of it; the evidence of each gate names it
    products: dict[str, str] = field(default_factory=dict)  # sha256 of each product, by its name in the build folder
    stream: str = "current"  # what its kernels launch on, or "default"
    terms_sha256: str = ""  # of what task.yaml says of building, calling and judging it; runs of earlier versions have none

    def overridden(self) -> list[str]:
        """Return one line per override."""
        return [f"overridden from outside: {name}={value}" for name, value in sorted(self.overrides.items())]


@dataclass(frozen=True)
class Git:
    """The revision judged.

    ``source``: git, the variable GATES_REVISION, or none, with the reason; ``dirty`` is also true if git refused.
    """

    sha: str | None
    dirty: bool
    source: str


@dataclass(frozen=True)
class Device:
    """The CUDA device a run used."""

    name: str
    uuid: str
    compute_capability: str
    driver: str


@dataclass(frozen=True)
class RunInfo:
    """run.json: what ran, where, with what, when (UTC, ISO 8601)."""

    schema_version: int
    tool_version: str
    task: TaskInfo
    baseline: TaskInfo | None
    profile: str
    profile_reason: str
    asked_gates: tuple[str, ...]
    git: Git
    argv: tuple[str, ...]
    toolchain: dict[str, str | None]  # tool -> version, None where it is missing
    device: Device | None
    environment: dict[str, str]
    platform: str
    started: str
    ended: str
    phase_s: dict[str, float] = field(default_factory=dict)  # wall time, in their order; an earlier version told none

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the gates that the run judges: those with limits, even empty ones. A later version may have more."""
        return tuple(self.task.limits)

    @property
    def debug_build(self) -> bool:
        """Whether either side is a debug build, which says nothing about the code that would be shipped."""
        return self.task.debug_build or bool(self.baseline and self.baseline.debug_build)


@dataclass(frozen=True)
class Verdict:
    """verdict.json: the decision and the gates it rests on."""

    schema_version: int
    decision: Decision
    reason: str
    gates: tuple[GateResult, ...]


_LINES = {"correctness.json": jsonio.dumps_lines, "verdict.json": jsonio.dumps_wide}  # files of many alike things


class RunDirectory:
    """A run being written. Use as a context manager: what is not published is removed."""

    def __init__(self, results: Path, task_name: str) -> None:
        """Create the temporary folder; raises GatesError where ``results`` can't be written or lies in a run directory."""
        self._parent = results / task_name
        require_outside_a_run(self._parent / "run")
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._held = ScratchFolder(self._parent, _TEMPORARY)
            self.path = self._held.path
        except OSError as error:
            raise GatesError(
                f"can't write results under {self._parent}: {error.strerror}",
                hint="name a writable directory with --results",
            ) from None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()  # already renamed away if published

    def write_json(self, name: str, record: Any) -> None:
        """Write a record as strict JSON to ``name`` inside the run directory; correctness.json and verdict.json with a line per case or
        check.
        """
        data, kind = records.to_json(record), Path(name).name
        self.write_text(name, (_LINES.get(kind) or jsonio.dumps)(data))

    def write_text(self, name: str, text: str) -> None:
        """Write text to ``name`` inside the run directory."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        jsonio.write_text(path, text)

    def publish(self, label: str) -> Path:
        """Write the manifest and rename the folder to ``label`` (with a number where that exists)."""
        files = {}
        for path in sorted(self.path.rglob("*")):
            if path.is_file():
                files[path.relative_to(self.path).as_posix()] = jsonio.sha256(path)
        self.write_json("manifest.json", {"schema_version": SCHEMA_VERSION, "sha256": files})
        self.path.chmod(0o755)
        for number in range(1, 1000):
            target = self._parent / (label if number == 1 else f"{label}-{number}")
            try:
                if not target.exists():
                    self.path.rename(target)
                    return target
            except OSError as error:
                if not target.exists():
                    raise GatesError(f"can't rename {self.path} to {target}: {error.strerror}") from None
        raise GatesError(f"there are a thousand runs called {label} in {self._parent}")


def run_label(started: datetime, git: Git, device: str) -> str:
    """``<UTC time>-<short sha>[-dirty]-<device>`` for a run's folder."""
    sha = git.sha[:8] if git.sha else "norev"
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "device"
    return f"{started:%Y%m%dT%H%M%SZ}-{sha}{'-dirty' if git.dirty else ''}-{slug}"


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(timezone.utc)


def portable(text: str, project: Path) -> str:
    """``text`` without this machine's paths: project, Python, this package and home folder
    become ``.``, ``<python>``, ``<gates>``, ``~``.
    """
    for path, short in ((str(project), "."), (sys.prefix, "<python>"), (gates.__path__[0], "<gates>"), (os.path.expanduser("~"), "~")):
        if len(path) > 1:  # after "..", as in ../../tmp/task, it is the end of a relative path
            text = re.sub(rf"(?<!\.\.){re.escape(path)}", short, text)
    return text


def read_record(cls: type, run: Path, name: str) -> Any:
    """The record in ``run/name``; GatesError where it is missing, broken, or of a newer schema."""
    text = jsonio.read_text(run / name)
    try:
        return _record(cls, text)
    except GatesError:
        return _record_of(cls, text, str(origin(run) / name))  # the error names the file


@functools.lru_cache(maxsize=64)  # the files of a run, which is verified, decided and shown in turn; records are frozen
def _record(cls: type, text: str) -> Any:
    return _record_of(cls, text, "")


def _record_of(cls: type, text: str, where: str) -> Any:
    data = jsonio.loads(text, where)
    require_known_version(data, where)
    return records.from_json(cls, data, where)


def require_known_version(data: Any, where: str) -> None:
    """Raise GatesError for evidence of a schema version that came after this tool."""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is int and version > SCHEMA_VERSION:
        raise GatesError(
            f"{where}: schema version {version} is newer than this tool knows ({SCHEMA_VERSION})",
            hint="update kernel-gates",
        )


def resolve_run(name: str, results: Path) -> Path:
    """Find a run directory by path, or the run of ``latest:TASK`` or ``recorded:DEVICE/TASK`` that started last. Raises GatesError without
    one.

    Of a packed run it is the folder to which this process unpacks it.
    """
    if not name.strip():
        raise GatesError(
            "the name of a run is empty: is a shell variable unset?", hint="a run directory, latest:TASK or recorded:DEVICE/TASK"
        )
    try:
        return _resolved(name, results)
    except (OSError, ValueError) as error:  # a name that no file can have
        raise GatesError(
            f"{name[:80]!r} names no run: {getattr(error, 'strerror', None) or error}",
            hint="a run directory, latest:TASK or recorded:DEVICE/TASK",
        ) from None


def _resolved(name: str, results: Path) -> Path:
    kind, colon, rest = name.partition(":")
    if colon and kind in ("latest", "recorded"):
        rest = task_name(rest) if kind == "latest" else rest
        place = recorded(results) / rest if kind == "recorded" else results / rest
        folders = sorted(place.parent.iterdir()) if rest and _stays_below(rest) and place.parent.is_dir() else []
        found = {folder.name: runs for folder in folders if (runs := run_places(folder))}
        tasks = called(place.name, found)
        if not tasks:
            raise GatesError(f"no run found for {name[:80]!r} under {results}", hint=_runs_hint(kind, rest, results))
        if len(tasks) > 1:
            raise GatesError(f"{name[:80]!r} names runs of several tasks: {', '.join(tasks)}", hint="give more of the name")
        return opened(max(found[tasks[0]], key=_began))
    path = Path(name)
    if path.is_dir() and not (path / "run.json").exists():
        runs = run_places(path)
        if len(runs) == 1:
            return opened(runs[0])
        if runs:
            raise GatesError(f"{name} holds {len(runs)} runs", hint=f"name one of them, e.g. {runs[-1]}")
    if not path.exists():
        hint = "`gates list` names the tasks; a task's last run is latest:TASK, a recorded one recorded:DEVICE/TASK"
        raise GatesError(f"{name} does not exist", hint=hint)
    path = opened(path)
    if not (path / "run.json").is_file():
        hint = "`gates run TASK` writes one under results/"
        hint = hint if len(path.parts) > 1 else f"{hint}; a task's last one is latest:{name}"
        raise GatesError(f"{name} is not a run directory: it has no run.json", hint=hint)
    return path


def task_name(text: str) -> str:
    """The name of the task that ``text`` is the folder of, as a folder is as good as its name; else ``text`` itself."""
    return Path(text).absolute().name if (Path(text) / "task.yaml").is_file() else text


def recorded(results: Path) -> Path:
    """The recorded runs below ``results``, or where there are none those of the checkout that gates are installed from."""
    here, shipped = results / "recorded", Path(__file__).resolve().parents[2] / "results" / "recorded"
    return here if here.is_dir() or not shipped.is_dir() else shipped


def _stays_below(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _runs_hint(kind: str, wanted: str, results: Path) -> str:
    """What there is instead of a task's runs that were not found."""
    root = recorded(results) if kind == "recorded" else results
    if not root.is_dir():
        return f"there is no folder {root} here: --results names the one that holds runs, or `gates run TASK` makes one"
    if kind == "recorded" and wanted and "/" not in wanted and _stays_below(wanted) and (root / wanted).is_dir():
        return (
            f"it is a device: name one of its runs, such as "
            f"{kind}:{wanted}/{next((path.name for path in sorted((root / wanted).iterdir()) if run_places(path)), 'TASK')}"
        )
    beside = (root / wanted).parent if "/" in wanted and _stays_below(wanted) and (root / wanted).parent.is_dir() else root
    folders = sorted(beside.glob("*/*" if kind == "recorded" and beside == root else "*"))
    return nearest(wanted, [f"{kind}:{folder.relative_to(root)}" for folder in folders if run_places(folder)])


def require_outside_a_run(out: Path) -> None:
    """Raise GatesError for an output file that would lie in a run directory, whose files are its evidence."""
    for folder in (*out.absolute().parents, *out.resolve().parents):  # a link may lead there
        if (folder / "manifest.json").is_file() and (folder / "run.json").is_file():
            raise GatesError(f"{out} is in the run directory {folder}, whose files are evidence", hint="name a file elsewhere")


def own_file(name: str) -> Path:
    """A file in ``results``, which is made: git ignores it, so that a report does not make the tree dirty."""
    jsonio.make_folder(Path("results"))
    return Path("results") / name


def write_outside_runs(out: Path, text: str, *, hint: str) -> None:
    """Write a file that is no evidence; raises GatesError, with ``hint``, where the disk refuses, and inside a run directory."""
    require_outside_a_run(out)
    try:
        jsonio.write_text(out, text)
    except GatesError as error:
        raise GatesError(error.what, hint=hint) from None


def _began(run: Path) -> tuple[float, list[tuple[int, str]]]:
    """When the run started, then its name with numbers as numbers; one that can't be read comes before all others."""
    try:
        data = jsonio.read(opened(run) / "run.json")
        started = datetime.fromisoformat(data["started"]).timestamp()
    except (GatesError, KeyError, TypeError, ValueError, OverflowError):
        started = float("-inf")
    return started, [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", run.name)]


def run_places(folder: Path) -> list[Path]:
    """The run directories and packed runs in a task's results folder, oldest first. A run that is there as both is its directory."""
    if not folder.is_dir():
        return []
    places = [path for path in folder.iterdir() if not path.name.startswith(".")]
    whole = [path for path in places if (path / "run.json").is_file()]
    return sorted([*whole, *(path for path in places if is_run(path) and path.with_suffix("") not in whole)])


def list_runs(folder: Path) -> list[Path]:
    """The directories of all runs in a task's results folder, oldest first; of a packed run the folder to which it is unpacked."""
    return [opened(place) for place in run_places(folder)]
