"""What a build made: the record that build.json is written from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.build.failure import Failure
from gates.core.records import to_json
from gates.task.load import Task
from gates.task.sources.identity import product_name


@dataclass(frozen=True)
class Target:
    """One product: its path, or why there is none. ``log``: what ptxas printed (cubins), or g++ (the check of a binding)."""

    kind: str
    path: str | None
    arch: str | None = None
    log: str | None = None
    failure: Failure | None = None
    sha256: str = ""  # of the product


@dataclass(frozen=True)
class BuildResult:
    """What a build made. ``log_text`` is every compiler's output, with the commands, also of earlier builds that still hold."""

    task: str
    digest: str
    folder: str
    archs: tuple[str, ...]  # of the cubins
    device_archs: tuple[str, ...]  # that the device library holds code for
    relocatable: bool
    toggles: Mapping[str, int]
    targets: tuple[Target, ...]
    wall_s: float
    stage: str = ""  # the stage's digest when it was built
    identity: str = ""  # of all products together: of the stage and of what compiles it
    schema_version: int = 1
    log_text: str = ""

    def side(self, task: Task, kind: str) -> dict[str, Any]:
        """Return the task with its library of that kind, for runner jobs; the process that loads it compares its sha256."""
        built = next((target for target in self.targets if target.kind == kind and target.path), None)
        side = task.side(Path(built.path) if built and built.path else None, emulated=kind != "device")
        if built:
            side["sha256"] = built.sha256
        if kind != "device" and (runtime := self.path("runtime")):
            side["runtime"] = str(runtime)
        return side

    def products(self) -> dict[str, str]:
        """Return the sha256 of each product, by its name in the build folder; a Python source by its own name."""
        made = [target for target in self.targets if target.path and target.sha256]
        return {product_name(os.path.relpath(target.path or "", self.folder)): target.sha256 for target in made}

    def path(self, kind: str) -> Path | None:
        """The library of that kind (device, emulator), or None where it was not built."""
        return next((Path(target.path) for target in self.targets if target.kind == kind and target.path), None)

    def failure(self, kind: str, arch: str | None = None) -> Failure | None:
        """The first failure of that kind (and architecture)."""
        wanted = (target for target in self.targets if target.kind == kind and arch in (None, target.arch))
        return next((target.failure for target in wanted if target.failure), None)

    def cubins(self, arch: str) -> list[Target]:
        """The targets of one architecture: one a source, or the linked one alone with relocatable code."""
        return [target for target in self.targets if target.kind == "cubin" and target.arch == arch]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Each distinct failure once."""
        return tuple(dict.fromkeys(target.failure for target in self.targets if target.failure))

    def evidence(self) -> dict[str, Any]:
        """The plain data of build.json: paths from the build folder on; the log text goes into a file of its own."""
        data = to_json(self)
        del data["log_text"], data["stage"]  # run.json has the stage's
        for target in data["targets"]:
            for place in (target, target["failure"] or {}):
                for key in ("path", "log"):
                    if place.get(key):
                        place[key] = os.path.relpath(place[key], self.folder)
        data["folder"] = Path(self.folder).name
        return data
