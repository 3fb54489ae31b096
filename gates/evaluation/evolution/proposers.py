"""What makes candidates: toggles near a parent's, patches alone and in pairs, folders that appear, another program.

A proposer is asked for some candidates and may give fewer. What it gives that is not a candidate is ``Refused``, with the reason. It
keeps nothing: what was tried is in the record, so an interrupted search asks the same again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from gates.core.errors import GatesError
from gates.evaluation.evolution.patches import patched
from gates.evaluation.evolution.record import Member, Refused
from gates.evaluation.overlay import FIELDS, MOST_BYTES, Candidate
from gates.sweep.variants import combinations, variant_name
from gates.worker import process

_MOST_FILES = 100  # of a folder that is a candidate
_MOST_ANSWER = 16 * 2**20  # bytes that another program may answer
_POLL_S = 1.0
DONE = "done"  # a file in a watched folder
Proposal: TypeAlias = "Candidate | Refused"


@dataclass(frozen=True)
class Parent:
    """A member that proposals are made from: ``candidate`` has its replaced texts and its toggles."""

    id: str
    candidate: Candidate
    score: float | None
    feedback: str


@dataclass(frozen=True)
class Asked:
    """A question for ``wanted`` candidates. ``sources``: the task's own texts. ``seen``: whether a candidate was tried before."""

    wanted: int
    generation: int
    sources: Mapping[str, str]
    toggles: Mapping[str, int]
    incumbent: Parent
    parents: tuple[Parent, ...]
    tried: tuple[Member, ...]
    refused: tuple[Refused, ...]
    seen: Callable[[Candidate], bool]
    random: random.Random
    remaining_s: float
    context: Callable[[], Mapping[str, Any]] = dict  # for a program: task, failures, incumbent
    known: Callable[[str], Parent | None] = lambda _: None
    wait: bool = False  # for candidates that are still to come, as long as the search may last


class Proposer(Protocol):
    """What the search asks for candidates; ``told`` is its part of the search's identity."""

    @property
    def name(self) -> str:
        """What its members say they came from."""

    @property
    def told(self) -> str:
        """The proposer as the command line has it."""

    def propose(self, asked: Asked) -> Iterator[Proposal]:
        """Candidates, and what was refused."""


@dataclass(frozen=True)
class ByToggles:
    """Neighbours of the parents, one toggle changed; then two, each to the next value; then mixtures of two parents; then any others."""

    params: Mapping[str, tuple[int, ...]]
    name: str = "param"

    @property
    def told(self) -> str:
        """The values of each toggle."""
        return "param " + " ".join(f"{name}={','.join(map(str, values))}" for name, values in self.params.items())

    def propose(self, asked: Asked) -> Iterator[Proposal]:
        """New combinations, the nearest first."""
        for parent, values, how in self._values(asked):
            edits = parent.candidate.name.partition(" ")[0] + " " if parent.candidate.files else ""
            name = f"{edits}{variant_name(values)}"  # with all swept toggles; the note says what was changed
            candidate = Candidate(parent.candidate.files, {**parent.candidate.toggles, **values}, name, parent.id, how)
            if not asked.seen(candidate):
                yield candidate

    def _values(self, asked: Asked) -> Iterator[tuple[Parent, dict[str, int], str]]:
        now = [
            (parent, {name: int(parent.candidate.toggles.get(name, asked.toggles[name])) for name in self.params})
            for parent in asked.parents
        ]
        for parent, values in now:
            steps = [(name, value) for name, choices in self.params.items() for value in choices if value != values[name]]
            for name, value in asked.random.sample(steps, len(steps)):
                yield parent, {**values, name: value}, f"{name} {values[name]} -> {value}"
        for parent, values in now:
            near = [(name, value) for name, choices in self.params.items() for value in _adjacent(choices, values[name])]
            two = [pair for pair in itertools.combinations(near, 2) if pair[0][0] != pair[1][0]]
            for pair in asked.random.sample(two, len(two)):
                yield parent, {**values, **dict(pair)}, ", ".join(f"{name} {values[name]} -> {value}" for name, value in pair)
        for (parent, values), (other, others) in itertools.combinations(now, 2):
            for mixed in combinations({name: tuple(dict.fromkeys((values[name], others[name]))) for name in self.params}):
                yield parent, mixed, f"a mixture with {other.candidate.name or other.id}"
        every = combinations(self.params)
        for values in asked.random.sample(every, len(every)):
            yield asked.parents[0], values, "any combination"


def _adjacent(choices: Sequence[int], value: int) -> list[int]:
    """The values before and after ``value`` in the order given; all of them if it is not one of them."""
    if value not in choices:
        return list(choices)
    at = choices.index(value)
    return [*choices[max(0, at - 1) : at], *choices[at + 1 : at + 2]]


@dataclass(frozen=True)
class ByPatches:
    """Unified diffs in ``folder``: each alone on the task as it is, then two together, those first that were right alone."""

    folder: Path
    name: str = "patch"

    @property
    def told(self) -> str:
        """The names of the diffs, and a digest of their bytes."""
        total = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in self._paths()))
        return f"patches {' '.join(path.name for path in self._paths())} ({total.hexdigest()[:8]})"

    def propose(self, asked: Asked) -> Iterator[Proposal]:
        """The patches that were not tried; once all were, pairs of them."""
        known = {one.name: one for one in asked.tried if one.proposer == self.name}
        refused = {one.name for one in asked.refused if one.proposer == self.name}
        paths = self._paths()
        alone = [(path,) for path in paths if path.stem not in known and path.stem not in refused]
        pairs = itertools.combinations([path for path in paths if path.stem not in refused], 2)
        best_first = sorted(pairs, key=lambda pair: -sum(_worth(known.get(path.stem)) for path in pair))
        for together in alone or best_first:
            name = "+".join(path.stem for path in together)
            if name in known or name in refused:
                continue
            texts = dict(asked.sources)
            try:
                for path in together:
                    texts |= patched(texts, _text(path))
            except GatesError as error:
                yield Refused(self.name, name, error.what)
                continue
            files = {place: text for place, text in texts.items() if text != asked.sources[place]}
            parent = known[together[0].stem].id if len(together) > 1 else asked.incumbent.id
            candidate = Candidate(files, {}, name, parent, f"patches {name}")
            yield Refused(self.name, name, "it was tried before") if asked.seen(candidate) else candidate

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.suffix in (".patch", ".diff") and path.is_file())


def _worth(member: Member | None) -> float:
    return 0.0 if member is None or not member.valid else 1.0 + (member.score or 0.0)


@dataclass(frozen=True)
class FromFolder:
    """Each new folder in ``folder`` is a candidate: sources by their names, and candidate.json with toggles, name, note, parent.

    A folder whose name begins with a dot is still being written. A file ``done`` says that no more folders come. A candidate is called
    after its folder, as folder/name if candidate.json names it: so the record says which folders were taken.
    """

    folder: Path
    name: str = "from"
    poll_s: float = _POLL_S

    @property
    def told(self) -> str:
        """The folder."""
        return f"from {self.folder.name}"

    def propose(self, asked: Asked) -> Iterator[Proposal]:
        """The folders that were not taken yet; if asked to, waits for the first of them."""
        tried: list[Member | Refused] = [*asked.tried, *asked.refused]
        until = time.monotonic() + (asked.remaining_s if asked.wait else 0.0)
        while True:
            complete = self._complete()  # before the folders are listed: all that it stands for are there
            if (new := self._new(tried)) or complete or time.monotonic() >= until:
                break
            time.sleep(min(self.poll_s, max(0.0, until - time.monotonic())))
        for path in new:
            try:
                candidate = made_from(self._read(path), asked)
                candidate = replace(candidate, name="/".join(filter(None, (path.name, candidate.name))))
            except GatesError as error:
                yield Refused(self.name, path.name, error.what)
                continue
            yield Refused(self.name, path.name, "it was tried before") if asked.seen(candidate) else candidate

    def exhausted(self, tried: Sequence[Member | Refused]) -> bool:
        """Whether no more folders come and all of them are among ``tried``."""
        return self._complete() and not self._new(tried)

    def _complete(self) -> bool:
        return (self.folder / DONE).is_file()

    def _new(self, tried: Sequence[Member | Refused]) -> list[Path]:
        taken = {one.name.partition("/")[0] for one in tried if one.proposer == self.name}
        return sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".") and path.name not in taken)

    @staticmethod
    def _read(folder: Path) -> dict[str, Any]:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        if len(paths) > _MOST_FILES:
            raise GatesError(f"more than {_MOST_FILES} files", hint="only the sources that differ")
        about = folder / "candidate.json"
        given = _object(_text(about), "candidate.json") if about in paths else {}
        return {**given, "files": {path.relative_to(folder).as_posix(): _text(path) for path in paths if path != about}}


@dataclass(frozen=True)
class ByCommand:
    """A program: it reads one JSON object on stdin and writes a JSON object per candidate, a line each."""

    command: str
    limit_s: float = 300.0
    name: str = "propose"
    argv: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        try:
            argv = tuple(shlex.split(self.command))
        except ValueError as error:
            raise GatesError(f"--propose {self.command!r}: {error}", hint="quote it as a shell would") from None
        if not argv:
            raise GatesError("--propose is empty", hint="e.g. --propose 'python propose.py'")
        object.__setattr__(self, "argv", argv)

    @property
    def told(self) -> str:
        """The command."""
        return f"propose {self.command}"

    def propose(self, asked: Asked) -> Iterator[Proposal]:
        """What the program answers to this question; a program that fails is one refusal."""
        parents = [_shown(one) for one in asked.parents]
        question = {"n": asked.wanted, "generation": asked.generation, "parents": parents, **asked.context()}
        with tempfile.TemporaryFile() as stdin:
            stdin.write(json.dumps(question).encode())
            stdin.seek(0)

            def started(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
                return subprocess.Popen(command, **{**how, "stdin": stdin, "stderr": None})

            done = process.run(self.argv, limit_s=max(1.0, min(self.limit_s, asked.remaining_s)), whole=True, popen=started)
        if done.timed_out or done.returncode or len(done.output) > _MOST_ANSWER:
            much = f"it wrote more than {_MOST_ANSWER // 2**20} MiB"
            yield Refused(self.name, "", f"{self.argv[0]}: {done.cause if done.timed_out or done.returncode else much}")
            return
        for number, line in enumerate(filter(str.strip, done.output.split("\n")), 1):
            where = f"line {number}"
            try:
                candidate = made_from(_object(line, where), asked)
            except GatesError as error:
                yield Refused(self.name, where, error.what)
                continue
            yield Refused(self.name, candidate.name, "it was tried before") if asked.seen(candidate) else candidate


def _shown(parent: Parent) -> dict[str, Any]:
    """A parent as a program reads it."""
    one = parent.candidate
    told = {"files": dict(one.files), "toggles": dict(one.toggles), "name": one.name, "note": one.note}
    return {"id": parent.id, **told, "score": parent.score, "feedback": parent.feedback}


def made_from(given: Mapping[str, Any], asked: Asked) -> Candidate:
    """The candidate of {files or diff, toggles, name, note, parent}, on top of its parent (default: the best); GatesError for others."""
    if strange := sorted(set(given) - {*FIELDS, "diff"}):
        raise GatesError(f"{strange[0]!r:.80} is not a field of a candidate", hint=f"fields: diff, {', '.join(FIELDS)}")
    kinds = {"files": dict, "diff": str, "toggles": dict, "name": str, "note": str, "parent": str}
    if wrong := [name for name, value in given.items() if value is not None and not isinstance(value, kinds[name])]:
        raise GatesError(f"{wrong[0]} is not {'an object' if kinds[wrong[0]] is dict else 'a text'}", hint='e.g. {"toggles": {"TILE": 64}}')
    parent = asked.parents[0] if given.get("parent") is None else asked.known(given["parent"])
    if parent is None:
        raise GatesError(f"parent {given['parent']!r:.80} is not a candidate of this search", hint="the id of one, or none")
    files = {**parent.candidate.files, **(given.get("files") or {})}
    if given.get("diff"):
        files |= patched({**asked.sources, **parent.candidate.files}, given["diff"])
    toggles = {**parent.candidate.toggles, **(given.get("toggles") or {})}
    return Candidate(files, toggles, (given.get("name") or "")[:200], parent.id, (given.get("note") or "")[:2000])


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GatesError(f"{where} is not JSON: {error}"[:200], hint="one JSON object") from None
    if not isinstance(data, dict):
        raise GatesError(f"{where} is not an object", hint='e.g. {"toggles": {"TILE": 64}}')
    return data


def _text(path: Path) -> str:
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise GatesError(f"can't read {path.name}: {error.strerror}", hint="make it readable") from None
    if data is None:
        raise GatesError(f"{path.name} has more than {MOST_BYTES // 2**20} MiB", hint="a kernel source is smaller")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise GatesError(f"{path.name} is not UTF-8 text", hint="a candidate is text") from None
