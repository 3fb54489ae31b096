"""The flags that a torch extension is compiled with where torch's own loader can't do it, found without importing torch.

The CPU build of torch has the headers of the CUDA one but for one file that its build makes, and a macro does without that.
ATen/cuda/CUDAContext.h includes those of cuBLAS, cuSPARSE and cuSOLVER, for the names of their handles: ``handles/`` has these names,
found after everything else, so that a gigabyte of libraries need not be installed for a kernel that does not use them.
``lean/`` has a shorter torch/extension.h, which halves the time of a compilation.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from gates.build import compilers
from gates.build.toolchain import Toolchain, header_folders

HANDLES, LEAN = Path(__file__).with_name("handles"), Path(__file__).with_name("lean")
_FRONTEND = re.compile(r"\btorch::(?:nn|optim|jit|data|fft|linalg|special|nested|sparse|serialize)\b")  # what the shorter header lacks
# What torch's own loader gives nvcc, so that the kernels judged are those that run.
_NVCC_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)


def version() -> str:
    """Of the torch that is installed; empty where there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def include_folder() -> Path | None:
    """torch's own headers; None where torch is not installed."""
    torch = importlib.util.find_spec("torch")
    return None if torch is None or torch.origin is None else Path(torch.origin).parent / "include"


def nvcc_flags(name: str, texts: Iterable[str] = ()) -> list[str]:
    """Macros and include folders for the ``.cu`` files of the extension ``name``, with these ``texts``.

    Empty where torch is not installed.
    """
    flags = _flags(name, texts)
    return [*flags, *_NVCC_FLAGS, f"-Xcompiler=-idirafter{HANDLES}"] if flags else []


def binding_flags(name: str, toolchain: Toolchain, texts: Iterable[str] = ()) -> list[str]:
    """The same for its C++ files, which g++ compiles. Empty where torch is not installed."""
    flags = _flags(name, texts)
    after = (*cuda_folders(toolchain), HANDLES)
    return [*flags, *(f"-idirafter{folder}" for folder in after)] if flags else []


def link_flags() -> list[str]:
    """The libraries of torch that an extension is linked with."""
    include = include_folder()
    return [] if include is None else [f"-L{include.parent / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python"]


def _flags(name: str, texts: Iterable[str]) -> list[str]:
    include = include_folder()
    if include is None:
        return []
    generated = include / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    folders = (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_paths()["include"]))
    return [
        *(() if generated.is_file() else ("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",)),
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-DTORCH_EXTENSION_NAME={name}",
        *(() if any(map(_FRONTEND.search, texts)) else (f"-I{LEAN}",)),
        *(part for folder in folders for part in ("-isystem", str(folder))),
    ]


def cuda_folders(toolchain: Toolchain) -> list[Path]:
    """Where CUDA's headers lie: nvcc's own folders, then those of NVIDIA's wheels."""
    return [*compilers.cuda_folders(toolchain), *header_folders()]
