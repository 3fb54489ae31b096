"""Clocks, power, heat and throttling of the card, from the driver's management library (nvidia-ml-py).

Everything is optional: without the library, the driver or a permission the answer is "unknown" with
the reason, never a guess. The CUDA device is found by UUID, since indices differ between the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gates.stats.samples import State

# Cumulative nanoseconds for which the clock was held down, by reason (NVML field identifiers).
# Low utilisation (78) is left out: it counts whenever the card idles.
THROTTLE_FIELDS = {
    "power": 74,
    "thermal": 75,
    "reliability": 79,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "hw_power_brake": 271,
}


@dataclass
class Nvml:
    """An open handle. ``source`` is ``nvml``, or ``unknown: reason`` where nothing can be read."""

    source: str
    library: Any = None
    handle: Any = None
    mine: frozenset[int] = field(default_factory=frozenset)

    def state(self) -> State:
        """The card now; a figure that the driver refuses is None."""
        if self.handle is None:
            return State()
        nvml = self.library
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, self.handle)
        return State(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, self.handle, nvml.NVML_CLOCK_SM),
            mem_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, self.handle, nvml.NVML_CLOCK_MEM),
            power_w=None if milliwatts is None else milliwatts / 1000.0,
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, self.handle, nvml.NVML_TEMPERATURE_GPU),
            throttle_ns=self._throttle(),
        )

    def driver(self) -> str:
        """The driver's version, empty where unknown."""
        found = self._ask(self.library.nvmlSystemGetDriverVersion, text=True) if self.handle is not None else None
        return found or ""

    def peak_bytes_per_s(self) -> float | None:
        """Memory clock x two transfers x bus width: the most that device memory can move."""
        if self.handle is None:
            return None
        mhz = self._ask(self.library.nvmlDeviceGetMaxClockInfo, self.handle, self.library.NVML_CLOCK_MEM)
        bits = self._ask(self.library.nvmlDeviceGetMemoryBusWidth, self.handle)
        return mhz * 1e6 * 2.0 * bits / 8.0 if mhz and bits else None

    def max_sm_mhz(self) -> float | None:
        """The highest SM clock that the card can have."""
        return None if self.handle is None else self._ask(self.library.nvmlDeviceGetMaxClockInfo, self.handle, self.library.NVML_CLOCK_SM)

    def other_processes(self) -> tuple[int, ...] | None:
        """Process ids with a compute context on the card beside ours; None where the driver does not tell."""
        now = self.processes()
        return None if now is None else tuple(sorted(now - self.mine))

    def processes(self) -> frozenset[int] | None:
        """Process ids with a compute context on the card, ours included."""
        if self.handle is None:
            return None
        try:
            return frozenset(process.pid for process in self.library.nvmlDeviceGetComputeRunningProcesses(self.handle))
        except self.library.NVMLError:
            return None

    def _throttle(self) -> dict[str, int]:
        try:
            values = self.library.nvmlDeviceGetFieldValues(self.handle, list(THROTTLE_FIELDS.values()))
        except self.library.NVMLError:
            return {}
        return {name: int(value.value.ullVal) for name, value in zip(THROTTLE_FIELDS, values, strict=True) if value.nvmlReturn == 0}

    def _ask(self, function: Callable[..., Any], *arguments: Any, text: bool = False) -> Any:
        try:
            answer = function(*arguments)
        except self.library.NVMLError:
            return None
        if text:
            return answer.decode() if isinstance(answer, bytes) else str(answer)
        return float(answer)


def processes_by_uuid() -> dict[str, frozenset[int]]:
    """Processes on every card; call before our own CUDA context exists. Empty where nothing can be read."""
    try:
        import pynvml
    except ImportError:
        return {}
    found: dict[str, frozenset[int]] = {}
    try:
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
            name = uuid.decode() if isinstance(uuid, bytes) else uuid
            found[name] = Nvml("nvml", pynvml, handle).processes() or frozenset()
    except pynvml.NVMLError:
        return found
    return found


def open_device(uuid: str, before: Mapping[str, frozenset[int]] | None = None, pid: int | None = None) -> Nvml:
    """The card with CUDA's ``uuid`` (with or without the ``GPU-`` prefix).

    ``pid`` is the process that holds our CUDA context (this one, if None), ``before`` what ``processes_by_uuid`` said before that
    context existed: whatever appeared on the card since is ours. A container may list it under another process id.
    """
    try:
        import pynvml
    except ImportError:
        return Nvml("unknown: nvidia-ml-py is not installed")
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    try:
        pynvml.nvmlInit()
        found = Nvml("nvml", pynvml, pynvml.nvmlDeviceGetHandleByUUID(name))
    except pynvml.NVMLError as error:
        return Nvml(f"unknown: {error}")
    now = found.processes() or frozenset()
    own = os.getpid() if pid is None else pid
    found.mine = frozenset({own}) if own in now else now - (before or {}).get(name, frozenset())
    return found
