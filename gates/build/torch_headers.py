"""The flags that a torch extension is compiled and linked with, found without importing torch. They are those of torch's own loader.

The CPU build of torch lacks one header of the CUDA build, and a macro makes that header unnecessary.
ATen/cuda/CUDAContext.h includes those of cuBLAS, cuSPARSE and cuSOLVER, for the names of their handles: ``handles/`` has these names,
found after everything else, so that a gigabyte of libraries need not be installed for a kernel that does not use them.
``lean/`` has shorter headers in place of some of torch's: a source gets the operators and the binding that its text names. A kernel
compiles in an eighth of the time.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sysconfig
from pathlib import Path

from gates.build import compilers
from gates.build.toolchain import Toolchain, header_folders

HANDLES, LEAN = Path(__file__).with_name("handles"), Path(__file__).with_name("lean")
_FRONTEND = re.compile(r"\btorch::(?:nn|optim|jit|data|fft|linalg|special|nested|sparse|serialize)\b")  # what the shorter headers lack
_WHOLE = re.compile(r"^\s*#\s*include\s*[<\"](?:torch/(?:extension|types|all|torch)|ATen/ATen)\.h", re.MULTILINE)
_MACRO = re.compile(r"^\s*#\s*(?:define|undef)\b", re.MULTILINE)
_PARTS = {  # of torch's own headers, by what a text names of them
    re.compile(r"PYBIND11|\bpy(?:bind11)?::"): ("torch/csrc/Exceptions.h", "torch/csrc/utils/pybind.h"),
    re.compile(r"\btorch::tensor\b|requires_grad"): ("torch/csrc/autograd/generated/variable_factories.h",),
    re.compile(r"TORCH_LIBRARY"): ("torch/library.h",),
    re.compile(r"\bindexing\b|\bSlice\b|\.index(?:_put_)?\("): ("ATen/TensorIndexing.h",),
}
_OPERATOR = re.compile(r"\b(?:at|torch)::(\w+)\s*\(")
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


def nvcc_flags(name: str, text: str = "") -> list[str]:
    """Macros and include folders for a ``.cu`` file of the extension ``name``, with this ``text``.

    Empty if torch is not installed.
    """
    flags = _flags(name, text)
    return [*flags, *_NVCC_FLAGS, f"-Xcompiler=-idirafter{HANDLES}"] if flags else []


def binding_flags(name: str, toolchain: Toolchain, text: str = "") -> list[str]:
    """The same for a C++ file, which g++ compiles. Empty if torch is not installed."""
    flags = _flags(name, text)
    after = (*cuda_folders(toolchain), HANDLES)
    return [*flags, *(f"-idirafter{folder}" for folder in after)] if flags else []


def link_flags(*, device: bool = False) -> list[str]:
    """Return the options that link an extension with torch; for the ``device``, also with what only torch's CUDA build has."""
    include = include_folder()
    if include is None:
        return []
    folder = include.parent / "lib"
    own = [name for name in ("torch_cuda", "c10_cuda") if device and (folder / f"lib{name}.so").is_file()]
    return [f"-L{folder}", *(f"-l{name}" for name in (*own, "torch", "torch_cpu", "c10", "torch_python"))]


def _flags(name: str, text: str) -> list[str]:
    include = include_folder()
    if include is None:
        return []
    generated = include / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    folders = (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_paths()["include"]))
    return [
        *(() if generated.is_file() else ("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",)),
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-DTORCH_EXTENSION_NAME={name}",
        *(_lean(include, text) if _is_lean(text) else ()),
        *(part for folder in folders for part in ("-isystem", str(folder))),
    ]


def _is_lean(text: str) -> bool:
    """Whether the shorter headers may do: what the text defines before torch's header, as NDEBUG, must hold in it."""
    whole = _WHOLE.search(text)
    return not (_FRONTEND.search(text) or (whole and _MACRO.search(text, 0, whole.start())))


def _lean(include: Path, text: str) -> list[str]:
    return [f"-I{LEAN}", *(part for header in _named(include, text) for part in ("-include", header))]


def _named(include: Path, text: str) -> list[str]:
    """Return the headers that ``text`` uses and the shorter ones leave out. Empty if ``text`` includes none of torch's large ones."""
    if not _WHOLE.search(text):
        return []
    operators = [f"ATen/ops/{name}.h" for name in dict.fromkeys(_OPERATOR.findall(text))]
    parts = [header for names, headers in _PARTS.items() if names.search(text) for header in headers]
    return ["torch/types.h", *(header for header in (*operators, *parts) if (include / header).is_file())]


def cuda_folders(toolchain: Toolchain) -> list[Path]:
    """Where CUDA's headers lie: nvcc's own folders, then those of NVIDIA's wheels."""
    return [*compilers.cuda_folders(toolchain), *header_folders()]
