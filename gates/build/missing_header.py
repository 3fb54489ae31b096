"""A header that a compiler did not find and that is not the task's own: torch's, or a CUDA library's, and how to get it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gates.build.toolchain import Toolchain
from gates.build.torch_headers import cuda_folders, include_folder, version

APART = "or keep the kernel in a .cu of its own without that header (of an extension: the binding in a .cpp beside it)"
_MISSING = re.compile(r"fatal error: (?P<name>\S+): No such file")
_UNDEFINED = re.compile(
    r"error: (?:identifier \"|[‘'])(?P<name>cu(?:blas|sparse|solver)\w*)(?:\" is undefined|[’'] (?:was not declared|does not name))"
)
_TORCH = re.compile(r"(?:torch|ATen|c10|pybind11)/")
# The wheel that holds a header whose name begins so.
_PACKAGES = {
    "cublas": "nvidia-cublas",
    "cusparse": "nvidia-cusparse",
    "cusolver": "nvidia-cusolver",
    "cufft": "nvidia-cufft",
    "curand": "nvidia-curand",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvJitLink": "nvidia-nvjitlink",
    "cudnn": "nvidia-cudnn-cu13",
    "nccl": "nvidia-nccl-cu13",
    "cupti": "nvidia-cuda-cupti",
    "nvtx3/": "nvidia-nvtx",
    "nvToolsExt": "nvidia-nvtx",
    "nvml": "nvidia-nvml-dev",
    "cuda_profiler_api": "nvidia-cuda-profiler-api",
    "cuda_": "nvidia-cuda-runtime",
    "cub/": "nvidia-cuda-cccl",
    "thrust/": "nvidia-cuda-cccl",
    "cuda/": "nvidia-cuda-cccl",
    "nv/": "nvidia-cuda-cccl",
    "crt/": "nvidia-cuda-crt",
}
_OF_HANDLES = {"cublas": "cublas_v2.h", "cusparse": "cusparse.h", "cusolver": "cusolverDn.h"}


@dataclass(frozen=True)
class MissingHeader:
    """``owner``: torch or the CUDA toolkit."""

    name: str
    owner: str
    remedy: str


def find(text: str, toolchain: Toolchain) -> MissingHeader | None:
    """The header of torch or of a CUDA library that the compiler's output ``text`` misses; None where it misses none."""
    if missing := _MISSING.search(text):
        return _header(missing["name"])
    if undefined := _UNDEFINED.search(text):  # the file that was found may be the one that has handles only
        library = next(name for name in _OF_HANDLES if undefined["name"].startswith(name))
        header = _OF_HANDLES[library]
        return None if any((folder / header).is_file() for folder in cuda_folders(toolchain)) else _header(header)
    return None


def _header(name: str) -> MissingHeader | None:
    if _TORCH.match(name):
        lacking = f"the installed torch {version()} has no such header: {APART.removeprefix('or ')}"
        return MissingHeader(name, "torch", f"`pip install torch`, {APART}" if include_folder() is None else lacking)
    if re.match(r"cute/|cutlass/", name):
        return MissingHeader(name, "CUTLASS", "add its include folder to nvcc_flags in task.yaml: [-I/path/to/cutlass/include]")
    package = next((package for start, package in _PACKAGES.items() if name.startswith(start)), None)
    if package is None and not re.fullmatch(r"(?:cu|nv)\w+\.h", name):
        return None
    install = f"`pip install {package}`, or that library of the CUDA toolkit" if package else "install that library's headers"
    return MissingHeader(name, "the CUDA toolkit", f"{install}; {APART}")
