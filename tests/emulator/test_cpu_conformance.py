"""The conformance items on the CPU device, compiled by nvcc, against what CUDA promises and what a device gave, bit for bit if CUDA
defines it.

The sources and their items are in studies/conformance/; studies/record_conformance.py records a device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conformance import catalogue, library, recording
from conformance.items import ITEMS
from conftest import OnceASession
from places import ROOT

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, DeviceArray

RECORDED = ROOT / "results" / "recorded" / "h200" / "conformance.json.gz"


class CpuMemory:
    """Buffers of the CPU device, as `library.call` takes them."""

    def __init__(self, device: CpuDevice) -> None:
        self._device, self._arrays = device, {}

    def allocate(self, content: bytes) -> int:
        array: DeviceArray = self._device.array(np.frombuffer(content, np.uint8))
        self._arrays[array.address] = array
        return array.address

    def settle(self) -> None:
        """Copies are done at once."""

    def synchronize(self) -> str:
        code = self._device.library.cudaDeviceSynchronize()
        return "" if code == 0 else self._device.library.cudaGetErrorString(code).decode()

    def read(self, address: int, size: int) -> bytes:
        return self._arrays[address].get().tobytes()[:size]


@pytest.fixture(scope="session")
def built(kept: OnceASession) -> Callable[[str], ctypes.CDLL]:
    """The library of a source, compiled once for all tests."""

    def get(source: str) -> ctypes.CDLL:
        def fill(folder: Path) -> None:
            cpu_kit.kernel_library([library.FOLDER / f"{source}.cu"], folder / f"{source}.so", flags=["-std=c++17", "-w"])

        return ctypes.CDLL(str(kept(f"cpu-conformance-{source}", fill) / f"{source}.so"))

    return get


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(RECORDED)


@pytest.mark.parametrize("name", ITEMS)
def test_the_cpu_device_gives_what_cuda_promises_and_the_device_gave(
    built: Callable[[str], ctypes.CDLL], recorded: recording.Recording, name: str
) -> None:
    item, cpu = ITEMS[name], cpu_kit.device(seed=2)
    try:
        outcome = library.call(built(item.source), item, CpuMemory(cpu))
    except GatesError as error:
        pytest.fail(f"{error}; {cpu.findings()}")
    assert outcome.code == item.refused and outcome.error == ""
    if item.source != "host":
        assert not cpu.findings()
    wanted = item.wanted()
    if wanted is not None:
        assert catalogue.difference(item, outcome.values, wanted, ("the CPU device", "numpy")) == ""
    if item.within is not None:
        assert catalogue.outside(item, outcome.values, "the CPU device") == ""
    assert recording.compared(item, outcome.code, outcome.values, recorded.items[name]) == []
