"""A process that is held back until the device is free: what it does before, when its time begins, and how it ends with its engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_process import wait_until

from gates.core.errors import GatesError
from gates.launch import replay
from gates.worker import process, turn
from gates.worker.turn import Turn

HELD = "import sys; from gates.worker import turn; print('up', flush=True); turn.wait(sys.argv[1]); print('on', flush=True)"
ENGINE = """
import subprocess, sys, time
from pathlib import Path
from gates.worker.turn import Turn
turn = Turn(Path(sys.argv[1]))
print(subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdout=2).pid, flush=True)
time.sleep(60)
"""


def test_it_waits_until_its_turn_comes_and_never_again(tmp_path: Path) -> None:
    with Turn(tmp_path / "turn") as held:
        came = list[float]()
        waiting = threading.Thread(target=lambda: came.append(turn.wait(str(held.path)) or time.monotonic()))
        waiting.start()
        waiting.join(0.1)
        assert not came
        began = time.monotonic()
        held.come()
        waiting.join()
        assert came[0] >= began
    turn.wait(str(held.path))


def test_a_turn_that_never_comes_is_an_error_and_no_turn(tmp_path: Path) -> None:
    with Turn(tmp_path / "turn") as held:
        pass
    held.come()  # too late
    with pytest.raises(GatesError, match="the run ended before this process had its turn"):
        turn.wait(str(held.path))


def test_one_that_never_comes_to_wait_has_its_limit_from_when_the_turn_was_given_up(tmp_path: Path) -> None:
    with Turn(tmp_path / "turn") as held:
        pass
    assert process.run(["sleep", "60"], limit_s=0.1, turn=held).timed_out


def test_a_held_process_ends_when_its_engine_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENGINE, str(tmp_path / "turn"), HELD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as engine:
        held = int(engine.stdout.readline())
        assert engine.stderr.readline() == "up\n"
        assert Path(f"/proc/{held}").exists()
        os.kill(engine.pid, signal.SIGKILL)
        said = engine.stderr.read()  # to the end, which comes when nobody can write any more
    assert "the run ended before this process had its turn" in said and "\non\n" not in said


def test_the_time_of_a_held_process_begins_with_its_turn(tmp_path: Path) -> None:
    with Turn(tmp_path / "turn") as held:
        soon = threading.Timer(0.6, held.come)
        soon.start()
        done = process.run([sys.executable, "-c", HELD, held.path], limit_s=0.4, turn=held)
        assert (done.timed_out, done.output) == (False, "up\non\n") and done.wall_s < 0.4
        hangs = process.run([sys.executable, "-c", f"{HELD}; import time; time.sleep(60)", held.path], limit_s=0.5, turn=held)
        assert hangs.timed_out and hangs.wall_s < 5, "its turn had come"


def test_a_held_process_ends_with_the_threads_that_run_it(tmp_path: Path) -> None:
    with Turn(tmp_path / "turn") as held, process.ToolThreads(1) as aside:
        done = aside.submit(process.run, [sys.executable, "-c", HELD, held.path], limit_s=60, turn=held)
        aside.stop()
        assert isinstance(done.exception() if not done.cancelled() else KeyboardInterrupt(), KeyboardInterrupt)


@pytest.mark.parametrize("kind", ["cuda", "python"])
def test_a_replay_opens_no_device_and_loads_no_kernel_before_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    done = list[str]()

    def noted(name: str) -> Any:
        return lambda *_: done.append(name) or SimpleNamespace()

    monkeypatch.setattr(replay, "load", noted("load"))
    monkeypatch.setattr(replay, "DeviceMemory", noted("device"))
    side = {"kind": kind, "emulated": False, "library": "none", "entry": "e"}
    with Turn(tmp_path / "device") as device, Turn(tmp_path / "kernel") as kernel:
        turns = {"device_turn": str(device.path), "turn": str(kernel.path)}
        job = {"side": side, "paths": [], "result": str(tmp_path / "result"), **turns}
        replaying = threading.Thread(target=replay._replay_here, args=(job, lambda *_, **__: None))
        replaying.start()
        for held, before in ((device, []), (kernel, ["device"])):
            wait_until(lambda held=held: held.is_awaited, 30)
            replaying.join(0.1)
            assert done == before and replaying.is_alive()
            held.come()
        replaying.join()
    assert done == ["device", "load"]
