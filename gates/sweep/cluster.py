"""Workers by Dask distributed: a local cluster, or one that runs already; the only module that imports it.

A local cluster has one worker for each GPU, which sees that GPU alone, and one for each core. Whatever needs a
GPU goes to workers with the resource ``GPU``. What needs it alone takes the card's lock by itself,
so that a card is timed by one at a time even where two workers, or two sweeps, share it. Dask gives a dead worker's job to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import queue
import re
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from gates import __version__
from gates.core.errors import EXIT_HOLD, GatesError
from gates.launch import device as devices
from gates.sweep.work import own_device

if TYPE_CHECKING:
    import distributed

Work = Callable[[Any], Any]  # of a job that can be pickled
GPU, CPU = {"GPU": 1}, {"CPU": 1}
_CONNECT_S = 10.0
_START_S = 120.0
_HERE = "127.0.0.1"  # whoever reaches a worker's port can have anything run


@dataclass
class Cluster:
    """Workers to give jobs to; ``devices`` are those that time, all of one kind; ``plain``: the resource of workers for other jobs."""

    client: distributed.Client
    devices: tuple[devices.DeviceInfo, ...]
    plain: Mapping[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def jobs(self) -> Iterator[Jobs]:
        """Jobs to give, whose results come in the order of their ends; what is left at the end of the block is cancelled."""
        jobs = Jobs(self.client, self.plain)
        try:
            yield jobs
        finally:
            jobs.cancel()


class Jobs:
    """Jobs that workers are at; iterating gives (function, what came of it), and more may be added meanwhile."""

    def __init__(self, client: distributed.Client, plain: Mapping[str, int]) -> None:
        self.client, self.plain, self.given = client, plain, dict[Any, Work]()
        self._done = queue.SimpleQueue[Any]()  # its get() may be interrupted anywhere; Dask's own waits hold a lock, and lose it

    def add(self, function: Work, job: Any, *, device: bool = False) -> None:
        """Have ``function`` called with ``job``. ``device``: with a GPU, before jobs that need none."""
        options: dict[str, Any] = {"resources": GPU, "priority": 1} if device else {"resources": self.plain}
        with _undisturbed():
            future = self.client.submit(function, job, pure=False, **options)
            self.given[future] = function
            future.add_done_callback(self._done.put)

    def __iter__(self) -> Iterator[tuple[Work, Any]]:
        """Raises GatesError that a job raised, and where workers died on one job again and again."""
        from distributed.scheduler import KilledWorker

        while self.given:
            future = self._done.get()
            try:
                with _undisturbed():
                    done, function = future.result(), self.given.pop(future)
                    del future  # tells the scheduler
            except KilledWorker as error:
                raise GatesError(
                    f"workers died again and again: {error}",
                    hint="memory or a time limit of the machine may be the cause; the same command continues",
                ) from None
            yield function, done

    def cancel(self) -> None:
        """Have what is left stopped, and forget it."""
        with _undisturbed():
            self.client.cancel(list(self.given), force=True)
            for future in self.given:
                future.release()  # now: the traceback of what ended the block may keep one until a moment that another interruption hits
            self.given.clear()
            while not self._done.empty():
                self._done.get()


@contextlib.contextmanager
def local_cluster(found: Sequence[devices.DeviceInfo], cores: int, per_card: int = 1) -> Iterator[Cluster]:
    """``per_card`` worker processes for each device and ``cores`` more without one, here, until the end.

    With ``cores``, those of a device build nothing, so that they never wait for a compiler.
    """
    distributed = _dask()
    shared = {} if cores else {"OMP_NUM_THREADS": str(max(1, core_count() // max(1, per_card * len(found))))}
    quiet = {"OMP_NUM_THREADS": "1"}  # there is a worker for each core already
    spec = {
        f"gpu{device.index}.{number}": _worker({"CUDA_VISIBLE_DEVICES": device.uuid, **shared}, GPU)
        for number in range(per_card)
        for device in found
    } | {f"cpu{number}": _worker({"CUDA_VISIBLE_DEVICES": "", **quiet}, CPU) for number in range(cores)}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": f"{_HERE}:0", "host": _HERE}}
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_forked_workers())
            with _undisturbed(), _deaf_children():
                cluster = stack.enter_context(
                    distributed.SpecCluster(workers=spec, scheduler=scheduler, silence_logs=logging.CRITICAL, name="gates")
                )
                client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
            _wait_for_workers(client, len(spec))
            yield Cluster(client, tuple(found), CPU)
        finally:
            with _undisturbed():
                stack.close()


def _wait_for_workers(client: distributed.Client, number: int) -> None:
    """Wait two minutes at most, and let an interruption in twice a second."""
    until = time.monotonic() + _START_S
    while True:
        try:
            with _undisturbed():
                return client.wait_for_workers(number, timeout=0.5)
        except TimeoutError:
            if time.monotonic() > until:
                raise


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold an interruption back until the end of the block: half a cluster can't be closed. Only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Have threads that start in the block, and all processes that these start, blocked for Ctrl-C and for a closed terminal.

    A terminal tells the whole process group; only this process is to act on it, and ends the others.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    resource_tracker.ensure_running()  # multiprocessing's own helper, whose start unblocks Ctrl-C in the thread that starts it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _forked_workers() -> Iterator[None]:
    """Fork workers from one process with the imports that all of them need.

    Dask can do so, too, but imports pandas and more there.
    """
    import dask
    from distributed import utils

    multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", "gates.sweep.work"])
    utils._forkserver_preload_set = True
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


def _worker(env: Mapping[str, str], resources: Mapping[str, int]) -> dict[str, Any]:
    from distributed import Nanny

    options = {
        "nthreads": 1,
        "env": {**os.environ, **env},  # the process that forks them has the environment of the first cluster
        "resources": resources,
        "memory_limit": 0,
        "dashboard": False,
        "silence_logs": logging.CRITICAL,
        "host": _HERE,
        "dashboard_address": f"{_HERE}:0",
    }
    return {"cls": Nanny, "options": options}


@contextlib.contextmanager
def joined_cluster(address: str) -> Iterator[Cluster]:
    """The running cluster at ``address``; raises GatesError where it can't be used."""
    distributed = _dask()
    hint = "start one with `dask scheduler`; it prints its tcp://HOST:PORT"
    if not re.fullmatch(r"tcp://\[?[\w.:-]+\]?:\d+", address):  # a client with a bad address hangs when it is deleted
        raise GatesError(f"{address!r} is not the address of a Dask scheduler", hint=hint)
    try:
        asyncio.run(_greet(address))
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except Exception as error:
        raise GatesError(f"can't reach a Dask scheduler at {address}: {_why(error)}", hint=hint) from None
    with client:
        yield Cluster(client, _joined_devices(client, address))


async def _greet(address: str) -> None:
    """Exchange greetings with whatever listens at ``address``; a client waits for an answer without end."""
    from distributed.comm import connect

    (await asyncio.wait_for(connect(address, timeout=_CONNECT_S), _CONNECT_S)).abort()


def _why(error: Exception) -> str:
    """Why there is no connection, in a line."""
    if isinstance(error, asyncio.TimeoutError):
        return f"no answer within {_CONNECT_S:g} s"
    if isinstance(error, (MemoryError, struct.error)):  # Dask takes the first bytes for lengths
        return "what listens there speaks another protocol"
    return str(error).partition("\n")[0] or type(error).__name__


def _joined_devices(client: distributed.Client, address: str) -> tuple[devices.DeviceInfo, ...]:
    """The devices of the workers with the resource GPU; raises GatesError for workers that can't take part."""
    try:
        workers = client.run(_facts)
    except ModuleNotFoundError as error:
        raise GatesError(f"a worker of {address} can't import gates: {error}", hint="install kernel-gates where the workers run") from None
    if not workers:
        raise GatesError(
            f"the cluster at {address} has no workers", hint=f"start some with `dask worker {address} --nthreads 1`", exit_code=EXIT_HOLD
        )
    if others := sorted({version for version, _ in workers.values() if version != __version__}):
        raise GatesError(
            f"workers have kernel-gates {', '.join(others)}, here it is {__version__}", hint="install the same version everywhere"
        )
    timing = [worker for worker, (_, has_gpu) in workers.items() if has_gpu]
    found = {device.uuid: device for device in client.run(own_device, workers=timing).values()} if timing else {}
    return one_kind(tuple(found.values()))


def one_kind(found: Sequence[devices.DeviceInfo]) -> tuple[devices.DeviceInfo, ...]:
    """``found``; raises GatesError where they are different cards, whose times don't compare."""
    if len(kinds := sorted({device.name for device in found})) > 1:
        raise GatesError(
            f"the cards to time on differ: {', '.join(kinds)}",
            hint="name cards of one kind in CUDA_VISIBLE_DEVICES, or give only workers with such the resource GPU",
        )
    return tuple(found)


def _facts(dask_worker: distributed.Worker) -> tuple[str, bool]:
    """(its version of gates, whether it has the resource GPU) of the worker that this runs on."""
    return __version__, bool(dask_worker.state.total_resources.get("GPU"))


def _dask() -> Any:
    """The package, imported with only errors logged; raises GatesError without it."""
    try:
        import distributed
    except ImportError:
        raise GatesError("Dask distributed is not installed", hint="pip install 'kernel-gates[sweep]'") from None
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
