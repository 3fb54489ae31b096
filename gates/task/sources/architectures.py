"""Name the architectures that a stage is compiled for: those of its task, and the device's own."""

from __future__ import annotations

from collections.abc import Sequence


def cubin_archs(archs: Sequence[str], device: str | None) -> tuple[str, ...]:
    """Return the task's architectures, and the device's own unless one of them is for that chip (sm_90a for sm_90)."""
    if device is None or any(_number(arch) == _number(device) for arch in archs):
        return tuple(archs)
    return (*archs, device)


def device_archs(archs: Sequence[str], device: str | None) -> tuple[str, ...]:
    """Return what the device library holds code for: the device's architecture, or all of the task's without a device."""
    if device is None:
        return tuple(archs)
    return tuple(arch for arch in archs if _number(arch) == _number(device)) or (device,)


def lowest(archs: Sequence[str]) -> str:
    """Return the architecture that all others are newer than; of sm_90 and sm_90a sm_90."""
    return min(archs, key=lambda arch: (int(_number(arch).removeprefix("sm_")), arch))


def _number(arch: str) -> str:
    return arch.rstrip("af")
