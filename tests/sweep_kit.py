"""Sweeps without a device: the task with a toggle, jobs that workers can import, a cluster that runs jobs in turn."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.run.device import DeviceInfo
from gates.sweep.work import Done, Job

BLOCKS = Path(__file__).parent / "tasks" / "blocks"
DEVICE = DeviceInfo(0, "NVIDIA Made-up", "GPU-0", "9.0", 1, 132, "1.0", "13.0")


@dataclass
class InTurn:
    """A cluster of nobody: ``functions`` stand for those of gates.sweep.work, by name."""

    devices: tuple[DeviceInfo, ...]
    functions: dict[str, Callable[[Job], Done]]

    def each(self, function: Callable[[Job], Done], jobs: Sequence[Job], *, device: bool = False) -> Iterator[Done]:
        for job in jobs:
            yield self.functions[function.__name__](job)


def job(variant: str, folder: Path) -> Job:
    return Job(variant, str(folder), {}, "", str(folder), (), 0, None, 1)


def spans(job: Job) -> Done:
    """When this job began and ended, as a file's text, and which heavy modules its worker has."""
    began = time.time()
    time.sleep(0.3)
    return Done(job.variant, None, {"span": f"{began} {time.time()}".encode(), "heavy": str({"torch", "pandas"} & set(sys.modules)).encode()})


def dies_once(job: Job) -> Done:
    """End the worker where no worker has died on this job before."""
    mark = Path(job.folder) / job.variant
    if not mark.exists():
        mark.write_text(str(os.getpid()))
        os._exit(9)
    return Done(job.variant, None, {"first": mark.read_bytes(), "second": str(os.getpid()).encode()})
