"""The kinds of jobs that worker processes do: the engine's own, and those of the gates."""

from __future__ import annotations

from gates.gate.registry import ROWS, Job

KINDS = {
    "describe": Job("gates.worker.describe"),
    "case": Job("gates.launch.replay"),
    "launches": Job("gates.launch.launch_shapes"),
    "extension": Job("gates.build.torch_extension"),
    "triton_build": Job("gates.build.triton.build", apart="gates.build.triton.hands"),
    **{kind: job for row in ROWS.values() for kind, job in row.jobs.items()},
}
