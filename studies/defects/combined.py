"""Several patched copies of one attention kernel in one translation unit, so that their headers are compiled once.

Each copy has namespaces and a launcher of its own, ``ENTRY_<number>``. The gates never see such a file: it
only makes the test of the catalogue quick.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from defects.folders import ROOT, patch
from defects.record import Defect
from gates.emulator.flags import CXX_FLAGS
from gates.emulator.runtime_object import write_runtime_object
from gates.emulator.translate import translate
from gates.hardware.chips import chip_of

ENTRY = "sdpa_fp8_forward"
_HEADERS = (
    "cmath",
    "cstdarg",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstring",
    "type_traits",
    "cuda_fp16.h",
    "cuda_fp8.h",
    "cuda_pipeline.h",
    "cuda_runtime.h",
    "mma.h",
)


def compile_patched(defects: Sequence[Defect], folder: Path) -> Path:
    """The emulator library with one launcher a defect: the task's entry with _0, _1, … behind it."""
    translated, runtime, library = translate_patched(defects, folder), folder / "runtime.o", folder / "patched.so"
    write_runtime_object(runtime, CXX_FLAGS)
    subprocess.run(["g++", *CXX_FLAGS, "-O1", "-fpreprocessed", str(translated), str(runtime), "-o", str(library)], check=True, timeout=300)
    return library


def translate_patched(defects: Sequence[Defect], folder: Path) -> Path:
    """The C++ of that library; lines of the defect with number N are those of files in the folder copyN."""
    text = [f"#include <{header}>" for header in _HEADERS]
    shutil.copytree(ROOT / "kernels" / "common", folder / "common")
    text += [f'#include "common/{header.name}"' for header in sorted((folder / "common").iterdir())]
    limits = []
    for number, defect in enumerate(defects):
        task = yaml.safe_load((ROOT / "tasks" / defect.stage / "task.yaml").read_text(encoding="utf-8"))
        limits += [chip.smem_per_cta for arch in task["arch"] if (chip := chip_of(arch)) is not None]
        source = ROOT / task["sources"][0]
        copy = folder / f"copy{number}"
        shutil.copytree(source.parent, copy / "kernel")
        shutil.copytree(ROOT / "kernels" / "common", copy / "common")  # included as ../common
        patch(copy / "kernel", defect.edits)
        spaces = {task["entry"]}
        for file in copy.rglob("*.cu*"):
            code = file.read_text(encoding="utf-8")
            spaces |= set(re.findall(r"^namespace (\w+)", code, re.M))
            guard = f"COPY_{number}_{file.parent.name}_{file.stem}"  # g++ takes equal files for one under `pragma once`
            code = code.replace("#pragma once", f"#ifndef {guard}\n#define {guard}") + "#endif\n" * code.count("#pragma once")
            file.write_text(code, encoding="utf-8")
        toggles = {**task["toggles"], **dict(defect.toggles)}
        names = {**{name: f"{name}_{number}" for name in sorted(spaces)}, **toggles}
        text += [f"#undef {name}\n#define {name} {value}" for name, value in names.items()]
        text.append(f'#include "copy{number}/kernel/{source.name}"')
    source, translated = folder / "patched.cu", folder / "patched.cpp"
    source.write_text("\n".join(text) + "\n", encoding="utf-8")
    shared = {"GATES_EMULATOR_SHARED_LIMIT": min(limits)}  # of the smallest chip, as in a build of the gates
    translate(source, translated, defines=shared, include_dirs=[folder], cxx="g++")
    return translated
