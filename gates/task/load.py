"""A task: one kernel stage, loaded from its task.yaml and checked against the schema.

``load_task`` reads a task folder; ``find_task`` also takes a name (``stage2_wmma_pv``) or the part
of one before the first underscore (``stage2``).
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gates
from gates.core import yamlio
from gates.core.errors import GatesError
from gates.core.schema import checker, in_words
from gates.gate.registry import ALWAYS, GATES, ROWS, gates_of, known_names, task_schema
from gates.task.sources.files import StageFiles, stage_files
from gates.task.sources.flags import objection
from gates.task.sources.optimisation import split, unoptimised
from gates.task.sources.preprocessor import macros

# Kinds: what a kernel is written in.
CUDA, EXTENSION, PYTHON = "cuda", "torch-extension", "python"
TRITON, NUMBA, WARP = "triton", "numba", "warp"
JIT = (TRITON, NUMBA, WARP)  # languages in Python whose compilers make PTX when a kernel is launched
KINDS = (CUDA, EXTENSION, *JIT, PYTHON)
WITHOUT_DEVICE = {
    CUDA: "the CPU emulator",
    EXTENSION: "the CPU emulator",
    TRITON: "the CPU emulator",
    NUMBA: "the CPU emulator",
    WARP: "the CPU emulator",
    PYTHON: "the CPU",
}  # where a kind runs then
DIGEST_RULE = 2
MAX_TOGGLE = 2**31 - 1
_MOST_NAMES = 12  # of a hint
DEBUG_FLAG = "-G"  # nvcc compiles device code for a debugger: without optimisation


@dataclass(frozen=True)
class Task:
    """One kernel stage. Paths are absolute; ``toggles`` hold the values in force, overrides included."""

    name: str
    title: str
    folder: Path
    problem: str
    sources: tuple[Path, ...]
    entry: str  # the extern "C" launcher, or the Python function to call
    kernels: tuple[str, ...]  # base names of the __global__ functions that the stage consists of
    toggles: Mapping[str, int]
    arch: tuple[str, ...]
    shapes: tuple[str, ...]
    seeds: tuple[int, ...]
    gates: Mapping[str, Mapping[str, Any]]
    baseline: str | None = None
    not_applicable: Mapping[str, str] = field(default_factory=dict)  # gate -> reason
    overrides: Mapping[str, int] = field(default_factory=dict)  # toggles set from outside
    nvcc_flags: tuple[str, ...] = ()
    time_limit_s: float = 300.0
    kind: str = CUDA
    arguments: tuple[str, ...] = ()  # what the entry is called with; empty: as the problem says
    editable: tuple[str, ...] = ()  # names of what a candidate may replace; all of the stage's code if empty
    stream: str = "current"  # what its kernels launch on: torch's current stream (the launcher's argument), or the default one

    def side(self, library: Path | None, *, emulated: bool) -> dict[str, Any]:
        """The task with a library of its kernel, as runner jobs take it (candidate, baseline or alone)."""
        return {
            "name": self.name,
            "library": str(library),
            "script": str(self.script or ""),
            "entry": self.entry,
            "folder": str(self.folder),
            "problem": self.problem,
            "emulated": emulated,
            "kind": self.kind,
            "arguments": list(self.arguments),
            "stream": self.stream,
            "arch": list(self.arch),
        }

    @property
    def script(self) -> Path | None:
        """The Python file with the entry, of an extension that Python code calls; None if the entry is the extension's own."""
        return self.sources[0] if self.kind == EXTENSION and self.sources[0].suffix == ".py" else None

    @property
    def compiled(self) -> tuple[Path, ...]:
        """The sources of a compiler's kind that compilers take."""
        return tuple(source for source in self.sources if source.suffix != ".py") if self.kind == EXTENSION else self.sources

    @property
    def timed_shapes(self) -> tuple[str, ...]:
        """The shapes that gates.performance has timed, as task.yaml orders them; none if it names none."""
        limits = self.gates["performance"]
        return tuple(limits.get("shapes", ())) or ((limits["shape"],) if "shape" in limits else ())

    @property
    def debug_build(self) -> bool:
        """Return whether flags of the task or the environment make nvcc compile device code for a debugger or without optimisation."""
        given = [split(os.environ.get(name, "")) for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")]
        return self.kind in (CUDA, EXTENSION) and any(
            unoptimised(words) for words in (self.nvcc_flags, *given, [*given[0], *self.nvcc_flags, *given[1]])
        )

    def for_debugging(self) -> Task:
        """The same task as a debug build; raises GatesError for a kind that nvcc does not compile."""
        if self.kind not in (CUDA, EXTENSION):
            raise GatesError(f"--debug: {self.name} is of kind {self.kind}, which nvcc does not compile", hint="leave --debug out")
        return self if self.debug_build else replace(self, nvcc_flags=(*self.nvcc_flags, DEBUG_FLAG))

    def place(self, *keys: str | int) -> str:
        """Return file and line of a key or an item in task.yaml, or of the nearest key above it: ``task.yaml:18``."""
        lines = yamlio.load(self.folder / "task.yaml")[1]
        return f"task.yaml:{next(lines[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in lines)}"

    def problem_file(self) -> Path | None:
        """The file of the problem module, looked for as its import does; None where it lies elsewhere."""
        for root in (self.folder, *self.folder.parents):
            path = root.joinpath(*self.problem.split("."))
            for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                if candidate.is_file():
                    return candidate
        return None

    def problem_files(self) -> list[Path]:
        """The problem module's file and what it may be split into: modules beside it whose names begin with its own and ``_``."""
        first = self.problem_file()
        return [] if first is None else [first, *sorted(first.parent.glob(f"{first.stem}_*.py"))]

    def terms_sha256(self) -> str:
        """Digest of what task.yaml says of building, calling and judging the stage, toggles in force; its comments do not count."""
        left_out = ("title", "folder", "sources", "time_limit_s", "editable", "overrides")
        said = {name: value for name, value in vars(self).items() if name not in left_out}
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=dict).encode()).hexdigest()

    def problem_sha256(self) -> str | None:
        """Digest of the problem's files; of the one file itself where there is only one."""
        digests = [hashlib.sha256(path.read_bytes()) for path in self.problem_files()]
        if len(digests) < 2:
            return digests[0].hexdigest() if digests else None
        return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()

    def made_of(self) -> StageFiles:
        """Return every file that makes the stage, with headers and modules followed, and the paths where a name was not found."""
        return stage_files(self.folder, (*self.sources, *self.problem_files()), self.nvcc_flags)

    def files(self) -> tuple[Path, ...]:
        """Return every file that makes the stage."""
        return self.made_of().files

    def digest(self, rule: int = DIGEST_RULE) -> str:
        """Return the sha256 over the stage's files and the toggles in force; equal digests mean the same stage.

        ``rule`` 1 is that of runs of earlier versions: it covers the files beside the sources and no other header, by their names alone.
        """
        return self.digests([self.toggles], rule)[0]

    def digests(self, toggles: Iterable[Mapping[str, int]], rule: int = DIGEST_RULE) -> list[str]:
        """Return one digest per set of toggle values; the files are read once."""
        named = (
            {path: path.name for path in self._files_beside()}
            if rule == 1
            else {path: os.path.relpath(path, self.folder) for path in self.files()}
        )
        total = hashlib.sha256()
        for path in sorted(named) if rule == 1 else sorted(named, key=lambda path: named[path]):
            total.update(named[path].encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        found = []
        for values in toggles:
            one = total.copy()
            one.update(json.dumps(dict(values), sort_keys=True).encode())
            found.append(one.hexdigest())
        return found

    def uncovered(self, rule: int) -> list[Path]:
        """Return the stage's files that a digest by an earlier rule does not cover."""
        return sorted(set(self.files()) - self._files_beside()) if rule == 1 else []

    def _files_beside(self) -> set[Path]:
        found = {path for path in self.folder.iterdir() if path.suffix in (".yaml", ".py") and path.is_file()}
        for source in self.sources:
            found |= {source, *(path for path in source.parent.iterdir() if path.suffix in (".cuh", ".h", ".hpp"))}
        return found | set(self.problem_files())


def load_task(folder: Path, overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Task:
    """The task in ``folder``; toggles are overridden by ``overrides``, then by ``environ`` (os.environ).

    Raises GatesError naming file, line and key for each thing that is wrong with task.yaml, and the
    variable for an override that is no whole number.
    """
    path = _yaml_of(folder)
    folder = path.parent
    data, lines = yamlio.load(path)
    _check_schema(data, lines, path)
    for check in _checks(data, lines, path):
        check()
    changed = _overrides(data.get("toggles", {}), overrides or {}, os.environ if environ is None else environ, path)
    sources = tuple(_find_source(name, folder, path, lines[("sources", i)]) for i, name in enumerate(data["sources"]))
    optional = {key: data[key] for key in ("baseline", "not_applicable", "time_limit_s", "kind", "stream") if key in data}
    return Task(
        name=data["name"],
        title=data["title"],
        folder=folder,
        problem=data["problem"],
        sources=sources,
        entry=data["entry"],
        kernels=tuple(data.get("kernels", ())),
        toggles={**data.get("toggles", {}), **changed},
        arch=tuple(data.get("arch", ())),
        shapes=tuple(data["shapes"]),
        seeds=tuple(data["seeds"]),
        gates={gate: data["gates"].get(gate, {}) for gate in gates_of(data["gates"])},
        overrides=changed,
        nvcc_flags=tuple(data.get("nvcc_flags", ())),
        arguments=tuple(data.get("arguments", ())),
        editable=tuple(data.get("editable", ())),
        **optional,
    )


def faults(folder: Path) -> list[GatesError]:
    """Every error for which ``load_task`` refuses a task.yaml, not only the first. Raises GatesError if the file is missing."""
    path, found = _yaml_of(folder), []
    try:
        data, lines = yamlio.load(path)
        _check_schema(data, lines, path)
    except GatesError as error:
        return [error]  # what is not YAML or does not fit the schema can't be looked at any closer
    for check in _checks(data, lines, path):
        try:
            check()
        except GatesError as error:
            found.append(error)
    return found


def _yaml_of(folder: Path) -> Path:
    """The task.yaml in ``folder``; GatesError that names the tasks in it, or the shipped task of its name, if there is none."""
    folder = Path(folder).resolve()
    if not (folder / "task.yaml").is_file():
        hint = "name a task folder; gates new NAME --kind KIND makes one"
        if below := sorted(found.parent.name for found in folder.glob("*/task.yaml")):
            hint = f"tasks in it: {', '.join(below)}"
        elif shipped := [one for one in task_folders() if one.name == folder.name]:
            hint = f"did you mean {shipped[0]}?"
        raise GatesError(f"no task.yaml in {folder}", hint=hint)
    return folder / "task.yaml"


def _checks(data: Mapping[str, Any], lines: Mapping[yamlio.Place, int], path: Path) -> Iterator[Callable[[], object]]:
    """What a task.yaml that fits the schema must keep besides: calls that raise GatesError."""
    yield lambda: _check_static_gates(data, lines, path)
    yield lambda: _check_names(data["gates"], lines, path)
    yield lambda: _check_folder_name(data["name"], lines, path)
    yield lambda: _check_flags(data.get("nvcc_flags", ()), data.get("toggles", {}), lines, path)
    for i, name in enumerate(data["sources"]):
        yield partial(_find_source, name, path.parent, path, lines[("sources", i)])
    if "baseline" in data:
        yield lambda: _sibling(data["baseline"], path.parent, f"{path}:{lines[('baseline',)]}")


def _check_folder_name(name: str, lines: Mapping[yamlio.Place, int], path: Path) -> None:
    if name != path.parent.name:
        raise GatesError(
            f"{path}:{lines[('name',)]}: name is {name!r}, but the folder is {path.parent.name!r}",
            hint=f"rename the folder to {name}, or give both another name",
        )


def _check_flags(flags: Sequence[str], toggles: Mapping[str, int], lines: Mapping[yamlio.Place, int], path: Path) -> None:
    if (found := objection(flags)) is not None:
        raise GatesError(
            f"{path}:{lines[('nvcc_flags',)]}: nvcc_flags: {found[0]} {found[1]}",
            hint="the engine chooses compilers, inputs and outputs; to use another host compiler, set NVCC_CCBIN",
        )
    if twice := sorted(set(toggles) & set(macros(flags))):
        raise GatesError(
            f"{path}:{lines[('nvcc_flags',)]}: nvcc_flags: {twice[0]} is one of the toggles, and a flag would change it for all "
            f"their values",
            hint="remove the flag, or the toggle",
        )


def load_baseline(task: Task) -> Task | None:
    """The task's baseline, without overrides; raises GatesError where baselines form a ring."""
    current, seen = task, [task.folder]
    first: Task | None = None
    while current.baseline is not None:
        folder = _sibling(current.baseline, current.folder, str(current.folder / "task.yaml"))
        if folder in seen:
            ring = " -> ".join(path.name for path in [*seen, folder])
            raise GatesError(f"circular baselines: {ring}", hint=f"fix `baseline:` in {current.folder}/task.yaml")
        seen.append(folder)
        current = load_task(folder, environ={})
        first = first or current
    return first


def find_task(name: str, overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Task:
    """The task called ``name``, or at that path, as ``load_task`` loads it; GatesError with the nearest names where there is none."""
    path = Path(name)
    try:
        is_path = os.sep in name or (path / "task.yaml").is_file() or any(path.glob("*/task.yaml"))
    except (OSError, ValueError):  # a name that no file can have
        raise GatesError(f"no task called {name[:80]!r}", hint="`gates list` names the tasks here") from None
    if is_path:
        if path.is_file():
            own = next((folder for folder in path.parents if (folder / "task.yaml").is_file()), None)
            raise GatesError(
                f"{name} is a file, not a task folder",
                hint=_folders_near(path.with_suffix("")) if own is None else f"name the folder: {own}",
            )
        if not path.is_dir():
            raise GatesError(f"no task folder at {name}", hint=_folders_near(path))
        return load_task(path, overrides, environ)
    known = {folder.name: folder for folder in task_folders()}
    matches = called(name, known)
    if len(matches) == 1:
        return load_task(known[matches[0]], overrides, environ)
    if matches:
        raise GatesError(f"{name!r} names several tasks: {', '.join(matches)}", hint="give more of the name")
    short = [key for key in (one.partition("_")[0] for one in known) if len(called(key, known)) == 1]
    raise GatesError(
        f"no task called {name!r}", hint=f"{nearest(name, [*known, *short])}; a task folder of yours goes by its path: ./{name}"
    )


def _folders_near(path: Path) -> str:
    """A hint that names the task folders beside a path that is none, or else the tasks here."""
    try:
        beside = [folder.parent.name for folder in path.parent.glob("*/task.yaml")]
    except OSError:
        beside = []
    place = f"{path.parent}{os.sep}" if beside else ""
    names = beside or [folder.name for folder in task_folders()]
    return nearest(f"{place}{path.name}", [f"{place}{name}" for name in called(path.name, names) or names])


def called(name: str, known: Iterable[str]) -> list[str]:
    """The known names that ``name`` may mean: itself, or else those that it begins, up to an underscore: stage2, fp16_v9."""
    known = list(known)
    return [name] if name in known else [key for key in known if key.startswith(f"{name}_")]


def task_folders() -> list[Path]:
    """The shipped task folders: those under ``tasks/`` here, or else beside the installed package."""
    for root in (Path.cwd(), Path(gates.__path__[0]).resolve().parent):
        folders = sorted(path.parent for path in (root / "tasks").glob("*/task.yaml"))
        if folders:
            return folders
    return []


def own_folders() -> list[Path]:
    """The task folders in the working folder, relative to it."""
    return sorted(path.parent for path in Path().glob("[!.]*/task.yaml"))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known names nearest to ``name``, or the first of them where none is near."""
    known = sorted(set(known))
    shown = known if len(known) <= _MOST_NAMES else [*known[:_MOST_NAMES], f"and {len(known) - _MOST_NAMES} more"]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(shown)}" if known else "there are none here"


def parse_toggle(name: str, text: str, source: str) -> int:
    """A toggle's value from outside text: ASCII digits, blanks around them allowed, 0 to 2147483647."""
    if not re.fullmatch(r"[ \t]*[0-9]+[ \t]*", text) or int(text) > MAX_TOGGLE:
        raise GatesError(f"{source} {name}={text!r} is not a toggle value", hint=f"give a whole number from 0 to {MAX_TOGGLE}")
    return int(text)


def _overrides(toggles: Mapping[str, int], given: Mapping[str, str], environ: Mapping[str, str], path: Path) -> dict[str, int]:
    for name in given:
        if name not in toggles:
            hint = (
                nearest(name, toggles)
                if toggles
                else f"it has none; `toggles: {{{name}: 1}}` in it declares one, a macro for its CUDA sources"
            )
            raise GatesError(f"--toggle {name}: {path} has no such toggle", hint=hint)
    values = {
        name: parse_toggle(name, environ[name], "environment variable") for name in toggles if environ.get(name) and name not in given
    }
    values.update({name: parse_toggle(name, text, "--toggle") for name, text in given.items()})
    return {name: value for name, value in values.items() if value != toggles[name]}


def _sibling(name: str, folder: Path, where: str) -> Path:
    """The task folder that ``folder`` calls ``name``; raises GatesError, beginning with ``where``, if there is none."""
    for found in ((folder.parent / name).resolve(), (folder / name).resolve()):
        if (found / "task.yaml").is_file():
            return found
    siblings = [path.parent.name for path in folder.parent.glob("*/task.yaml") if path.parent != folder]
    raise GatesError(f"{where}: baseline {name!r} is not a task", hint=nearest(name, siblings))


def _find_source(name: str, folder: Path, path: Path, line: int) -> Path:
    for root in (folder, *folder.parents):
        candidate = root / name
        if candidate.is_file():
            return candidate.resolve()
    raise GatesError(f"{path}:{line}: source {name!r} does not exist", hint=f"it is looked for in {folder} and the folders above it")


def _check_names(gates: Mapping[str, Any], lines: Mapping[yamlio.Place, int], path: Path) -> None:
    """Raise GatesError for a counter or an instruction class that no table knows."""
    problems = [
        f"{path}:{lines.get(('gates', gate, key), 1)}: gates.{gate}.{key}: unknown name {name!r} ({nearest(name, known)})"
        for (gate, key), known in known_names().items()
        for name in gates.get(gate, {}).get(key, ())
        if name not in known
    ]
    if problems:
        raise GatesError("\n".join(problems), hint="docs/guide/writing-a-task.md lists the names")


def _check_static_gates(data: Mapping[str, Any], lines: Mapping[yamlio.Place, int], path: Path) -> None:
    """Raise GatesError where a gate that looks at compiled kernels lacks what it needs and is not declared inapplicable."""
    declared, problems = data.get("not_applicable", {}), []
    rows = [ROWS[gate] for gate in gates_of(data["gates"])]
    of_binaries = [row.name for row in rows if row.of_binaries]
    line = lines.get(("not_applicable",), lines.get(("gates",), 1))
    if "ptxas" not in declared and "ptxas" not in data["gates"]:
        problems.append(f"{path}:{lines.get(('gates',), 1)}: missing key 'gates.ptxas'")
    for gate in of_binaries:
        if data.get("kind") == PYTHON and gate not in declared:
            problems.append(
                f"{path}:{line}: a task of kind python has no compiled kernel to judge: declare {gate} under not_applicable, with "
                f"the reason"
            )
    for key, of in (("kernels", [row.name for row in rows if row.of_kernels]), ("arch", of_binaries)):
        if needing := [gate for gate in of if key not in data and gate not in declared]:
            problems.append(
                f"{path}:{line}: missing key {key!r}, which {', '.join(needing)} need: name them, or declare those gates under "
                f"not_applicable"
            )
    if problems:
        raise GatesError("\n".join(problems), hint="docs/guide/writing-a-task.md lists every key of task.yaml")


@cache
def _fits_schema() -> Callable[[Any], bool]:
    return checker(task_schema())


def _check_schema(data: Any, lines: Mapping[yamlio.Place, int], path: Path) -> None:
    if _fits_schema()(data):
        return
    import jsonschema

    problems = []
    for error in jsonschema.Draft202012Validator(task_schema()).iter_errors(data):
        problems.extend(_describe(error, lines, path))
    if problems:
        problems.sort()
        raise GatesError("\n".join(text for _, text in problems), hint="docs/guide/writing-a-task.md lists every key of task.yaml")


def _describe(error: Any, lines: Mapping[yamlio.Place, int], path: Path) -> list[tuple[int, str]]:
    place = tuple(error.absolute_path)
    dotted = ".".join(str(part) for part in place)
    line = lines.get(place, 1)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = [
            *error.schema.get("properties", {}),
            *((gate for gate in GATES if gate != ALWAYS) if "patternProperties" in error.schema else ()),
        ]
        found = []
        for key in error.instance:
            if key not in known:
                at = lines.get((*place, key), line)
                name = f"{dotted}.{key}" if dotted else str(key)
                found.append((at, f"{path}:{at}: unknown key {name!r} ({nearest(str(key), known)})"))
        return found
    if error.validator == "required":  # jsonschema reports one error a missing key
        missing = next(key for key in error.validator_value if error.message.startswith(repr(key)))
        return [(line, f"{path}:{line}: missing key {'.'.join((*map(str, place), missing))!r}")]
    return [(line, f"{path}:{line}: {dotted or 'the file'}: {in_words(error)}")]
