"""Sweeps without a device: the task with a toggle, jobs that workers can import, a cluster that runs jobs in turn."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from places import TASKS

from gates.launch.device import DeviceInfo, card
from gates.sweep.cluster import Work
from gates.sweep.work import Done, Job

BLOCKS = TASKS / "blocks"
DEVICE = DeviceInfo(0, "NVIDIA Made-up", "GPU-0", "9.0", 1, 132, "1.0", "13.0")


@dataclass
class InTurn:
    """A cluster of nobody: ``functions`` stand for those of gates.sweep.work, by name."""

    devices: tuple[DeviceInfo, ...]
    functions: dict[str, Callable[[Job], Done]]

    @contextmanager
    def jobs(self) -> Iterator[Queue]:
        yield Queue(self.functions)


class Queue:
    """The jobs of such a cluster: done one after the other, once they are asked for."""

    def __init__(self, functions: dict[str, Callable[[Job], Done]]) -> None:
        self.functions, self.given = functions, deque[tuple[Work, Job]]()

    def add(self, function: Work, job: Job, *, device: bool = False) -> None:
        self.given.append((function, job))

    def __iter__(self) -> Iterator[tuple[Work, Done]]:
        while self.given:
            function, job = self.given.popleft()
            yield function, self.functions[function.__name__](job)


def job(variant: str, folder: Path) -> Job:
    return Job(variant, str(folder), {}, "", str(folder), (), 0, None, 1)


def spans(job: Job) -> Done:
    """When this job began and ended, as a file's text, and which device and which heavy modules its worker has."""
    began = time.time()
    time.sleep(0.3)
    heavy, device = str({"torch", "pandas"} & set(sys.modules)), os.environ["CUDA_VISIBLE_DEVICES"]
    return Done(job.variant, None, {"span": f"{began} {time.time()}".encode(), "heavy": heavy.encode(), "device": device.encode()})


def spans_on_card(job: Job) -> Done:
    with card("GPU-0"):
        return spans(job)


def dies_once(job: Job) -> Done:
    """End the worker where no worker has died on this job before."""
    mark = Path(job.folder) / job.variant
    if not mark.exists():
        mark.write_text(str(os.getpid()))
        os._exit(9)
    return Done(job.variant, None, {"first": mark.read_bytes(), "second": str(os.getpid()).encode()})
