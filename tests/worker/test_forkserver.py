"""Runners forked from a process that has torch: each as if begun afresh, and an ordinary process where that can't be."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_process import alive, wait_until

from gates.worker import forkserver, process

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no pidfd here")
PACKAGE = str(Path(process.__file__).parents[2])
# Prints whether it has torch, and the parent of its keeper: the server.
IS_FORK = (
    "import os, sys; server = int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]); "
    "print('torch' in sys.modules, server if 'torch' in sys.modules else os.getppid())"
)
FAKE_TORCH = "class cuda:\n    is_initialized = staticmethod(lambda: False)\n"  # as quick to import as a test wants


class Scripts:
    """Runs scripts by the server; ``env`` is one of its own, with a torch that is quick to import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "fake").mkdir()
        (folder / "fake" / "torch.py").write_text(FAKE_TORCH)
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "fake"), PACKAGE])}

    def __call__(
        self,
        code: str,
        *arguments: str,
        limit_s: float = 60,
        cwd: Path | None = None,
        name: str = "script.py",
        compiles: str = "",
        **more: str,
    ) -> process.Finished:
        script = self.folder / "scripts" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(textwrap.dedent(code))
        popen = partial(forkserver.popen, compiles=compiles)
        return process.run([sys.executable, script, *arguments], limit_s=limit_s, cwd=cwd, env={**self.env, **more}, popen=popen)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Scripts]:
    yield Scripts(tmp_path)
    if forkserver._server is not None:
        forkserver._server.end()
        forkserver._server = None


def test_runners_are_forks_of_one_process_that_has_torch(run: Scripts) -> None:
    first, second = (run(IS_FORK).output.split() for _ in range(2))
    assert first == second and first[0] == "True" and int(first[1]) != os.getpid()


def test_the_real_torch_can_be_forked(run: Scripts) -> None:
    run.env["PYTHONPATH"] = PACKAGE
    done = run(
        "import sys, torch, numpy; print('_C' in dir(sys.modules['torch']), float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()), "
        "numpy.dot(numpy.ones(9), numpy.ones(9)))"
    )
    assert done.output.split() == ["True", "262144.0", "9.0"] and done.returncode == 0
    assert forkserver._server is not None and forkserver._server.ready()


def test_garbage_is_looked_for_by_the_runner_and_neither_in_torch_nor_while_it_is_imported(run: Scripts) -> None:
    (run.folder / "fake" / "torch.py").write_text(f"import gc\nenabled = gc.isenabled()\n{FAKE_TORCH}")
    assert run("import gc, sys; print(sys.modules['torch'].enabled, gc.isenabled(), gc.get_freeze_count() > 1000)").output.split() == [
        "False",
        "True",
        "True",
    ]


def test_the_digest_of_triton_is_made_once_for_all_runners_that_ask(run: Scripts) -> None:
    package = run.folder / "fake" / "triton" / "runtime"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "cache.py").write_text("made = []\ndef triton_key(): made.append(1)\n")
    counted = "import sys; print(len(getattr(sys.modules.get('triton.runtime.cache'), 'made', ())))"
    assert [run(counted, compiles=compiles).output.strip() for compiles in ("", "triton", "")] == ["0", "1", "1"]


def test_it_starts_as_a_process_of_its_own(run: Scripts, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "beside.py").write_text("here = 1")
    code = """
        import os, random, sys
        import beside
        print(sys.argv[1:], os.getcwd(), os.getsid(0) == os.getpid(), __name__, sys.stdin.read() == "", "GATES_PROCESS_MARK" in os.environ)
        print(random.random())
        print("to stderr", file=sys.stderr)
        open("kept", "w").close()
        os.environ["MINE"] = "1"
    """
    where = tmp_path / "work"
    where.mkdir()
    first, second = (run(code, "--job", "x", cwd=where).output.splitlines() for _ in range(2))
    assert first[0] == f"['--job', 'x'] {where} True __main__ True True" and (where / "kept").exists()
    assert first[0] == second[0] and first[1] != second[1] and "to stderr" in first
    assert run("import os; print(os.environ.get('MINE'))").output == "None\n"


@pytest.mark.parametrize(
    ("code", "cause", "said"),
    [
        ("import sys; sys.exit(7)", "exit 7", ""),
        ("raise SystemExit('what went wrong')", "exit 1", "what went wrong"),
        ("1 / 0", "exit 1", "ZeroDivisionError"),
        ("import os; os.abort()", "killed by SIGABRT", ""),
        ("print('done')", "exit 0", "done"),
    ],
)
def test_how_it_ended(run: Scripts, code: str, cause: str, said: str) -> None:
    done = run(code)
    assert done.cause == cause and said in done.output
    assert run(IS_FORK).output.startswith("True")  # the next one is none the worse


def test_time_limit_and_what_it_leaves_behind(run: Scripts) -> None:
    done = run("import time; time.sleep(60)", limit_s=1)
    assert done.timed_out and done.wall_s < 20
    left = """
        import os, subprocess, sys, time
        own = os.fork()
        if own == 0:
            os.setsid()
            os.closerange(0, 100)
            time.sleep(60)
        tool = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(own, tool.pid)
    """
    done = run(left)
    assert done.cause == "exit 0"
    for pid in map(int, done.output.split()):
        wait_until(lambda pid=pid: not alive(pid))


def test_several_at_once_and_the_end_of_one_ends_nothing_of_another(run: Scripts) -> None:
    (run.folder / "go").mkdir()
    waits = f"""
        import pathlib, subprocess, time
        tool = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
        orphan = int(tool.stdout.readline())
        tool.wait()
        (pathlib.Path({str(run.folder)!r}) / "go" / "started").touch()
        while not (pathlib.Path({str(run.folder)!r}) / "go" / "on").exists():
            time.sleep(0.01)
        print("alive" if pathlib.Path(f"/proc/{{orphan}}").exists() else "ended", orphan)
    """
    with ThreadPoolExecutor() as pool:
        assert run(IS_FORK).output.startswith("True")
        first = pool.submit(run, waits, name="waits.py")
        wait_until((run.folder / "go" / "started").exists, 30)
        assert run(IS_FORK).output.startswith("True")
        (run.folder / "go" / "on").touch()
        state, orphan = first.result().output.split()
    assert state == "alive"
    wait_until(lambda: not alive(int(orphan)))


def test_another_environment_gets_another_server(run: Scripts) -> None:
    first = run(f"{IS_FORK}; print(os.environ.get('SWITCH'))").output.split()
    second = run(f"{IS_FORK}; print(os.environ.get('SWITCH'))", SWITCH="1").output.split()
    assert first[1] != second[1] and (first[2], second[2]) == ("None", "1")


def test_what_is_read_later_needs_no_other_server(run: Scripts) -> None:
    """Where compilers lie, and each test's name, which pytest tells in the environment: runners are told it, and its end."""
    ask = f"{IS_FORK}; print([os.environ.get(name) for name in ('PATH', 'CUDA_HOME', 'PYTEST_CURRENT_TEST')])"
    said = [run(ask, **told).output.splitlines() for told in ({"PYTEST_CURRENT_TEST": "one", "CUDA_HOME": "/cuda"}, {"PATH": "/bin"})]
    assert said[0][0] == said[1][0]
    assert said[0][1] == str([run.env["PATH"], "/cuda", "one"])
    assert said[1][1] == str(["/bin", run.env.get("CUDA_HOME"), run.env["PYTEST_CURRENT_TEST"]])


def test_the_start_of_the_server_is_not_the_runner_s_time(run: Scripts) -> None:
    (run.folder / "fake" / "torch.py").write_text("import time; time.sleep(3)\n" + FAKE_TORCH)
    done = run(IS_FORK, limit_s=2.5)
    assert done.output.startswith("True") and not done.timed_out and done.wall_s < 2.5


@pytest.mark.parametrize(
    "torch",
    [
        "raise ImportError('no torch')",
        "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n" + FAKE_TORCH,
    ],
)
def test_a_torch_that_fails_or_leaves_threads_behind_gives_an_ordinary_process(run: Scripts, torch: str) -> None:
    (run.folder / "fake" / "torch.py").write_text(torch)
    assert run(IS_FORK).output == f"False {os.getpid()}\n"
    assert run(IS_FORK).output == f"False {os.getpid()}\n"


def test_a_server_that_was_killed_gives_an_ordinary_process_and_the_next_a_new_one(run: Scripts) -> None:
    assert run(IS_FORK).output.startswith("True")
    assert forkserver._server is not None
    forkserver._server.process.kill()
    forkserver._server.process.wait()
    assert run(IS_FORK).output == f"False {os.getpid()}\n"
    assert run(IS_FORK).output.startswith("True")


def test_switched_off(run: Scripts) -> None:
    assert run(IS_FORK, GATES_FORK="0").output == f"False {os.getpid()}\n"


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_server_and_runner_end_with_their_engine(run: Scripts, end: str) -> None:
    runner = run.folder / "runner.py"
    runner.write_text(
        f"{IS_FORK}\nimport time; print(os.getpid(), os.getppid(), server, file=open('pids', 'w'), flush=True); time.sleep(60)"
    )
    engine = (
        f"import sys; from gates.worker import forkserver, process; process.run([sys.executable, {str(runner)!r}], limit_s=60, "
        f"popen=forkserver.popen, cwd={str(run.folder)!r})"
    )
    child: Any = subprocess.Popen([sys.executable, "-c", engine], env=run.env)
    pids = run.folder / "pids"
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 3, 30)
    getattr(child, end)()
    child.wait()
    began = time.monotonic()
    for pid in map(int, pids.read_text().split()):
        wait_until(lambda pid=pid: not alive(pid))
    assert time.monotonic() - began < 10
