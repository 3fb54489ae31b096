"""Shared test set-up: GPU tests are skipped, with the reason, where there is no CUDA device; the library of planted kernels."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import gc
import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT, TASKS

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the cores are shared by pytest's workers and what these start: more threads only wait for each other
# Each confined process of torch.compile has a cache of its own and compiles one kernel: a header precompiled for it, and one compilation
# for each vector instruction set that the processor says it has, are most of its time.
os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# The emulator's runtime is compiled once, also for tests with a home folder of their own.
os.environ.setdefault("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
# Bytecode is kept also where the environment says otherwise: the tests start hundreds of processes that import the same modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # until the tests are collected: what that imports is no garbage, and looking for some is a sixth of its time


def _cuda_devices() -> int:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than cores: tests spend a tenth of their time waiting for processes."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("GATES_SLOW"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: set GATES_SLOW=1 to run it"))
    if not any("gpu" in item.keywords for item in items) or _cuda_devices():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(100_000)  # nor do most tests leave any: records are parsed by the thousand objects
    gc.enable()


@pytest.fixture
def engine_entry(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the engine start a file of the given text for its jobs; ``sys.argv[2]`` there is the job's file."""

    def put(text: str) -> None:
        path = tmp_path_factory.mktemp("entry") / "planted.py"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr("gates.worker.job.ENTRY", path)

    return put


OnceASession = Callable[[str, Callable[[Path], object]], Path]  # (name, fill) -> folder
_COMPILED = (  # where what the kept libraries are made of lies, and what makes them
    *(f"gates/{name}" for name in ("build", "core", "emulator", "task")),
    *("kernels", "studies", "tasks", "examples"),
    *(f"tests/{name}" for name in ("data", "emulator", "gate/correctness", "kernels", "project", "support", "tasks")),
)


def _folder(shared: Path, name: str, key: str, fill: Callable[[Path], object]) -> Path:
    """The folder ``name`` in ``shared``, filled by the first process that asks, and anew if it was filled for another ``key``."""
    with (shared / f"{name}.filled").open("a+") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        mark.seek(0)
        if mark.read() != key:  # which another may have filled while this one waited
            mark.truncate(0)
            shutil.rmtree(shared / name, ignore_errors=True)  # of one who failed
            (shared / name).mkdir()
            fill(shared / name)
            mark.write(key)
    return shared / name


@pytest.fixture(scope="session")
def once_a_session(tmp_path_factory: pytest.TempPathFactory) -> OnceASession:
    """Gives a folder by its name, filled by the first who asks in any of the session's processes."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared  # a worker's folder is inside the session's
    return lambda name, fill: _folder(shared, name, "filled", fill)


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest, once_a_session: OnceASession) -> OnceASession:
    """The same for what compilers make of this checkout's files: kept for later sessions, in pytest's cache, while these files, the
    compilers and their environment are the same.
    """
    if (cache := getattr(request.config, "cache", None)) is None:
        return once_a_session
    shared, key = cache.mkdir("compiled"), _key()
    return lambda name, fill: _folder(shared, name, key, fill)


@functools.cache
def _key() -> str:
    from gates.build import compilers
    from gates.build.toolchain import find_toolchain

    cache = os.environ.get("XDG_CACHE_HOME")  # libraries of kernels name the runtime's place in it
    digest = hashlib.sha256(repr((sys.version, compilers.identities(find_toolchain()), compilers.environment(), cache)).encode())
    for path in sorted(path for folder in _COMPILED for path in (ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def saxpy(once_a_session: OnceASession) -> Path:
    """A folder with a copy of the saxpy stages, `tasks`, and of what the session's tests have built of them, `build`."""

    def copy(folder: Path) -> None:
        shutil.copytree(TASKS, folder / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "build").mkdir()

    return once_a_session("saxpy", copy)


@pytest.fixture(scope="module")  # some of its kernels keep state, which must not reach another file's tests
def library(kept: OnceASession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """planted.cpp of the correctness tests, compiled; a copy, since the loader knows a library by its file."""
    from correctness_kit import compile_planted

    made = kept("planted", lambda folder: compile_planted(folder))
    return Path(shutil.copy(made / "planted.so", tmp_path_factory.mktemp("planted")))
