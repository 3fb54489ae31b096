"""Which CUDA devices the driver offers, asked of libcuda itself, without torch and without a context.

The question is put by a child process with a time limit: a broken driver may crash or hang whoever
asks it. CUDA_VISIBLE_DEVICES applies, so index 0 is the first device that a kernel would see.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.core.file_lock import locked
from gates.worker import process

_LIMIT_S = 20.0
_BYTES_OF_A_CANDIDATE = 8 * 2**30  # of a card's memory, for the contexts of its kernels' processes and of the memory checkers
_LIBRARY = "libcuda.so.1"
# CUdevice_attribute values of cuda.h
_SM_COUNT, _MAJOR, _MINOR = 16, 75, 76


@dataclass(frozen=True)
class DeviceInfo:
    """One CUDA device. ``driver_version`` is the display driver's (580.159), ``cuda_version`` the newest CUDA it takes."""

    index: int
    name: str
    uuid: str
    compute_capability: str  # "9.0"
    total_memory_bytes: int
    sm_count: int
    driver_version: str
    cuda_version: str

    @property
    def arch(self) -> str:
        """The architecture to compile for: sm_90."""
        return f"sm_{self.compute_capability.replace('.', '')}"


@dataclass(frozen=True)
class DeviceProbe:
    """The devices; where there are none, ``reason`` says why."""

    devices: tuple[DeviceInfo, ...]
    reason: str = ""


@contextlib.contextmanager
def card(uuid: str, *, alone: bool = True, wait: bool = True) -> Iterator[None]:
    """Wait for a card and lock it against this machine's other processes. If not ``alone``, share it with others that time nothing.

    Processes that need the card alone go first; the others start together when none of them waits. Raises BlockingIOError if the card
    is taken and ``wait`` is False.
    """
    name = Path(tempfile.gettempdir()) / f"gates-card-{hashlib.sha256(uuid.encode()).hexdigest()[:16]}"
    waiting, held = name.with_suffix(".waiting.lock"), name.with_suffix(".lock")
    if alone:
        with locked(waiting, alone=False, wait=wait), locked(held, wait=wait):
            yield
        return
    with contextlib.ExitStack() as stack:
        with locked(waiting, wait=wait):
            stack.enter_context(locked(held, alone=False, wait=wait))
        yield


def candidates_at_a_time(found: Sequence[DeviceInfo], cores: int) -> int:
    """How many candidates are compiled and judged side by side: one for two cores; with cards, for which they wait, three for four cores,
    and no more than fit the cards' memory.
    """
    fitting = [max(1, device.total_memory_bytes // _BYTES_OF_A_CANDIDATE) for device in found]
    return max(1, min(cores * 3 // 4, sum(fitting)) if fitting else cores // 2)


def probe() -> DeviceProbe:
    """Ask the driver for its devices; never raises."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return DeviceProbe((), f"no CUDA device: the driver library {_LIBRARY} is not installed")
    try:
        finished = process.run([sys.executable, "-m", "gates.launch.device"], limit_s=_LIMIT_S)
        answer = json.loads(finished.output.strip().splitlines()[-1])
        return DeviceProbe(tuple(DeviceInfo(**device) for device in answer["devices"]), answer["reason"])
    except GatesError as error:
        return DeviceProbe((), f"no CUDA device: {error.what}")
    except (ValueError, IndexError, KeyError, TypeError):
        return DeviceProbe((), f"no CUDA device: asking the driver ended with {finished.cause}")


def _ask() -> dict[str, Any]:
    """The child's part: every device, or the driver's error."""
    driver = ctypes.CDLL(_LIBRARY)
    status = driver.cuInit(0)
    if status != 0:
        return {"devices": [], "reason": f"no CUDA device: cuInit says {_error(driver, status)}"}
    count, cuda = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDriverGetVersion(ctypes.byref(cuda))
    cuda_version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"
    devices = [_device(driver, index, cuda_version) for index in range(count.value)]
    return {"devices": devices, "reason": "" if devices else "no CUDA device: the driver shows none (see CUDA_VISIBLE_DEVICES)"}


def _device(driver: Any, index: int, cuda_version: str) -> dict[str, Any]:
    handle, name, memory = ctypes.c_int(0), ctypes.create_string_buffer(256), ctypes.c_size_t(0)
    uuid = (ctypes.c_ubyte * 16)()
    driver.cuDeviceGet(ctypes.byref(handle), index)
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)(uuid, handle)
    number = bytes(uuid).hex()
    return {
        "index": index,
        "name": name.value.decode(errors="replace"),
        "uuid": "GPU-" + "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:])),
        "compute_capability": f"{_attribute(driver, handle, _MAJOR)}.{_attribute(driver, handle, _MINOR)}",
        "total_memory_bytes": memory.value,
        "sm_count": _attribute(driver, handle, _SM_COUNT),
        "driver_version": _driver_version(),
        "cuda_version": cuda_version,
    }


def _attribute(driver: Any, handle: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
    return value.value


def _error(driver: Any, status: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(status, ctypes.byref(text))
    return f"{(text.value or b'error').decode(errors='replace')} ({status})"


def _driver_version() -> str:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match.group(1) if match else ""


if __name__ == "__main__":
    print(json.dumps(_ask()))
