"""One call of a stage on a device or on the emulator, guarded and with poisoned outputs as the correctness gate calls it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from conformance import stages

from gates.launch.side import Side, opened
from gates.task.tensor_digest import digest


@dataclass(frozen=True)
class Ran:
    """Output as uint16 patterns, the exact result, and the digest of the inputs."""

    bits: np.ndarray
    exact: np.ndarray
    inputs_sha256: str


def emulate(side: Mapping[str, Any], shape: str, seed: int, order: str = "forward") -> Ran:
    """The stage's emulator library; raises RuntimeError for an error or a finding."""
    torch.set_num_threads(1)
    return _opened(side, "cpu", shape, seed, order)


def on_device(side: Mapping[str, Any], shape: str, seed: int) -> Ran:
    """The stage's device library on device 0; raises RuntimeError for an error."""
    return _opened(side, "cuda:0", shape, seed, "forward")


def _opened(side: Mapping[str, Any], device: str, shape: str, seed: int, order: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder, opened({"side": side, "device": device, "result": f"{folder}/result"}) as kernel:
        return _run(kernel, shape, seed, order)


def _run(side: Side, name: str, seed: int, order: str) -> Ran:
    shape = side.problem.SHAPES[name]
    inputs = side.problem.make_inputs(shape, seed, "cpu")
    called = side.call(inputs, shape, variant=0, order=order, seed=seed)
    if called.error or called.findings or called.guards or called.mutated:
        raise RuntimeError(f"{called.error} {called.findings} {called.guards} {called.mutated}")
    exact = side.problem.reference(inputs, shape)["out"].reshape(-1).numpy() if side.emulated else np.zeros(0)
    return Ran(called.outputs["out"].reshape(-1).view(torch.int16).numpy().view(np.uint16).copy(), exact, digest(inputs))


def keep(data: dict[str, Any], ran: Mapping[tuple[str, str, int], Ran]) -> None:
    """Put the raw outputs of the small shapes into ``data``: the first stage's whole, of the others what differs."""
    for (stage, shape, seed), got in ran.items():
        if shape not in stages.SMALL_SHAPES or seed != stages.KEPT_SEED:
            continue
        kept = data["outputs"].setdefault(
            shape, {"seed": seed, "inputs_sha256": got.inputs_sha256, "elements": int(got.bits.size), "stages": {}}
        )
        first = next(iter(kept["stages"]), None)
        base = None if first is None else ran[first, shape, seed].bits
        kept["stages"][stage] = stages.encode(got.bits, base)
