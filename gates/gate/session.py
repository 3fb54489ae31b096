"""What the gates of one run share: the stage and its baseline, their builds, the device, the run directory.

A gate's ``step.collect(session)`` does what the gate needs before it can judge: run, parse, write the evidence. It returns None
when it has written its gate's evidence, or the verdict itself where nothing could be run (no device, no build, a gate before it failed).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from gates.build.build import build, job_count
from gates.build.dumps import StaticTexts, collect
from gates.build.result import BuildResult
from gates.build.toolchain import Toolchain
from gates.core.records import GateResult, Status, to_json
from gates.evidence.judging import rejudge, untried
from gates.evidence.run_directory import RunDirectory, RunInfo, portable
from gates.gate.reasons import CORRECTNESS_FAILED, NO_DEVICE, NO_TOOL, NOT_EMULATED, build_failed, not_run
from gates.gate.registry import GATES, ROWS
from gates.launch.device import DeviceInfo
from gates.launch.replay import write_memory_cases
from gates.task.load import WITHOUT_DEVICE, Task
from gates.task.sources.files import project_root
from gates.worker.job import Spares
from gates.worker.process import ToolThreads
from gates.worker.turn import Turn

WITHOUT_ONE = "no CUDA device"
NO_LIMIT = "task.yaml has no limit for the {gate} gate: give it some, or say why it is not applicable"


class ProgressLike(Protocol):
    """What shows the user how a run goes."""

    def step(self, text: str, limit_s: float | None = None) -> None:
        """Say what is being done now; ``limit_s``: the time limit of each process in it."""

    def done(self, text: str) -> None:
        """Say what has just ended."""


@dataclass
class Session:
    """What the gates' steps of one run share."""

    task: Task
    baseline: Task | None
    shapes: tuple[str, ...]
    seeds: tuple[int, ...]
    toolchain: Toolchain
    device: DeviceInfo | None
    directory: RunDirectory
    scratch: Path
    build_dir: Path
    jobs: int | None
    progress: ProgressLike
    inputs: tuple[str, ...] = ()
    thorough: bool = False
    to_compare: bool = True  # whether the evidence has what only a comparison needs: the instructions
    builds: dict[str, BuildResult] = field(default_factory=dict)
    results: dict[str, GateResult] = field(default_factory=dict)
    hangs: bool = False  # one launch of the candidate came to no end
    aside: ToolThreads | None = None  # run what is begun ahead of its gate's turn; None: nothing is
    judged: Collection[str] = GATES  # the gates that will judge, until one fails
    prepared: dict[str, Spares] = field(default_factory=dict)  # by gate, until it is judged
    _begun: dict[str, Future[Any]] = field(default_factory=dict)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _texts: dict[str, StaticTexts] = field(default_factory=dict)
    _cases: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)  # of the cases: two tasks may ask at once
    _reading: threading.Lock = field(default_factory=threading.Lock)  # of the texts: what is begun ahead asks, too

    @property
    def emulated(self) -> bool:
        """Whether kernels run on the CPU emulator."""
        return self.device is None

    @property
    def cores(self) -> int:
        """How many processes may work at once."""
        return job_count(self.jobs)

    @property
    def cuda(self) -> str:
        """The device as runner jobs name it."""
        return f"cuda:{self.device.index}" if self.device else "cpu"

    def where(self, task: Task) -> str:
        """What the task's kernels run on, in words."""
        return WITHOUT_DEVICE[task.kind] if self.emulated else "the device"

    def tasks(self) -> list[tuple[Task, str]]:
        """Candidate and baseline, each with the folder of the run directory that its evidence goes to."""
        return [(self.task, ""), *([(self.baseline, "baseline/")] if self.baseline else [])]

    def build(self) -> None:
        """Build candidate and baseline; what failed is in build.json, and each gate says what it lacks."""
        for task, folder in self.tasks():
            self.progress.step(f"{task.name}: compiling")
            result = build(
                task,
                self.toolchain,
                self.build_dir,
                device_arch=self.device.arch if self.device else None,
                want=self._wanted(task),
                jobs=self.jobs,
                progress=self.progress.step,
            )
            self.builds[task.name] = result
            self.write(f"{folder}build.json", result.evidence())
            self.directory.write_text(f"{folder}build.log", portable(result.log_text, project_root(task.folder)))
            for failure in result.failures:
                self.progress.done(f"{task.name}: {failure.sentence}")
            self.progress.done(f"{task.name}: built in {result.wall_s:.1f} s")

    def _wanted(self, task: Task) -> set[str]:
        """The products that the gates need. A script's extension takes long to compile: on a device, that shows its launches, too."""
        if self.emulated:
            return {"cubin", "emulator", *(("binding",) if task is self.task else ())}
        return {"cubin", "device", *(() if task.script else ("emulator",))}

    def side(self, task: Task, kind: str) -> dict[str, Any]:
        """The task's library as runner jobs name it; ``kind`` is device or emulator."""
        return self.builds[task.name].side(task, kind)

    def missing(self, gate: str, kind: str) -> GateResult | None:
        """The verdict of a gate whose library was not built; None where it was."""
        failure = self.builds[self.task.name].failure(kind)
        if failure is None:
            return None
        if failure.missing_tool:
            return not_run(gate, NO_TOOL, failure.advice)
        if failure.unsupported:
            return not_run(gate, NOT_EMULATED, f"{failure.advice}{self._unread_binding()}")
        return build_failed(gate, failure.advice)

    def without_code(self, gate: str, task: Task) -> GateResult | None:
        """Return the verdict of a gate that reads compiled code if the code, or the library that runs it, was not built; else None."""
        runs = "emulator" if self.emulated else "device"
        failure, *others = (self.builds[task.name].failure(kind) for kind in ("cubin", "binding", runs))
        if failure is None or failure.missing_tool:
            failure = next((one for one in others if one is not None and not (one.missing_tool or one.unsupported)), failure)
        if failure is None:
            return None
        lacking = failure.missing_tool or failure.unsupported
        return not_run(gate, NO_TOOL, failure.advice) if lacking else build_failed(gate, failure.advice)

    def compiled(self, gate: str) -> list[tuple[Task, str]]:
        """Those of ``tasks`` with compiled code: a broken baseline leaves the candidate's own limits to judge."""
        return [(task, folder) for task, folder in self.tasks() if self.without_code(gate, task) is None]

    def without_device(self, gate: str) -> GateResult | None:
        """The verdict of a gate that needs a device where there is none; it says at once where one would not help."""
        if self.device is not None:
            return None
        if (reason := self.task.not_applicable.get(gate)) is not None:
            return not_run(gate, NO_DEVICE, f"{WITHOUT_ONE}; on one it is measured and not judged: {reason}")
        return not_run(gate, NO_DEVICE, WITHOUT_ONE if self.task.gates[gate] else f"{WITHOUT_ONE}, and {NO_LIMIT.format(gate=gate)}")

    def _unread_binding(self) -> str:
        """What is to be said of an extension's C++ files where they could not be compiled here."""
        failure = self.builds[self.task.name].failure("binding")
        if failure is None or not failure.missing_tool:
            return ""
        names = " and ".join(source.name for source in self.task.sources if source.suffix != ".cu")
        return f"; {names} was not compiled: {failure.advice}"

    def after_correctness(self, gate: str) -> GateResult | None:
        """The verdict of a gate that means nothing for a wrong kernel."""
        if self.results["correctness"].status is Status.FAIL:
            return not_run(gate, CORRECTNESS_FAILED, "correctness failed")
        return self.unusable(gate)

    def unusable(self, gate: str) -> GateResult | None:
        """The verdict of a gate on a kernel of which correctness could not run any case here: a package or a device is missing."""
        found = self.results["correctness"]
        reason = next((one for one in (NO_TOOL, NO_DEVICE, NOT_EMULATED) if one.of("correctness") == found.code), None)
        return not_run(gate, reason, found.sentence) if reason and not found.checks else None

    def measured_baseline(self) -> Task | None:
        """The baseline, if its device library was built."""
        built = self.baseline is not None and self.builds[self.baseline.name].path("device") is not None
        return self.baseline if built else None

    def texts(self, task: Task) -> StaticTexts:
        """The compiler's texts of a task's build, read once."""
        with self._reading:
            if task.name not in self._texts:
                self._texts[task.name] = collect(self.builds[task.name], self.toolchain)
            return self._texts[task.name]

    def prepare(self, may: Callable[[], bool] = lambda: True) -> None:
        """Start the processes that gates need as soon as the kernel is built, if there are any and ``may`` allows it."""
        wanted = [row for row in ROWS.values() if row.prepares and row.name in self.task.gates and row.name in self.judged]
        starts = {row.name: start for row in wanted if (start := row.preparing()(self)) is not None}
        if starts and may():
            self.prepared = {gate: start() for gate, start in starts.items()}

    def begin_beside(self, gate: str, info: RunInfo) -> None:
        """Begin what of later gates can run while ``gate`` is judged."""
        for row in ROWS.values():
            wanted = gate in row.beside and row.name in self.task.gates and row.name in self.judged and untried(info, row.name) is None
            if wanted and row.name not in self._begun and self.aside is not None and (work := row.beginning()(self)) is not None:
                self._begun[row.name] = self.aside.submit(work)

    def turn(self, gate: str) -> Turn:
        """Return the turn for which processes that start early for ``gate`` wait. It comes when the gate asks for their results."""
        self._turns[gate] = Turn(self.scratch / f"{gate}.turn")
        return self._turns[gate]

    def begun(self, gate: str, work: Callable[[], Any]) -> Any:
        """The result of what was begun ahead for ``gate``, or of ``work`` done now. Raises what either raises."""
        if gate in self._turns:
            self._turns[gate].come()
        return self._begun[gate].result() if gate in self._begun else work()

    def cases(self, task: Task) -> list[dict[str, Any]]:
        """Files with the launches to check the memory of, the smallest shape's first; tasks called with the same arguments share them."""
        with self._writing:
            if task.arguments not in self._cases:
                self._cases[task.arguments] = write_memory_cases(
                    self.side(task, "emulator"),
                    self.shapes,
                    on_device=not self.emulated,
                    work=self.scratch / f"cases.{len(self._cases)}",
                    limit_s=task.time_limit_s,
                )
            return self._cases[task.arguments]

    def write_evidence(self, name: str, record: Any, task: Task) -> None:
        """Write a gate's evidence of ``task``, which names the builds that it is about."""
        builds = {"build": self.builds[task.name].identity}
        if self.baseline is not None and getattr(record, "baseline", None) == self.baseline.name:
            builds["baseline_build"] = self.builds[self.baseline.name].identity
        self.write(name, replace(record, **builds))

    def write(self, name: str, record: Any) -> None:
        """Write a record into the run directory, without this machine's paths."""
        self.directory.write_json(name, _portable(to_json(record), project_root(self.task.folder)))


def judge_step(session: Session, info: RunInfo, gate: str) -> GateResult:
    """Do what ``gate`` needs, then judge it from the evidence file that this wrote."""
    session.begin_beside(gate, info)
    result = untried(info, gate) or ROWS[gate].collecting()(session)
    if result is None:
        result = rejudge(session.directory.path, info, gate)
    assert result is not None, f"{gate} left neither evidence nor a verdict"
    session.results[gate] = result
    if gate in session.prepared:
        session.prepared.pop(gate).close()
    return result


def _portable(value: Any, root: Path) -> Any:
    """The same data without this machine's paths in its texts."""
    if isinstance(value, str):
        return portable(value, root)
    if isinstance(value, dict):
        return {key: _portable(item, root) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item, root) for item in value]
    return value
