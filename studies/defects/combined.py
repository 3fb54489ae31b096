"""Several patched copies of one attention kernel in one translation unit, so that their headers are compiled once.

Each copy has namespaces and a launcher of its own, ``ENTRY_<number>``. The gates never see such a file: it
only makes the test of the catalogue quick.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from defects.folders import ROOT, copy_sources, patch
from defects.record import Defect
from gates.emulator.cpu.build import task_library
from gates.task.sources.architectures import lowest
from gates.task.sources.cuda_text import texts

ENTRY = "sdpa_fp8_forward"
_HEADERS = (
    "algorithm",
    "array",
    "cmath",
    "cstdarg",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstring",
    "type_traits",
    "cooperative_groups.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_fp8.h",
    "cuda_pipeline.h",
    "cuda_runtime.h",
    "mma.h",
)


def compile_patched(defects: Sequence[Defect], folder: Path) -> Path:
    """The emulator's library with one launcher a defect: the task's entry with _0, _1, … behind it."""
    tasks = [task_of(defect) for defect in defects]
    oldest = lowest([arch for task in tasks for arch in task["arch"]]).removeprefix("sm_")
    flags = dict.fromkeys(flag for task in tasks for flag in task.get("nvcc_flags", ()))
    return task_library([write_patched(defects, folder)], folder / "patched.so", capability=oldest, flags=[*flags, f"-I{folder}"])


def refusals(defects: Sequence[Defect], folder: Path) -> dict[int, list[str]]:
    """The static assertions that fail in the copy of each defect, by its number."""
    argv = ["nvcc", "-std=c++17", "-ptx", "-arch=sm_90a", f"-I{folder}", str(write_patched(defects, folder)), "-o", os.devnull]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    told: dict[int, list[str]] = {number: [] for number in range(len(defects))}
    for number, reason in re.findall(r"copy(\d+)/[^(\s]+\(\d+\): error: static assertion failed with \"(.*)\"", done.stdout + done.stderr):
        told[int(number)].append(reason)
    return told


def task_of(defect: Defect) -> dict[str, Any]:
    """task.yaml of the honest stage."""
    return yaml.safe_load((ROOT / "tasks" / defect.stage / "task.yaml").read_text(encoding="utf-8"))


def write_patched(defects: Sequence[Defect], folder: Path) -> Path:
    """The source of that library; lines of the defect with number N are those of files in the folder copyN."""
    text = [f"#include <{header}>" for header in _HEADERS]
    wrappers = ROOT / "kernels" / "cuda"
    shutil.copytree(wrappers, folder / "cuda")
    used = texts(ROOT / task_of(defect)["sources"][0] for defect in defects)[0]  # others may be for newer chips
    text += [f'#include "cuda/{header.name}"' for header in sorted(used) if header.parent == wrappers]
    for number, defect in enumerate(defects):
        task = task_of(defect)
        source = ROOT / task["sources"][0]
        copy = folder / f"copy{number}"
        copy_sources(source.parent, copy)
        patch(copy / "kernel", defect.edits)
        spaces = {task["entry"]}
        for file in copy.rglob("*.cu*"):
            code = file.read_text(encoding="utf-8")
            spaces |= set(re.findall(r'^(?:namespace (?=\w+ {)|extern "C" int )(\w+)', code, re.M))
            guard = f"COPY_{number}_{file.parent.name}_{file.stem}"  # a compiler takes equal files for one under `pragma once`
            code = code.replace("#pragma once", f"#ifndef {guard}\n#define {guard}") + "#endif\n" * code.count("#pragma once")
            file.write_text(code, encoding="utf-8")
        toggles = {**task["toggles"], **dict(defect.toggles)}
        names = {**{name: f"{name}_{number}" for name in sorted(spaces)}, **toggles}
        text += [f"#undef {name}\n#define {name} {value}" for name, value in names.items()]
        text.append(f'#include "copy{number}/kernel/{source.name}"')
    patched = folder / "patched.cu"
    patched.write_text("\n".join(text) + "\n", encoding="utf-8")
    return patched
