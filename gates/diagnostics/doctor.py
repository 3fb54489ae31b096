"""What was found on this machine, and what each missing thing costs: the library of ``gates doctor``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.build.toolchain import Toolchain, find_toolchain
from gates.core import jsonio
from gates.launch.device import DeviceProbe, probe

COSTS = {
    "nvcc": "gates ptxas, sass, correctness and sanitizer are not_run for CUDA kernels",
    "ptxas": "nothing compiles for a device",
    "nvlink": "tasks with relocatable device code do not build",
    "cuobjdump": "the ptxas gate is not cross-checked with the machine code",
    "nvdisasm": "no second disassembler",
    "g++": "nvcc has no host compiler, and without a device gates correctness and sanitizer are not_run",
    "ninja": "nothing builds",
    "ncu": "gate ncu is not_run",
    "compute-sanitizer": "gate sanitizer is not_run on a device",
    "c++filt": "kernels are shown under their mangled names",
}
OLDEST_PYTHON = (3, 10)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for. ``cost`` and ``remedy`` are set where it is not as it should be."""

    name: str
    found: bool
    detail: str  # version and place, or what is wrong
    cost: str = ""
    remedy: str = ""


def examine(environ: Mapping[str, str] | None = None, *, build_dir: Path = Path("build"), results: Path = Path("results")) -> list[Finding]:
    """Look for every tool, Python, torch, the device, and write access; never raises for what is missing."""
    toolchain = find_toolchain(environ)
    return [
        _python(),
        _torch(),
        *_tools(toolchain),
        *_devices(probe()),
        _writable("build folder", build_dir, "nothing builds", "--build-dir"),
        _writable("results folder", results, "no run can be recorded", "--results"),
    ]


def report() -> str:
    """The findings as text, a line each, with cost and remedy under what is missing."""
    lines = []
    for finding in examine():
        lines.append(f"{'ok' if finding.found else 'missing':8} {finding.name:18} {finding.detail}")
        lines.extend(f"{'':8} {label}: {text}" for label, text in (("costs", finding.cost), ("remedy", finding.remedy)) if text)
    return "\n".join(lines)


def _python() -> Finding:
    version = platform.python_version()
    recent = tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_PYTHON
    return Finding("python", recent, version, "" if recent else "gates does not run", "" if recent else "use Python 3.10 or newer")


def _torch() -> Finding:
    try:
        return Finding("torch", True, importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            "torch", False, "not installed", "kernels can't be run: correctness, sanitizer, performance and ncu", "`pip install torch`"
        )


def _tools(toolchain: Toolchain) -> list[Finding]:
    findings = []
    for name, tool in toolchain.tools.items():
        if tool is None:
            findings.append(Finding(name, False, "not found", _cost(name, toolchain), toolchain.remedies[name]))
        else:
            findings.append(Finding(name, True, f"{tool.version or 'unknown version'}  {tool.path}  ({tool.source})"))
    if toolchain.host_compiler and not os.access(toolchain.host_compiler, os.X_OK):
        findings.append(
            Finding(
                "NVCC_CCBIN",
                False,
                f"{toolchain.host_compiler} is not a program",
                "nvcc compiles nothing",
                "correct NVCC_CCBIN or unset it",
            )
        )
    return findings


def _cost(name: str, toolchain: Toolchain) -> str:
    if name == "cuobjdump" and toolchain.get("nvdisasm") is None:
        return "gate sass is not_run, and the ptxas gate is not cross-checked with the machine code"
    return COSTS[name]


def _devices(found: DeviceProbe) -> list[Finding]:
    if not found.devices:
        return [
            Finding(
                "CUDA device",
                False,
                found.reason,
                "gates performance and ncu are not_run; the others run on the emulator",
                "run on a machine with an NVIDIA GPU and driver",
            )
        ]
    return [
        Finding(
            "CUDA device",
            True,
            f"{device.index}: {device.name}, compute capability {device.compute_capability}, {device.sm_count} SMs, "
            f"{device.total_memory_bytes / 2**30:.1f} GiB, driver {device.driver_version or '?'}, CUDA {device.cuda_version}",
        )
        for device in found.devices
    ]


def _writable(name: str, folder: Path, cost: str, option: str) -> Finding:
    """Whether a file can be made in the folder, or the folder itself where it does not exist yet."""
    try:
        jsonio.probe_folder(folder)
    except OSError as error:
        return Finding(name, False, f"{folder}: {(error.strerror or str(error)).lower()}", cost, f"name another folder with {option}")
    return Finding(name, True, str(folder))
