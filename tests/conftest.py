"""Shared test set-up: GPU tests are skipped, with the reason, where there is no CUDA device; the library of planted kernels."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest


def _cuda_devices() -> int:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


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


@pytest.fixture(scope="module")  # some of its kernels keep state, which must not reach another file's tests
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """planted.cpp of the correctness tests, compiled."""
    from correctness_kit import compile_planted

    return compile_planted(tmp_path_factory.mktemp("planted"), "-DGUARD=0")
