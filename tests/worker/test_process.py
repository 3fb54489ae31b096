"""Tools that print without end, leave processes behind, or lose their engine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gates.core.errors import GatesError
from gates.worker import process


def run(code: str, *, limit_s: float = 30, **options) -> process.Finished:
    return process.run([sys.executable, "-c", code], limit_s=limit_s, **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_endless_output_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "MAX_PRINTED_BYTES", 2**21)
    monkeypatch.setattr(process, "HEAD_BYTES", 1000)
    monkeypatch.setattr(process, "TAIL_BYTES", 2000)
    done = run("while True: print('x' * 99)", log=tmp_path / "log")
    assert done.cause == "killed: printed more than 2 MiB" and not done.timed_out and done.returncode == -9
    assert len(done.output) < 3100 and "bytes left out" in done.output
    assert (tmp_path / "log").read_text() == done.output


def test_a_long_output_keeps_its_ends_or_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HEAD_BYTES", 100)
    monkeypatch.setattr(process, "TAIL_BYTES", 100)
    code = "print('first'); print('y' * 5000); print('last')"
    cut = run(code)
    assert cut.cause == "exit 0" and cut.output.startswith("first") and cut.output.endswith("last\n")
    assert "[… 4812 bytes left out …]" in cut.output
    assert run(code, whole=True).output.count("y") == 5000


def test_the_time_limit_holds() -> None:
    done = run("import time; time.sleep(60)", limit_s=0.5)
    assert done.timed_out and "time limit" in done.cause and done.wall_s < 5


def test_what_left_the_process_group_is_killed_too() -> None:
    left = "import os, time; pid = os.fork(); os.setsid() if pid == 0 else print(pid); time.sleep(0 if pid else 60)"
    done = run(left)
    assert done.cause == "exit 0"
    wait_until(lambda: not alive(int(done.output)))


def test_a_family_that_forks_on_and_on_is_killed_too(tmp_path: Path) -> None:
    hop = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.closerange(0, 9)\n    end = time.monotonic() + 20\n"
        f"    while time.monotonic() < end:\n        if os.fork():\n            os._exit(0)\n        time.sleep(0.02)\n        "
        f"open({str(tmp_path / 'last')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(0.3)"
    )
    assert run(hop).cause == "exit 0"
    before = (tmp_path / "last").read_text()
    time.sleep(0.3)
    assert (tmp_path / "last").read_text() == before


def test_processes_of_another_run_are_left_alone() -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, "GATES_PROCESS_MARK": "other"})
    try:
        assert run("pass").cause == "exit 0" and other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_runner_dies_with_its_engine(tmp_path: Path) -> None:
    package = str(Path(process.__file__).parents[2])
    runner = (
        f"import os, sys, time; sys.path.insert(0, {package!r}); from gates.worker.process import die_with; "
        f"die_with(os.getppid()); print(os.getpid(), flush=True); time.sleep(60)"
    )
    engine = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {runner!r}])"
    child = subprocess.Popen([sys.executable, "-c", engine], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    assert alive(pid)
    child.kill()
    child.wait()
    wait_until(lambda: not alive(pid))


def test_die_with_a_process_that_is_not_the_parent_changes_nothing() -> None:
    code = "from gates.worker.process import die_with; die_with(1); print('still here')"
    assert "still here" in run(code, env={**os.environ, "PYTHONPATH": str(Path(process.__file__).parents[2])}).output


def test_a_log_that_can_t_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="can't write .*log"):
        run("print(1)", log=tmp_path / "missing" / "log")


def test_too_much_output_is_told_also_of_a_tool_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_PRINTED_BYTES", 1000)
    monkeypatch.setattr(process, "HEAD_BYTES", 100)
    monkeypatch.setattr(process, "TAIL_BYTES", 100)
    done = run("print('y' * 5000)", whole=True)
    assert done.flooded and "bytes left out" in done.output


def test_leaving_by_an_exception_ends_the_tools_of_all_threads() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), process.ToolThreads(2) as together:
        asked = [together.submit(process.run, ["sleep", "30"], limit_s=30) for _ in range(3)]
        while not asked[1].running():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 10 and asked[2].cancelled() and isinstance(asked[0].exception(), KeyboardInterrupt)
