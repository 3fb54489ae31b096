"""Judge a candidate, cheapest check first, and stop at the first that fails.

Compiled resources and machine code, then numbers, then memory checks, then speed beside the incumbent in interleaved pairs. The gates
are those of ``gates run`` and their evidence is kept; there is no run directory and no merge decision. An answer is kept under the digest
of task and candidate; a later question for the same stages gets the same answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gates import __version__
from gates.build.build import build, check_build_root, job_count
from gates.build.toolchain import Toolchain, find_toolchain
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.file_lock import locked
from gates.core.records import GateResult, Status
from gates.core.scratch_folder import ScratchFolder
from gates.evaluation.answer import answer, timed_status
from gates.evaluation.overlay import Candidate, candidate_id, digests, laid_out, resolved
from gates.evaluation.record import FAIL, FILE, INCONCLUSIVE, SCHEMA_VERSION, Evaluation, GateSeen, gates_in, read_evaluation, stages_to
from gates.evaluation.terms import Terms, incumbent
from gates.evaluation.verify import verify_evaluation
from gates.evidence.run_directory import RunDirectory
from gates.gate.registry import ROWS
from gates.gate.session import ProgressLike, Session, judge_step
from gates.launch import device as devices
from gates.launch.device import DeviceInfo, DeviceProbe, card
from gates.pipeline.run import choose_profile, run_info
from gates.sweep.record import Timing
from gates.sweep.work import Pair, build_pair, time_pair, timing_of
from gates.task.load import EXTENSION, Task
from gates.worker.job import warm_up
from gates.worker.machine_fault import check_temporary
from gates.worker.process import ToolThreads

FOLDER = "evaluations"
_AT_ONCE = 4  # compilers: so many build all of a candidate at once, as there are as many pieces


def evaluate_task(
    name: str, candidate: Candidate, terms: Terms, progress: ProgressLike, probe: Callable[[], DeviceProbe] | None = None
) -> Evaluation:
    """Judge ``candidate`` of the task ``name``; ``probe``: see ``choose_profile``.

    Raises GatesError for an unknown task, stage or file, for ``speed`` without a device (exit code 3), and for a fault of the machine.
    """
    task, plain = terms.task(name, candidate.toggles), terms.task(name)
    files = resolved(task, candidate)
    identity = candidate_id(plain, files, dict(task.toggles))
    with ToolThreads(1) as early:
        tools = early.submit(find_toolchain)
        if terms.stage == "speed":
            profile, why, device = choose_profile("full", terms.device, "--stage memory is the last that needs no device", probe)
        else:
            profile, why, device = choose_profile(terms.profile, terms.device, probe=probe)
    toolchain = tools.result()
    home = terms.results / FOLDER / task.name / identity
    reference = incumbent(plain, terms) if terms.stage == "speed" else plain
    against = terms.against if terms.against in ("task", "baseline") else reference.digest()
    if (known := _kept(home, terms.stage, device, against)) is not None:
        return dataclasses.replace(known, cached=True, name=candidate.name, parent=candidate.parent, note=candidate.note)
    check_temporary()
    check_build_root(terms.build_dir)
    warm_up()
    with (
        ScratchFolder(Path(tempfile.gettempdir()), "gates-evaluate-") as scratch,
        RunDirectory(terms.results / FOLDER, task.name) as directory,
        contextlib.ExitStack() as shared,
        ToolThreads(8) as aside,
    ):
        session = session_of(task, files, candidate, terms, toolchain, device, directory, scratch, progress, aside)
        stage = session.task
        cascade = _Cascade(
            session,
            shared,
            run_info(stage, None, session.toolchain, device, shapes=session.shapes, seeds=session.seeds, profile=profile, why=why),
        )
        for reached in stages_to(terms.stage):
            if not cascade.judge(reached, reference, terms):
                _require_card(device, task)
                break
        aside.stop()  # work begun for a gate that was not judged
        directory.write_json("run.json", cascade.ended())
        found = Evaluation(
            SCHEMA_VERSION,
            __version__,
            identity,
            candidate.parent,
            candidate.name,
            candidate.note,
            task.name,
            stage=cascade.reached,
            gates=tuple(cascade.seen),
            seconds={name: round(value, 3) for name, value in cascade.seconds.items()},
            artifacts={path.stem: path.name for path in sorted(directory.path.glob("*.json"))},
            evidence=f"{FOLDER}/{task.name}/{identity}",
            files=digests(files),
            toggles=dict(stage.toggles),
            device=device.name if device else None,
            asked=terms.stage,
            against=against,
            **answer(directory.path, cascade.seen, cascade.results, cascade.timing),
        )
        directory.write_json(FILE, found)
        with locked(home.parent):
            if (known := _kept(home, terms.stage, device, against)) is not None:  # another process was first
                return dataclasses.replace(known, cached=True, name=candidate.name, parent=candidate.parent, note=candidate.note)
            if home.exists():  # of an earlier version, or of fewer stages
                shutil.rmtree(home)
            directory.publish(identity)
    return found


def session_of(
    task: Task,
    files: Mapping[str, str],
    candidate: Candidate,
    terms: Terms,
    toolchain: Toolchain,
    device: DeviceInfo | None,
    directory: RunDirectory,
    scratch: Path,
    progress: ProgressLike,
    aside: ToolThreads | None = None,
) -> Session:
    """The candidate with replaced files laid out and built below ``scratch``; one of other toggles alone is built as the task itself is, so
    that it is compiled once. A comparison with the baseline's outputs is left to a run.
    """
    stage, build_dir = (
        (laid_out(task, files, candidate.toggles, scratch / "candidate"), scratch / "build") if files else (task, terms.build_dir)
    )
    stage = dataclasses.replace(stage, gates=dict(_own_limits(stage)))
    one = stage.shapes[:1], stage.seeds[:1]
    return Session(
        stage,
        None,
        *one,
        toolchain,
        device,
        directory,
        scratch,
        build_dir,
        terms.jobs,
        progress,
        to_compare=False,
        aside=aside,
        judged=[gate for reached in stages_to(terms.stage) for gate in gates_in(reached, stage.gates)],
    )


def _own_limits(task: Task) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The task's limits that need no baseline; an optional gate leaves if all of its limits do."""
    for gate, limits in task.gates.items():
        own = ROWS[gate].own_limits(limits)
        if own or not limits or not ROWS[gate].optional:
            yield gate, own


@dataclass
class _Cascade:
    session: Session
    shared: contextlib.ExitStack  # holds the device for the checks that can share it
    info: Any
    results: list[GateResult] = field(default_factory=list)
    seen: list[GateSeen] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"compile": 0.0, "gates": 0.0})
    built: set[str] = field(default_factory=set)
    reached: str = "static"
    sharing: bool = False
    pair: Future[Pair] | None = None
    timing: Timing | None = None

    def judge(self, stage: str, reference: Task, terms: Terms) -> bool:
        """Judge by the gates of ``stage``; False where one of them failed or came to no verdict."""
        self.reached, session = stage, self.session
        if stage == "static":
            self._prepare(terms)
        if stage == "static" and session.task.kind == EXTENSION and job_count(terms.jobs) < _AT_ONCE:
            self._build({"cubin"})  # the CPU's library takes a minute, and can't save what breaks the budget without it
            if (first := judge_step(session, self.info, "ptxas")).status is Status.FAIL:
                self._told(first, time.monotonic())
                return False
        self._build({"cubin", "emulator"} if session.emulated or terms.stage == "static" else {"cubin", "emulator", "device"})
        if stage == "memory" and terms.stage == "speed" and session.aside is not None:
            self.pair = session.aside.submit(build_pair, session, reference, terms.build_dir)  # while the checks run
        if stage == "speed":
            self.shared.close()
            return self._speed(reference, terms)
        if stage == "numbers":
            self._share_card(wait=True)
        for gate in gates_in(stage, session.task.gates):
            started = time.monotonic()
            result = judge_step(session, self.info, gate)
            self._told(result, started)
            if result.status not in (Status.PASS, Status.NOT_APPLICABLE):
                return False
        return True

    def _prepare(self, terms: Terms) -> None:
        """Prepare the device while the candidate is compiled, if the device is free and this candidate has all cores. With fewer cores,
        another candidate might have to be timed meanwhile.
        """
        if self.session.device and job_count(terms.jobs) >= job_count(None):
            self.session.prepare(lambda: self._share_card(wait=False))

    def _share_card(self, *, wait: bool) -> bool:
        """Whether the device is shared from now on, until it is wanted alone."""
        if self.session.device and not self.sharing:
            with contextlib.suppress(BlockingIOError):
                self.shared.enter_context(self._card(alone=False, wait=wait))
                self.sharing = True
        return self.sharing

    def ended(self) -> Any:
        """run.json, with what was built."""
        built = self.session.builds[self.session.task.name]
        task = dataclasses.replace(self.info.task, build=built.identity, products=built.products())
        return dataclasses.replace(self.info, task=task, ended=self.info.started)

    def _build(self, want: set[str]) -> None:
        """Build what is wanted, unless it was built for an earlier stage."""
        if want <= self.built:
            return
        started, session, self.built = time.monotonic(), self.session, want
        session.progress.step(f"{session.task.name}: compiling")
        session.builds[session.task.name] = built = build(
            session.task,
            session.toolchain,
            session.build_dir,
            device_arch=session.device.arch if session.device else None,
            want=want,
            jobs=session.jobs,
        )
        if built.stage != self.info.task.digest:
            raise GatesError(f"{session.task.name} changed while a candidate was judged", hint="ask again: nothing was kept")
        self.seconds["compile"] += time.monotonic() - started

    def _speed(self, reference: Task, terms: Terms) -> bool:
        session, started = self.session, time.monotonic()
        assert session.device is not None, "choose_profile refuses speed without a device"
        assert self.pair is not None, "both sides are built after the candidate"
        session.progress.step(f"{session.task.name}: timing beside {reference.name}")
        pair = self.pair.result()
        self.seconds["compile"] += time.monotonic() - started
        with self._card(alone=True):
            started = time.monotonic()
            evidence = time_pair(session, pair, terms.budget_s, equal_ends=True)
        limits = session.task.gates["performance"]
        self.timing = timing_of("candidate", evidence, limits, session.device.uuid, 0.0)
        status = timed_status(self.timing, evidence, limits)
        seconds = round(time.monotonic() - started, 3)
        self.seconds["gates"] += seconds
        self.seen.append(GateSeen("performance", status.value, self.timing.code, self.timing.sentence, seconds))
        return status is Status.PASS

    @contextlib.contextmanager
    def _card(self, *, alone: bool, wait: bool = True) -> Iterator[None]:
        """The device; to itself for a timing, so that no other candidate's kernels disturb it. The wait is counted apart."""
        assert self.session.device is not None, "without a device there is nothing to wait for"
        started = time.monotonic()
        with card(self.session.device.uuid, alone=alone, wait=wait):
            self.seconds["queue"] = self.seconds.get("queue", 0.0) + time.monotonic() - started
            yield

    def _told(self, result: GateResult, started: float) -> None:
        seconds = round(time.monotonic() - started, 3)
        self.seconds["gates"] += seconds
        self.results.append(result)
        self.seen.append(GateSeen(result.gate, result.status.value, result.code, result.sentence, seconds))


def _require_card(device: DeviceInfo | None, task: Task) -> None:
    """Raise GatesError, exit code 3, if the card is gone: what failed on it says nothing about the candidate."""
    found = devices.probe() if device is not None else None
    if device is not None and found is not None and device.uuid not in {one.uuid for one in found.devices}:
        raise GatesError(
            f"{device.name} was lost while {task.name} was judged{f': {found.reason}' if found.reason else ''}",
            hint="look at nvidia-smi; when the card is back, ask again: nothing was kept of this candidate",
            exit_code=EXIT_HOLD,
        )


def _kept(home: Path, asked: str, device: DeviceInfo | None, against: str) -> Evaluation | None:
    """The answer that is kept, if it says what is asked now. One without a verdict is asked for again: a tool may be there by now."""
    if not (home / FILE).is_file():
        return None
    if verify_evaluation(home):  # of another candidate, changed by hand, or of a version that judged otherwise
        return None
    known = read_evaluation(home)
    enough = known.status == FAIL or (known.status != INCONCLUSIVE and asked in stages_to(known.asked))
    same = (known.tool_version, known.task) == (__version__, home.parent.name) and known.device == (device.name if device else None)
    timed = known.score is not None and known.against == against
    return known if enough and same and (known.asked != "speed" or asked != "speed" or known.status == FAIL or timed) else None
