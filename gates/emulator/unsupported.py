"""CUDA features that the emulator does not have: how each is recognised, and what to do instead."""

from __future__ import annotations

_HOST_VERSION = "put it in a function and give it a host version under #ifdef GATES_EMULATOR (docs/internals/emulator.md)"
_SYNC = "use the form that ends in _sync and takes a mask: the other was removed from CUDA"
_OUTSIDE = "leave streams, events and timing to the caller: the launcher is given its stream, the gates do the timing"
_DEVICE_ONLY = "gate this kernel on a device, or keep the feature behind a toggle that the emulator build leaves off"

_RECORDS = ("a source that touches its records, which are evidence", "leave launches and findings to the gates")

# name -> (feature, remedy); a name that ends in "*" stands for all that begin so.
IDENTIFIERS: dict[str, tuple[str, str]] = {
    **{f"gates_emulator_{name}": _RECORDS for name in ("launches", "launches_left_out", "findings", "reset", "configure", "switch")},
    **{
        name: ("looking functions up by name", "link what the launcher calls; the emulator's records are evidence")
        for name in ("dlsym", "dlvsym", "dlopen", "dladdr", "dl_iterate_phdr")
    },
    "asm": ("inline assembly", _HOST_VERSION),
    "__asm__": ("inline assembly", _HOST_VERSION),
    "__asm": ("inline assembly", _HOST_VERSION),
    "cooperative_groups": ("cooperative groups", "use __syncthreads, __syncwarp and the __shfl_*_sync functions, or a host version"),
    "cudaLaunchCooperativeKernel": ("cooperative launch", _DEVICE_ONLY),
    "cudaLaunchKernel": ("cudaLaunchKernel", "launch with kernel<<<grid, block, bytes, stream>>>(arguments)"),
    "cudaLaunchKernelEx": ("cudaLaunchKernelEx", "launch with kernel<<<grid, block, bytes, stream>>>(arguments)"),
    "cudaLaunchKernelExC": ("cudaLaunchKernelEx", "launch with kernel<<<grid, block, bytes, stream>>>(arguments)"),
    "cudaTextureObject_t": ("textures", "read global memory through a pointer"),
    "cudaSurfaceObject_t": ("surfaces", "read and write global memory through a pointer"),
    "cudaCreateTextureObject": ("textures", "read global memory through a pointer"),
    "tex1D*": ("textures", "read global memory through a pointer"),
    "tex2D*": ("textures", "read global memory through a pointer"),
    "tex3D*": ("textures", "read global memory through a pointer"),
    "surf1D*": ("surfaces", "read and write global memory through a pointer"),
    "surf2D*": ("surfaces", "read and write global memory through a pointer"),
    "__shfl": ("shuffles and votes without a mask", _SYNC),
    "__shfl_up": ("shuffles and votes without a mask", _SYNC),
    "__shfl_down": ("shuffles and votes without a mask", _SYNC),
    "__shfl_xor": ("shuffles and votes without a mask", _SYNC),
    "__ballot": ("shuffles and votes without a mask", _SYNC),
    "cudaStreamCreate*": ("streams and events of the launcher's own", _OUTSIDE),
    "cudaEventCreate*": ("streams and events of the launcher's own", _OUTSIDE),
    "cudaEventRecord*": ("streams and events of the launcher's own", _OUTSIDE),
    "cudaMallocManaged": ("managed allocation", "allocate outside the launcher"),
    "cudaMallocHost": ("pinned host memory", "allocate outside the launcher"),
    "cudaOccupancyMax*": ("occupancy queries", "the ptxas gate computes occupancy; guard the call with #ifndef GATES_EMULATOR"),
    "atomicAdd_*": ("atomics with a scope", "use atomicAdd"),
    "atomicCAS_*": ("atomics with a scope", "use atomicCAS"),
    "CUtensorMap": ("TMA (tensor maps)", _HOST_VERSION),
    "cuTensorMapEncodeTiled": ("TMA (tensor maps)", _HOST_VERSION),
    "__mbarrier_*": ("mbarrier", "use __pipeline_* copies and __syncthreads, or a host version"),
    "__pipeline_arrive_on": ("mbarrier", "use __pipeline_wait_prior and __syncthreads"),
    "__cluster_dims__": ("thread block clusters", _DEVICE_ONLY),
    "cudaStreamBeginCapture": ("graph capture", "capture outside the launcher"),
    "cudaGraph_t": ("CUDA graphs", "build graphs outside the launcher"),
    "cudaMallocAsync": ("stream-ordered allocation", "allocate outside the launcher"),
    "__isGlobal": ("address space queries", _HOST_VERSION),
    "__isShared": ("address space queries", _HOST_VERSION),
    "__cvta_generic_to_shared": ("shared-space addresses (for PTX)", _HOST_VERSION),
    "__cvta_generic_to_global": ("global-space addresses (for PTX)", _HOST_VERSION),
    "__nanosleep": ("__nanosleep", "spinning on another thread can't end here: threads switch only at barriers"),
    "cudaDeviceSetLimit": ("device limits", "guard it with #ifndef GATES_EMULATOR"),
    "cudaStreamSetAttribute": ("stream attributes", "guard it with #ifndef GATES_EMULATOR"),
}

_LIBRARY = (
    "put what it is used for into a function with a host version under #ifdef GATES_EMULATOR (docs/internals/emulator.md), "
    "or gate the kernel on a device"
)

# As above. An entry of its own wins over one that ends in "*".
HEADERS: dict[str, tuple[str, str]] = {
    "cooperative_groups.h": IDENTIFIERS["cooperative_groups"],
    "cooperative_groups/*": IDENTIFIERS["cooperative_groups"],
    "cuda.h": ("the CUDA driver API", "use the runtime API in launchers"),
    "cudaTypedefs.h": ("the CUDA driver API", "use the runtime API in launchers"),
    "cuda/pipeline": ("libcu++ pipelines", "use __pipeline_memcpy_async, __pipeline_commit and __pipeline_wait_prior"),
    "cuda/barrier": ("libcu++ barriers", "use __syncthreads"),
    "cuda/ptx": ("PTX wrappers", _HOST_VERSION),
    "cuda/atomic": ("libcu++ atomics", "use atomicAdd and its kin"),
    "cuda/std/*": ("libcu++", "use the standard library's header"),
    "cuda/*": ("libcu++", _LIBRARY),
    "nv/*": ("libcu++", "choose code by __CUDA_ARCH__"),
    "thrust/*": ("Thrust", "allocate and compute outside the launcher"),
    "cub/*": ("CUB", f"write the reduction or scan with warp shuffles; or {_LIBRARY}"),
    "cccl/*": ("libcu++", _LIBRARY),
    "cute/*": ("CUTLASS and CuTe", _DEVICE_ONLY),
    "cutlass/*": ("CUTLASS and CuTe", _DEVICE_ONLY),
    "cuda_fp4.h": ("4-bit floats", _DEVICE_ONLY),
    "cuda_fp6.h": ("6-bit floats", _DEVICE_ONLY),
    "curand*": ("device random numbers", "make random numbers on the host"),
    "cublas*": ("CUDA's host libraries", "call libraries outside the launcher"),
    "cudnn*": ("CUDA's host libraries", "call libraries outside the launcher"),
    "cufft*": ("CUDA's host libraries", "call libraries outside the launcher"),
    "cusolver*": ("CUDA's host libraries", "call libraries outside the launcher"),
    "cusparse*": ("CUDA's host libraries", "call libraries outside the launcher"),
    "cuda_awbarrier.h": ("mbarrier", "use __pipeline_wait_prior and __syncthreads"),
}


def identifier(name: str) -> tuple[str, str] | None:
    """(feature, remedy) if ``name`` belongs to a feature that is not supported."""
    return _found(IDENTIFIERS, _IDENTIFIERS, name)


def header(name: str) -> tuple[str, str] | None:
    """(feature, remedy) if the header ``name`` is one of a feature that is not supported."""
    return _found(HEADERS, _HEADERS, name)


def _found(table: dict[str, tuple[str, str]], beginnings: list[tuple[str, tuple[str, str]]], name: str) -> tuple[str, str] | None:
    return table.get(name) or next((found for start, found in beginnings if name.startswith(start)), None)


def _beginnings(table: dict[str, tuple[str, str]]) -> list[tuple[str, tuple[str, str]]]:
    return [(name[:-1], found) for name, found in table.items() if name.endswith("*")]


_IDENTIFIERS, _HEADERS = _beginnings(IDENTIFIERS), _beginnings(HEADERS)  # a translation asks for every token
