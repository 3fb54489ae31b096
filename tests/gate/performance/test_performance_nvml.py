"""Reading the driver through a stand-in: refusals, throttle counters, who is on the card."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from gates.gate.performance.runner import nvml


class FakeError(Exception):
    pass


class FakeLibrary:
    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, processes=(), refused=()) -> None:
        self.pids, self.refused = list(processes), refused

    def _answer(self, name, value):
        if name in self.refused:
            raise FakeError("Not Supported")
        return value

    def nvmlInit(self):
        self._answer("init", None)

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return "handle"

    def nvmlDeviceGetUUID(self, handle):
        return "GPU-abc"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        assert uuid == "GPU-abc"
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, which):
        return self._answer("clock", {1: 1980, 2: 2619}[which])

    def nvmlDeviceGetMaxClockInfo(self, handle, which):
        return {1: 1980, 2: 2619}[which]

    def nvmlDeviceGetMemoryBusWidth(self, handle):
        return 5120

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._answer("power", 350_500)

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 44

    def nvmlDeviceGetFieldValues(self, handle, fields):
        self._answer("fields", None)
        return [SimpleNamespace(nvmlReturn=3 if field == 79 else 0, value=SimpleNamespace(ullVal=field * 10)) for field in fields]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self._answer("processes", [SimpleNamespace(pid=pid) for pid in self.pids])


@pytest.fixture
def install(monkeypatch):
    def put(**options):
        library = FakeLibrary(**options)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return library

    return put


def test_state_and_peak(install) -> None:
    install()
    card = nvml.open_device("abc")
    state = card.state()
    assert (card.source, state.sm_mhz, state.power_w, state.temperature_c) == ("nvml", 1980.0, 350.5, 44.0)
    assert state.throttle_ns["thermal"] == 750 and "reliability" not in state.throttle_ns
    assert card.peak_bytes_per_s() == pytest.approx(3.35e12, rel=0.01)  # an H100's


@pytest.mark.parametrize("what", ["clock", "power", "fields", "processes"])
def test_a_refused_figure_is_none_not_zero(install, what) -> None:
    install(refused=(what,))
    card = nvml.open_device("abc")
    state = card.state()
    assert {"clock": state.sm_mhz, "power": state.power_w, "fields": state.throttle_ns or None, "processes": card.other_processes()}[
        what
    ] is None


def test_no_driver_is_unknown_with_the_reason(install, monkeypatch) -> None:
    install(refused=("init",))
    assert nvml.open_device("abc").source == "unknown: Not Supported"
    assert nvml.processes_by_uuid() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    card = nvml.open_device("abc")
    assert card.source == "unknown: nvidia-ml-py is not installed"
    assert card.state().sm_mhz is None and card.other_processes() is None and card.peak_bytes_per_s() is None


def test_our_own_process_is_not_another(install) -> None:
    install(processes=[os.getpid()])
    assert nvml.open_device("abc").other_processes() == ()
    install(processes=[os.getpid(), 4711])
    assert nvml.open_device("abc").other_processes() == (4711,)


def test_in_a_container_what_appeared_with_our_context_is_us(install) -> None:
    library = install(processes=[100])
    before = nvml.processes_by_uuid()
    library.pids = [100, 31337]  # ours, under the host's process id
    card = nvml.open_device("abc", before)
    assert card.other_processes() == (100,)
    library.pids.append(200)
    assert card.other_processes() == (100, 200)
