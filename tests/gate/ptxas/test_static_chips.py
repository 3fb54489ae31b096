"""Occupancy against NVIDIA's own header, chip by chip over a grid of resources."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gates.build.toolchain import wheel_folders
from gates.hardware.chips import CHIPS, Chip, chip_of, occupancy, registers_per_cta

REGISTERS = (0, 1, 16, 24, 32, 33, 40, 64, 65, 96, 128, 168, 200, 255, 256)
THREADS = (1, 32, 33, 64, 96, 128, 160, 256, 384, 512, 768, 1000, 1024, 1025)
SMEM = (0, 1, 127, 1024, 7000, 16384, 32768, 49152, 49153, 65536, 101376, 101377, 166912, 232448, 232449)
BARRIERS = (0, 1, 16)
PLAIN = (32, 32, 0, 0)  # of registers, threads, shared memory and barriers: every chip runs it

PROGRAM = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads_sm, regs, threads, barriers; long smem_sm, smem_cta, reserved, smem;
  while (scanf("%d %d %d %ld %ld %ld %d %d %ld %d", &major, &minor, &threads_sm, &smem_sm, &smem_cta, &reserved,
               &regs, &threads, &smem, &barriers) == 10) {
    cudaOccDeviceProp p;
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = threads_sm;
    p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536; p.warpSize = 32; p.sharedMemPerBlock = 49152;
    p.sharedMemPerMultiprocessor = smem_sm; p.numSms = 1; p.sharedMemPerBlockOptin = smem_cta; p.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes a;
    a.maxThreadsPerBlock = 1024; a.numRegs = regs; a.sharedSizeBytes = 0; a.partitionedGCConfig = PARTITIONED_GC_OFF;
    a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; a.maxDynamicSharedSizeBytes = smem; a.numBlockBarriers = barriers;
    cudaOccDeviceState s; s.cacheConfig = CACHE_PREFER_NONE; s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r;
    cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, smem);
    printf("%d\n", e == CUDA_OCC_SUCCESS ? r.activeBlocksPerMultiprocessor : -int(e));
  }
}
"""


def header_folder() -> Path | None:
    places = [Path(os.environ.get("CUDA_HOME", "/nonexistent")) / "include", *Path("/usr/local").glob("cuda*/include")]
    places += [folder / "include" for folder in wheel_folders()]
    return next((place for place in places if (place / "cuda_occupancy.h").is_file()), None)


def grid() -> list[tuple[int, int, int, int]]:
    corners = [(r, t, 0, 0) for r in REGISTERS for t in THREADS]
    corners += [(32, t, s, b) for t in THREADS for s in SMEM for b in BARRIERS]
    return corners + [(r, 128, s, 1) for r in REGISTERS for s in SMEM]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    include = header_folder()
    if include is None:
        pytest.skip("no cuda_occupancy.h: neither a CUDA toolkit nor the nvidia-cuda-runtime wheel is installed")
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "oracle.cpp").write_text(PROGRAM)
    subprocess.run(["g++", "-O1", "-w", "-I", str(include), "oracle.cpp", "-o", "oracle"], cwd=folder, check=True)
    return folder / "oracle"


def of_the_header(chip: Chip, cases: list[tuple[int, int, int, int]], oracle: Path) -> list[int]:
    """CTAs per SM by NVIDIA's header, negative where it refuses a case; a failed assertion if the header does not know the chip."""
    prefix = (
        f"{chip.number // 10} {chip.number % 10} {chip.threads_per_sm} {chip.smem_per_sm} {chip.smem_per_cta} {chip.reserved_smem_per_cta}"
    )
    lines = "\n".join(f"{prefix} {' '.join(map(str, (r, t, s, b)))}" for r, t, s, b in cases)
    done = subprocess.run([str(oracle)], input=lines, capture_output=True, text=True, check=True)
    found = [int(line) for line in done.stdout.split()]
    assert len(found) == len(cases)
    assert found[cases.index(PLAIN)] >= 0, (
        f"{header_folder()}/cuda_occupancy.h does not know {chip.arch} with {chip.smem_per_sm} bytes of shared memory: check its row in "
        "gates/hardware/chips.py, or set CUDA_HOME to a newer toolkit, whose header knows it"
    )
    return found


@pytest.mark.parametrize("arch", sorted(CHIPS))
def test_occupancy_agrees_with_nvidias_header(arch: str, oracle: Path) -> None:
    chip, cases = CHIPS[arch], grid()
    for (registers, threads, smem, barriers), expected in zip(cases, of_the_header(chip, cases, oracle), strict=True):
        if registers == 256 and expected > 0:
            continue  # the header takes 256; no compiler gives a thread more than 255
        assert expected >= 0 or smem > chip.smem_per_cta
        ours = occupancy(chip, registers, threads, smem, barriers)
        assert ours.active_ctas == max(expected, 0), (arch, registers, threads, smem, barriers)


@pytest.mark.parametrize("arch", ["sm_88", "sm_130"])
def test_a_chip_that_the_header_does_not_know_is_told(arch: str, oracle: Path) -> None:
    with pytest.raises(AssertionError, match=rf"cuda_occupancy\.h does not know {arch} "):
        of_the_header(replace(CHIPS["sm_87"], arch=arch), [PLAIN], oracle)
    assert of_the_header(CHIPS["sm_87"], [PLAIN], oracle) == [16]


def test_the_system_s_kilobyte_counts() -> None:
    chip = CHIPS["sm_90"]
    assert occupancy(chip, 32, 128, 232_448).active_ctas == 1
    assert occupancy(chip, 32, 128, 232_449).active_ctas == 0
    assert occupancy(chip, 32, 128, 57 * 1024).active_ctas == 3  # 4 x 57 KiB would just fit without it
    assert occupancy(chip, 32, 128, 56 * 1024).active_ctas == 4


def test_limiter_is_named() -> None:
    chip = CHIPS["sm_89"]
    assert occupancy(chip, 255, 128, 0).limiter == "registers"
    assert occupancy(chip, 16, 128, 40_000).limiter == "shared memory"
    assert occupancy(chip, 16, 256, 0).limiter == "warps"
    assert occupancy(chip, 16, 32, 0).limiter == "CTAs"
    assert occupancy(CHIPS["sm_90"], 16, 32, 0, barriers=16).limiter == "barriers"


def test_registers_of_a_cta_are_counted_as_allocated() -> None:
    assert registers_per_cta(64, 1024) == 65_536
    assert registers_per_cta(65, 1000) == 73_728  # 65 x 1000 is 65,000, and yet the launch fails


def test_suffixes_name_the_same_chip() -> None:
    assert chip_of("sm_90a") is chip_of("sm_90") is CHIPS["sm_90"]
    assert chip_of("sm_100f") is CHIPS["sm_100"]
    assert chip_of("sm_999") is None and chip_of("gfx942") is None
