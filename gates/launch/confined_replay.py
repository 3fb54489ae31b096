"""Replay a kernel on the emulator in a confined fork of the runner; the runner writes the result, the fork does not.

A C launcher needs no torch. The fork's output comes through a pipe, so the kernel can't erase it.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import NOT_HERE, GatesError, NotHere
from gates.launch.entry_point import is_c
from gates.worker import isolated
from gates.worker.job import ResultWriter

_LINES = ("phase", "case", "refused", "end")
_MAX_BYTES = 32 * 2**20  # of what it answers


def run_isolated(replay: Callable[[Callable[..., None]], None], job: Mapping[str, Any], writer: ResultWriter) -> None:
    """Call ``replay`` with a line writer in a confined fork, and write its lines to this process's result.

    If the fork failed, ends this process with the same exit code or signal. Raises GatesError if the fork refused.
    """
    scratch = isolated.scratch(job, job["side"]["name"])
    heard, printed = os.pipe()
    kept = os.dup(2)
    os.dup2(printed, 2)
    token = secrets.token_hex(16)
    child = isolated.Fork(lambda: _answer(replay, scratch, job, token))
    os.dup2(kept, 2)
    for descriptor in (printed, kept):
        os.close(descriptor)
    child.stdin.close()
    whole = False
    for text in _heard(child.stdout.fileno(), heard).split(b"\n"):
        line = _line(text)
        if line.get("type") == "refused":
            what, hint = str(line.get("what")), str(line["hint"]) if line.get("hint") else None
            raise NotHere(what, hint=hint, reason=line["reason"]) if line.get("reason") in NOT_HERE else GatesError(what, hint=hint)
        whole = whole or line == {"type": "end", "token": token}
        if line and line["type"] != "end":
            writer.write(line.pop("type"), **line)
    if (code := child.wait()) or not whole:  # also if it ended well before its end
        sys.stdout.flush()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        sys.exit(code)


def _answer(replay: Callable[[Callable[..., None]], None], scratch: Path, job: Mapping[str, Any], token: str) -> None:
    """The fork: confine itself, then replay."""
    _, answers = isolated.settle()
    isolated.confine(
        scratch, memory_bytes=None, on_device=False, processes=not is_c(job["side"]), cpu_s=isolated.processor_seconds(job)
    )  # a checker maps much memory

    def write(kind: str, **data: Any) -> None:
        answers.write(json.dumps({"type": kind, **data}).encode() + b"\n")
        answers.flush()

    try:
        replay(write)
        write("end", token=token)
    except GatesError as error:
        write("refused", what=error.what, hint=error.hint, reason=getattr(error, "reason", ""))


def _heard(answers: int, printed: int) -> bytes:
    """All that is answered, up to the limit; what is printed goes on to this process's output."""
    waiting, answer = {answers, printed}, b""
    while waiting:
        for descriptor in select.select(list(waiting), [], [])[0]:
            data = os.read(descriptor, 2**16)
            if not data:
                waiting.discard(descriptor)
            elif descriptor == answers:
                answer = (answer + data)[:_MAX_BYTES]
            else:
                while data:
                    data = data[os.write(1, data) :]
    return answer


def _line(text: bytes) -> dict[str, Any]:
    """A line of a replay; an empty one where it is none."""
    try:
        line = jsonio.loads(text.decode("utf-8", errors="replace"), "replay") if text.strip() else None
    except GatesError:
        return {}
    return line if isinstance(line, dict) and line.get("type") in _LINES and "nonce" not in line else {}
