"""What torch.cuda says of a device that there is not: its properties, and streams and events that have nothing to wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gates.hardware.chips import Chip

MULTIPROCESSORS = 4
_MEMORY_BYTES = 2**34
_L2_BYTES = 50 * 2**20


class _Properties(SimpleNamespace):
    """What torch says of a device: a class of ours, so that a name that it lacks is not the kernel's fault."""


class Guard(contextlib.nullcontext[None]):
    """Makes a device or a stream the current one, of which there is one."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


class Stream(Guard):
    """The only stream: work is done when a call returns. It stands for an event, too."""

    cuda_stream = cuda_event = stream_id = priority = device_index = 0

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0

    def record_event(self, event: Any = None) -> Any:
        return event or Stream()

    def synchronize(self, *_: Any) -> None:
        pass

    record = wait = wait_event = wait_stream = synchronize


def answers(chip: Chip) -> dict[str, Callable[..., Any]]:
    """What answers in place of the functions of torch.cuda, by their names."""
    capability, name = divmod(chip.number, 10), f"emulated {chip.arch}"
    properties = _Properties(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=_MEMORY_BYTES,
        multi_processor_count=MULTIPROCESSORS,
        warp_size=32,
        L2_cache_size=_L2_BYTES,
        max_threads_per_block=chip.threads_per_cta,
        max_threads_per_multi_processor=chip.threads_per_sm,
        regs_per_multiprocessor=chip.registers_per_sm,
        shared_memory_per_block=chip.smem_without_opt_in,
        shared_memory_per_block_optin=chip.smem_per_cta,
        shared_memory_per_multiprocessor=chip.smem_per_sm,
    )
    return {
        "synchronize": lambda *_, **__: None,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "set_device": lambda *_: None,
        "device": Guard,
        "device_of": Guard,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: capability,
        "get_device_name": lambda *_: name,
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": Guard,
        "set_stream": lambda *_: None,
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda *_: (_MEMORY_BYTES, _MEMORY_BYTES),
        "init": lambda: None,
        "Stream": Stream,
        "ExternalStream": Stream,
        "StreamContext": Guard,
        "Event": Stream,
    }
