"""What a terminal shows: progress on stderr, the gate table and the decision on stdout."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import TracebackType

from gates.core.colour import paint, wanted
from gates.core.records import Check, GateResult, Status
from gates.core.text import plain
from gates.evidence.run_directory import RunInfo, Verdict
from gates.gate.ptxas.judge import advice_in
from gates.render.findings import findings, head_line
from gates.render.markdown import columns

MARKS = {
    Status.PASS: "pass",
    Status.FAIL: "FAIL",
    Status.INCONCLUSIVE: "inconclusive",
    Status.NOT_RUN: "not run",
    Status.NOT_APPLICABLE: "n/a",
}


_LEAST = (11, 12)  # of gate and status: the longest words of both
BEAT_S = 15.0  # between two signs of life where there is no terminal


class Progress:
    """Steps on stderr: a spinner with the seconds on a terminal; elsewhere a plain line a step, and now and then that it goes on."""

    def __init__(self) -> None:
        self._status = None
        self._started = time.monotonic()
        self._step = ("", self._started)  # what is being done, and since when
        self._ended = threading.Event()
        if sys.stderr.isatty():
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False)
            self._status = self._console.status("starting")

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._status is not None:
            self._status.stop()

    def step(self, text: str, limit_s: float | None = None) -> None:
        """Say what is being done now; ``limit_s``: the time limit of each process in it."""
        limit = f" (time limit per process: {limit_s:g} s)" if limit_s is not None else ""
        self._step = (f"{text}{limit}", time.monotonic())
        if self._status is not None:
            self._status.update(text)
        else:
            self._line(text)

    def done(self, text: str) -> None:
        """Say what has just ended, with the seconds since the start."""
        self._line(text)

    def result(self, result: GateResult) -> None:
        """Show a gate's verdict as soon as it is there."""
        self._line(f"{result.gate:12} {MARKS[result.status]:12} {result.sentence}")

    def _beat(self) -> None:
        while not self._ended.wait(1.0 if self._status is not None else BEAT_S):
            text, since = self._step
            seconds = time.monotonic() - since
            if self._status is not None:
                self._status.update(f"{text}: {seconds:.0f} s")
            elif text and seconds >= BEAT_S / 2:
                self._line(f"still running after {seconds:.0f} s: {text}")

    def _line(self, text: str) -> None:
        line = f"[{time.monotonic() - self._started:6.1f} s] {plain(text)}"
        if self._status is not None:
            from rich.text import Text

            self._console.print(Text.from_ansi(paint(line)) if wanted(sys.stderr) else Text(line))
        else:
            with contextlib.suppress(OSError):  # a full or closed stderr ends no run
                print(line, file=sys.stderr, flush=True)


class Silence(Progress):
    """Progress that shows nothing."""

    def __init__(self) -> None:
        self._status = None

    def step(self, text: str, limit_s: float | None = None) -> None:
        pass

    def _line(self, text: str) -> None:
        pass


def plant_line(gate: str, fault: str, result: GateResult, *, sound: bool, good: bool) -> str:
    """One line of the self-test: the gate, what was planted, what the gate said, and whether it refused (or passed)."""
    word = "passed" if sound else "refused"
    line = f"{gate:12} {fault:60} {MARKS[result.status]} [{result.code}], {word}: {'yes' if good else 'NO'}"
    return line if good else f"{line}: {result.sentence}"


def verdict_table(info: RunInfo, verdict: Verdict, width: int | None = None) -> str:
    """The gate table, failing checks with their hints, and the decision, as plain text; the table is fitted to ``width`` characters."""
    baseline = f"against {info.baseline.name}" if info.baseline else "(first rung)"
    device = f" · {info.device.name}" if info.device else ""
    debug = " · DEBUG BUILD (nvcc -G)" if info.debug_build else ""
    lines = [
        "",
        head_line(verdict.decision, info.task.name, verdict.gates, verdict.reason),
        f"{info.task.name} {baseline} · profile {info.profile} ({info.profile_reason}){device}{debug}",
        *info.task.overridden(),
        "",
    ]
    rows = [(result.gate, MARKS[result.status], result.sentence) for result in verdict.gates]
    table = columns(("gate", "status", "result"), rows, least=_LEAST, width=width and width - 2)
    lines += [f"  {line}" for line in table]
    lines += failures(verdict)
    lines += _advice(verdict)
    lines += ["", f"decision: {verdict.decision.value} ({verdict.reason})"]
    return "\n".join(lines)


def _advice(verdict: Verdict, most: int = 5) -> list[str]:
    found = advice_in(verdict.gates)
    more = [f"  and {len(found) - most} more; see ptxas.json"] if len(found) > most else []
    return ["", "the compiler's advice:", *(f"  {line}" for line in found[:most]), *more] if found else []


def failures(verdict: Verdict, most: int = 6) -> list[str]:
    """The faults, causes first, each with its count of places; hint, map and command of the first, and of others only what is new.

    Where a checker names a line, what the numbers look like is a symptom: it is listed and not explained.
    """
    found = [one for one in findings(verdict.gates) if one.failed]
    lines: list[str] = []
    told: set[str] = set()
    mapped: set[str] = set()  # cases whose story was told: their other figures need no hint
    for one in found[:most]:
        where = f" {one.elsewhere()}" if one.elsewhere() else ""
        lines.append(f"  {one.gate}: {one.head}{where} [{one.code}]")
        if not one.checks or (found[0].located and not one.located):
            continue
        first = one.checks[0]
        if first.hint and first.hint not in told and (first.notes or first.where not in mapped):
            told.add(first.hint)
            lines.append(f"      hint: {first.hint}")
        if first.notes:
            mapped.add(first.where)
        lines += [f"      {line}" for line in story(first) if line not in told]
        told.update(story(first))
    if len(found) > most:
        lines.append(f"  also {', '.join(dict.fromkeys(one.code for one in found[most:]))}; see verdict.json")
    return ["", "failed checks:", *lines] if lines else []


def story(check: Check) -> list[str]:
    """Where a failing check's output is wrong, the first wrong elements, likely causes, and the command that shows it again."""
    return [*check.notes, *([f"reproduce: {check.reproduce}"] if check.reproduce else [])]
