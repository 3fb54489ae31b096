"""The wrappers of TMA and wgmma on a card: boxes and products as numpy, and so the emulator, has them. They compile without one."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_kit import DATA
from static_kit import needs_nvcc
from test_hopper_wrappers import K_MAJOR, MN_MAJOR, ROWS, SWIZZLE_128, box, load, multiply, swizzled

from gates.build.toolchain import find_toolchain
from gates.launch.device import probe
from gates.launch.memory import DeviceMemory


class OnDevice:
    """A library that nvcc built; ``run`` as that of Emulated, on copies of the arrays."""

    def __init__(self, path: Path) -> None:
        self.library, self.memory = ctypes.CDLL(str(path)), DeviceMemory(0)

    def run(self, name: str, *arguments: Any, order: str = "", seed: int = 0) -> int:
        """The launcher's status; an error of the launch fails the test."""
        del order, seed  # the card has its own
        places = [self.memory.allocate(value.tobytes()) if isinstance(value, np.ndarray) else None for value in arguments]
        self.memory.settle()
        status = getattr(self.library, name)(
            *(value if place is None else ctypes.c_void_p(place) for value, place in zip(arguments, places, strict=True))
        )
        assert self.memory.synchronize() == ""
        for value, place in zip(arguments, places, strict=True):
            if place is not None:
                value[...] = np.frombuffer(self.memory.read(place, value.nbytes), value.dtype).reshape(value.shape)
        return status


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("hopper") / "device.so"
    argv = [find_toolchain().need("nvcc").path, "-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static"]
    subprocess.run([*argv, "-gencode=arch=compute_90a,code=sm_90a", str(DATA / "hopper.cu"), "-o", str(library)], check=True, timeout=300)
    return library


@pytest.fixture(scope="module")
def device(built: Path) -> OnDevice:
    if probe().devices[0].arch != "sm_90":
        pytest.skip("no Hopper GPU")
    return OnDevice(built)


@needs_nvcc
def test_the_wrappers_compile_for_a_device(built: Path) -> None:
    assert hasattr(ctypes.CDLL(str(built)), "multiply_launch")


@pytest.mark.gpu
@pytest.mark.parametrize("place", [(0, 0, 0), (64, 16, 1), (0, 40, 0), (64, 49, 1), (96, -3, 0), (-8, 5, 1), (0, 0, 2)])
def test_a_box_is_swizzled_and_zero_outside_its_head(device: OnDevice, place: tuple[int, int, int]) -> None:
    status, out, tensor = load(device, *place)
    assert status == 0
    assert (out[swizzled(np.arange(2 * ROWS * 128), SWIZZLE_128)] == box(tensor, *place).reshape(-1)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("a_layout", K_MAJOR)
@pytest.mark.parametrize("b_layout", K_MAJOR)
def test_k_major_matrices(device: OnDevice, a_layout: tuple[int, int, int], b_layout: tuple[int, int, int]) -> None:
    status, d, expected = multiply(device, 64, a_layout, b_layout)
    assert status == 0 and (d == expected).all()


@pytest.mark.gpu
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("b_layout", MN_MAJOR)
def test_mn_major_matrices(device: OnDevice, b_layout: tuple[int, int, int], columns: int, in_registers: bool) -> None:
    status, d, expected = multiply(device, columns, b_layout=b_layout, transposed=True, in_registers=in_registers)
    assert status == 0 and (d == expected).all()
